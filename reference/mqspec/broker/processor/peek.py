"""Peeks: 200052, what a pop would give, without taking it (PeekMessageProcessor.java, 5.3.3)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from mqspec.broker.carrying import carry
from mqspec.broker.processor.pop import NO_POP, not_popped
from mqspec.core.log import GetMessageStatus, TopicQueue
from mqspec.core.offset_commit import OffsetKey
from mqspec.core.pop import check_peek, peek_places
from mqspec.core.response import ResponseCode
from mqspec.core.types import Group
from mqspec.service import clock_ms
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError, integer, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

_MOVED = (GetMessageStatus.OFFSET_TOO_SMALL, GetMessageStatus.OFFSET_OVERFLOW_BADLY)


def peek_message(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> RemotingCommand:
    """200052. Messages from the group's offset on, whatever it wants of the topic; nothing of the
    group changes (POP-046)."""
    topic, group = text(request, "topic"), text(request, "consumerGroup")
    queue_id, max_msg_nums = integer(request, "queueId", 0), integer(request, "maxMsgNums", 0)
    step = check_peek(
        broker.metadata, broker.config, topic, queue_id, group, connection.peer, clock_ms()
    )
    if refusal := carry(broker, "metadata", step).result:
        return request.response(refusal.code, refusal.remark, {**NO_POP, "restNum": "0"})
    if max_msg_nums < 0:
        raise HeaderError(f"the field maxMsgNums is {max_msg_nums}")
    records: list[bytes] = []
    rest_num = 0
    where = peek_places(
        broker.metadata, broker.config, topic, group, queue_id, random.randrange(100)
    )
    for queue in where.first:
        rest_num += _peek(broker, group, queue, max_msg_nums, records)
    if len(records) < max_msg_nums:
        for queue in where.if_not_full:
            rest_num += _peek(broker, group, queue, max_msg_nums, records)
    fields = {**NO_POP, "restNum": str(rest_num)}
    if not records:
        status = GetMessageStatus.NO_MESSAGE_IN_QUEUE
        return request.response(ResponseCode.PULL_NOT_FOUND, status, fields)
    broker.stats.got[topic, group].add(len(records), sum(map(len, records)))
    return request.response(ResponseCode.SUCCESS, GetMessageStatus.FOUND, fields, b"".join(records))


def _peek(
    broker: Broker, group: Group, queue: TopicQueue, max_msg_nums: int, records: list[bytes]
) -> int:
    """Add what there is room for; how many messages the group has not popped of the queue, also
    those that are added."""
    topic, queue_id = queue
    offset, end = not_popped(broker, OffsetKey(topic, group, queue_id))
    room = max_msg_nums - len(records)
    if room > 0:
        found = broker.store.get(topic, queue_id, offset, room)
        if found.status in _MOVED:
            found = broker.store.get(topic, queue_id, found.next_begin_offset, room)
        records += found.records
    return end - offset
