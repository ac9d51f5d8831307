"""Requests that come faster than they are worked on: they wait, in order, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from mqspec.core.flow_control import ADMIN, SEND, Pool
from mqspec.core.response import Refusal, ResponseCode
from mqspec.service import Dispatcher
from mqspec.transport import READ_AHEAD, Answer, Connection, connect, serve
from mqspec.wire.codec import Flag, RemotingCommand

PUT, ASK, MISSING = 10, 14, 99
TINY = Pool("tiny", 2, 50)


@dataclass
class Service:
    """Writes down what it does."""

    done: list[bytes] = field(default_factory=list)
    now_ms: int = 0
    is_full: bool = False

    def clock(self) -> int:
        return self.now_ms


def work(service: Service, _: Connection, request: RemotingCommand) -> RemotingCommand:
    service.done.append(request.body)
    return request.response(body=request.body * (2 if request.body.startswith(b"twice") else 1))


def later(
    service: Service, _: Connection, request: RemotingCommand
) -> Awaitable[RemotingCommand | None]:
    async def answer() -> RemotingCommand:
        return work(service, _, request)

    return answer()


@pytest.fixture
def service() -> Service:
    return Service()


def run(
    service: Service,
    scene: Callable[[Dispatcher[Service], Connection], Awaitable[None]],
    pool: Pool = TINY,
) -> None:
    """Play a scene with a dispatcher whose clock is the service's, and a client of it."""

    async def played() -> None:
        def refuse_strangers(request: RemotingCommand) -> Refusal | None:
            is_stranger = request.ext_fields.get("AccessKey") == "stranger"
            return Refusal(ResponseCode.NO_PERMISSION, "no") if is_stranger else None

        dispatcher = Dispatcher(
            service,
            {PUT: work, ASK: later},
            lambda code: pool if code == PUT else ADMIN,
            lambda _: service.is_full,
            refuse_strangers,
            service.clock,
        )
        server = await serve("127.0.0.1", 0, dispatcher.serve)
        client = await connect("127.0.0.1", server.port)
        try:
            async with asyncio.timeout(10):
                await scene(dispatcher, client)
        finally:
            client.close()
            await server.close()

    asyncio.run(played())


async def burst(client: Connection, *bodies: bytes, code: int = PUT) -> list[RemotingCommand]:
    """Requests that arrive together."""
    requests = [RemotingCommand(code, body=body) for body in bodies]
    return await asyncio.gather(*(client.request(request, 5_000) for request in requests))


def test_what_comes_on_top_waits_and_is_done_in_order(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqspec.service.TURN_S", 0.0005)
    bodies = [b"%d" % i for i in range(3000)]

    async def scene(_: Dispatcher[Service], client: Connection) -> None:
        answers = await burst(client, *bodies)
        assert [answer.body for answer in answers] == bodies

    run(service, scene, SEND)
    assert service.done == bodies


def test_a_full_pool_refuses(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqspec.service.TURN_S", 0.0)  # one at once, the others wait

    async def scene(dispatcher: Dispatcher[Service], client: Connection) -> None:
        monkeypatch.setattr(dispatcher, "_next_turn", lambda: None)
        asked = asyncio.create_task(burst(client, b"a", b"b", b"c", b"d"))
        while len(dispatcher._waiting) < 2:
            await asyncio.sleep(0)
        monkeypatch.undo()
        dispatcher._next_turn()
        answers = await asked
        assert [answer.code for answer in answers] == [0, 0, 0, ResponseCode.SYSTEM_BUSY]
        assert answers[3].remark is not None
        assert answers[3].remark.startswith("[OVERLOAD]")

    run(service, scene)
    assert service.done == [b"a", b"b", b"c"]


def test_what_waited_too_long_is_not_done(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqspec.service.TURN_S", 0.0)

    async def scene(dispatcher: Dispatcher[Service], client: Connection) -> None:
        monkeypatch.setattr(dispatcher, "_next_turn", lambda: None)
        asked = asyncio.create_task(burst(client, b"a", b"b", b"c"))
        while len(dispatcher._waiting) < 2:
            await asyncio.sleep(0)
        service.now_ms += 50
        monkeypatch.undo()
        dispatcher._next_turn()
        answers = await asked
        busy = ResponseCode.SYSTEM_BUSY
        assert [answer.code for answer in answers] == [0, busy, busy]
        assert all("[TIMEOUT_CLEAN_QUEUE]" in str(answer.remark) for answer in answers[1:])

    run(service, scene)
    assert service.done == [b"a"]


def test_of_a_connection_that_is_gone_only_one_way_requests_are_done(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqspec.service.TURN_S", 0.0)

    async def scene(dispatcher: Dispatcher[Service], client: Connection) -> None:
        monkeypatch.setattr(dispatcher, "_next_turn", lambda: None)
        for body, flag in ((b"a", 0), (b"b", 0), (b"c", Flag.ONEWAY)):
            client.send(RemotingCommand(PUT, body=body, flag=flag))
        while len(dispatcher._waiting) < 2:
            await asyncio.sleep(0)
        client.close()
        while not all(waiting.connection.is_closed for waiting in dispatcher._waiting):
            await asyncio.sleep(0)
        monkeypatch.undo()
        while dispatcher._waiting:
            dispatcher._next_turn()

    run(service, scene)
    assert service.done == [b"a", b"c"]


def test_who_answers_later_may_wait_too(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqspec.service.TURN_S", 0.0)

    async def scene(_: Dispatcher[Service], client: Connection) -> None:
        answers = await burst(client, b"a", b"b", b"c", code=ASK)
        assert [answer.body for answer in answers] == [b"a", b"b", b"c"]

    run(service, scene)


def test_a_pool_that_takes_nothing(service: Service) -> None:
    async def scene(_: Dispatcher[Service], client: Connection) -> None:
        service.is_full = True
        (answer,) = await burst(client, b"a")
        assert answer.code == ResponseCode.SYSTEM_BUSY
        assert answer.remark == "[REJECTREQUEST]system busy, start flow control for a while"
        service.is_full = False
        assert [answer.code for answer in await burst(client, b"b")] == [0]

    run(service, scene)
    assert service.done == [b"b"]


@pytest.mark.parametrize(("version", "code"), [(479, 1500), (476, 1500), (475, 0), (0, 0)])
def test_clients_are_sent_away(service: Service, version: int, code: int) -> None:
    async def scene(dispatcher: Dispatcher[Service], client: Connection) -> None:
        dispatcher.is_shutting_down = True
        answer = await client.request(RemotingCommand(PUT, version=version), 5_000)
        assert answer.code == code
        unknown = await client.request(RemotingCommand(MISSING), 5_000)
        assert unknown.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

    run(service, scene)


def test_strangers_are_refused(service: Service) -> None:
    async def scene(_: Dispatcher[Service], client: Connection) -> None:
        request = RemotingCommand(PUT, {"AccessKey": "stranger"})
        assert (await client.request(request, 5_000)).code == ResponseCode.NO_PERMISSION

    run(service, scene)
    assert service.done == []


@pytest.mark.parametrize("code", [PUT, ASK])
@pytest.mark.parametrize("turn_s", [0.0, 1.0])
def test_an_answer_that_no_peer_could_read_harms_no_other(
    service: Service, monkeypatch: pytest.MonkeyPatch, turn_s: float, code: int
) -> None:
    """Whether it waited, or not, or was answered later."""
    monkeypatch.setattr("mqspec.service.TURN_S", turn_s)
    monkeypatch.setattr("mqspec.wire.codec.FRAME_BYTES_MAX", 1000)

    async def scene(_: Dispatcher[Service], client: Connection) -> None:
        answers = await burst(client, b"a", b"twice".ljust(600), b"c", code=code)
        assert [answer.code for answer in answers] == [0, ResponseCode.SYSTEM_ERROR, 0]
        assert "a frame of" in str(answers[1].remark)

    run(service, scene, SEND)
    assert len(service.done) == 3


def test_what_fails_in_a_turn_takes_nothing_from_the_others(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqspec.service.TURN_S", 0.0)

    async def scene(dispatcher: Dispatcher[Service], client: Connection) -> None:
        answer = Connection.answer

        def failing(
            self: Connection, request: RemotingCommand, made: Answer | Awaitable[Answer]
        ) -> None:
            if request.body == b"b":
                raise RuntimeError("b cannot be answered")
            answer(self, request, made)

        monkeypatch.setattr(Connection, "answer", failing)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        asked = [
            asyncio.create_task(client.request(RemotingCommand(PUT, body=body), 5_000))
            for body in (b"a", b"b", b"c", b"d")
        ]
        assert [(await asked[n]).body for n in (0, 2, 3)] == [b"a", b"c", b"d"]
        asked[1].cancel()

    run(service, scene, SEND)
    assert service.done == [b"a", b"b", b"c", b"d"]


def test_a_backlog_waits_at_the_peers_end(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqspec.service.TURN_S", 0.0)
    bodies = [b"%d" % i for i in range(2000)]
    waited: list[int] = []

    async def scene(dispatcher: Dispatcher[Service], client: Connection) -> None:
        serve_next = dispatcher._serve_next

        def counted(now_ms: int) -> None:
            waited.append(len(dispatcher._waiting))
            serve_next(now_ms)

        monkeypatch.setattr(dispatcher, "_serve_next", counted)
        answers = await burst(client, *bodies)
        assert [answer.body for answer in answers] == bodies

    run(service, scene, SEND)
    assert service.done == bodies
    assert READ_AHEAD // 2 < max(waited) <= READ_AHEAD
