"""Connections between real sockets, and what hostile peers do to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from mqspec.transport import (
    READ_BYTES,
    Connection,
    ConnectionLostError,
    RequestTimeoutError,
    Server,
    connect,
    serve,
)
from mqspec.wire.codec import Flag, RemotingCommand, encode
from mqspec.wire.codes import ResponseCode

HOST = "127.0.0.1"
ECHO, LATER, SILENT, FAIL, CALL_BACK = range(1, 6)


def answer(
    connection: Connection, request: RemotingCommand
) -> RemotingCommand | Awaitable[RemotingCommand | None] | None:
    """A server that does each thing a handler may do."""
    match request.code:
        case 1:
            return request.response(body=request.body)
        case 2:
            return _later(request)
        case 3:
            return None
        case 5:
            connection.oneway(RemotingCommand(40, {"consumerGroup": "G"}))
            return request.response()
    raise ValueError("on purpose")


async def _later(request: RemotingCommand) -> RemotingCommand:
    await asyncio.sleep(0)
    return request.response(body=b"later")


@asynccontextmanager
async def served(idle_ms: int = 0) -> AsyncIterator[Server]:
    server = await serve(HOST, 0, answer, idle_ms=idle_ms)
    try:
        yield server
    finally:
        await server.close()


def run(scene: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(10):
            await scene()

    asyncio.run(bounded())


def test_answers_come_back_whatever_their_order() -> None:
    async def scene() -> None:
        async with served() as server:
            connection = await connect(HOST, server.port)
            later, echo = await asyncio.gather(
                connection.request(RemotingCommand(LATER), 1000),
                connection.request(RemotingCommand(ECHO, body=b"x"), 1000),
            )
            assert (later.body, echo.body) == (b"later", b"x")
            connection.close()

    run(scene)


def test_a_handler_that_fails_answers_system_error() -> None:
    async def scene() -> None:
        async with served() as server:
            connection = await connect(HOST, server.port)
            response = await connection.request(RemotingCommand(FAIL), 1000)
            assert response.code == ResponseCode.SYSTEM_ERROR
            assert response.remark == "ValueError: on purpose"
            connection.close()

    run(scene)


def test_a_server_may_send_requests() -> None:
    async def scene() -> None:
        notices: asyncio.Queue[RemotingCommand] = asyncio.Queue()

        def take(_: Connection, request: RemotingCommand) -> None:
            notices.put_nowait(request)

        async with served() as server:
            connection = await connect(HOST, server.port, take)
            await connection.request(RemotingCommand(CALL_BACK), 1000)
            notice = await notices.get()
            assert (notice.code, notice.flag) == (40, Flag.ONEWAY)
            connection.close()

    run(scene)


def test_a_oneway_request_is_not_answered() -> None:
    async def scene() -> None:
        async with served() as server:
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(encode(RemotingCommand(ECHO, flag=Flag.ONEWAY, opaque=1)))
            writer.write(encode(RemotingCommand(FAIL, flag=Flag.ONEWAY, opaque=2)))
            writer.write(encode(RemotingCommand(ECHO, opaque=3, body=b"last")))
            await writer.drain()
            first = await reader.readuntil(b"last")
            assert first.count(b'"opaque"') == 1
            writer.close()

    run(scene)


def test_something_is_done_once_all_is_served_that_was_read() -> None:
    done: list[int | str] = []

    def serve_all(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        if not done:
            connection.after_read(lambda: done.append("read"))
            assert done == []
        done.append(request.code)
        return request.response()

    async def scene() -> None:
        server = await serve(HOST, 0, serve_all)
        connection = await connect(HOST, server.port)
        await asyncio.gather(*(connection.request(RemotingCommand(n), 1000) for n in (1, 2, 3)))
        assert done == [1, 2, 3, "read"]
        (accepted,) = server.connections
        turn = asyncio.get_running_loop().create_future()
        accepted.after_read(lambda: turn.set_result(None))
        assert not turn.done()  # nothing is being read: it comes with the next turn
        await turn
        connection.close()
        await server.close()

    run(scene)


def test_a_long_frame_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever asyncio would read at once."""
    read: list[int] = []
    take = Connection.data_received

    def watched(connection: Connection, data: bytes) -> None:
        read.append(len(data))
        take(connection, data)

    async def scene() -> None:
        async with served() as server:
            connection = await connect(HOST, server.port)
            body = bytes(1 << 20)
            response = await connection.request(RemotingCommand(ECHO, body=body), 5000)
            assert response.body == body
            assert sum(read) > 2 * len(body)
            assert max(read) <= READ_BYTES
            connection.close()

    monkeypatch.setattr(Connection, "data_received", watched)
    run(scene)


def test_a_request_without_answer_times_out_and_the_connection_stays() -> None:
    async def scene() -> None:
        async with served() as server:
            connection = await connect(HOST, server.port)
            with pytest.raises(RequestTimeoutError, match="no answer to request 3 in 20 ms"):
                await connection.request(RemotingCommand(SILENT), 20)
            assert (await connection.request(RemotingCommand(ECHO), 1000)).code == 0
            connection.close()

    run(scene)


def test_a_lost_connection_fails_what_is_pending() -> None:
    async def scene() -> None:
        async with served() as server:
            connection = await connect(HOST, server.port)
            pending = asyncio.create_task(connection.request(RemotingCommand(SILENT), 5000))
            while not server.connections:
                await asyncio.sleep(0)
            await server.close()
            with pytest.raises(ConnectionLostError):
                await pending
            with pytest.raises(ConnectionLostError):
                await connection.request(RemotingCommand(ECHO), 1000)

    run(scene)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"\x00\x00\x00\x00", "a frame length of 0"),
        (b"\x7f\xff\xff\xff", "a frame length of 2147483647"),
        (b"\x00\x00\x00\x08\x00\x00\x00\x04oops", "a header that is not JSON"),
    ],
)
def test_a_bad_frame_closes_its_connection_and_no_other(
    frame: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with served() as server:
            good = await connect(HOST, server.port)
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(encode(RemotingCommand(ECHO, body=b"before")) + frame)
            received = await reader.read()
            assert received.endswith(b"before")
            assert (await good.request(RemotingCommand(ECHO), 1000)).code == 0
            writer.close()
            good.close()

    run(scene)
    (record,) = caplog.records
    assert why in record.getMessage()


def test_a_torn_frame_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with served() as server:
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(encode(RemotingCommand(ECHO))[:-1])
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()

    run(scene)
    assert "in the middle of a frame" in caplog.text


def test_a_request_is_begun_though_its_connection_closes_at_once() -> None:
    async def scene() -> None:
        begun = asyncio.Event()

        async def slowly(request: RemotingCommand) -> RemotingCommand:
            begun.set()
            await asyncio.Event().wait()
            return request.response()

        connection = Connection(lambda _, request: slowly(request))
        connection.data_received(encode(RemotingCommand(LATER)))
        connection.connection_lost(None)
        await begun.wait()

    run(scene)


def test_a_silent_connection_is_closed() -> None:
    async def scene() -> None:
        async with served(idle_ms=50) as server:
            connection = await connect(HOST, server.port)
            await connection.wait_closed()
            assert not server.connections

    run(scene)


def test_a_port_in_use_is_an_os_error() -> None:
    async def scene() -> None:
        async with served() as server:
            with pytest.raises(OSError, match="in use"):
                await serve(HOST, server.port, answer)

    run(scene)
