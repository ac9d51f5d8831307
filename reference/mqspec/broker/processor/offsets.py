"""Offsets of groups and of queues: 14, 15, 29 to 32, 222 and 314
(ConsumerManageProcessor.java, AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mqspec.broker.carrying import carry, note_told
from mqspec.core import offset_commit
from mqspec.core.group import may_consume
from mqspec.core.metadata import contains_subscription_group
from mqspec.core.offset_commit import Answer, CommitOffset, OffsetKey, QueueSpan
from mqspec.core.response import NOT_SET, Refusal, ResponseCode
from mqspec.core.types import MessageQueue
from mqspec.service import refused
from mqspec.store.message_store import Boundary
from mqspec.transport import Connection
from mqspec.wire.bodies import dumps
from mqspec.wire.codec import Language, RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.headers import boolean, integer, long, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def query_consumer_offset(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """14."""
    topic, queue_id = text(request, "topic"), integer(request, "queueId")
    store = broker.store
    is_young = store.min_offset(topic, queue_id) == 0 < store.max_offset(topic, queue_id)
    # A group that is not named is one that nobody has: "null" would be a name.
    key = OffsetKey(topic, request.ext_fields.get("consumerGroup", ""), queue_id)
    answer = offset_commit.query_consumer_offset(
        broker.offsets,
        key,
        set_zero_if_not_found=boolean(request, "setZeroIfNotFound", default=True),
        queue_is_young=is_young,
    )
    note_told(broker, "OffsetCommit", "offset_table", key, answer.offset)
    return _answered(request, answer)


def update_consumer_offset(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """15. A consumer sends it one-way."""
    event = CommitOffset(
        request.ext_fields.get("consumerGroup"),
        text(request, "topic"),
        integer(request, "queueId", None),
        long(request, "commitOffset", None),
    )
    step = offset_commit.update_consumer_offset(
        broker.offsets,
        event,
        group_exists=contains_subscription_group(broker.metadata, event.group),
        topic_exists=event.topic in broker.metadata.topic_config_table,
    )
    return _answered(request, carry(broker, "offsets", step).result)


def _answered(request: RemotingCommand, answer: Answer) -> RemotingCommand:
    fields = {} if answer.offset is None else {"offset": str(answer.offset)}
    return request.response(answer.code, answer.remark, fields)


def search_offset_by_timestamp(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """29."""
    is_upper = request.ext_fields.get("boundaryType", "").lower() == Boundary.UPPER
    offset = broker.store.offset_by_time(
        text(request, "topic"),
        integer(request, "queueId"),
        long(request, "timestamp"),
        Boundary.UPPER if is_upper else Boundary.LOWER,
    )
    return request.response(ext_fields={"offset": str(offset)})


def invoke_broker_to_reset_offset(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """222. The broker resets the group by itself, or has its members do it."""
    if broker.config.use_server_side_reset_offset:
        return _reset_offset_inner(broker, request)
    return _reset_offset_of_members(broker, request)


def _reset_offset_inner(broker: Broker, request: RemotingCommand) -> RemotingCommand:
    """An explicit offset counts for one queue only, and -1 is none (OFFSET-017)."""
    topic, group = text(request, "topic"), request.ext_fields.get("group", "null")
    queue_id, offset = integer(request, "queueId", -1), long(request, "offset", -1)
    config = broker.metadata.topic_config_table.get(topic)
    if config is None:
        remark = f"Topic {topic} does not exist"
        return request.response(ResponseCode.TOPIC_NOT_EXIST, remark)
    if not contains_subscription_group(broker.metadata, request.ext_fields.get("group")):
        remark = f"Group {group} does not exist"
        return request.response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    queue_ids = range(config.read_queue_nums) if queue_id < 0 else (queue_id,)
    spans = _spans(broker, request, group, topic, queue_ids)
    to_offset = offset if queue_id >= 0 and offset != -1 else None
    reset = carry(broker, "offsets", offset_commit.reset_offset_inner(spans, to_offset)).result
    if isinstance(reset, Refusal):
        return refused(request, reset)
    return request.response(body=_reset_body(broker, topic, reset))


def _reset_offset_of_members(broker: Broker, request: RemotingCommand) -> RemotingCommand:
    """Tell each member, with 220, one-way (OFFSET-021; Broker2Client.resetOffset, 5.3.3)."""
    topic, group = text(request, "topic"), text(request, "group")
    config = broker.metadata.topic_config_table.get(topic)
    if config is None:
        remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
        return request.response(ResponseCode.TOPIC_NOT_EXIST, remark)
    spans = _spans(broker, request, group, topic, range(config.write_queue_nums))
    told = offset_commit.reset_offset_of_members(
        broker.offsets, spans, is_force=boolean(request, "isForce")
    )
    if isinstance(told, Refusal):
        return refused(request, told)
    members = broker.groups.consumer_table.get(group)
    time_ms = str(long(request, "timestamp", 0))
    if members is None:
        remark = (
            f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} "
            f"Timestamp: {time_ms}"
        )
        return request.response(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    body = _reset_body(broker, topic, told)
    fields = {
        "topic": topic,
        "group": group,
        "timestamp": time_ms,
        "isForce": "false",  # whether it was or not: it is in the offsets
        "queueId": "-1",
    }
    of_language = _reset_list(broker, topic, told) if request.language is Language.CPP else body
    notice = RemotingCommand(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, of_language)
    for channel in members.channel_info_table:
        assert isinstance(channel, Connection)
        channel.oneway(notice)
    return request.response(remark=NOT_SET, body=body)


def clone_group_offset(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """314. It says nothing of what it did. Without a topic that is nothing: 5.3.3 looks for each
    topic of the group, and then clones what was named."""
    source, topic = text(request, "srcGroup"), request.ext_fields.get("topic", "")
    if topic in broker.metadata.topic_config_table and (
        boolean(request, "offline") or may_consume(broker.groups, source, topic)
    ):
        target = request.ext_fields.get("destGroup", "null")
        carry(broker, "offsets", offset_commit.clone_offset(broker.offsets, source, target, topic))
    return request.response()


def _spans(
    broker: Broker, request: RemotingCommand, group: str, topic: str, queue_ids: Iterable[int]
) -> list[QueueSpan]:
    time_ms = long(request, "timestamp", 0)
    return [_span(broker, OffsetKey(topic, group, each), time_ms) for each in queue_ids]


def _reset_body(broker: Broker, topic: str, offsets: Mapping[int, int]) -> bytes:
    name = broker.config.broker_name
    table = {MessageQueue(topic, name, each): offset for each, offset in offsets.items()}
    return dumps({"offsetTable": table})


def _reset_list(broker: Broker, topic: str, offsets: Mapping[int, int]) -> bytes:
    """As the clients in C++ read it."""
    name = broker.config.broker_name
    queue = {"topic": topic, "brokerName": name}
    listed = [queue | {"queueId": each, "offset": offset} for each, offset in offsets.items()]
    return dumps({"offsetTable": listed})


def _span(broker: Broker, key: OffsetKey, time_ms: int) -> QueueSpan:
    store, queue = broker.store, (key.topic, key.queue_id)
    maximum = store.max_offset(*queue)
    by_time = maximum if time_ms < 0 else store.offset_by_time(*queue, time_ms, Boundary.LOWER)
    return QueueSpan(key, store.min_offset(*queue), maximum, by_time)


def get_max_offset(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """30. Of a queue that does not exist: 0."""
    offset = broker.store.max_offset(text(request, "topic"), integer(request, "queueId"))
    return request.response(ext_fields={"offset": str(offset)})


def get_min_offset(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """31. Its remark is empty, not absent."""
    offset = broker.store.min_offset(text(request, "topic"), integer(request, "queueId"))
    return request.response(remark="", ext_fields={"offset": str(offset)})


def get_earliest_msg_storetime(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """32."""
    time_ms = broker.store.earliest_time(text(request, "topic"), integer(request, "queueId"))
    return request.response(ext_fields={"timestamp": str(time_ms)})
