"""The push consumer, on the reference's brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from brokers import scripted
from scene import (
    GROUP,
    QUICK,
    RETRY_TOPIC,
    TOPIC,
    ask,
    create_topic,
    keys_of,
    run,
    send,
    taking,
    until,
)

from mqrules import Event, EventKind, UserError
from mqspec.broker import Broker
from mqspec.broker.processor.table import PROCESSORS
from mqspec.client.instance import AnswerError, int_field
from mqspec.client.listener import ConsumeStatus
from mqspec.client.message import Message, MessageExt
from mqspec.client.pop_consumer import PopConsumer
from mqspec.client.producer import Producer
from mqspec.client.push_consumer import PushConsumer
from mqspec.client.push_work import ConsumerConfig
from mqspec.client.recorder import Recorder
from mqspec.client.subscription import MessageSelector
from mqspec.client.tasks import Tasks
from mqspec.cluster import Cluster
from mqspec.core.allocation import Strategy
from mqspec.core.group import ConsumeFromWhere
from mqspec.core.metadata import BrokerConfig, Perm
from mqspec.core.offset_commit import NOT_FOUND
from mqspec.core.types import ClientId, Group, MessageQueue
from mqspec.service import Served
from mqspec.transport import Connection, serve
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

MQ = MessageQueue(TOPIC, "broker-a", 0)


def member(
    cluster: Cluster, got: list[MessageExt], tags: str = "*", recorder: Recorder | None = None
) -> PushConsumer:
    address = cluster.nameserver.address
    return PushConsumer(address, GROUP, {TOPIC: tags}, taking(got), QUICK, recorder)


async def committed(cluster: Cluster, queue_id: int = 0) -> int | None:
    response = await ask(
        cluster,
        RequestCode.QUERY_CONSUMER_OFFSET,
        consumerGroup=GROUP,
        topic=TOPIC,
        queueId=queue_id,
        setZeroIfNotFound="false",
    )
    offset = response.ext_fields.get("offset")
    return None if offset is None else int(offset)


def test_every_message_is_consumed_once_and_progress_is_reported(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        got: list[MessageExt] = []
        await create_topic(cluster, 1)
        await send(cluster, "a", "b")
        async with member(cluster, got):
            await until(lambda: len(got) == 2)
            await send(cluster, "c")  # while a pull is held
            await until(lambda: len(got) == 3)
        assert keys_of(got) == ["a", "b", "c"]
        assert [message.body for message in got] == [b"a", b"b", b"c"]
        assert await committed(cluster) == 3

    run(tmp_path, scene)


def test_what_a_killed_member_had_in_work_comes_again(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        in_work: list[MessageExt] = []
        got: list[MessageExt] = []

        async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
            in_work.extend(messages)
            await asyncio.Event().wait()
            raise AssertionError("not reached")

        await create_topic(cluster, 1)
        await send(cluster, "a")
        killed = PushConsumer(cluster.nameserver.address, GROUP, {TOPIC: "*"}, listen, QUICK)
        await killed.__aenter__()
        await until(lambda: len(in_work) == 1)
        await killed.kill()
        assert not await committed(cluster)
        async with member(cluster, got):
            await until(lambda: len(got) == 1)
        assert await committed(cluster) == 1

    run(tmp_path, scene)


def test_leaving_leaves_the_group(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        async def members() -> RemotingCommand:
            code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
            return await ask(cluster, code, consumerGroup=GROUP)

        await create_topic(cluster, 1)
        async with member(cluster, []) as consumer:
            assert consumer.client_id.encode() in (await members()).body
        assert (await members()).code == ResponseCode.SYSTEM_ERROR
        await consumer.shutdown()  # a second time: nothing

    run(tmp_path, scene)


def test_queues_move_as_members_come_and_go(tmp_path: Path) -> None:
    events: list[Event] = []
    recorder = Recorder("run", "test", events.append)

    async def scene(cluster: Cluster) -> None:
        got: list[MessageExt] = []
        await create_topic(cluster, 2, "broker-a", "broker-b")
        async with member(cluster, got, recorder=recorder) as first:
            await until(lambda: len(_held(first)) == 4)
            async with member(cluster, got, recorder=recorder) as second:
                await until(lambda: len(_held(first)) == len(_held(second)) == 2)
                assert not _held(first) & _held(second)
                await send(cluster, *"abcdefgh")
                await until(lambda: sorted(keys_of(got)) == list("abcdefgh"))
                await second.kill()
            await until(lambda: len(_held(first)) == 4)

    run(tmp_path, scene, brokers=2)
    _judge(events)


def _held(consumer: PushConsumer) -> set[str]:
    return {f"{mq.broker_name}:{mq.queue_id}" for mq in consumer.queues if mq.topic == TOPIC}


def _judge(events: list[Event]) -> None:
    """The rows are in the order that an audit relies on."""
    assert [event.seq for event in events] == list(range(len(events)))
    owned: dict[str | None, set[tuple[str | None, str | None, int | None]]] = {}
    received: set[tuple[str | None, str | None]] = set()
    for event in events:
        queues = owned.setdefault(event.client_id, set())
        queue = (event.topic, event.broker, event.queue_id)
        match event.kind:
            case EventKind.ASSIGN:
                assert queue not in queues
                queues.add(queue)
            case EventKind.REVOKE:
                queues.remove(queue)
            case EventKind.RECEIVE:
                assert queue in queues
                received.add((event.client_id, event.message_key))
            case EventKind.ACK:
                assert (event.client_id, event.message_key) in received
    kinds = {event.kind for event in events}
    assert {EventKind.JOIN, EventKind.LEAVE, EventKind.CRASH, EventKind.COMMIT} <= kinds


def test_a_message_that_nobody_takes_back_holds_progress_back(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        seen: list[str] = []
        may_pass = asyncio.Event()

        async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
            seen.extend(keys_of(messages))
            if "bad" in keys_of(messages) and not may_pass.is_set():
                if len(seen) > 3:
                    raise ValueError("on purpose")
                return ConsumeStatus.RECONSUME_LATER
            return ConsumeStatus.CONSUME_SUCCESS

        await create_topic(cluster, 1)
        await create_topic(cluster, 1, topic=RETRY_TOPIC, perm=Perm.READ)  # takes nothing back
        await send(cluster, "a", "bad", "c")
        address = cluster.nameserver.address
        async with PushConsumer(address, GROUP, {TOPIC: "*"}, listen, QUICK) as consumer:
            await until(lambda: seen.count("bad") == 3)
            (progress,) = (
                offset for mq, offset in consumer.state.offset_store.items() if mq.topic == TOPIC
            )
            assert progress == 1
            may_pass.set()
            await until(lambda: set(consumer.state.offset_store.values()) >= {3})
        assert seen.count("a") == seen.count("c") == 1
        assert await committed(cluster) == 3

    run(tmp_path, scene)


def test_tags_are_compared_as_texts(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        got: list[MessageExt] = []
        await create_topic(cluster, 1)
        await send(cluster, "collides", tags="Aa")  # the hash of BB
        await send(cluster, "other", tags="C")
        await send(cluster, "wanted", tags="BB")
        async with member(cluster, got, tags="BB || D"):
            await until(lambda: bool(got))
        assert keys_of(got) == ["wanted"]

    run(tmp_path, scene)


def test_a_tail_that_nobody_wants_is_reported_to_its_end(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        got: list[MessageExt] = []
        await create_topic(cluster, 1)
        await send(cluster, "a", "b", tags="B")
        async with member(cluster, got, tags="A") as consumer:
            await until(lambda: consumer.state.offset_store.get(MQ) == 2)
        assert not got
        assert await committed(cluster) == 2

    run(tmp_path, scene)


def test_a_broker_that_is_busy_has_told_nothing_of_the_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    limits: set[str | None] = set()
    answer = PROCESSORS[RequestCode.PULL_MESSAGE]

    def busy(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
        if request.ext_fields["topic"] != TOPIC or request.ext_fields["queueOffset"] == "0":
            return answer(broker, connection, request)
        refused.append(request.ext_fields["queueOffset"])
        limits.add(request.ext_fields.get("maxMsgBytes"))
        return request.response(ResponseCode.FLOW_CONTROL)

    monkeypatch.setitem(PROCESSORS, RequestCode.PULL_MESSAGE, busy)

    async def scene(cluster: Cluster) -> None:
        got: list[MessageExt] = []
        await create_topic(cluster, 1)
        await send(cluster, "a", tags="A")
        await send(cluster, "b", tags="B")
        async with member(cluster, got, tags="A") as consumer:
            await until(lambda: bool(consumer.state.offset_store.get(MQ)))
            already = len(refused)
            await until(lambda: len(refused) > already + 1)
            assert set(refused) == {"2"}
            assert limits == {"262144"}
            assert consumer.state.offset_store[MQ] == 1

    run(tmp_path, scene)


def test_progress_beyond_the_end_is_corrected_to_the_end(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        got: list[MessageExt] = []
        await create_topic(cluster, 1)
        await send(cluster, "old")
        async with member(cluster, got):
            await until(lambda: len(got) == 1)
        lost_tail = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": 99}
        await ask(cluster, RequestCode.UPDATE_CONSUMER_OFFSET, **lost_tail)
        async with member(cluster, got) as consumer:
            # One process queue of the topic is dropped (OFFSET_ILLEGAL), another one begins.
            await until(lambda: consumer.state.generation > 2)
            await send(cluster, "new")
            await until(lambda: len(got) == 2)
        assert keys_of(got) == ["old", "new"]

    run(tmp_path, scene)


def test_what_is_no_subscription_is_the_users_error() -> None:
    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    async def make() -> None:
        PushConsumer("127.0.0.1:9876", GROUP, {TOPIC: "||"}, listen)

    with pytest.raises(UserError, match="subscribes to nothing"):
        asyncio.run(make())


@pytest.mark.parametrize("group", ["", " ", "my group", "G" * 256, "DEFAULT_CONSUMER"])
def test_a_group_that_no_broker_takes_is_the_users_error(group: str) -> None:
    with pytest.raises(UserError, match="not a name of a group"):
        PushConsumer("127.0.0.1:1", group, {TOPIC: "*"}, taking([]))
    with pytest.raises(UserError, match="not a name of a group"):
        Producer("127.0.0.1:1", group)
    with pytest.raises(UserError, match="not a name of a group"):
        PopConsumer("127.0.0.1:1", group, TOPIC)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (replace(QUICK, consume_message_batch_max_size=0), "consume_message_batch_max_size = 0"),
        (replace(QUICK, consume_message_batch_max_size=1025), "max_size = 1025: out of range"),
        (replace(QUICK, pull_batch_size=0), "pull_batch_size = 0: out of range; take 1 to 1024"),
    ],
)
def test_settings_that_nobody_can_work_with_are_the_users_error(
    config: ConsumerConfig, told: str
) -> None:
    with pytest.raises(UserError, match=told):
        PushConsumer("127.0.0.1:1", GROUP, {TOPIC: "*"}, taking([]), config)


def test_answers_that_are_none_are_logged_and_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def garbage(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.response(body=b"{")

    async def scene() -> None:
        server = await serve("127.0.0.1", 0, garbage)
        address = f"127.0.0.1:{server.port}"
        async with PushConsumer(address, GROUP, {TOPIC: "*"}, taking([]), QUICK) as consumer:
            assert not consumer.queues
        await server.close()

    asyncio.run(scene())
    assert f"the route of {TOPIC} stays as it was: not JSON" in caplog.text


def test_an_answer_without_its_number_is_an_error() -> None:
    with pytest.raises(AnswerError, match="no number offset"):
        int_field(RemotingCommand(0, {"offset": "x"}), "offset")


def test_messages_are_chosen_by_their_properties(tmp_path: Path) -> None:
    config = BrokerConfig(enable_property_filter=True)

    async def scene(cluster: Cluster) -> None:
        address = cluster.nameserver.address
        got: list[MessageExt] = []
        await create_topic(cluster, 1)
        async with Producer(address) as producer:
            for size in ("1", "5", "9", "6"):
                await producer.send(Message(TOPIC, b"x", keys=size, properties={"size": size}))
        wanted = {TOPIC: MessageSelector("size BETWEEN 4 AND 8")}
        async with PushConsumer(address, GROUP, wanted, taking(got), QUICK):
            await until(lambda: len(got) == 2)
        assert keys_of(got) == ["5", "6"]
        nonsense = {TOPIC: MessageSelector("size BETWEEN")}
        with pytest.raises(UserError, match="code 23"):
            await PushConsumer(address, GROUP, nonsense, taking(got), QUICK).__aenter__()

    run(tmp_path, scene, config=config)


def test_a_broker_that_is_reached_again_is_told_of_the_member_at_once(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        got: list[MessageExt] = []
        await create_topic(cluster, 1)
        async with member(cluster, got) as consumer:  # whose next heartbeat is 30 s away
            await until(lambda: bool(_held(consumer)))
            consumer.instance.abort()  # the broker takes the member out of its group
            await send(cluster, "a")
            await until(lambda: keys_of(got) == ["a"])

    run(tmp_path, scene)


def test_a_new_groups_retry_topic_is_held_as_soon_as_it_is_there(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with member(cluster, []) as consumer:  # which polls routes in 30 s again
            await until(lambda: MessageQueue(RETRY_TOPIC, "broker-a", 0) in consumer.queues)

    run(tmp_path, scene)


def test_half_an_hour_ago_is_counted_from_the_start() -> None:
    asked: list[int] = []

    def note(_: Connection, request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.SEARCH_OFFSET_BY_TIMESTAMP:
            asked.append(int(request.ext_fields["timestamp"]))
        return request.response(ext_fields={"offset": "7"})

    async def scene() -> None:
        config = replace(QUICK, consume_from_where=ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)
        async with (
            scripted(note) as server,
            PushConsumer(
                f"127.0.0.1:{server.port}", GROUP, {TOPIC: "*"}, taking([]), config
            ) as consumer,
        ):
            consumer.started_ms -= 3_600_000  # it runs for an hour
            mq = MessageQueue(TOPIC, "b", 0)
            assert await consumer.pull_from_where(mq, NOT_FOUND) == 7
            assert asked[-1] == consumer.started_ms - 1_800_000

    asyncio.run(scene())


def test_a_queue_without_an_offset_is_not_begun() -> None:
    def none(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.response(ext_fields={"offset": "-1"})

    async def scene() -> None:
        config = replace(QUICK, consume_from_where=ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
        async with (
            scripted(none) as server,
            PushConsumer(
                f"127.0.0.1:{server.port}", GROUP, {TOPIC: "*"}, taking([]), config
            ) as consumer,
        ):
            with pytest.raises(AnswerError, match="begins at -1"):
                await consumer.pull_from_where(MessageQueue(TOPIC, "b", 0), NOT_FOUND)

    asyncio.run(scene())


def test_a_rebalance_that_fails_is_tried_again(tmp_path: Path) -> None:
    failures = iter([RuntimeError("on purpose")] * 2)

    def takes_all(
        group: Group, current_cid: ClientId, mq_all: list[MessageQueue], cid_all: list[ClientId]
    ) -> list[MessageQueue]:
        for failure in failures:
            raise failure
        return mq_all

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        config = replace(QUICK, strategy=Strategy("ALL", takes_all))
        address = cluster.nameserver.address
        async with PushConsumer(address, GROUP, {TOPIC: "*"}, taking([]), config) as consumer:
            await until(lambda: MQ in consumer.queues)

    run(tmp_path, scene)


def test_what_is_done_again_and_again_is_done_again_after_a_failure() -> None:
    done = asyncio.Event()
    failures = iter([OSError("on purpose")])

    async def act() -> None:
        for failure in failures:
            raise failure
        done.set()

    async def scene() -> None:
        tasks = Tasks()
        tasks.every(1, act)
        async with asyncio.timeout(20):
            await done.wait()
        await tasks.cancel()

    asyncio.run(scene())
