"""How far topics and groups have come: 43, 45, 202, 208, 300, 303, 308, 317 and 343
(AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from mqspec.core import delay, offset_commit
from mqspec.core.metadata import DataVersion, TopicConfig, known_topic
from mqspec.core.offset_commit import OffsetKey
from mqspec.core.response import Answer
from mqspec.core.stats import StatsName
from mqspec.core.subscription import may_consume
from mqspec.core.types import Group, MessageQueue, Topic
from mqspec.service import answered, clock_ms
from mqspec.transport import Connection
from mqspec.wire.bodies import dumps, to_body, to_plain
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import boolean, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


@dataclass(frozen=True, slots=True)
class TopicOffset:
    """How far a queue reaches (TopicOffset.java)."""

    min_offset: int
    max_offset: int
    last_update_timestamp: int  # ms; when its last message was stored, 0 where there is none


@dataclass(frozen=True, slots=True)
class OffsetWrapper:
    """How far a group has come on a queue (OffsetWrapper.java)."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_timestamp: int  # ms; when the last consumed message was stored, 0 where there is none


@dataclass(frozen=True, slots=True)
class ConsumeStats:
    """The answer to request 208 (ConsumeStats.java)."""

    offset_table: dict[MessageQueue, OffsetWrapper]
    consume_tps: float


@dataclass(frozen=True, slots=True)
class QueueTimeSpan:
    """When messages of a queue were stored (QueueTimeSpan.java), ms; -1 where there is none."""

    message_queue: MessageQueue
    min_time_stamp: int
    max_time_stamp: int
    consume_time_stamp: int  # of the message that the group consumed last
    delay_time: int  # since the next one was stored, 0 where there is none


def get_all_consumer_offset(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """43. As in consumerOffset.json, its queue ids without quotes."""
    table: dict[str, dict[int, int]] = {}
    for (topic, group, queue_id), offset in broker.offsets.offset_table.items():
        table.setdefault(f"{topic}@{group}", {})[queue_id] = offset
    content = offset_commit.persist(broker.offsets) | {"offsetTable": table}
    return request.response(body=dumps({"dataVersion": to_plain(DataVersion()), **content}))


def get_all_delay_offset(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """45. As in delayOffset.json."""
    content = delay.persist(broker.delay)
    return request.response(body=dumps({"dataVersion": to_plain(DataVersion()), **content}))


def get_topic_stats_info(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """202."""
    topic = text(request, "topic")
    config = known_topic(broker.metadata, topic)
    if isinstance(config, Answer):
        return answered(request, config)
    table = {}
    queues = max(config.read_queue_nums, config.write_queue_nums)
    for queue in _first_queues(broker, topic, queues):
        first = broker.store.min_offset(topic, queue.queue_id)
        end = broker.store.max_offset(topic, queue.queue_id)
        table[queue] = TopicOffset(first, end, _stored_at(broker, queue, end - 1))
    tps = broker.stats.tps(StatsName.TOPIC_PUT_NUMS, topic)
    return request.response(body=dumps({"offsetTable": to_plain(table), "topicPutTps": tps.minute}))


def get_consume_stats(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """208. Of a queue on which the group never was its offset is 0 (ADMIN-006). Topics of a list
    count whether they are subscribed or not (ADMIN-034)."""
    group, topic = text(request, "consumerGroup"), request.ext_fields.get("topic", "")
    topics = _listed(request.ext_fields.get("topicList", ""))
    if not topics:
        of_group = offset_commit.which_topic_by_consumer(broker.offsets, group)
        topics = _subscribed(broker, group, [topic] if topic.strip() else of_group)
    table: dict[MessageQueue, OffsetWrapper] = {}
    consume_tps = 0.0
    for each in topics:
        table |= _progress(broker, group, _queues(broker, each))
        consume_tps += _group_tps(broker, group, each)
    return request.response(body=to_body(ConsumeStats(table, consume_tps)))


def get_broker_consume_stats(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """317. Of all groups, with all topics, or with those in order. Here the write queues count,
    and no pull does (ADMIN-035)."""
    is_order = boolean(request, "isOrder")
    known = broker.metadata.topic_config_table
    found: list[dict[Group, list[ConsumeStats]]] = []
    for group in broker.metadata.subscription_group_table:
        topics = offset_commit.which_topic_by_consumer(broker.offsets, group)
        configs = [known[each] for each in _subscribed(broker, group, topics) if each in known]
        of_group = [_written(broker, group, each) for each in configs if each.order or not is_order]
        found.append({group: of_group})
    queues = [
        queue
        for groups in found
        for each in groups.values()
        for stats in each
        for queue in stats.offset_table.values()
    ]
    body = {
        "brokerAddr": broker.address,
        "consumeStatsList": to_plain(found),
        "totalDiff": sum(queue.broker_offset - queue.consumer_offset for queue in queues),
        "totalInflightDiff": sum(queue.pull_offset - queue.consumer_offset for queue in queues),
    }
    return request.response(body=dumps(body))


def query_topic_consume_by_who(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """300. Groups with a member that subscribes the topic, and those with an offset of it."""
    topic = text(request, "topic")
    online = (
        group
        for group, info in broker.groups.consumer_table.items()
        if topic in info.subscription_table
    )
    stored = offset_commit.which_group_by_topic(broker.offsets, topic)
    return request.response(body=dumps({"groupList": list(dict.fromkeys((*online, *stored)))}))


def query_topics_by_consumer(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """343. The topics of which a group has an offset."""
    topics = offset_commit.which_topic_by_consumer(broker.offsets, text(request, "group"))
    return request.response(body=dumps({"brokerAddr": broker.address, "topicList": topics}))


def query_consume_time_span(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """303 (ADMIN-029)."""
    topic, group = text(request, "topic"), request.ext_fields.get("group", "null")
    config = known_topic(broker.metadata, topic)
    if isinstance(config, Answer):
        return answered(request, config)
    queues = _first_queues(broker, topic, config.write_queue_nums)
    spans = [to_plain(_time_span(broker, group, queue)) for queue in queues]
    names = "minTimeStamp", "maxTimeStamp", "consumeTimeStamp"
    texts = [{f"{name}Str": _date(span[name]) for name in names} for span in spans]
    found = [span | dates for span, dates in zip(spans, texts, strict=True)]
    return request.response(body=dumps({"consumeTimeSpanSet": found}))


def query_correction_offset(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """308. The group to compare with is one of all: it is never behind the least of them."""
    left_out = request.ext_fields.get("filterGroups", "").split(",")
    topic = text(request, "topic")
    least = offset_commit.query_min_offset_in_all_group(
        broker.offsets, topic, left_out, partial(broker.store.min_offset, topic)
    )
    return request.response(body=dumps({"correctionOffsets": least}))


def _listed(topics: str) -> list[Topic]:
    """Each once, of a list with semicolons between; of one that is blank none."""
    return list(dict.fromkeys(filter(None, topics.split(";")))) if topics.strip() else []


def _subscribed(broker: Broker, group: Group, topics: Iterable[Topic]) -> list[Topic]:
    """Without those that the members of the group subscribed once and do not any more."""
    groups, brought = broker.groups, broker.brought
    return [topic for topic in topics if may_consume(groups, brought, group, topic)]


def _written(broker: Broker, group: Group, topic: TopicConfig) -> ConsumeStats:
    """On the queues that are written, without pulls."""
    queues = _first_queues(broker, topic.topic_name, topic.write_queue_nums)
    table = _progress(broker, group, queues)
    without = {queue: replace(offset, pull_offset=0) for queue, offset in table.items()}
    return ConsumeStats(without, _group_tps(broker, group, topic.topic_name))


def _progress(
    broker: Broker, group: Group, queues: Iterable[MessageQueue]
) -> dict[MessageQueue, OffsetWrapper]:
    table = {}
    for queue in queues:
        key = _key(group, queue)
        consumed = max(0, offset_commit.query_offset(broker.offsets, key))
        table[queue] = OffsetWrapper(
            broker.store.max_offset(queue.topic, queue.queue_id),
            consumed,
            max(consumed, broker.offsets.pull_offset_table.get(key, 0)),  # ADMIN-023
            _stored_at(broker, queue, consumed - 1),
        )
    return table


def _key(group: Group, queue: MessageQueue) -> OffsetKey:
    return OffsetKey(queue.topic, group, queue.queue_id)


def _group_tps(broker: Broker, group: Group, topic: Topic) -> float:
    return broker.stats.tps(StatsName.GROUP_GET_NUMS, f"{topic}@{group}").minute


def _time_span(broker: Broker, group: Group, queue: MessageQueue) -> QueueTimeSpan:
    consumed = offset_commit.query_offset(broker.offsets, _key(group, queue))
    end = broker.store.max_offset(queue.topic, queue.queue_id)

    def stored_at(offset: int) -> int:
        return broker.store.stored_at(queue.topic, queue.queue_id, offset)

    first = broker.store.earliest_time(queue.topic, queue.queue_id)
    return QueueTimeSpan(
        queue,
        first,
        stored_at(end - 1),
        stored_at(consumed - 1) if consumed > 0 else first,
        clock_ms() - stored_at(consumed) if consumed < end else 0,
    )


def _date(time_ms: int) -> str:
    seconds, ms = divmod(time_ms, 1000)
    return time.strftime("%Y-%m-%d#%H:%M:%S", time.localtime(seconds)) + f":{ms:03}"


def _queues(broker: Broker, topic: Topic) -> list[MessageQueue]:
    config = broker.metadata.topic_config_table.get(topic)
    return _first_queues(broker, topic, config.read_queue_nums if config else 0)


def _first_queues(broker: Broker, topic: Topic, count: int) -> list[MessageQueue]:
    return [MessageQueue(topic, broker.config.broker_name, i) for i in range(count)]


def _stored_at(broker: Broker, queue: MessageQueue, offset: int) -> int:
    return max(0, broker.store.stored_at(queue.topic, queue.queue_id, offset)) if offset >= 0 else 0
