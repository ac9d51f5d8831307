"""Resets: an administrator moves a group to other offsets of a topic, as conversations.

The broker moves the group by itself, and the next pull or pop learns of it; or it has the members
that are online do it.

Facts: AdminBrokerProcessor.resetOffset, Broker2Client.resetOffset (5.3.3), and what 5.3.3
answered over the wire.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Carry, Conversation, OffsetByTime, ReadSpan
from mqspec.core.group import Channel
from mqspec.core.log import Span
from mqspec.core.metadata import contains_subscription_group
from mqspec.core.offset_commit import (
    OffsetKey,
    QueueSpan,
    reset_offset_inner,
    reset_offset_of_members,
)
from mqspec.core.response import NOT_SET, Answer, Refusal, ResponseCode
from mqspec.core.types import Group, Topic

MEMBERS_TOLD: Final = Answer(remark=NOT_SET)
"""The answer where members were told where to go on."""


@dataclass(frozen=True, slots=True)
class ResetOffset:
    """Request 222: to an offset, which counts for one queue only, or to a time (OFFSET-017)."""

    topic: Topic
    group: Group | None  # None: none is named
    time_ms: int  # below 0: the end
    queue_id: int = -1  # below 0: all
    offset: int = -1  # -1: none
    is_force: bool = False  # members go forward as well


class MembersTold(NamedTuple):
    """Where members go on, and the channels to tell it."""

    offsets: dict[int, int]  # by queue id
    channels: tuple[Channel, ...]


def reset_offset_by_broker(
    broker: BrokerStates, event: ResetOffset
) -> Conversation[dict[int, int] | Refusal]:
    """The broker moves the group by itself. Result: the offsets, by queue id, or why not."""
    topic, group = event.topic, "null" if event.group is None else event.group
    config = broker.metadata.topic_config_table.get(topic)
    if config is None:
        return Refusal(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
    if not contains_subscription_group(broker.metadata, event.group):
        remark = f"Group {group} does not exist"
        return Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)

    is_one = event.queue_id >= 0
    queue_ids = (event.queue_id,) if is_one else range(config.read_queue_nums)
    spans = yield from _spans(topic, group, queue_ids, event.time_ms)
    to_offset = event.offset if is_one and event.offset != -1 else None
    reset: dict[int, int] | Refusal = yield Carry(
        broker.offsets, reset_offset_inner(spans, to_offset)
    )
    return reset


def reset_offset_by_members(
    broker: BrokerStates, event: ResetOffset
) -> Conversation[MembersTold | Refusal]:
    """The members are told where to go on (OFFSET-021). Result: whom to tell what, or why not."""
    topic, group = event.topic, event.group or ""
    config = broker.metadata.topic_config_table.get(topic)
    if config is None:
        remark = f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
        return Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)

    queue_ids = range(config.write_queue_nums)
    spans = yield from _spans(topic, group, queue_ids, event.time_ms)
    told = reset_offset_of_members(broker.offsets, spans, is_force=event.is_force)
    if isinstance(told, Refusal):
        return told

    members = broker.groups.consumer_table.get(group)
    if members is None:
        remark = (
            f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} "
            f"Timestamp: {event.time_ms}"
        )
        return Refusal(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    return MembersTold(told, tuple(members.channel_info_table))


def _spans(
    topic: Topic, group: Group, queue_ids: Iterable[int], time_ms: int
) -> Conversation[list[QueueSpan]]:
    spans = []
    for queue_id in queue_ids:
        queue: Span = yield ReadSpan(topic, queue_id)
        by_time: int = queue.max
        if time_ms >= 0:
            by_time = yield OffsetByTime(topic, queue_id, time_ms)
        spans.append(QueueSpan(OffsetKey(topic, group, queue_id), *queue, by_time))
    return spans
