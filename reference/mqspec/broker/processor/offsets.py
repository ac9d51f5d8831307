"""Offsets of groups and of queues: 14, 15, 29 to 32, 222 and 314
(ConsumerManageProcessor.java, AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mqspec.broker.carrying import carry, note_told
from mqspec.broker.conversing import converse_at_once
from mqspec.core import offset_commit
from mqspec.core.metadata import contains_subscription_group
from mqspec.core.offset_commit import Answer, CommitOffset, OffsetKey
from mqspec.core.reset_offset import (
    MEMBERS_TOLD,
    ResetOffset,
    reset_offset_by_broker,
    reset_offset_by_members,
)
from mqspec.core.response import Refusal
from mqspec.core.subscription import may_consume
from mqspec.core.types import MessageQueue
from mqspec.service import answered, refused
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
    return answered(request, offset_commit.told(answer))


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
        return _reset_by_broker(broker, request)
    return _reset_by_members(broker, request)


def _reset_by_broker(broker: Broker, request: RemotingCommand) -> RemotingCommand:
    event = ResetOffset(
        text(request, "topic"),
        request.ext_fields.get("group"),
        long(request, "timestamp", 0),
        integer(request, "queueId", -1),
        long(request, "offset", -1),
    )
    reset = converse_at_once(broker, reset_offset_by_broker(broker, event))
    if isinstance(reset, Refusal):
        return refused(request, reset)
    return request.response(body=_reset_body(broker, event.topic, reset))


def _reset_by_members(broker: Broker, request: RemotingCommand) -> RemotingCommand:
    """Each member is told, with 220, one-way."""
    event = ResetOffset(
        text(request, "topic"),
        text(request, "group"),
        long(request, "timestamp", 0),
        is_force=boolean(request, "isForce"),
    )
    told = converse_at_once(broker, reset_offset_by_members(broker, event))
    if isinstance(told, Refusal):
        return refused(request, told)
    topic, body = event.topic, _reset_body(broker, event.topic, told.offsets)
    fields = {
        "topic": topic,
        "group": text(request, "group"),
        "timestamp": str(event.time_ms),
        "isForce": "false",  # whether it was or not: it is in the offsets
        "queueId": "-1",
    }
    is_cpp = request.language is Language.CPP
    listed = _reset_list(broker, topic, told.offsets) if is_cpp else body
    notice = RemotingCommand(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, fields, listed)
    for channel in told.channels:
        assert isinstance(channel, Connection)
        channel.oneway(notice)
    return answered(request, MEMBERS_TOLD, body)


def clone_group_offset(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """314. It says nothing of what it did. Without a topic that is nothing: 5.3.3 looks for each
    topic of the group, and then clones what was named."""
    source, topic = text(request, "srcGroup"), request.ext_fields.get("topic", "")
    if topic in broker.metadata.topic_config_table and (
        boolean(request, "offline") or may_consume(broker.groups, broker.brought, source, topic)
    ):
        target = request.ext_fields.get("destGroup", "null")
        carry(broker, "offsets", offset_commit.clone_offset(broker.offsets, source, target, topic))
    return request.response()


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


def get_max_offset(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """30. Of a queue that does not exist: 0."""
    offset = broker.store.max_offset(text(request, "topic"), integer(request, "queueId"))
    return request.response(ext_fields={"offset": str(offset)})


def get_min_offset(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """31."""
    offset = broker.store.min_offset(text(request, "topic"), integer(request, "queueId"))
    return answered(request, offset_commit.min_offset_told(offset))


def get_earliest_msg_storetime(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """32."""
    time_ms = broker.store.earliest_time(text(request, "topic"), integer(request, "queueId"))
    return request.response(ext_fields={"timestamp": str(time_ms)})
