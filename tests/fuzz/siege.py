"""A siege: hostile clients, and one that must not notice them.

The tests of this directory run a part; all of it is
`python tests/fuzz/siege.py --frames 1000000 --seed 1`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hostile_frames import Hostile

from mqconform.reference import serve
from mqspec.nameserver.processors import PROCESSORS as NAMESERVER_PROCESSORS
from mqspec.transport import Connection, connect
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import Decoder, FrameError, RemotingCommand
from mqspec.wire.codes import RequestCode

ATTACKERS: Final = 8
DEADLINE_S: Final = 10.0
START_S: Final = 30.0


@dataclass(frozen=True)
class Besieged:
    """`mqspec serve` with small files, a process of its own."""

    process: subprocess.Popen[str]
    nameserver: tuple[str, int]
    broker: tuple[str, int]

    @property
    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return 1024 * int(found[1])


@contextlib.contextmanager
def besieged(home: Path) -> Iterator[Besieged]:
    """One that listens. It must still be there at the end, and stop cleanly."""
    options = ("--nameserver-port", "0", "--broker-port", "0", "--segment-size", str(1 << 24))
    process, listening = serve(home / "serve.log", "--store", str(home / "store"), *options)
    try:
        yield Besieged(process, listening["nameserver"], listening["broker"])
        assert process.poll() is None, "it has ended"
        process.send_signal(signal.SIGTERM)
        assert process.wait(START_S) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


class Healthy:
    """A client of a topic of its own: all that it asks is answered, and in time."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.rounds = 0
        self.worst_s = 0.0

    async def live(self, target: Besieged) -> None:
        """Until cancelled. Raises what a request raises."""
        broker, nameserver = await connect(*target.broker), await connect(*target.nameserver)
        try:
            for self.rounds in itertools.count():
                began = time.monotonic()
                await self._round(broker, nameserver)
                self.worst_s = max(self.worst_s, time.monotonic() - began)
                await asyncio.sleep(0.02)
        finally:
            broker.close()
            nameserver.close()

    async def _round(self, broker: Connection, nameserver: Connection) -> None:
        body = b"%d" % self.rounds
        fields = dict(zip("abcdefghijkm", ("HP", self._topic, "TBW102", "1", "0", "0", "1", "0", "",
                                           "0", "false", "false"), strict=True))  # fmt: skip
        sent = await self._ask(broker, RequestCode.SEND_MESSAGE_V2, fields, body)
        offset = sent.ext_fields["queueOffset"]
        assert offset == str(self.rounds)
        pull = {"consumerGroup": "HG", "topic": self._topic, "queueId": "0", "queueOffset": offset,
                "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "subVersion": "0",
                "suspendTimeoutMillis": "0", "subscription": "*"}  # fmt: skip
        try:
            async with asyncio.timeout(DEADLINE_S):
                while (
                    found := await self._ask(broker, RequestCode.PULL_MESSAGE, pull, codes=(0, 19))
                ).code:
                    await asyncio.sleep(0.005)
        except TimeoutError as error:
            raise TimeoutError(f"no answer with the message in {DEADLINE_S} s") from error
        assert [record.body for record in decode_messages(found.body)] == [body]
        await self._ask(nameserver, RequestCode.GET_BROKER_CLUSTER_INFO, {})

    async def _ask(
        self,
        connection: Connection,
        code: int,
        fields: dict[str, str],
        body: bytes = b"",
        codes: tuple[int, ...] = (0,),
    ) -> RemotingCommand:
        while True:
            request = RemotingCommand(code, fields, body)
            answer = await connection.request(request, int(1000 * DEADLINE_S))
            if answer.code != 2:  # busy: as any client, it asks again
                assert answer.code in codes, answer
                return answer


async def attack(address: tuple[str, int], batches: Iterator[tuple[int, bytes]]) -> int:
    """Send each batch on a connection of its own, and wait until the server has ended that;
    how many frames."""
    frames = 0
    for count, data in batches:
        reader, writer = await asyncio.open_connection(*address)
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            writer.write_eof()
            async with asyncio.timeout(DEADLINE_S):
                while await reader.read(1 << 16):
                    pass
        writer.close()
        frames += count
    return frames


async def siege(target: Besieged, frames: int, seed: int) -> Healthy:
    """So many frames, half of them to the nameserver; how the healthy client fared."""
    healthy = Healthy(f"Healthy{seed}")
    living = asyncio.create_task(healthy.live(target))
    while not healthy.rounds:
        await asyncio.wait({living}, timeout=0.05)
        if living.done():
            living.result()
    attacks = []
    for i in range(ATTACKERS):
        at_broker = i % 2 == 0
        codes = tuple(RequestCode) if at_broker else tuple(NAMESERVER_PROCESSORS)
        batches = Hostile(seed * ATTACKERS + i, codes).batches(frames // ATTACKERS)
        attacks.append(attack(target.broker if at_broker else target.nameserver, batches))
    sent = sum(await asyncio.gather(*attacks))
    assert sent == frames // ATTACKERS * ATTACKERS
    before = healthy.rounds
    async with asyncio.timeout(DEADLINE_S):
        while healthy.rounds < before + 3 and not living.done():
            await asyncio.sleep(0.02)
    living.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await living
    return healthy


def decode(frames: int, seed: int) -> int:
    """Damaged frames to a decoder alone; how many of so many can be read."""
    hostile, read = Hostile(seed), 0
    for _ in range(frames):
        with contextlib.suppress(FrameError):
            read += len(list(Decoder().feed(hostile.frame())))
    return read


def main() -> None:
    """The whole siege, in pieces, each against the same server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--piece", type=int, default=50_000, help="frames between two reports")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--decode", action="store_true", help="no server, only the decoder")
    args = parser.parse_args()
    if args.decode:
        began = time.monotonic()
        read = decode(args.frames, args.seed)
        rate = args.frames / (time.monotonic() - began)
        print(f"{read} of {args.frames} frames are read, the others refused; {rate:.0f} a second")
        return
    ends = time.monotonic() + args.seconds
    with tempfile.TemporaryDirectory() as home, besieged(Path(home)) as target:
        print(f"{target.resident_bytes >> 20} MiB resident", flush=True)
        for done in range(0, args.frames, args.piece):
            began = time.monotonic()
            healthy = asyncio.run(siege(target, args.piece, args.seed + done // args.piece))
            print(
                f"{done + args.piece:9} frames, {args.piece / (time.monotonic() - began):6.0f} a "
                f"second, {target.resident_bytes >> 20} MiB resident, {healthy.rounds} rounds of "
                f"the healthy client, the slowest {1000 * healthy.worst_s:.0f} ms",
                flush=True,
            )
            if time.monotonic() > ends:
                break


if __name__ == "__main__":
    main()
