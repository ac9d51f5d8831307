"""A trace of the reference over TCP: a group whose members come, go and are killed, on a broker
that is killed and starts again.

`python tests/mqcheck/recorded.py FILE [MESSAGES]` records one.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from mqconform.reference import serve
from mqconform.target import free_ports
from mqspec.client import ConsumerConfig, ConsumeStatus, Message, MessageExt, Producer, PushConsumer
from mqspec.client.instance import NOT_ANSWERED
from mqspec.core.group import ConsumeFromWhere
from mqspec.trace import Trace

TOPIC, GROUP, ORDERLY_GROUP = "T", "G", "O"
DEADLINE_S = 60


class Served:
    """`mqspec serve` in a process of its own, which writes a trace and can be killed."""

    def __init__(self, store: Path, trace: Path, *options: str) -> None:
        self.nameserver_port, broker_port = *free_ports(1), *free_ports(1, below=2)
        self._log = trace.with_suffix(".log")
        self._options = ["--store", str(store), "--trace", str(trace)]
        self._options += ["--nameserver-port", str(self.nameserver_port)]
        self._options += ["--broker-port", str(broker_port), "--segment-size", "4096"]
        self._options += ["--rebalance-lock-max-live-time-ms", "1000", *options]

    async def start(self) -> None:
        self._process, _ = await asyncio.to_thread(serve, self._log, *self._options)

    def end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait(DEADLINE_S)
        assert self._process.stdout
        self._process.stdout.close()


async def record(file: Path, store: Path, messages: int) -> None:
    """Record a trace in `file`, of which there is none yet."""
    served, chance = Served(store, file), random.Random(5)
    config = ConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        persist_consumer_offset_interval_ms=300,
        persist_first_delay_ms=100,
        rebalance_min_interval_ms=50,
        heartbeat_broker_interval_ms=200,
        poll_name_server_interval_ms=200,
        first_pull_delay_ms=0,
        trace=Trace(file),
    )
    nameserver = f"127.0.0.1:{served.nameserver_port}"
    consumed = 0

    async def listener(messages: Sequence[MessageExt]) -> ConsumeStatus:
        nonlocal consumed
        await asyncio.sleep(chance.random() / 50)
        consumed += 1
        return ConsumeStatus.CONSUME_SUCCESS

    async def orderly_listener(messages: Sequence[MessageExt]) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    async def send(count: int) -> None:
        async with Producer(nameserver, "P") as producer:
            for _ in range(count):
                await producer.send(Message(TOPIC, b"x"))

    def member(client_id: str) -> PushConsumer:
        return PushConsumer(nameserver, GROUP, {TOPIC: "*"}, listener, config, client_id=client_id)

    def orderly(client_id: str) -> PushConsumer:
        return PushConsumer(
            nameserver,
            ORDERLY_GROUP,
            {TOPIC: "*"},
            orderly_listener,
            replace(config, orderly=True),
            client_id=client_id,
        )

    part = messages // 4
    await served.start()
    async with AsyncExitStack() as members:
        members.callback(served.end, signal.SIGTERM)
        await send(part)
        killed = await members.enter_async_context(member("a"))
        silent = await members.enter_async_context(orderly("d"))
        await until(lambda: consumed >= part // 2)
        await members.enter_async_context(member("b"))
        await members.enter_async_context(orderly("e"))
        await send(part)
        await killed.kill()
        await silent.kill()
        await members.enter_async_context(member("c"))
        await send(part)
        await until(lambda: bool(persisted(file)))
        await until(lambda: consumed >= 3 * part)
        served.end(signal.SIGKILL)
        await served.start()
        wanted = consumed + messages - 3 * part
        await when_served(lambda: send(messages - 3 * part))
        await until(lambda: consumed >= wanted)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.02)


async def when_served(send: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await send()
            except NOT_ANSWERED:
                await asyncio.sleep(0.1)
            else:
                return


def changes(file: Path, module: str) -> list[list[Any]]:
    """What a module's lines of a trace tell of its variables, so far."""
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [c for row in rows if row["module"] == module for c in row.get("changes", ())]


def persisted(file: Path) -> list[tuple[dict[str, Any], int]]:
    """The keys and offsets that the broker wrote to its file, each time that it did."""
    told = changes(file, "OffsetCommit")
    return [pair for variable, _, *value in told if variable == "offset_file" for pair in value[0]]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[2]) if len(sys.argv) > 2 else 40
        asyncio.run(record(Path(sys.argv[1]), Path(folder), count))
