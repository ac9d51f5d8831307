"""Pops as conversations, and what else asks for messages that are popped: notifications, polling
infos and peeks.

A pop goes from queue to queue until it has what it wants. Of each it reads from the group's
offset on, and leaves a checkpoint before that offset moves; a pop in order blocks the queue
instead, whose offset stays (`pop_order`). One that finds nothing is held (`pop_polling`).

Facts: PopMessageProcessor.java, NotificationProcessor.java, PollingInfoProcessor.java,
PeekMessageProcessor.java (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqspec.core import pop_order
from mqspec.core.ack_message import NO_POP, append_to_revive_log
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import (
    Carry,
    Conversation,
    Count,
    Get,
    HoldPop,
    NextReviveQueue,
    NotifyPops,
    ReadSpan,
)
from mqspec.core.extra_info import (
    ORDER_REVIVE_QUEUE,
    ReceiptHandle,
    msg_offset_info,
    order_count_info,
    pop_retry_topic,
    start_offset_info,
    topic_flag,
)
from mqspec.core.group import SubscriptionData
from mqspec.core.log import GetMessageStatus, GetResult, Span, TopicQueue
from mqspec.core.offset_commit import (
    NOT_FOUND,
    OffsetKey,
    commit_offset,
    query_then_erase_reset_offset,
)
from mqspec.core.pop import (
    Places,
    Pop,
    Popped,
    brought_by,
    check_peek,
    check_pop,
    init_offset,
    peek_places,
    places,
    pop_message,
    retry_message,
)
from mqspec.core.pop_order import OrderInfo, OrderKey
from mqspec.core.pop_polling import ALL_QUEUES, PollingKey, PollingResult
from mqspec.core.record import Record, decode_record, encode_record, queue_offset_of
from mqspec.core.response import NOT_SET, Answer, Refusal, ResponseCode
from mqspec.core.types import Group, Topic

_NO_NOTIFICATION: Final = {"hasMsg": "false", "pollingFull": "false"}

_MOVED_OF_A_PEEK: Final = frozenset(
    {GetMessageStatus.OFFSET_TOO_SMALL, GetMessageStatus.OFFSET_OVERFLOW_BADLY}
)
_MOVED: Final = _MOVED_OF_A_PEEK | {GetMessageStatus.OFFSET_FOUND_NULL}
"""A read that began where nothing is begins again where there is something."""

_PASSED: Final = frozenset(
    {
        GetMessageStatus.NO_MATCHED_MESSAGE,
        GetMessageStatus.OFFSET_FOUND_NULL,
        GetMessageStatus.MESSAGE_WAS_REMOVING,
    }
)
"""What is left behind, as there is nothing that the group wants."""

_POLLED: Final[Mapping[PollingResult, ResponseCode]] = {
    PollingResult.POLLING_FULL: ResponseCode.POLLING_FULL,
    PollingResult.POLLING_TIMEOUT: ResponseCode.POLLING_TIMEOUT,
    PollingResult.NOT_POLLING: ResponseCode.POLLING_TIMEOUT,
}
"""How a pop is answered that found nothing and is not held."""


# Pops


@dataclass(slots=True)
class Reading:
    """A pop as it goes from queue to queue."""

    pop: Pop
    wanted: SubscriptionData
    revive_qid: int
    pop_time: int  # ms
    records: list[bytes] = field(default_factory=list)
    rest_num: int = 0  # messages that are there and were not given
    start_offsets: list[str] = field(default_factory=list)
    msg_offsets: list[str] = field(default_factory=list)
    order_counts: list[str] = field(default_factory=list)

    @property
    def room(self) -> int:
        """How many messages more are wanted."""
        return self.pop.max_msg_nums - len(self.records)

    def fields(self) -> dict[str, str]:
        """The fields of the answer."""
        fields = {
            "popTime": str(self.pop_time),
            "invisibleTime": str(self.pop.invisible_time),
            "reviveQid": str(self.revive_qid),
            "restNum": str(self.rest_num),
            "startOffsetInfo": ";".join(self.start_offsets),
            "msgOffsetInfo": ";".join(self.msg_offsets),
        }
        if self.pop.order:
            fields["orderCountInfo"] = ";".join(self.order_counts)
        return fields

    def tell(self, popped: Popped) -> None:
        """The answer tells where these messages are."""
        topic, queue_id = popped.topic, popped.queue_id
        self.start_offsets.append(start_offset_info(topic, queue_id, popped.start_offset))
        self.msg_offsets.append(msg_offset_info(topic, queue_id, popped.offsets))


def pop_messages(
    broker: BrokerStates, event: Pop, token: Hashable, random_q: int, now_ms: int
) -> Conversation[Answer | None]:
    """Request 200050, also one that was held. None where it is held, under the shell's `token`.
    `random_q` is a random number below 100."""
    checked = check_pop(broker.metadata, broker.config, event, now_ms)
    wanted = yield Carry(broker.metadata, checked)
    for brought in brought_by(event, wanted, is_v2=broker.config.enable_retry_topic_v2):
        yield Carry(broker.brought, broker.brought.note(event.group, brought, now_ms))
    if isinstance(wanted, Refusal):
        return Answer(wanted.code, wanted.remark, {**NO_POP, "restNum": "0"})
    if event.max_msg_nums < 0:
        remark = f"the field maxMsgNums is {event.max_msg_nums}"
        return Answer(ResponseCode.SYSTEM_ERROR, remark)

    revive_qid = ORDER_REVIVE_QUEUE if event.order else (yield NextReviveQueue())
    reading = Reading(event, wanted, revive_qid, now_ms)
    yield from _read(broker, reading, places(broker.metadata, broker.config, event, random_q))

    key = PollingKey(event.topic, event.group, max(event.queue_id, ALL_QUEUES))
    code, remark = ResponseCode.SUCCESS, GetMessageStatus.FOUND
    is_held = False
    if not reading.records:
        result: PollingResult = yield HoldPop(
            "pops", token, key, event.born_time, event.poll_time, wanted
        )
        is_held = result is PollingResult.POLLING_SUC
        code = _POLLED.get(result, code)
        remark = GetMessageStatus.NO_MESSAGE_IN_QUEUE
    if reading.rest_num > 0:
        yield NotifyPops(key)
    if is_held:
        return None
    return Answer(code, remark, reading.fields(), b"".join(reading.records))


def _read(broker: BrokerStates, reading: Reading, where: Places) -> Conversation[None]:
    for queue in where.first:
        yield from pop_queue(broker, reading, queue)
    if reading.room > 0:
        for queue in where.if_not_full:
            yield from pop_queue(broker, reading, queue)


def pop_queue(broker: BrokerStates, reading: Reading, place: TopicQueue) -> Conversation[None]:
    """What one queue has goes to `reading`, and the group is moved behind it."""
    event, now_ms = reading.pop, reading.pop_time
    topic, queue_id = place
    queue: Span = yield ReadSpan(topic, queue_id)

    # Where the group is: where it begins, or where an administrator moved it.
    key, order_key = OffsetKey(topic, event.group, queue_id), OrderKey(topic, event.group, queue_id)
    initial = init_offset(broker.offsets, key, event.init_mode, queue)
    offset: int = yield Carry(broker.offsets, initial)
    reset = yield Carry(broker.offsets, query_then_erase_reset_offset(broker.offsets, key))
    if reset is not None:
        offset = reset
        yield Carry(broker.offsets, commit_offset(broker.offsets, key, offset))
        yield Carry(broker.pop_order, pop_order.clear_block(broker.pop_order, order_key))

    if event.order and pop_order.is_blocked(broker.pop_order, order_key, event.attempt_id, now_ms):
        return  # what is behind it is nothing to wake others for
    if reading.room <= 0:
        reading.rest_num += queue.max - offset
        return

    found: GetResult = yield Get(topic, queue_id, offset, reading.room, reading.wanted)
    if found.status in _MOVED:
        offset = found.next_begin_offset
        yield Carry(broker.offsets, commit_offset(broker.offsets, key, offset))
        found = yield Get(topic, queue_id, offset, reading.room, reading.wanted)

    if found.records or found.status in _PASSED:
        offsets = tuple(map(queue_offset_of, found.records))
        popped = Popped(topic, queue_id, offset, offsets, found.next_begin_offset)
        if event.order:
            yield from _block(broker, reading, order_key, popped)
        elif not (yield from _leave_check_point(broker, reading, popped)):
            return

    if found.records:
        size = sum(map(len, found.records))
        yield Count("got", (topic, event.group), len(found.records), size)
    reading.rest_num += found.max_offset - found.next_begin_offset
    if topic == event.topic:
        reading.records += found.records
    else:
        reading.records += (_retried(broker, reading, offset, each) for each in found.records)


def _leave_check_point(
    broker: BrokerStates, reading: Reading, popped: Popped
) -> Conversation[bool]:
    """Leave a checkpoint, then move the group's offset: the other way round, what a crash between
    them hits would be lost (POP-002). Whether that is done."""
    step = pop_message(popped, reading.pop, reading.pop_time, broker.config.broker_name)
    if step.result:
        is_stored = yield from append_to_revive_log(
            broker, reading.revive_qid, step.result, reading.pop_time, popped
        )
        if not is_stored:
            return False
    yield Carry(broker.offsets, step)
    if popped.offsets:
        reading.tell(popped)
    return True


def _block(
    broker: BrokerStates, reading: Reading, key: OrderKey, popped: Popped
) -> Conversation[None]:
    """Block the queue; the group's offset stays where the messages begin."""
    offset = popped.next_begin_offset
    if popped.offsets:
        offset = popped.start_offset
        batch = OrderInfo(
            reading.pop_time,
            reading.pop.invisible_time,
            popped.offsets,
            last_consume_timestamp=reading.pop_time,
            attempt_id=reading.pop.attempt_id,
        )
        counts = yield Carry(broker.pop_order, pop_order.pop(broker.pop_order, key, batch))
        reading.order_counts.append(order_count_info(key.topic, key.queue_id, counts))
        reading.tell(popped)
    yield Carry(broker.offsets, commit_offset(broker.offsets, OffsetKey(*key), offset))


def _retried(broker: BrokerStates, reading: Reading, start_offset: int, data: bytes) -> bytes:
    """A record of a retry topic as it is answered."""
    record = decode_record(data, check_crc=False)
    if not isinstance(record, Record):
        return data
    handle = ReceiptHandle(
        start_offset,
        reading.pop_time,
        reading.pop.invisible_time,
        reading.revive_qid,
        topic_flag(record.topic),
        broker.config.broker_name,
        record.queue_id,
        record.queue_offset,
    )
    actual = broker.config.pop_response_return_actual_retry_topic
    return encode_record(retry_message(record, reading.pop.topic, handle, actual))


def not_popped(broker: BrokerStates, key: OffsetKey) -> Conversation[Span]:
    """What a group has not popped of a queue: from its offset on, or from the first message."""
    queue: Span = yield ReadSpan(key.topic, key.queue_id)
    offset = broker.offsets.offset_table.get(key, NOT_FOUND)
    return Span(offset if offset >= 0 else queue.min, queue.max)


# Notifications and polling infos


@dataclass(frozen=True, slots=True)
class Notification:
    """A consumer asks whether there is something to pop."""

    topic: Topic
    group: Group
    queue_id: int  # below 0: any
    poll_time: int  # ms: how long to wait for that
    born_time: int  # ms
    order: bool
    attempt_id: str | None
    consumer: str  # host:port


def notification(
    broker: BrokerStates, event: Notification, token: Hashable, now_ms: int
) -> Conversation[Answer | None]:
    """Request 200054. None where it is held, under the shell's `token`, while there is nothing."""
    refusal = yield from _refused(broker, event.topic, event.group, event, now_ms)
    if refusal:
        return Answer(refusal.code, refusal.remark, _NO_NOTIFICATION)

    has_msg = False
    for topic, queue_id in _noticed(broker, event):
        key = OrderKey(topic, event.group, queue_id)
        if event.order and pop_order.is_blocked(broker.pop_order, key, event.attempt_id, now_ms):
            continue
        offset, end = yield from not_popped(broker, OffsetKey(*key))
        if end > offset:
            has_msg = True
            break

    result = None
    if not has_msg:
        polling_key = PollingKey(event.topic, event.group, max(event.queue_id, ALL_QUEUES))
        result = yield HoldPop(
            "notifications", token, polling_key, event.born_time, event.poll_time, None
        )
        if result is PollingResult.POLLING_SUC:
            return None
    fields = {
        "hasMsg": str(has_msg).lower(),
        "pollingFull": str(result is PollingResult.POLLING_FULL).lower(),
    }
    return Answer(remark=NOT_SET, ext_fields=fields)


def _noticed(broker: BrokerStates, event: Notification) -> Iterator[TopicQueue]:
    """The queues in which a message would be something to pop."""
    retry = pop_retry_topic(event.topic, event.group, broker.config.enable_retry_topic_v2)
    for name in (event.topic, retry):
        config = broker.metadata.topic_config_table.get(name)
        if name == event.topic and event.queue_id >= 0:
            yield name, event.queue_id
        elif config:
            yield from ((name, queue) for queue in range(config.read_queue_nums))


@dataclass(frozen=True, slots=True)
class Peek:
    """Somebody looks at what a group could pop, or how many of its pops are held."""

    topic: Topic
    group: Group
    queue_id: int  # below 0: any
    consumer: str  # host:port
    max_msg_nums: int = 0


def polling_info(
    broker: BrokerStates, event: Peek, polling_num: int, now_ms: int
) -> Conversation[Answer]:
    """Request 200055. How many pops are held."""
    refusal = yield from _refused(broker, event.topic, event.group, event, now_ms)
    if refusal:
        return Answer(refusal.code, refusal.remark, {"pollingNum": "0"})
    return Answer(remark=NOT_SET, ext_fields={"pollingNum": str(polling_num)})


def _refused(
    broker: BrokerStates, topic: Topic, group: Group, event: Notification | Peek, now_ms: int
) -> Conversation[Refusal | None]:
    step = check_peek(
        broker.metadata, broker.config, topic, event.queue_id, group, event.consumer, now_ms
    )
    refusal: Refusal | None = yield Carry(broker.metadata, step)
    return refusal


ROLLED_BACK: Final = Answer(remark=NOT_SET)
"""The answer to request 200056. It brings what a store of the option popConsumerKVServiceEnable
holds, which is off and not covered, to the revive log: there is nothing to bring."""


# Peeks


def peek_message(
    broker: BrokerStates, event: Peek, random_q: int, now_ms: int
) -> Conversation[Answer]:
    """Request 200052. Messages from the group's offset on, whatever it wants of the topic; nothing
    of the group changes (POP-046). `random_q` is a random number below 100."""
    refusal = yield from _refused(broker, event.topic, event.group, event, now_ms)
    if refusal:
        return Answer(refusal.code, refusal.remark, {**NO_POP, "restNum": "0"})
    if event.max_msg_nums < 0:
        remark = f"the field maxMsgNums is {event.max_msg_nums}"
        return Answer(ResponseCode.SYSTEM_ERROR, remark)

    records: list[bytes] = []
    rest_num = 0
    where = peek_places(
        broker.metadata, broker.config, event.topic, event.group, event.queue_id, random_q
    )
    rest_num += yield from _peek_queues(broker, event, where.first, records)
    if len(records) < event.max_msg_nums:
        rest_num += yield from _peek_queues(broker, event, where.if_not_full, records)

    fields = {**NO_POP, "restNum": str(rest_num)}
    if not records:
        status = GetMessageStatus.NO_MESSAGE_IN_QUEUE
        return Answer(ResponseCode.PULL_NOT_FOUND, status, fields)
    yield Count("got", (event.topic, event.group), len(records), sum(map(len, records)))
    return Answer(ResponseCode.SUCCESS, GetMessageStatus.FOUND, fields, b"".join(records))


def _peek_queues(
    broker: BrokerStates, event: Peek, queues: Sequence[TopicQueue], records: list[bytes]
) -> Conversation[int]:
    """Add what there is room for; how many messages the group has not popped of the queues, also
    those that are added."""
    rest_num = 0
    for topic, queue_id in queues:
        offset, end = yield from not_popped(broker, OffsetKey(topic, event.group, queue_id))
        room = event.max_msg_nums - len(records)
        if room > 0:
            found: GetResult = yield Get(topic, queue_id, offset, room)
            if found.status in _MOVED_OF_A_PEEK:
                found = yield Get(topic, queue_id, found.next_begin_offset, room)
            records += found.records
        rest_num += end - offset
    return rest_num
