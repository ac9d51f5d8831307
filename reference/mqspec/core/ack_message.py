"""Acknowledgements of popped messages, and changes of their invisible time, as conversations.

What was popped has a checkpoint in the revive log, and an acknowledgement is a message there; of
what was popped in order the broker keeps the last batch itself (`pop_order`). The receipt handle
tells which of the two it is.

Facts: AckMessageProcessor.java, ChangeInvisibleTimeProcessor.java (5.3.3), and what 5.3.3
answered over the wire.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from mqspec.core import pop, pop_order
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Append, Carry, Conversation, Note, ReadSpan
from mqspec.core.extra_info import ORDER_REVIVE_QUEUE, ReceiptHandle, parse_handle
from mqspec.core.log import PutResult, PutStatus, Span, TopicQueue
from mqspec.core.offset_commit import NOT_FOUND, OffsetKey, commit_offset
from mqspec.core.pop import (
    ChangeInvisibleTime,
    ack_message,
    check_ack_offset,
    check_ack_queue,
    is_too_long,
)
from mqspec.core.pop_order import IllegalOffsetError, OrderKey
from mqspec.core.response import NOT_SET, Answer, Refusal, ResponseCode
from mqspec.core.revive_log import ReviveMessage, encode, revive_topic
from mqspec.core.step import Change, Step
from mqspec.core.types import Group, Topic

NO_POP: Final = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}
"""What an answer says of a pop that there is not."""

STORED: Final = frozenset({PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT})


class AckMessage(NamedTuple):
    """A consumer is done with messages of one queue that one pop gave it."""

    topic: Topic
    group: Group
    queue_id: int
    offsets: tuple[int, ...]
    handle: ReceiptHandle


def append_to_revive_log(
    broker: BrokerStates,
    revive_qid: int,
    message: ReviveMessage,
    now_ms: int,
    event: object = None,
) -> Conversation[bool]:
    """Whether the message is stored; `event` is what a checkpoint is left for. A receipt handle
    may name a queue that is none: nobody would ever read there."""
    if not 0 <= revive_qid < broker.config.revive_queue_num:
        return True
    topic = revive_topic(broker.config.cluster_name)
    put: PutResult = yield Append(encode(message, topic, revive_qid, broker.store_host, now_ms))
    if put.status not in STORED:
        return False
    yield Note("Pop", Step((Change("log", revive_qid, message),)), event)
    return True


def ack(
    broker: BrokerStates,
    queue: TopicQueue,
    group: Group,
    offset: int,
    extra_info: str | None,
    consumer: str,
    now_ms: int,
) -> Conversation[Answer]:
    """Request 200051, of one message, with its receipt handle as it came. An acknowledgement that
    comes too late, or of a group that is not known, is answered with success as well.

    Raises HandleError where the message is there and the handle cannot be read.
    """
    topic, queue_id = queue
    refusal = check_ack_queue(broker.metadata, topic, queue_id, consumer)
    if refusal:
        return refusal
    span: Span = yield ReadSpan(topic, queue_id)
    refusal = check_ack_offset(topic, queue_id, offset, span)
    if refusal:
        return refusal

    event = AckMessage(topic, group, queue_id, (offset,), parse_handle(extra_info))
    return (yield from _ack(broker, event, consumer, now_ms, is_batch=False)) or Answer()


def batch_ack(
    broker: BrokerStates, events: Iterable[AckMessage], consumer: str, now_ms: int
) -> Conversation[Answer]:
    """Request 200151. Offsets that a queue does not have are passed over. The answer is the last
    refusal, if there is one."""
    answer: Answer | None = None
    for event in events:
        answer = answer or Answer()
        queue: Span = yield ReadSpan(event.topic, event.queue_id)
        there = tuple(each for each in event.offsets if queue.min <= each <= queue.max)
        if there:
            there_only = event._replace(offsets=there)
            refusal = yield from _ack(broker, there_only, consumer, now_ms, is_batch=True)
            answer = refusal or answer
    return answer or Answer(ResponseCode.NO_MESSAGE)


def _ack(
    broker: BrokerStates, event: AckMessage, consumer: str, now_ms: int, *, is_batch: bool
) -> Conversation[Refusal | None]:
    """The first refusal, where one of the messages cannot be acknowledged."""
    topic, group, queue_id, offsets, handle = event
    if handle.revive_qid != ORDER_REVIVE_QUEUE:
        message = ack_message(topic, group, queue_id, offsets, handle, is_batch)
        yield from append_to_revive_log(broker, handle.revive_qid, message, now_ms)
        return None
    first = None
    for offset in offsets:
        key = OrderKey(topic, group, queue_id)
        refusal = yield from ack_orderly(broker, key, offset, handle.pop_time, consumer)
        first = first or refusal
    return first


def ack_orderly(
    broker: BrokerStates, key: OrderKey, offset: int, pop_time: int, consumer: str
) -> Conversation[Refusal | None]:
    """A message of the last batch of a queue is acknowledged, and the group's offset follows.

    What lies below that offset is left behind, and its acknowledgement changes nothing. While a
    reset waits for the next pop the group stays where the administrator moved it.
    """
    offset_key = OffsetKey(*key)
    stored = broker.offsets.offset_table.get(offset_key, NOT_FOUND)
    if offset < stored:
        return None

    try:
        step = pop_order.ack(broker.pop_order, key, offset, pop_time)
    except IllegalOffsetError:
        remark = (
            f"offset is illegal, key:{'@'.join(map(str, key))}, old:{stored}, commit:{offset}, "
            f"next:-1, /{consumer}"
        )
        return Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)

    if step.result is not None and offset_key not in broker.offsets.reset_offset_table:
        yield Carry(broker.offsets, commit_offset(broker.offsets, offset_key, step.result))
    yield Carry(broker.pop_order, step)
    return None


def change_message_invisible_time(
    broker: BrokerStates,
    queue: TopicQueue,
    group: Group,
    offset: int,
    extra_info: str | None,
    invisible_time: int,
    consumer: str,
    now_ms: int,
) -> Conversation[Answer]:
    """Request 200053. The answer is what the message's new handle is made of.

    Raises HandleError where the message is there and the handle cannot be read.
    """
    topic, queue_id = queue
    refusal = check_ack_queue(broker.metadata, topic, queue_id, consumer)
    if refusal:
        return Refusal(refusal.code, refusal.remark, NO_POP)
    span: Span = yield ReadSpan(topic, queue_id)
    if not span.min <= offset < span.max:
        return Refusal(ResponseCode.NO_MESSAGE, NOT_SET, NO_POP)

    handle = parse_handle(extra_info)
    event = ChangeInvisibleTime(topic, group, queue_id, offset, handle, invisible_time)
    if handle.revive_qid == ORDER_REVIVE_QUEUE:
        return (yield from _change_orderly(broker, event, now_ms))
    return (yield from change_check_point(broker, event, now_ms))


def change_check_point(
    broker: BrokerStates, event: ChangeInvisibleTime, now_ms: int
) -> Conversation[Answer]:
    """A message gets a checkpoint of its own, and is acknowledged in its old one."""
    handle = event.handle
    check_point, ack_of_old = pop.change_invisible_time(event, now_ms)
    if is_too_long(broker.config, event.invisible_time):
        return Answer(ResponseCode.SYSTEM_ERROR, NOT_SET, NO_POP)
    is_stored = yield from append_to_revive_log(
        broker, handle.revive_qid, check_point, now_ms, event
    )
    if not is_stored:
        return Answer(ResponseCode.SYSTEM_ERROR, NOT_SET, NO_POP)
    # In this order: a crash in between repeats the message, and does not lose it.
    yield from append_to_revive_log(broker, handle.revive_qid, ack_of_old, now_ms)
    return _changed(check_point.key.pop_time, event.invisible_time, handle.revive_qid)


def _change_orderly(
    broker: BrokerStates, event: ChangeInvisibleTime, now_ms: int
) -> Conversation[Answer]:
    key = OrderKey(event.topic, event.group, event.queue_id)
    if event.offset < broker.offsets.offset_table.get(OffsetKey(*key), NOT_FOUND):
        return Answer(remark=NOT_SET, ext_fields=NO_POP)  # it is acknowledged
    pop_time = event.handle.pop_time
    next_visible_time = now_ms + event.invisible_time
    yield Carry(
        broker.pop_order,
        pop_order.change_invisible_time(
            broker.pop_order, key, event.offset, pop_time, next_visible_time
        ),
    )
    return _changed(pop_time, next_visible_time - pop_time, ORDER_REVIVE_QUEUE)


def _changed(pop_time: int, invisible_time: int, revive_qid: int) -> Answer:
    fields = {
        "popTime": str(pop_time),
        "invisibleTime": str(invisible_time),
        "reviveQid": str(revive_qid),
    }
    return Answer(remark=NOT_SET, ext_fields=fields)
