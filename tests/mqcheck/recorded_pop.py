"""A trace of the reference over TCP: messages that are popped, acknowledged, kept for longer and
brought back, on a broker that is killed and starts again.

`python tests/mqcheck/recorded_pop.py FILE` records one.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from recorded import DEADLINE_S, Served, persisted, when_served

from mqspec.client import Message, Producer
from mqspec.client.pop_consumer import PopConfig, PopConsumer, PopMessage

TOPIC, GROUP = "T", "G"
OPTIONS = ("--revive-queue-num", "2", "--revive-interval", "200", "--default-topic-queue-nums", "2")
CONFIG = PopConfig(invisible_time_ms=500, poll_time_ms=300, max_msg_nums=2)


async def record(file: Path, store: Path) -> None:
    """Record a trace in `file`, of which there is none yet."""
    served = Served(store, file, *OPTIONS)
    nameserver = f"127.0.0.1:{served.nameserver_port}"
    acked: set[str | None] = set()  # keys
    turns = itertools.count()

    async def send(keys: Sequence[str]) -> None:
        async with Producer(nameserver, "P") as producer:
            for key in keys:
                await producer.send(Message(TOPIC, b"x", keys=key))

    async def pop() -> Sequence[PopMessage]:
        async with PopConsumer(nameserver, GROUP, TOPIC, config=CONFIG) as consumer:
            return await consumer.pop()

    async def consume(popped: Sequence[PopMessage]) -> None:
        """The first is acknowledged; another is kept for longer first, or left, by turns."""
        is_kept = next(turns) % 2
        async with PopConsumer(nameserver, GROUP, TOPIC, config=CONFIG) as consumer:
            for place, message in enumerate(popped):
                if place == 0:
                    await consumer.ack(message)
                    acked.add(message.keys)
                elif is_kept:
                    await consumer.ack(await consumer.change_invisible_time(message, 900))
                    acked.add(message.keys)

    first, second, third = (
        [f"{n}" for n in span] for span in (range(10), range(10, 14), range(14, 16))
    )
    await served.start()
    try:
        async with asyncio.timeout(DEADLINE_S):
            await send(first)
            while len(acked) < len(first) - 1 or not _is_persisted(file):
                await consume(await pop())
            await send(second)
            await consume(await pop())
            served.end(signal.SIGKILL)
            await served.start()
            await when_served(lambda: send(third))
            while not acked.issuperset(first + second + third):
                await consume(await pop())
    finally:
        served.end(signal.SIGTERM)


def _is_persisted(file: Path) -> bool:
    """Whether the broker wrote to its file how far the retry topic is popped."""
    return any(key["topic"].startswith("%RETRY%") and offset for key, offset in persisted(file))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(record(Path(sys.argv[1]), Path(folder)))
