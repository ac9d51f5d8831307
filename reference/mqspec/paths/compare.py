"""The same requests for a broker with the fast path and for one without, and what differs."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from mqspec import service
from mqspec.broker import BrokerController
from mqspec.core.record import Host
from mqspec.fast.run import AppendedRun, Row
from mqspec.nameserver import NamesrvController
from mqspec.paths.requests import AT_MS, CONNECTIONS, reads_of
from mqspec.store.message_store import StoreConfig
from mqspec.trace import Trace
from mqspec.transport import IDLE_MS, Connection
from mqspec.wire.codec import Decoder, RemotingCommand

STORE: Final = StoreConfig(consume_queue_units=1000, max_hash_slot_num=1000, max_index_num=4000)
SEGMENT_SIZES: Final = (1 << 16, 1 << 14)  # of one round and the next: long runs, and many ends
HOST: Final = Host.parse("127.0.0.1", 10911)  # as records name the broker, wherever it listens
FIRST_PORT: Final = 40_000  # of clients
FOLDERS: Final = ("commitlog", "consumequeue", "index")
TRAFFIC: Final = "traffic"  # stands among the files: what was counted of each topic
DEADLINE_S: Final = 20.0  # for the answers to what was read together


class Played(NamedTuple):
    """What became of a round of requests."""

    asked: int  # requests that are to be answered
    answers: Mapping[int, RemotingCommand]  # by opaque
    files: Mapping[str, bytes]
    runs: tuple[AppendedRun | None, ...]  # None: it was put another way


class Compared(NamedTuple):
    """A round on both paths."""

    seed: int
    fast: Played
    plain: Played

    def differences(self) -> Iterator[str]:
        """A line for each answer and each file that differs."""
        fast, plain = self.fast, self.plain
        for number in sorted({*fast.answers, *plain.answers}):
            one, other = fast.answers.get(number), plain.answers.get(number)
            if one != other:
                said = f"{_shown(one)}; without it {_shown(other)}"
                yield f"seed {self.seed}, request {number}: with the fast path {said}"
        for name in sorted({*fast.files, *plain.files}):
            ours, theirs = fast.files.get(name, b""), plain.files.get(name, b"")
            if ours != theirs:
                pairs = zip(ours, theirs, strict=False)
                at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
                yield f"seed {self.seed}: {name} differs from byte {at} on"

    @property
    def messages_in_runs(self) -> int:
        """How many messages went the fast way."""
        return sum(len(run.stored.sizes) for run in self.fast.runs if run)


class _Wire(asyncio.Transport):
    """The other end of a connection, always at the same address."""

    def __init__(self, port: int) -> None:
        super().__init__({"peername": ("127.0.0.1", port), "sockname": ("127.0.0.1", 1)})
        self._decoder = Decoder()
        self.answers: list[RemotingCommand] = []

    def write(self, data: Any) -> None:
        self.answers += self._decoder.feed(bytes(data))

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...


def compare(seed: int, trace: Trace | None = None) -> Compared:
    """Play a round on both paths. `trace` is of the fast one."""
    with tempfile.TemporaryDirectory(prefix="mqspec-paths-") as folder, standing_clock():
        fast = asyncio.run(play(Path(folder) / "fast", seed, trace=trace))
        plain = asyncio.run(play(Path(folder) / "plain", seed, fast_path=False))
    return Compared(seed, fast, plain)


@contextmanager
def standing_clock() -> Iterator[None]:
    """Let it always be the same time to nameservers and brokers: times are stored and told."""
    with patch.object(service, "time_ns", lambda: AT_MS * 1_000_000):
        yield


async def play(
    root: Path, seed: int, *, fast_path: bool = True, trace: Trace | None = None
) -> Played:
    """Play a round to a new broker, read by read: each is answered before the next one."""
    random.seed(seed)
    nameserver = NamesrvController()
    await nameserver.start()
    store = replace(STORE, segment_size=SEGMENT_SIZES[seed % len(SEGMENT_SIZES)])
    broker = BrokerController(
        root, nameserver.address, store_config=store, trace=trace, fast_path=fast_path
    )
    await broker.start()
    broker.store_host, broker.key_prefix = HOST, "0" * 20
    runs: list[AppendedRun | None] = []
    put_run = broker.store.put_run

    def watched(rows: list[Row], is_batch: bool) -> AppendedRun | None:
        runs.append(put_run(rows, is_batch))
        return runs[-1]

    with patch.object(broker.store, "put_run", watched):
        asked, answers = await _ask(broker, seed)
    traffic = {
        topic: (each.messages, each.size, each.times) for topic, each in broker.stats.put.items()
    }

    await broker.stop()
    await nameserver.stop()
    files = {
        str(path.relative_to(root)): path.read_bytes()
        for name in FOLDERS
        for path in sorted((root / name).rglob("*"))
        if path.is_file()
    }
    files[TRAFFIC] = repr(sorted(traffic.items())).encode()
    return Played(asked, answers, files, tuple(runs))


async def _ask(broker: BrokerController, seed: int) -> tuple[int, Mapping[int, RemotingCommand]]:
    wires = [_Wire(FIRST_PORT + number) for number in range(CONNECTIONS)]
    connections = [Connection(broker.dispatcher.serve, idle_ms=IDLE_MS) for _ in wires]
    for connection, wire in zip(connections, wires, strict=True):
        connection.connection_made(wire)

    def is_done() -> bool:
        is_answered = sum(len(wire.answers) for wire in wires) >= asked
        return is_answered and broker.dispatcher.is_idle and broker.sends.is_idle

    asked = 0
    with suppress(TimeoutError):  # then answers are missing, which is a difference
        for number, data in reads_of(seed):
            asked += sum(not request.is_oneway for request in Decoder().feed(data))
            connections[number].data_received(data)
            async with asyncio.timeout(DEADLINE_S):
                while not is_done():
                    await asyncio.sleep(0)
    for connection in connections:
        connection.connection_lost(None)
    return asked, {answer.opaque: answer for wire in wires for answer in wire.answers}


def _shown(answer: RemotingCommand | None) -> str:
    if answer is None:
        return "no answer"
    return f"code {answer.code}, {answer.remark!r}, {answer.ext_fields}"
