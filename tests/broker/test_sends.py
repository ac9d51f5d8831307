"""Sends that arrive together: each is answered for itself, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from peer import Peer, broker_peer

from mqspec.broker.fast.sends import TOGETHER_MAX, Checked, Sends
from mqspec.core.log import PutResult, PutStatus
from mqspec.core.record import PROPERTIES_BYTES_MAX, Batch, BatchMessage, Record
from mqspec.store.message_store import MessageStore
from mqspec.trace import Trace
from mqspec.wire.bodies import decode_messages, encode_batch
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

QUEUES = 4
MANY = 3 * TOGETHER_MAX


async def burst(peer: Peer, *sends: tuple[bytes, Mapping[str, object]]) -> list[RemotingCommand]:
    """All go out at once; the answers, in the order of the sends."""
    return list(await asyncio.gather(*(peer.send("T", body, **fields) for body, fields in sends)))


async def stored(peer: Peer, answer: RemotingCommand) -> Sequence[Record]:
    """What lies where an answer says, up to the end of what one pull gives."""
    fields = answer.ext_fields
    queue_id, offset = int(fields["queueId"]), int(fields["queueOffset"])
    return decode_messages((await peer.pull("T", offset, queueId=queue_id)).body)


def watch(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sends each put had."""
    together: list[int] = []
    put = MessageStore.put_together

    def watched(store: MessageStore, puts: Sequence[Batch]) -> list[PutResult]:
        together.append(len(puts))
        return put(store, puts)

    monkeypatch.setattr(MessageStore, "put_together", watched)
    return together


def play(store: Path, scene: Callable[[Peer], Awaitable[None]], **options: object) -> None:
    async def played() -> None:
        async with broker_peer(store, **options) as peer, asyncio.timeout(20):
            await scene(peer)

    asyncio.run(played())


def test_each_send_is_answered_with_its_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = watch(monkeypatch)

    async def scene(peer: Peer) -> None:
        batch = encode_batch([BatchMessage(b"b0"), BatchMessage(b"b1"), BatchMessage(b"b2")])
        sends: list[tuple[bytes, dict[str, object]]] = [
            (batch, {"e": n % QUEUES, "m": "true"})
            if n % 50 == 49
            else (b"%d" % n, {"e": n % QUEUES})
            for n in range(MANY)
        ]
        answers = await burst(peer, *sends)
        last_offsets = dict.fromkeys(range(QUEUES), -1)
        for (body, fields), answer in zip(sends, answers, strict=True):
            assert answer.code == ResponseCode.SUCCESS
            found = await stored(peer, answer)
            bodies = [b"b0", b"b1", b"b2"] if "m" in fields else [body]
            mine = found[: len(bodies)]
            assert [record.body for record in mine] == bodies
            assert ",".join(r.message_id for r in mine) == answer.ext_fields["msgId"]
            # What one connection sends to a queue stays in its order.
            assert mine[0].queue_offset == last_offsets[mine[0].queue_id] + 1
            last_offsets[mine[0].queue_id] = mine[-1].queue_offset
        assert sum(offset + 1 for offset in last_offsets.values()) == MANY + 2 * (MANY // 50)

    play(tmp_path, scene)
    assert 1 < max(together) <= TOGETHER_MAX


def test_one_that_is_refused_does_not_take_others_with_it(tmp_path: Path) -> None:
    async def scene(peer: Peer) -> None:
        too_long = {"i": "p\x01" + "p" * PROPERTIES_BYTES_MAX}
        answers = await burst(peer, (b"a", {}), (b"b", too_long), (b"c", {}))
        ok, illegal = ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL
        assert [answer.code for answer in answers] == [ok, illegal, ok]
        assert [record.body for record in await stored(peer, answers[0])] == [b"a", b"c"]

    play(tmp_path, scene)


def test_a_failure_is_told_to_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    async def scene(peer: Peer) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(MessageStore, "put_together", fail)
            answers = await burst(peer, (b"a", {}), (b"b", {}))
            assert [answer.code for answer in answers] == [ResponseCode.SYSTEM_ERROR] * 2
            assert "on purpose" in (answers[0].remark or "")
        (answer,) = await burst(peer, (b"c", {}))
        assert [record.body for record in await stored(peer, answer)] == [b"c"]

    play(tmp_path, scene)


def test_a_trace_has_a_step_for_each_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, file = watch(monkeypatch), tmp_path / "trace"

    async def scene(peer: Peer) -> None:
        await burst(peer, *((b"x", {"e": n % QUEUES}) for n in range(MANY)))

    play(tmp_path / "store", scene, trace=Trace(file))
    assert max(together) > 1, "they are stored together all the same"
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    steps = (row["changes"] for row in rows if row["module"] == "Log" and "changes" in row)
    changes = itertools.chain.from_iterable(steps)
    offsets = [value for name, key, *value in changes if name == "topic_queue_table" and key]
    assert offsets == [[n // QUEUES + 1] for n in range(MANY)]


class Room:
    """What sends ask of their store and their connection, noted."""

    def __init__(self) -> None:
        self.puts: list[int] = []  # how many sends each had
        self.after_reading: list[Callable[[], None]] = []

    def put_together(self, puts: Sequence[Batch]) -> list[PutResult]:
        self.puts.append(len(puts))
        return [PutResult(PutStatus.PUT_OK) for _ in puts]

    def after_read(self, then: Callable[[], None]) -> None:
        self.after_reading.append(then)

    def answer(self, *_: object) -> None:
        pass


ALONE, FULL = 64, 256 * 1024  # sends, and bytes of their bodies: as many do not wait


@pytest.mark.parametrize(
    ("sizes", "at_once", "later"),
    [
        ([1], [], [1]),
        ([1] * (ALONE - 1), [], [ALONE - 1]),
        ([1] * ALONE, [ALONE], []),
        ([1] * (2 * ALONE + 1), [ALONE, ALONE], [1]),
        ([FULL - 1], [], [1]),
        ([FULL], [1], []),
        ([FULL + 1], [1], []),
        ([1, FULL - 2], [], [2]),
        ([1, FULL - 1], [2], []),
        ([1, FULL, FULL - 1, 1, 1], [2, 2], [1]),
    ],
)
def test_sends_wait_for_the_end_of_a_read_and_not_for_more_than_fit(
    sizes: Sequence[int], at_once: list[int], later: list[int]
) -> None:
    room: Any = Room()
    sends = Sends(room, lambda *_: None, room, {})
    for size in sizes:
        request = RemotingCommand(RequestCode.SEND_MESSAGE_V2, {}, b"x" * size)
        batch = Batch(Record("T", b""), [BatchMessage(b"x")])
        sends.add(Checked(room, request, batch, {}, ()))
    assert room.puts == at_once
    assert sends.is_idle is (not later)

    # Whoever is first asks for the end of the read, which may find that all are stored by then.
    for then in room.after_reading:
        then()
    assert room.puts == at_once + later
    assert sends.is_idle


def test_a_batch_waits_for_nothing_and_takes_along_what_waited() -> None:
    room: Any = Room()
    sends = Sends(room, lambda *_: None, room, {})
    request = RemotingCommand(RequestCode.SEND_MESSAGE_V2, {}, b"x")
    for messages in (1, 1, 2):
        batch = Batch(Record("T", b""), [BatchMessage(b"x")] * messages)
        sends.add(Checked(room, request, batch, {}, ()))
    assert room.puts == [3]
    assert sends.is_idle
