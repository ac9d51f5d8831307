"""Messages that a concurrent consumer could not consume, and what administrators ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scene import (
    DEADLINE_S,
    GROUP,
    QUICK,
    RETRY_TOPIC,
    TOPIC,
    create_topic,
    keys_of,
    pulled,
    run,
    send,
    taking,
    until,
)

from mqrules import Event, EventKind, Outcome
from mqspec.broker.processor.table import PROCESSORS
from mqspec.client.instance import ClientInstance
from mqspec.client.listener import ConsumeResult, ConsumeStatus, Listener, consume
from mqspec.client.message import Message, MessageExt
from mqspec.client.publish import Publisher
from mqspec.client.push_consumer import PushConsumer, _max_reconsume_times
from mqspec.client.push_work import ConsumerConfig
from mqspec.client.recorder import Recorder
from mqspec.client.send_back import SendBack
from mqspec.cluster import Cluster
from mqspec.core.metadata import Perm
from mqspec.core.record import Record, SysFlag, encode_record
from mqspec.core.types import MessageQueue
from mqspec.transport import Connection, refuse
from mqspec.wire import bodies
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

MQ = MessageQueue(TOPIC, "broker-a", 0)
# A group's retry topic is created as its first member joins: that one hears of it later.
WITH_RETRIES = replace(QUICK, poll_name_server_interval_ms=100, rebalance_wait_interval_ms=100)
LATER, SUCCESS = ConsumeStatus.RECONSUME_LATER, ConsumeStatus.CONSUME_SUCCESS


def member(
    cluster: Cluster,
    listener: Listener,
    config: ConsumerConfig = WITH_RETRIES,
    recorder: Recorder | None = None,
) -> PushConsumer:
    address = cluster.nameserver.address
    return PushConsumer(address, GROUP, {TOPIC: "*"}, listener, config, recorder=recorder)


async def until_consumed(consumer: PushConsumer, offset: int) -> None:
    await until(lambda: consumer.state.offset_store.get(MQ) == offset)


def test_what_is_sent_back_comes_again_later_and_holds_nothing_back(tmp_path: Path) -> None:
    got: list[MessageExt] = []

    async def listen(messages: Sequence[MessageExt]) -> ConsumeResult:
        got.extend(messages)
        failed = messages[0].keys == "bad" and messages[0].reconsume_times == 0
        return ConsumeResult(LATER if failed else SUCCESS, delay_level_when_next_consume=1)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "bad", "good")
        async with member(cluster, listen) as consumer:
            await until_consumed(consumer, 2)
            assert sorted(keys_of(got)) == ["bad", "good"]
            await until(lambda: len(got) == 3)

    run(tmp_path, scene)
    first = next(message for message in got if message.keys == "bad")
    again = got[2]
    assert (again.keys, again.reconsume_times) == ("bad", 1)
    assert (again.topic, again.queue.topic) == (TOPIC, RETRY_TOPIC)
    assert again.properties["ORIGIN_MESSAGE_ID"] == first.record.message_id


def test_a_message_may_be_given_up_at_once(tmp_path: Path) -> None:
    async def listen(_: Sequence[MessageExt]) -> ConsumeResult:
        return ConsumeResult(LATER, delay_level_when_next_consume=-1)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "bad")
        async with member(cluster, listen) as consumer:
            await until_consumed(consumer, 1)
        assert keys_of(await pulled(cluster, "%DLQ%G")) == ["bad"]

    run(tmp_path, scene)


def test_of_a_batch_those_behind_the_ack_index_come_again(tmp_path: Path) -> None:
    batches: list[list[str]] = []

    async def listen(messages: Sequence[MessageExt]) -> ConsumeResult:
        batches.append(keys_of(messages))
        return ConsumeResult(SUCCESS, ack_index=0, delay_level_when_next_consume=1)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a", "b")
        config = replace(WITH_RETRIES, consume_message_batch_max_size=2)
        async with member(cluster, listen, config) as consumer:
            await until_consumed(consumer, 2)
            await until(lambda: batches == [["a", "b"], ["b"]])

    run(tmp_path, scene)


def test_what_the_broker_does_not_take_back_is_sent_as_a_new_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unable(_: object, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return refuse(connection, request)

    monkeypatch.setitem(PROCESSORS, RequestCode.CONSUMER_SEND_MSG_BACK, unable)

    async def listen(_: Sequence[MessageExt]) -> ConsumeStatus:
        return LATER

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "bad")
        (original,) = await pulled(cluster)
        async with member(cluster, listen) as consumer:
            await until_consumed(consumer, 1)
        (again,) = await pulled(cluster, "SCHEDULE_TOPIC_XXXX", queue_id=2)  # level 3: 10 s
        assert again.body == original.body
        assert again.reconsume_times == 1
        wanted = {
            "REAL_TOPIC": RETRY_TOPIC,
            "RETRY_TOPIC": TOPIC,
            "ORIGIN_MESSAGE_ID": original.message_id,
            "KEYS": "bad",
        }
        assert wanted.items() <= again.properties.items()

    run(tmp_path, scene)


def test_a_listener_that_waited_for_what_was_cancelled_has_failed() -> None:
    async def listen(_: Sequence[MessageExt]) -> ConsumeStatus:
        waits = asyncio.get_running_loop().create_future()
        waits.cancel()
        await waits
        raise AssertionError("not reached")

    async def scene() -> None:
        assert (await consume(listen, [])).status is LATER

    asyncio.run(scene())


@pytest.mark.parametrize("fails", [True, False])
def test_a_consumer_ends_whatever_its_listener_makes_of_that(tmp_path: Path, fails: bool) -> None:
    begun = asyncio.Event()

    async def listen(_: Sequence[MessageExt]) -> ConsumeStatus:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if fails:
                raise ValueError("on purpose") from None
        return SUCCESS

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a")
        async with asyncio.timeout(DEADLINE_S), member(cluster, listen):
            await begun.wait()
        assert not await pulled(cluster, "SCHEDULE_TOPIC_XXXX", queue_id=2)  # not sent back

    run(tmp_path, scene)


def test_a_body_that_cannot_be_read_is_not_sent_back_as_a_new_message() -> None:
    instance = ClientInstance("127.0.0.1:1")
    send_back = SendBack(instance, Publisher(instance, GROUP), GROUP, 16)
    record = Record(TOPIC, b"no zlib", sys_flag=SysFlag.COMPRESSED)
    message = MessageExt(record, MessageQueue(TOPIC, "b", 0))
    assert not asyncio.run(send_back.send_as_normal_message(message))


@pytest.mark.parametrize("tried", [0, 1, 2])
def test_a_new_message_of_one_that_is_sent_back_counts_one_try_more(tried: int) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    publisher: Any = SimpleNamespace(message=lambda message: message, send=send)
    send_back = SendBack(ClientInstance("127.0.0.1:1"), publisher, GROUP, 16)
    record = Record(TOPIC, b"x", reconsume_times=tried)
    message = MessageExt(record, MessageQueue(TOPIC, "b", 0))
    assert asyncio.run(send_back.send_as_normal_message(message))
    (again,) = sent
    assert again.delay_level == 3 + tried
    assert again.properties["RECONSUME_TIME"] == str(tried + 1)
    assert again.properties["MAX_RECONSUME_TIMES"] == "16"


def test_what_the_listener_has_for_too_long_is_sent_back(tmp_path: Path) -> None:
    may_end = asyncio.Event()
    seen: list[str] = []
    events: list[Event] = []
    recorder = Recorder("run", "test", events.append)

    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        seen.extend(keys_of(messages))
        if "stuck" in keys_of(messages):
            await may_end.wait()
        return SUCCESS

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "stuck", "behind")
        config = replace(QUICK, consume_timeout_ms=1_500)
        async with member(cluster, listen, config, recorder) as consumer:
            await until_consumed(consumer, 2)
            assert sorted(seen) == ["behind", "stuck"]
            # It is done with before progress passes it, and not by the listener.
            acks = [event for event in events if event.kind is EventKind.ACK]
            assert {(ack.message_key, ack.outcome) for ack in acks} == {
                ("behind", Outcome.OK),
                ("stuck", Outcome.FAILED),
            }
            may_end.set()  # late: it comes again all the same
            (again,) = await pulled(cluster, "SCHEDULE_TOPIC_XXXX", queue_id=2)
            assert again.keys == "stuck"

    run(tmp_path, scene)


def test_what_took_too_long_stays_as_long_as_nobody_takes_it_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = asyncio.Event()

    async def listen(_: Sequence[MessageExt]) -> ConsumeStatus:
        await may_end.wait()
        return SUCCESS

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await create_topic(cluster, 1, topic=RETRY_TOPIC, perm=Perm.READ)  # takes nothing back
        await send(cluster, "stuck")
        config = replace(QUICK, consume_timeout_ms=1_500)
        async with member(cluster, listen, config) as consumer:
            await until(lambda: caplog.text.count("is not sent back") > 1)
            assert consumer.state.process_queue_table[MQ].msg_tree_map == (0,)
            may_end.set()
            await until_consumed(consumer, 1)

    run(tmp_path, scene)


def test_what_took_too_long_and_fails_in_the_end_comes_again_once(tmp_path: Path) -> None:
    may_end = asyncio.Event()

    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        if "stuck" not in keys_of(messages):
            return SUCCESS
        await may_end.wait()
        return LATER

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "stuck", "behind")
        # With one thread: what is behind comes when all is done about what was stuck.
        config = replace(QUICK, consume_timeout_ms=100, consume_threads=1)
        async with member(cluster, listen, config) as consumer:
            await until_consumed(consumer, 1)
            may_end.set()
            await until_consumed(consumer, 2)
        again = await pulled(cluster, "SCHEDULE_TOPIC_XXXX", queue_id=2)
        assert keys_of(again).count("stuck") == 1

    run(tmp_path, scene)


def channel(cluster: Cluster) -> Connection:
    """The broker's end of the one consumer's connection."""
    (found,) = cluster.brokers[0].groups.consumer_table[GROUP].channel_info_table
    assert isinstance(found, Connection)
    return found


def test_progress_is_reset_by_the_broker(tmp_path: Path) -> None:
    got: list[MessageExt] = []

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a", "b")
        config = replace(QUICK, reset_offset_wait_ms=10)
        async with member(cluster, taking(got), config) as consumer:
            await until_consumed(consumer, 2)
            body = bodies.dumps({"offsetTable": {MQ: 1, MessageQueue("Other", "b", 0): 9}})
            fields = {"topic": TOPIC, "group": GROUP, "timestamp": "0", "isForce": "true"}
            code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
            channel(cluster).oneway(RemotingCommand(code, fields, body))
            await until(lambda: keys_of(got) == ["a", "b", "b"])
            await until_consumed(consumer, 2)

    run(tmp_path, scene)


def test_a_consumer_tells_of_itself(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        async def ask(code: RequestCode) -> dict[str, object]:
            fields = {"consumerGroup": GROUP, "group": GROUP, "topic": TOPIC}
            response = await channel(cluster).request(RemotingCommand(code, fields), 5000)
            body: dict[str, object] = bodies.loads(response.body)
            return body

        got: list[MessageExt] = []
        await create_topic(cluster, 1)
        await send(cluster, "a")
        async with member(cluster, taking(got)) as consumer:
            await until_consumed(consumer, 1)
            status = await ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT)
            assert status == {"messageQueueTable": {MQ: 1}}
            info = await ask(RequestCode.GET_CONSUMER_RUNNING_INFO)
        properties, queues, wanted = (
            info[name] for name in ("properties", "mqTable", "subscriptionSet")
        )
        assert isinstance(properties, dict)
        assert properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert properties["PROP_CONSUMEORDERLY"] == "false"
        assert isinstance(queues, dict)
        assert queues[MQ]["commitOffset"] == 1
        assert queues[MQ]["cachedMsgCount"] == 0
        assert isinstance(wanted, list)
        assert {each["topic"] for each in wanted} == {TOPIC, RETRY_TOPIC}

    run(tmp_path, scene)


@pytest.mark.parametrize(
    ("result", "told"),
    [(SUCCESS, "CR_SUCCESS"), (ConsumeResult(LATER), "CR_LATER"), (None, "CR_THROW_EXCEPTION")],
)
def test_an_administrator_has_one_message_consumed(
    tmp_path: Path, result: ConsumeStatus | ConsumeResult | None, told: str
) -> None:
    seen: list[str] = []

    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus | ConsumeResult:
        if len(messages[0].body) > 1:
            return SUCCESS
        seen.extend(keys_of(messages))
        if result is None:
            raise ValueError("on purpose")
        return result

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "k")
        (message,) = await pulled(cluster)
        async with member(cluster, listen, replace(QUICK, consume_threads=0)) as consumer:
            await until(lambda: MQ in consumer.queues)
            fields = {"consumerGroup": GROUP, "clientId": "c", "brokerName": "broker-a"}
            code = RequestCode.CONSUME_MESSAGE_DIRECTLY
            request = RemotingCommand(code, fields, encode_record(message.record))
            response = await channel(cluster).request(request, 5000)
        body = bodies.loads(response.body)
        assert body["consumeResult"] == told
        assert ("on purpose" in body.get("remark", "")) is (result is None)
        assert seen == ["k"]

    run(tmp_path, scene)


@pytest.mark.parametrize(
    ("orderly", "configured", "times"),
    [(False, None, 16), (True, None, 2**31 - 1), (False, 0, 0), (True, 3, 3)],
)
def test_how_often_a_message_is_tried(orderly: bool, configured: int | None, times: int) -> None:
    """DefaultMQPushConsumerImpl.getMaxReconsumeTimes and ConsumeMessageOrderlyService's, 5.3.3."""
    config = ConsumerConfig(orderly=orderly, max_reconsume_times=configured)
    assert _max_reconsume_times(config) == times
