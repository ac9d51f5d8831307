"""What a replay of a counterexample relies on, a test over the wire relies on as well: without
any one of these functions of the core, a group of the reference's own consumers goes wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from patched import patch

from mqcheck.worlds.replayed import REPLAYED
from mqconform import requests
from mqconform.connection import Connection
from mqconform.frame import Frame
from mqconform.requests import Request
from mqconform.target import parse_address
from mqconform.transcript import Transcript
from mqspec.broker.broker import Broker
from mqspec.broker.processor.table import PROCESSORS
from mqspec.client import ConsumerConfig, ConsumeStatus, MessageExt, PushConsumer
from mqspec.cluster import Cluster, ClusterConfig
from mqspec.core import group, offset_commit
from mqspec.core.group import ConsumeFromWhere
from mqspec.core.offset_commit import OffsetState
from mqspec.core.step import Step

SOUND_S = 30.0  # what a step may take where nothing is broken
BROKEN_S = 2.0
MIN_INTERVAL_S = 0.1  # between two rebalances
TOPIC, GROUP = "T", "G"
QUEUES = range(2)

QUICK = ConsumerConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    persist_consumer_offset_interval_ms=50,
    persist_first_delay_ms=50,
    heartbeat_broker_interval_ms=200,
    rebalance_min_interval_ms=int(MIN_INTERVAL_S * 1000),
)


def never_released(*_: object) -> Step:
    """A consumer that only did nothing would try again for ever, without a pause."""
    raise AssertionError("the queue is not given up")


# What a function does when it does nothing, where that is no empty step.
NOTHING: dict[Callable[..., Any], Callable[..., Any]] = {
    offset_commit.load: lambda data: OffsetState(),
    offset_commit.persist: lambda state: {},
    offset_commit.remove_unnecessary_message_queue: never_released,
}


class Group:
    """A group on a cluster of one broker, seen from outside by raw frames."""

    def __init__(self, cluster: Cluster, deadline_s: float) -> None:
        self.got: list[str] = []
        self.sent: list[str] = []
        self._nameserver = cluster.nameserver.address
        self._broker = parse_address(cluster.brokers[0].address)
        self._deadline_s = deadline_s

    async def ask(self, request: Request) -> Frame:
        def call() -> Frame:
            with Connection(self._broker, Transcript(), self._deadline_s) as connection:
                return connection.call(request)

        return await asyncio.to_thread(call)

    async def send(self) -> None:
        """Two messages to each queue."""
        for queue_id in (*QUEUES, *QUEUES):
            self.sent.append(f"key-{len(self.sent)}")
            request = requests.send(TOPIC, b"x", queue_id, {"KEYS": self.sent[-1]})
            assert (await self.ask(request)).code == 0

    async def member(self) -> PushConsumer:
        async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
            # While it works the next pull goes out: that one cannot commit what comes of it.
            await asyncio.sleep(0.05)
            self.got.extend(message.keys or "" for message in messages)
            return ConsumeStatus.CONSUME_SUCCESS

        consumer = PushConsumer(self._nameserver, GROUP, {TOPIC: "*"}, listen, QUICK)
        return await consumer.__aenter__()

    async def committed(self) -> list[str | None]:
        queries = (requests.query_offset(GROUP, TOPIC, queue_id) for queue_id in QUEUES)
        return [(await self.ask(query)).fields.get("offset") for query in queries]

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(self._deadline_s):
            while not (await held if asyncio.iscoroutine(held := holds()) else held):
                await asyncio.sleep(0.01)

    async def until_committed(self, offset: int) -> None:
        async def is_committed() -> bool:
            return await self.committed() == [str(offset)] * len(QUEUES)

        await self.until(is_committed)


async def group_over_the_wire(store: Path, asked: list[str], deadline_s: float) -> None:
    """Join, share, commit, release, crash, expire, restart: everything is as the rules say."""
    async with Cluster(ClusterConfig(store)) as cluster:
        members = Group(cluster, deadline_s)
        assert (await members.ask(requests.create_topic(TOPIC, 2, 2))).code == 0
        await members.send()
        first = await members.member()
        second = None
        try:
            await members.until(lambda: len(members.got) == 4)
            await members.until_committed(2)
            second = await members.member()
            both = (first, second)
            await members.until(lambda: [len(queues_of(m)) for m in both] == [1, 1])
            await members.send()
            await members.until(lambda: len(members.got) >= 8)
            await members.until_committed(4)
            await first.kill()
            await members.until(lambda: len(queues_of(second)) == 2)
            assert sorted(members.got) == members.sent
            asked.clear()
            await asyncio.sleep(6 * MIN_INTERVAL_S)
            assert len(asked) <= 2, "nothing has changed, and yet the member rebalances on and on"
        finally:
            await first.kill()
            if second:
                await second.kill()
        await asyncio.to_thread(come_and_go, cluster, deadline_s)
    async with Cluster(ClusterConfig(store)) as cluster:
        assert await Group(cluster, deadline_s).committed() == ["4", "4"]


def queues_of(member: PushConsumer) -> set[int]:
    return {queue.queue_id for queue in member.queues if queue.topic == TOPIC}


def come_and_go(cluster: Cluster, deadline_s: float) -> None:
    """One member unregisters, another one falls silent: both are in the list no longer."""
    address = parse_address(cluster.brokers[0].address)
    members = requests.consumer_list("H")
    with Connection(address, Transcript(), deadline_s) as connection:
        connection.call(requests.heartbeat("leaver", "H"))
        assert connection.call(members).json() == {"consumerIdList": ["leaver"]}
        connection.call(requests.unregister("leaver", "H"))
        assert connection.call(members).code == 1
        connection.call(requests.heartbeat("silent", "H"))
        assert connection.is_closed()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Short times for what takes long; the groups whose member list somebody asked for."""
    monkeypatch.setattr(group, "SCAN_INTERVAL_MS", 100)
    monkeypatch.setattr(group, "CHANNEL_EXPIRED_TIMEOUT_MS", 1000)
    groups: list[str] = []
    answer = PROCESSORS[requests.GET_CONSUMER_LIST_BY_GROUP]

    def note(broker: Broker, connection: Any, request: Any) -> Any:
        groups.append(request.ext_fields["consumerGroup"])
        return answer(broker, connection, request)

    monkeypatch.setitem(PROCESSORS, requests.GET_CONSUMER_LIST_BY_GROUP, note)
    return groups


def test_a_group_over_the_wire(tmp_path: Path, asked: list[str]) -> None:
    asyncio.run(group_over_the_wire(tmp_path, asked, SOUND_S))


@pytest.mark.parametrize("function", REPLAYED, ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_without_a_function_the_group_goes_wrong(
    tmp_path: Path,
    asked: list[str],
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[..., Any],
) -> None:
    nothing = NOTHING.get(function, lambda *args, **known: Step())
    patch(monkeypatch, function, nothing)
    # However it shows: silence, a wrong answer, a queue too many, a broker that does not start.
    with pytest.raises((AssertionError, TimeoutError, KeyError, TypeError, AttributeError)):
        asyncio.run(group_over_the_wire(tmp_path, asked, BROKEN_S))
