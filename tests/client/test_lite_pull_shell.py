"""The lite-pull consumer, on the reference's brokers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from scene import GROUP, TOPIC, create_topic, keys_of, run, send, until

from mqrules import Event, EventKind, UserError
from mqspec.broker import Broker
from mqspec.broker.processor.table import PROCESSORS
from mqspec.client.lite_pull_consumer import LitePullConfig, LitePullConsumer
from mqspec.client.message import MessageExt
from mqspec.client.recorder import Recorder
from mqspec.cluster import Cluster
from mqspec.core.group import ConsumeFromWhere
from mqspec.core.types import MessageQueue
from mqspec.service import Served
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

MANUAL = LitePullConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    rebalance_wait_interval_ms=200,
    auto_commit=False,
)
AUTOMATIC = replace(MANUAL, auto_commit=True, auto_commit_interval_ms=0)


@asynccontextmanager
async def subscribed(
    cluster: Cluster, config: LitePullConfig = MANUAL
) -> AsyncIterator[LitePullConsumer]:
    address = cluster.nameserver.address
    async with LitePullConsumer(address, GROUP, {TOPIC: "*"}, config) as consumer:
        await until(lambda: bool(consumer.queues))
        yield consumer


async def polled(consumer: LitePullConsumer, count: int) -> list[MessageExt]:
    """So many messages."""
    messages: list[MessageExt] = []
    while len(messages) < count:
        found = await consumer.poll(timeout_ms=20_000)
        assert found, f"only {len(messages)} messages came"
        messages.extend(found)
    return messages


def test_what_is_committed_does_not_come_again(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"abcd")
        config = replace(MANUAL, pull_batch_size=2)
        async with subscribed(cluster, config) as consumer:
            assert keys_of(await polled(consumer, 2)) == ["a", "b"]
            await consumer.commit()
            assert keys_of(await polled(consumer, 2)) == ["c", "d"]
        async with subscribed(cluster, config) as consumer:
            assert keys_of(await polled(consumer, 2)) == ["c", "d"]

    run(tmp_path, scene)


def test_a_user_commits_what_it_is_done_with(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"abc")
        config = replace(MANUAL, pull_batch_size=1)
        async with subscribed(cluster, config) as consumer:
            _, second, _ = await polled(consumer, 3)
            (mq,) = consumer.queues
            await consumer.commit_offsets({mq: second.queue_offset})  # a thread is at work on it
        async with subscribed(cluster, config) as consumer:
            assert keys_of(await polled(consumer, 2)) == ["b", "c"]

    run(tmp_path, scene)


def test_each_poll_commits_what_was_polled_before(tmp_path: Path) -> None:
    """Whoever is at work on it (LITE-003)."""

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"ab")
        config = replace(AUTOMATIC, pull_batch_size=1)
        async with subscribed(cluster, config) as consumer:
            await polled(consumer, 2)
        async with subscribed(cluster, config) as consumer:
            assert keys_of(await polled(consumer, 1)) == ["b"]

    run(tmp_path, scene)


def test_nothing_to_poll_is_an_empty_answer(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with subscribed(cluster) as consumer:
            assert list(await consumer.poll(timeout_ms=10)) == []

    run(tmp_path, scene)


def test_members_share_the_queues(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 4)
        async with subscribed(cluster) as first, subscribed(cluster) as second:
            await until(lambda: len(first.queues) == len(second.queues) == 2)
            await send(cluster, *"abcd")
            got = [*await polled(first, 2), *await polled(second, 2)]
            assert sorted(keys_of(got)) == list("abcd")

    run(tmp_path, scene)


def test_a_user_goes_on_elsewhere(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"abc")
        async with subscribed(cluster) as consumer:
            (mq,) = consumer.queues
            (_, second, _) = await polled(consumer, 3)
            await consumer.seek(mq, 1)
            assert keys_of(await polled(consumer, 2)) == ["b", "c"]
            at = await consumer.offset_for_timestamp(mq, second.record.store_timestamp)
            assert at <= 1
            with pytest.raises(UserError, match="no offset 4; it has 0 to 3"):
                await consumer.seek(mq, 4)
            with pytest.raises(UserError, match="does not hold it"):
                await consumer.seek(MessageQueue(TOPIC, "broker-a", 9), 0)

    run(tmp_path, scene)


def test_where_it_goes_on_is_recorded(tmp_path: Path) -> None:
    """What comes again, or is committed anew, follows from where its user had it go on."""
    events: list[Event] = []

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"ab")
        address = cluster.nameserver.address
        recorder = Recorder("run", "test", events.append)
        async with LitePullConsumer(address, GROUP, {TOPIC: "*"}, MANUAL, recorder) as consumer:
            await until(lambda: bool(consumer.queues))
            (mq,) = consumer.queues
            await polled(consumer, 2)
            await consumer.commit()
            await consumer.seek(mq, 1)
            await polled(consumer, 1)

    run(tmp_path, scene)
    at_queue = [e for e in events if e.topic == TOPIC and e.kind is not EventKind.SUBSCRIBE]
    begun, assigned, first, second, committed, sought, again, *_ = at_queue
    assert (begun.kind, begun.value, begun.peer) == (EventKind.QUERY_OFFSET, 0, None)
    assert assigned.kind is EventKind.ASSIGN
    assert [e.queue_offset for e in (first, second, again)] == [0, 1, 1]
    assert (committed.kind, committed.value) == (EventKind.COMMIT, 2)
    assert (sought.kind, sought.value) == (EventKind.QUERY_OFFSET, 1)
    assert sought.peer == sought.client_id


def test_a_step_back_that_a_broker_asks_for_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = PROCESSORS[RequestCode.LITE_PULL_MESSAGE]
    offsets: list[str] = []
    events: list[Event] = []

    def moved(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
        offsets.append(offset := request.ext_fields["queueOffset"])
        if offset != "2" or offsets.count("2") > 1:
            return answer(broker, connection, request)
        code = ResponseCode.PULL_OFFSET_MOVED
        return request.response(code, ext_fields={"nextBeginOffset": "1"})

    monkeypatch.setitem(PROCESSORS, RequestCode.LITE_PULL_MESSAGE, moved)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"ab")
        address = cluster.nameserver.address
        recorder = Recorder("run", "test", events.append)
        async with LitePullConsumer(address, GROUP, {TOPIC: "*"}, MANUAL, recorder):
            await until(lambda: offsets.count("2") > 1)

    run(tmp_path, scene)
    (moved_to,) = (e for e in events if e.kind is EventKind.QUERY_OFFSET and e.peer)
    assert (moved_to.value, moved_to.peer) == (0, moved_to.client_id)  # what is not polled is 0


def test_a_user_goes_to_either_end(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"ab")
        async with subscribed(cluster) as consumer:
            (mq,) = consumer.queues
            await polled(consumer, 2)
            await consumer.seek(mq, 0)
            assert keys_of(await polled(consumer, 2)) == ["a", "b"]
            await consumer.seek(mq, 2)
            await send(cluster, "c")
            assert keys_of(await polled(consumer, 1)) == ["c"]

    run(tmp_path, scene)


@asynccontextmanager
async def pulled_ahead(
    cluster: Cluster, config: LitePullConfig = MANUAL
) -> AsyncIterator[tuple[LitePullConsumer, MessageQueue]]:
    """A consumer that is assigned a queue, and has pulled two messages that are not polled."""
    address = cluster.nameserver.address
    async with LitePullConsumer(address, GROUP, config=config) as consumer:
        mq, *_ = sorted(await consumer.fetch_message_queues(TOPIC))
        await consumer.assign([mq])
        await until(lambda: consumer.state.process_queue_table[mq].msg_count == 2)
        yield consumer, mq


def test_what_was_pulled_in_an_earlier_hold_is_not_given(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"ab")
        async with pulled_ahead(cluster) as (consumer, mq):
            await consumer.assign([])
            assert list(await consumer.poll(timeout_ms=10)) == []
        async with pulled_ahead(cluster) as (consumer, mq):
            await consumer.seek(mq, 1)
            assert keys_of(await polled(consumer, 1)) == ["b"]

    run(tmp_path, scene)


def test_all_queues_together_hold_so_many_at_most(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 2)
        await send(cluster, *"abcd")
        config = replace(MANUAL, pull_threshold_for_all=1)
        async with pulled_ahead(cluster, config) as (consumer, first):
            queues = sorted(await consumer.fetch_message_queues(TOPIC))
            await consumer.assign(queues)
            table, second = consumer.state.process_queue_table, queues[1]
            tries: set[int] = set()

            def is_tried_again() -> bool:
                tries.add(table[second].last_pull_ms)
                return len(tries) > 2

            await until(is_tried_again)
            assert table[second].msg_count == 0
            got = await polled(consumer, 4)
            assert [message.queue for message in got] == [first, first, second, second]

    run(tmp_path, scene)


def test_an_answer_that_comes_too_late_moves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulls: list[tuple[Connection, RemotingCommand]] = []

    def keep(_: Broker, connection: Connection, request: RemotingCommand) -> None:
        pulls.append((connection, request))

    monkeypatch.setitem(PROCESSORS, RequestCode.LITE_PULL_MESSAGE, keep)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"ab")
        address = cluster.nameserver.address
        async with LitePullConsumer(address, GROUP, config=MANUAL) as consumer:
            (mq,) = await consumer.fetch_message_queues(TOPIC)

            async def answer_first() -> None:
                connection, request = pulls.pop(0)
                code = ResponseCode.PULL_OFFSET_MOVED
                connection.send(request.response(code, ext_fields={"nextBeginOffset": "1"}))
                await consumer.committed(mq)  # answered on the same connection, so later

            await consumer.assign([mq])
            await until(lambda: len(pulls) == 1)
            assert pulls[0][1].ext_fields["suspendTimeoutMillis"] == "20000"
            await consumer.seek(mq, 2)
            await until(lambda: len(pulls) == 2)
            await answer_first()
            assert consumer.state.process_queue_table[mq].next_offset == 2
            await consumer.assign([])
            await answer_first()
            assert not consumer.queues

    run(tmp_path, scene)


def test_what_is_pulled_is_given_though_the_queue_begins_later_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = PROCESSORS[RequestCode.LITE_PULL_MESSAGE]
    offsets: list[str] = []

    def moved(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
        offsets.append(offset := request.ext_fields["queueOffset"])
        if offset != "2":
            return answer(broker, connection, request)
        code = ResponseCode.PULL_OFFSET_MOVED
        return request.response(code, ext_fields={"nextBeginOffset": "3"})

    monkeypatch.setitem(PROCESSORS, RequestCode.LITE_PULL_MESSAGE, moved)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, *"abcd")
        config = replace(MANUAL, pull_batch_size=2)
        async with subscribed(cluster, config) as consumer:
            await until(lambda: "3" in offsets)
            assert keys_of(await polled(consumer, 3)) == ["a", "b", "d"]

    run(tmp_path, scene)


def test_where_nobody_tells_where_to_begin_it_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = PROCESSORS[RequestCode.QUERY_CONSUMER_OFFSET]
    refusals = iter(range(3))

    def busy(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
        if next(refusals, None) is None:
            return answer(broker, connection, request)
        return request.response(ResponseCode.SYSTEM_BUSY)

    monkeypatch.setitem(PROCESSORS, RequestCode.QUERY_CONSUMER_OFFSET, busy)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a")
        address = cluster.nameserver.address
        config = replace(MANUAL, start_again_delay_ms=10)
        async with LitePullConsumer(address, GROUP, config=config) as consumer:
            await consumer.assign(await consumer.fetch_message_queues(TOPIC))
            assert not consumer.queues
            assert keys_of(await polled(consumer, 1)) == ["a"]

    run(tmp_path, scene)


def test_assigned_queues_are_held_whoever_else_has_them(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 2)
        await send(cluster, *"abcd")
        address = cluster.nameserver.address
        async with (
            LitePullConsumer(address, GROUP, config=MANUAL) as one,
            LitePullConsumer(address, GROUP, config=MANUAL) as other,
        ):
            first, second = sorted(await one.fetch_message_queues(TOPIC))
            await one.assign([first, second])
            await other.assign([second])
            assert sorted(keys_of(await polled(one, 4))) == list("abcd")
            assert len(await polled(other, 2)) == 2
            await one.assign([first])
            assert one.queues == {first}
            await one.commit()
            assert await one.committed(first) == 2

    run(tmp_path, scene)


def test_a_queue_that_is_paused_is_not_pulled(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 2)
        address = cluster.nameserver.address
        async with LitePullConsumer(address, GROUP, config=MANUAL) as consumer:
            first, second = sorted(await consumer.fetch_message_queues(TOPIC))
            await consumer.pause([first])
            await consumer.assign([first, second])
            await send(cluster, *"abcd")
            got = await polled(consumer, 2)
            assert {message.queue for message in got} == {second}
            await consumer.resume([first])
            assert {message.queue for message in await polled(consumer, 2)} == {first}

    run(tmp_path, scene)


def test_one_subscribes_or_assigns(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with subscribed(cluster) as consumer:
            with pytest.raises(UserError, match="do one of both"):
                await consumer.assign([])

    run(tmp_path, scene)
