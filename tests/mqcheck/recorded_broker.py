"""A trace of the reference over TCP: messages with a delay level, on a broker that is killed
while they wait and starts again.

`python tests/mqcheck/recorded_broker.py FILE` records one.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recorded import DEADLINE_S, Served, when_served

from mqspec.client import Message, Producer

TOPIC = "T"
OPTIONS = ("--message-delay-level", "1s 2s", "--flush-delay-offset-interval", "400")


async def record(file: Path, store: Path) -> None:
    """Record a trace in `file`, of which there is none yet."""
    served = Served(store, file, *OPTIONS)
    nameserver = f"127.0.0.1:{served.nameserver_port}"

    async def delayed(level: int, count: int) -> None:
        async with Producer(nameserver, "P") as producer:
            for _ in range(count):
                await producer.send(Message(TOPIC, b"x", delay_level=level))

    async def until(holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                await asyncio.sleep(0.05)

    await served.start()
    try:
        await delayed(1, 6)
        await until(lambda: _delivered(file, level=1) >= 6)
        await delayed(2, 6)
        await delayed(1, 4)
        await until(lambda: _delivered(file, level=1) >= 10)
        served.end(signal.SIGKILL)
        await served.start()
        await when_served(lambda: delayed(1, 2))
        await until(lambda: _delivered(file, level=1) >= 12 and _delivered(file, level=2) >= 6)
    finally:
        served.end(signal.SIGTERM)


def _delivered(file: Path, level: int) -> int:
    """How far the deliveries of a level have come."""
    return max(
        (
            change[2]
            for change in _changes(file, "Delay")
            if change[0] == "offset_table" and change[1] == level
        ),
        default=0,
    )


def _changes(file: Path, module: str) -> list[list[Any]]:
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [c for row in rows if row["module"] == module for c in row.get("changes", ())]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(record(Path(sys.argv[1]), Path(folder)))
