"""kill -9 of a broker that many producers send to: what it acknowledged is there again."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from mqconform.reference import serve
from mqspec.transport import Connection, ConnectionLostError, connect
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

# Small files, so that a run has many.
CONFIG = """
nameserver_port = 0
broker_port = 0
segment_size = 65_536
consume_queue_units = 300
sync_flush = true
max_hash_slot_num = 100
max_index_num = 400
"""
TOPIC, QUEUES, PRODUCERS = "Killed", 4, 8
TIMEOUT_MS = 30_000
NOT_THERE = (17, 19, 21)  # no topic yet; nothing at the offset; nothing at or behind it

Acknowledged = dict[tuple[int, int], bytes]  # bodies by queue id and queue offset


@contextmanager
def broker(store: Path) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """`mqspec serve` with synchronous flush, killed in the end; and where its broker listens."""
    config = store.with_name("serve.toml")
    config.write_text(CONFIG)
    log = store.with_name("serve.log")
    process, listening = serve(log, "--config", str(config), "--store", str(store))
    with process:
        try:
            yield process, *listening["broker"]
        finally:
            process.kill()


async def produce(host: str, port: int, random: Random, to: Acknowledged, enough: int) -> None:
    """Send until the broker is gone, or `enough` messages were acknowledged."""
    connection = await connect(host, port)
    while len(to) < enough:
        queue_id = random.randrange(QUEUES)
        body = random.randbytes(random.choice((20, 200, 2000)))
        fields = {"b": TOPIC, "c": "TBW102", "d": str(QUEUES), "e": str(queue_id)}
        fields |= {"a": "G", "f": "0", "g": "1", "h": "0", "i": "TAGS\x01a\x02"}
        request = RemotingCommand(RequestCode.SEND_MESSAGE_V2, fields, body)
        sent = await connection.request(request, TIMEOUT_MS)
        if sent.code == 0:
            to[queue_id, int(sent.ext_fields["queueOffset"])] = body


async def read(connection: Connection, queue_id: int, offset: int) -> list[tuple[int, bytes]]:
    """All messages of a queue from an offset on: queue offsets and bodies."""
    found: list[tuple[int, bytes]] = []
    while True:
        fields = {"consumerGroup": "G", "topic": TOPIC, "queueId": str(queue_id)}
        fields |= {"queueOffset": str(offset), "maxMsgNums": "32", "sysFlag": "4"}
        request = RemotingCommand(RequestCode.PULL_MESSAGE, fields | {"subscription": "*"})
        answer = await connection.request(request, TIMEOUT_MS)
        if answer.code != 0:
            assert answer.code in NOT_THERE, answer
            return found
        found += [(each.queue_offset, each.body) for each in decode_messages(answer.body)]
        offset = int(answer.ext_fields["nextBeginOffset"])


class Store:
    """A store whose broker is killed again and again, and what it owes."""

    def __init__(self, root: Path, random: Random) -> None:
        self.root, self.random = root, random
        self.acknowledged: Acknowledged = {}
        self.checked = 0
        self.ends = dict.fromkeys(range(QUEUES), 0)  # queue offsets that were read already

    async def load_and_kill(self) -> None:
        """One run: see that everything is there, send, and kill in the middle of it."""
        with broker(self.root) as (process, host, port):
            await self.check(host, port)
            self.acknowledged = {}
            enough = self.random.randrange(20, 400)
            producers = [
                asyncio.create_task(produce(host, port, self.random, self.acknowledged, enough * 2))
                for _ in range(PRODUCERS)
            ]
            while len(self.acknowledged) < enough:
                await asyncio.sleep(0)
            process.kill()
            ended = await asyncio.gather(*producers, return_exceptions=True)
            assert all(each is None or isinstance(each, ConnectionLostError) for each in ended)

    async def check(self, host: str, port: int, begin: int | None = None) -> None:
        """See that the queues serve what was acknowledged, and have no gap."""
        connection = await connect(host, port)
        found: Acknowledged = {}
        for queue_id in range(QUEUES):
            first = self.ends[queue_id] if begin is None else begin
            messages = await read(connection, queue_id, first)
            offsets = [offset for offset, _ in messages]
            assert offsets == list(range(first, first + len(messages)))
            self.ends[queue_id] = first + len(messages)
            found |= {(queue_id, offset): body for offset, body in messages}
        lost = {place for place, body in self.acknowledged.items() if found.get(place) != body}
        assert not lost, f"{len(lost)} of {len(self.acknowledged)} acknowledged messages"
        self.checked += len(self.acknowledged)


def test_kill_9_takes_nothing_that_was_acknowledged(tmp_path: Path, kills: int) -> None:
    store = Store(tmp_path / "store", Random(4))

    async def runs() -> None:
        for _ in range(kills):
            await store.load_and_kill()
        with broker(store.root) as (_, host, port):
            await store.check(host, port)
            ends = dict(store.ends)
            store.acknowledged = {}
            await store.check(host, port, begin=0)
            assert store.ends == ends

    asyncio.run(runs())
    print(
        f"{kills} kills, {store.checked} acknowledged messages, {sum(store.ends.values())} stored"
    )
    assert store.checked >= 20 * kills


def test_a_message_that_is_not_there_is_found_missing(tmp_path: Path) -> None:
    store = Store(tmp_path / "store", Random(4))
    store.acknowledged = {(0, 0): b"never sent"}

    async def run() -> None:
        with broker(store.root) as (_, host, port):
            await store.check(host, port)

    with pytest.raises(AssertionError, match="1 of 1 acknowledged"):
        asyncio.run(run())
