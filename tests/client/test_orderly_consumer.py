"""The orderly push consumer, on the reference's brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from scene import GROUP, QUICK, TOPIC, create_topic, keys_of, pulled, run, send, taking, until

from mqrules import Event, EventKind
from mqspec.broker import Broker
from mqspec.broker.processor.table import PROCESSORS
from mqspec.client.instance import ClientInstance, succeeded
from mqspec.client.listener import ConsumeResult, ConsumeStatus, Listener
from mqspec.client.message import MessageExt
from mqspec.client.push_consumer import PushConsumer
from mqspec.client.push_work import ConsumerConfig
from mqspec.client.recorder import Recorder
from mqspec.cluster import Cluster
from mqspec.core.lock import LockEntry, LockState
from mqspec.core.offset_commit import OffsetKey, drop
from mqspec.core.types import MessageQueue
from mqspec.service import Served, clock_ms
from mqspec.transport import Connection
from mqspec.wire import bodies
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

MQ = MessageQueue(TOPIC, "broker-a", 0)
ORDERLY = replace(QUICK, orderly=True, rebalance_wait_interval_ms=500, lock_first_delay_ms=100)


def member(
    cluster: Cluster,
    listener: Listener,
    config: ConsumerConfig = ORDERLY,
    recorder: Recorder | None = None,
) -> PushConsumer:
    address = cluster.nameserver.address
    return PushConsumer(address, GROUP, {TOPIC: "*"}, listener, config, recorder)


def test_what_fails_is_consumed_again_before_what_follows(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    async def listen(messages: Sequence[MessageExt]) -> ConsumeResult:
        seen.extend((message.keys or "", message.reconsume_times) for message in messages)
        failed = seen[-1] in (("b", 0), ("b", 1))
        status = ConsumeStatus.RECONSUME_LATER if failed else ConsumeStatus.CONSUME_SUCCESS
        return ConsumeResult(status, suspend_current_queue_time_ms=10)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"abc")
        async with member(cluster, listen) as consumer:
            await until(lambda: 3 in consumer.state.offset_store.values())

    run(tmp_path, scene)
    assert seen == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]


def test_what_failed_too_often_is_parked(tmp_path: Path) -> None:
    seen: list[str] = []

    async def listen(messages: Sequence[MessageExt]) -> ConsumeResult:
        seen.extend(keys_of(messages))
        status = ConsumeStatus.RECONSUME_LATER if seen[-1] == "a" else ConsumeStatus.CONSUME_SUCCESS
        return ConsumeResult(status, suspend_current_queue_time_ms=10)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"ab")
        async with member(cluster, listen, replace(ORDERLY, max_reconsume_times=1)) as consumer:
            await until(lambda: 2 in consumer.state.offset_store.values())
        (parked,) = await pulled(cluster, "%DLQ%G")
        assert parked.keys == "a"

    run(tmp_path, scene)
    assert seen == ["a", "a", "b"]


@asynccontextmanager
async def lock_of_another_member(cluster: Cluster) -> AsyncIterator[None]:
    """The first queue is locked for somebody else for a while."""
    holder = ClientInstance(cluster.nameserver.address, client_id="holder")
    await holder.start()
    await holder.update_route(TOPIC)
    body = bodies.to_body(bodies.LockBatchBody(GROUP, "holder", (MQ,)))

    async def ask(code: RequestCode) -> RemotingCommand:
        return succeeded(await holder.invoke("broker-a", RemotingCommand(code, body=body)))

    locked = bodies.loads((await ask(RequestCode.LOCK_BATCH_MQ)).body)
    assert len(locked["lockOKMQSet"]) == 1
    yield
    await ask(RequestCode.UNLOCK_BATCH_MQ)
    await holder.close()


def test_a_queue_that_is_locked_for_another_member_is_not_started_on(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 2)
        async with AsyncExitStack() as stack:
            async with lock_of_another_member(cluster):
                consumer = await stack.enter_async_context(member(cluster, taking([])))
                await until(lambda: {mq.queue_id for mq in held(consumer)} == {1})
            await until(lambda: {mq.queue_id for mq in held(consumer)} == {0, 1})

    run(tmp_path, scene)


def test_the_lock_of_a_queue_that_was_taken_away_is_not_renewed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[MessageQueue, ...]] = []
    answer = PROCESSORS[RequestCode.LOCK_BATCH_MQ]

    def note(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
        asked.append(bodies.from_body(bodies.LockBatchBody, request.body).mq_set)
        return answer(broker, connection, request)

    monkeypatch.setitem(PROCESSORS, RequestCode.LOCK_BATCH_MQ, note)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 2)
        config = replace(ORDERLY, lock_interval_ms=20)
        async with member(cluster, taking([]), config) as consumer:
            await until(lambda: len(held(consumer)) == 2)
            await consumer.carry_out(drop(consumer.state, MQ))  # as while a listener works on it
            asked.clear()
            await until(lambda: len(asked) > 3)
            assert not any(MQ in mqs for mqs in asked[1:])  # one may have been on its way

    run(tmp_path, scene)


def test_a_queue_whose_lock_is_lost_is_not_worked_on(tmp_path: Path) -> None:
    got: list[MessageExt] = []

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "before")
        config = replace(ORDERLY, lock_interval_ms=50)
        async with member(cluster, taking(got), config) as consumer:

            def is_locked() -> bool:
                return consumer.state.process_queue_table[MQ].locked

            await until(lambda: keys_of(got) == ["before"])
            # As after a restart of the broker, which forgets all locks: another one came first.
            taken = {MQ: LockEntry("another", clock_ms())}
            cluster.brokers[0].locks = LockState({GROUP: taken})
            await until(lambda: not is_locked())
            await send(cluster, "meanwhile")
            await until(lambda: consumer.state.process_queue_table[MQ].msg_count == 1)
            assert keys_of(got) == ["before"]
            cluster.brokers[0].locks = LockState()
            await until(lambda: keys_of(got) == ["before", "meanwhile"])

    run(tmp_path, scene)


def test_a_member_begins_where_the_one_before_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one gives up the lock, then reports its progress: here just after it is asked for."""
    got: list[MessageExt] = []
    key = OffsetKey(TOPIC, GROUP, 0)
    answer = PROCESSORS[RequestCode.QUERY_CONSUMER_OFFSET]

    def before_the_report(
        broker: Broker, connection: Connection, request: RemotingCommand
    ) -> Served:
        answered = answer(broker, connection, request)
        if request.ext_fields["topic"] == TOPIC:
            broker.offsets.offset_table[key] = 2
        return answered

    monkeypatch.setitem(PROCESSORS, RequestCode.QUERY_CONSUMER_OFFSET, before_the_report)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"ab")
        config = replace(ORDERLY, persist_first_delay_ms=60_000)
        async with member(cluster, taking(got), config) as consumer:
            await until(lambda: consumer.state.offset_store.get(MQ) == 2)
        assert not got
        assert cluster.brokers[0].offsets.offset_table[key] == 2  # as it left, it reported that

    run(tmp_path, scene)


def held(consumer: PushConsumer) -> set[MessageQueue]:
    return {mq for mq in consumer.queues if mq.topic == TOPIC}


def test_members_that_come_and_go_keep_the_order(tmp_path: Path) -> None:
    """Each message is consumed once and after those before it, as every member leaves in peace."""
    events: list[Event] = []
    recorder = Recorder("run", "test", events.append)
    got: dict[MessageQueue, list[int]] = {}

    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        await asyncio.sleep(0)
        for message in messages:
            got.setdefault(message.queue, []).append(message.queue_offset)
        return ConsumeStatus.CONSUME_SUCCESS

    def total() -> int:
        return sum(map(len, got.values()))

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 4)
        await send(cluster, *map(str, range(20)))
        async with member(cluster, listen, recorder=recorder) as first:
            await until(lambda: total() == 20)
            async with member(cluster, listen, recorder=recorder) as second:
                await until(lambda: len(held(first)) == len(held(second)) == 2)
                await send(cluster, *map(str, range(20, 40)))
                await until(lambda: total() == 40)
            await until(lambda: len(held(first)) == 4)
            await send(cluster, *map(str, range(40, 60)))
            await until(lambda: total() == 60)

    run(tmp_path, scene)
    assert all(offsets == sorted(set(offsets)) for offsets in got.values())
    owners: dict[tuple[object, ...], object] = {}
    for event in events:
        place = (event.topic, event.queue_id)
        if event.kind is EventKind.LOCK:
            assert owners.setdefault(place, event.client_id) == event.client_id
        elif event.kind is EventKind.UNLOCK:
            owners.pop(place, None)
    assert EventKind.UNLOCK in {event.kind for event in events}
