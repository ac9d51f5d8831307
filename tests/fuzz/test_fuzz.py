"""Hostile input: a part of what `siege.py` does in full, and peers that are slow or silent."""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile_frames import NAMES, NUMBERS, REAL, WORDS, Hostile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from siege import Besieged, Healthy, attack, besieged, siege

from mqspec.transport import connect
from mqspec.wire.codec import (
    FRAME_BYTES_MAX,
    Decoder,
    FrameError,
    Language,
    RemotingCommand,
    Serializer,
    encode,
)
from mqspec.wire.codes import RequestCode

DECODED = 40_000
BESIEGED_BY = 8_000
IDLE = 2_000
MIB = 1 << 20
STRUCTURES: tuple[object, ...] = (
    {},
    [],
    {"clientID": "C", "consumerDataSet": [{"groupName": "G", "consumeType": 1}]},
    {"clientID": 1, "producerDataSet": [{"groupName": None}]},
    {"consumerGroup": "G", "clientId": "C", "mqSet": [{"topic": "T", "queueId": -1}]},
    {"topic": "T", "consumerGroup": "G", "mode": 2, "messageModel": 7},
    {"brokerName": "broker-a", "acks": [{"c": "G", "t": "T", "b": "AAAA"}]},
)
BODIES = tuple(json.dumps(structure).encode() for structure in STRUCTURES)


def test_damaged_frames_are_read_or_refused() -> None:
    """Nothing but a FrameError comes out, and what is read can be written and read again."""
    hostile, read = Hostile(1), 0
    for _ in range(DECODED):
        decoder = Decoder()
        try:
            commands = list(decoder.feed(hostile.frame()))
        except FrameError:
            continue
        for command in commands:
            read += 1
            assert isinstance(command.code, int)
            assert all(type(value) is str for value in command.ext_fields.values())
    assert read > DECODED / 4, "else all were refused alike"


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    code=st.integers(0, 2**15 - 1),
    ext_fields=st.dictionaries(st.text(min_size=1, max_size=9), st.text(min_size=1, max_size=9)),
    body=st.binary(max_size=64),
    flag=st.integers(0, 3),
    opaque=st.integers(-(2**31), 2**31 - 1),
    language=st.sampled_from(Language),
    version=st.integers(0, 2**15 - 1),
    remark=st.none() | st.text(min_size=1),
    serializer=st.sampled_from(Serializer),
    cut=st.lists(st.integers(0, 400), max_size=4),
)
def test_a_frame_is_read_as_it_was_written(cut: list[int], **parts: object) -> None:
    command = RemotingCommand(**parts)  # type: ignore[arg-type] # of the types above
    frame, decoder = encode(command), Decoder()
    ends = sorted({min(at, len(frame)) for at in cut} | {0, len(frame)})
    found = [
        read for begin, end in itertools.pairwise(ends) for read in decoder.feed(frame[begin:end])
    ]
    assert [repr(read) for read in found] == [repr(command)]


@settings(max_examples=200, deadline=None)
@given(length=st.integers(-(2**31), 2**31 - 1), head=st.binary(max_size=40))
def test_a_length_alone_takes_no_memory(length: int, head: bytes) -> None:
    try:
        list(Decoder().feed(struct.pack(">i", length) + head))
    except FrameError:
        return
    assert 4 <= length <= FRAME_BYTES_MAX - 4


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Besieged]:
    """One server for all that follows: it has to survive everything."""
    with besieged(tmp_path_factory.mktemp("besieged")) as running:
        yield running


def test_a_siege(target: Besieged) -> None:
    healthy = asyncio.run(siege(target, BESIEGED_BY, seed=1000))
    assert healthy.rounds > 10
    assert target.resident_bytes < 400 * MIB


def fields() -> st.SearchStrategy[dict[str, str]]:
    """Fields that some request has, with values of any kind."""
    values = st.sampled_from(NUMBERS + WORDS) | st.text(max_size=9) | st.integers().map(str)
    return st.dictionaries(st.sampled_from(NAMES), values, max_size=12)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    requests=st.lists(
        st.builds(
            RemotingCommand,
            code=st.sampled_from(RequestCode),
            ext_fields=fields(),
            body=st.binary(max_size=64) | st.sampled_from(BODIES),
            version=st.sampled_from((0, 36, 37, 400, 479)),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_requests_of_anything_harm_nobody(
    target: Besieged, requests: list[RemotingCommand]
) -> None:
    """Whatever is asked, by a peer that then leaves, the next one is answered."""

    async def scene() -> None:
        for address in (target.broker, target.nameserver):
            assert await attack(address, iter([(1, b"".join(map(encode, requests)))])) == 1
            other = await connect(*address)
            assert (await other.request(RemotingCommand(9999), 5_000)).code == 3
            other.close()
            await other.wait_closed()

    asyncio.run(scene())


async def rounds_of(target: Besieged, topic: str, rounds: int) -> float:
    """So many rounds of a healthy client; how long the slowest took."""
    healthy = Healthy(topic)
    living = asyncio.create_task(healthy.live(target))
    while healthy.rounds < rounds and not living.done():
        await asyncio.sleep(0.01)
    living.cancel()
    await asyncio.wait({living})
    if not living.cancelled():
        living.result()
    return healthy.worst_s


def test_idle_connections_cost_little(target: Besieged) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * IDLE + 200
    if soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, hard), hard))

    async def scene() -> None:
        before = target.resident_bytes
        idle = [await connect(*target.broker) for _ in range(IDLE)]
        assert await rounds_of(target, "AmongIdle", 10) < 2
        assert target.resident_bytes - before < 100 * MIB
        assert not any(connection.is_closed for connection in idle)
        answer = await idle[-1].request(RemotingCommand(9999), 5_000)
        assert answer.code == 3
        for connection in idle:
            connection.abort()

    asyncio.run(scene())


def test_slow_and_half_open_peers(target: Besieged) -> None:
    """Frames that come a byte at a time, are never completed, or are asked for and not taken."""
    whole = encode(RemotingCommand(9999, {"name": "value"}, b"body"))

    async def slow() -> None:
        reader, writer = await asyncio.open_connection(*target.broker)
        for byte in whole:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.002)
        (answer,) = Decoder().feed(await reader.read(1 << 16))
        assert answer.code == 3
        writer.close()

    async def half(address: tuple[str, int], end: int) -> asyncio.StreamWriter:
        _, writer = await asyncio.open_connection(*address)
        writer.write(whole[:end] if end < len(whole) else struct.pack(">i", FRAME_BYTES_MAX - 4))
        return writer

    async def scene() -> None:
        before = target.resident_bytes
        addresses = (target.broker, target.nameserver)
        halves = [await half(address, end) for address in addresses for end in range(1, 40)]
        longest = [await half(target.broker, len(whole)) for _ in range(50)]
        deaf_reader, deaf = await asyncio.open_connection(*target.nameserver)
        deaf_reader._transport.pause_reading()  # type: ignore[attr-defined] # it has no other
        request = encode(RemotingCommand(106))
        deaf.write(request * 20_000)
        await asyncio.gather(*(slow() for _ in range(20)))
        assert await rounds_of(target, "AmongSlow", 10) < 2
        assert target.resident_bytes - before < 100 * MIB
        for writer in (*halves, *longest, deaf):
            writer.transport.abort()

    asyncio.run(scene())


def test_real_frames_are_hostile_to_nobody(target: Besieged) -> None:
    """Answers and requests of others' connections: each is dealt with."""

    async def scene() -> None:
        for address in (target.broker, target.nameserver):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"".join(REAL))
            writer.write_eof()
            async with asyncio.timeout(10):
                assert await reader.read()
            writer.close()

    asyncio.run(scene())


# The siege must be able to say no.


@pytest.mark.parametrize("harm", ["stops", "ends"])
def test_a_siege_that_does_harm_is_noticed(tmp_path: Path, harm: str) -> None:
    async def scene(target: Besieged) -> None:
        healthy = Healthy("Harmed")
        living = asyncio.create_task(healthy.live(target))
        while healthy.rounds < 2:
            await asyncio.sleep(0.01)
        target.process.send_signal(19 if harm == "stops" else 9)  # SIGSTOP, SIGKILL
        began = time.monotonic()
        with pytest.raises(Exception, match=r"no answer|lost|closed"):
            await living
        assert time.monotonic() - began < 5
        if harm == "stops":
            target.process.send_signal(18)  # SIGCONT
        else:
            target.process.wait(5)  # its connections are closed a moment before it is gone

    async def bounded(target: Besieged) -> None:
        async with asyncio.timeout(30):
            await scene(target)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("siege.DEADLINE_S", 0.5)
        if harm == "stops":
            with besieged(tmp_path) as target:
                asyncio.run(bounded(target))
        else:
            with pytest.raises(AssertionError, match="it has ended"), besieged(tmp_path) as target:
                asyncio.run(bounded(target))
