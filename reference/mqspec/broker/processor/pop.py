"""POP: 200050, 200051, 200151 and 200053 to 200056 (PopMessageProcessor.java,
AckMessageProcessor.java, ChangeInvisibleTimeProcessor.java, NotificationProcessor.java,
PollingInfoProcessor.java, 5.3.3)."""

from __future__ import annotations

import random
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mqspec.broker.carrying import carry
from mqspec.broker.pop_polling import HeldPop
from mqspec.broker.processor.pop_revive import append_to_revive_log
from mqspec.broker.processor.pulling import is_wanted_record
from mqspec.core import pop_order
from mqspec.core.extra_info import (
    ORDER_REVIVE_QUEUE,
    HandleError,
    ReceiptHandle,
    msg_offset_info,
    order_count_info,
    parse_handle,
    pop_retry_topic,
    real_topic,
    start_offset_info,
    topic_flag,
)
from mqspec.core.group import SubscriptionData
from mqspec.core.java import INT_BITS, LONG_BITS, java_number
from mqspec.core.log import GetMessageStatus, Span, TopicQueue
from mqspec.core.offset_commit import OffsetKey, commit_offset, query_then_erase_reset_offset
from mqspec.core.pop import (
    ChangeInvisibleTime,
    Places,
    Pop,
    Popped,
    ack_message,
    change_invisible_time,
    check_ack_offset,
    check_ack_queue,
    check_peek,
    check_pop,
    init_offset,
    is_too_long,
    places,
    pop_message,
    retry_message,
)
from mqspec.core.pop_order import (
    IllegalOffsetError,
    OrderInfo,
    OrderKey,
    is_blocked,
)
from mqspec.core.pop_polling import ALL_QUEUES, PollingKey, PollingResult
from mqspec.core.record import Record, decode_record, encode_record, queue_offset_of
from mqspec.core.response import NOT_SET, Refusal, ResponseCode
from mqspec.core.subscription import ALL, TAG, is_matched_by_consume_queue
from mqspec.core.types import Group, Topic
from mqspec.service import clock_ms, refused
from mqspec.transport import Connection
from mqspec.wire.bodies import BodyError, loads
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError, boolean, integer, long, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

NO_POP: Final = {"popTime": "0", "invisibleTime": "0", "reviveQid": "0"}
_NO_NOTIFICATION: Final = {"hasMsg": "false", "pollingFull": "false"}

# A read that began where nothing is begins again where there is something.
_MOVED: Final = frozenset(
    {
        GetMessageStatus.OFFSET_TOO_SMALL,
        GetMessageStatus.OFFSET_OVERFLOW_BADLY,
        GetMessageStatus.OFFSET_FOUND_NULL,
    }
)
# What is left behind, as there is nothing that the group wants.
_PASSED: Final = frozenset(
    {
        GetMessageStatus.NO_MATCHED_MESSAGE,
        GetMessageStatus.OFFSET_FOUND_NULL,
        GetMessageStatus.MESSAGE_WAS_REMOVING,
    }
)


# Pop


def pop_messages(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> RemotingCommand | None:
    """200050. None where the pop is held."""
    return _pop(broker, connection, request, _born_time(request))


def _born_time(request: RemotingCommand) -> int:
    """When a request says that it was made, ms; now, where it says nothing, or 0."""
    is_said = request.ext_fields.get("bornTime", "0") != "0"
    return long(request, "bornTime", 0) if is_said else clock_ms()


def pop_again(broker: Broker, held: HeldPop) -> RemotingCommand | None:
    """A held pop, once more."""
    return _pop(broker, held.connection, held.request, held.born_time)


def _pop(
    broker: Broker, connection: Connection, request: RemotingCommand, born_time: int
) -> RemotingCommand | None:
    pop = Pop(
        group=text(request, "consumerGroup"),
        topic=text(request, "topic"),
        queue_id=integer(request, "queueId", 0),
        max_msg_nums=integer(request, "maxMsgNums", 0),
        invisible_time=long(request, "invisibleTime", 0),
        poll_time=long(request, "pollTime", 0),
        born_time=born_time,
        init_mode=integer(request, "initMode", 0),
        exp_type=request.ext_fields.get("expType", TAG),
        exp=request.ext_fields.get("exp", ""),
        order=boolean(request, "order"),
        attempt_id=request.ext_fields.get("attemptId"),
        consumer=connection.peer,
    )
    now_ms = clock_ms()
    step = check_pop(broker.metadata, broker.config, pop, now_ms)
    wanted = carry(broker, "metadata", step).result
    if isinstance(wanted, Refusal):
        return request.response(wanted.code, wanted.remark, {**NO_POP, "restNum": "0"})
    assert isinstance(wanted, SubscriptionData)
    broker.brought.note(pop.group, pop.topic, now_ms)
    is_v2 = broker.config.enable_retry_topic_v2
    broker.brought.note(pop.group, pop_retry_topic(pop.topic, pop.group, is_v2), now_ms)
    if pop.max_msg_nums < 0:
        raise HeaderError(f"the field maxMsgNums is {pop.max_msg_nums}")
    revive_qid = ORDER_REVIVE_QUEUE if pop.order else broker.next_revive_qid()
    reading = _Reading(broker, pop, wanted, revive_qid, now_ms)
    random_q = random.randrange(100)
    reading.read(places(broker.metadata, broker.config, pop, random_q))
    key = PollingKey(pop.topic, pop.group, max(pop.queue_id, ALL_QUEUES))
    code: ResponseCode | None = ResponseCode.SUCCESS
    remark = GetMessageStatus.FOUND
    if not reading.records:
        held = HeldPop(connection, request, key, born_time, pop.poll_time)
        code = _POLLED[broker.pops.polling(held, wanted)]
        remark = GetMessageStatus.NO_MESSAGE_IN_QUEUE
    if reading.rest_num > 0:
        broker.pops.notify(key)
    if code is None:
        return None
    return request.response(code, remark, reading.fields(), b"".join(reading.records))


_POLLED: Final[Mapping[PollingResult, ResponseCode | None]] = {
    PollingResult.POLLING_SUC: None,
    PollingResult.POLLING_FULL: ResponseCode.POLLING_FULL,
    PollingResult.POLLING_TIMEOUT: ResponseCode.POLLING_TIMEOUT,
    PollingResult.NOT_POLLING: ResponseCode.POLLING_TIMEOUT,
}


@dataclass(slots=True)
class _Reading:
    """A pop as it goes from queue to queue."""

    broker: Broker
    pop: Pop
    wanted: SubscriptionData
    revive_qid: int
    pop_time: int  # ms
    records: list[bytes] = field(default_factory=list)
    rest_num: int = 0  # messages that are there and were not given
    start_offsets: list[str] = field(default_factory=list)
    msg_offsets: list[str] = field(default_factory=list)
    order_counts: list[str] = field(default_factory=list)

    def fields(self) -> dict[str, str]:
        """Of the answer."""
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

    def read(self, where: Places) -> None:
        """Read queues."""
        for queue in where.first:
            self._read(queue)
        if self._room > 0:
            for queue in where.if_not_full:
                self._read(queue)

    @property
    def _room(self) -> int:
        return self.pop.max_msg_nums - len(self.records)

    def _read(self, place: TopicQueue) -> None:
        topic, queue_id = place
        broker, store = self.broker, self.broker.store
        queue = _span(broker, topic, queue_id)
        key = OffsetKey(topic, self.pop.group, queue_id)
        step = init_offset(broker.offsets, key, self.pop.init_mode, queue)
        offset = carry(broker, "offsets", step).result
        order_key = OrderKey(topic, self.pop.group, queue_id)
        reset = carry(broker, "offsets", query_then_erase_reset_offset(broker.offsets, key)).result
        if reset is not None:
            offset = reset
            carry(broker, "offsets", commit_offset(broker.offsets, key, offset))
            carry(broker, "pop_order", pop_order.clear_block(broker.pop_order, order_key))
        if self.pop.order and is_blocked(
            broker.pop_order, order_key, self.pop.attempt_id, self.pop_time
        ):
            return  # what is behind it is nothing to wake others for
        if self._room <= 0:
            self.rest_num += queue.max - offset
            return
        wanted = self.wanted
        matches = (
            None if wanted.sub_string == ALL else partial(is_matched_by_consume_queue, wanted),
            None if wanted.expression_type == TAG else partial(is_wanted_record, wanted),
        )
        found = store.get(topic, queue_id, offset, self._room, *matches)
        if found.status in _MOVED:
            offset = found.next_begin_offset
            carry(broker, "offsets", commit_offset(broker.offsets, key, offset))
            found = store.get(topic, queue_id, offset, self._room, *matches)
        if found.records or found.status in _PASSED:
            offsets = tuple(map(queue_offset_of, found.records))
            popped = Popped(topic, queue_id, offset, offsets, found.next_begin_offset)
            if not (self._order(order_key, popped) if self.pop.order else self._check(popped)):
                return
        if found.records:
            size = sum(map(len, found.records))
            broker.stats.got[topic, self.pop.group].add(len(found.records), size)
        self.rest_num += found.max_offset - found.next_begin_offset
        if topic == self.pop.topic:
            self.records += found.records
        else:
            self.records += (self._retried(offset, record) for record in found.records)

    def _check(self, popped: Popped) -> bool:
        """Leave a checkpoint, then move the group's offset. Whether that is done."""
        broker = self.broker
        step = pop_message(popped, self.pop, self.pop_time, broker.config.broker_name)
        if step.result and not append_to_revive_log(broker, self.revive_qid, step.result, popped):
            return False
        carry(broker, "offsets", step)
        if popped.offsets:
            self._tell(popped)
        return True

    def _order(self, key: OrderKey, popped: Popped) -> bool:
        """Block the queue; the group's offset stays where the messages begin."""
        broker, offset = self.broker, popped.start_offset
        if popped.offsets:
            batch = OrderInfo(
                self.pop_time,
                self.pop.invisible_time,
                popped.offsets,
                last_consume_timestamp=self.pop_time,
                attempt_id=self.pop.attempt_id,
            )
            step = pop_order.pop(broker.pop_order, key, batch)
            carry(broker, "pop_order", step)
            self.order_counts.append(order_count_info(key.topic, key.queue_id, step.result))
            self._tell(popped)
        else:
            offset = popped.next_begin_offset
        carry(broker, "offsets", commit_offset(broker.offsets, OffsetKey(*key), offset))
        return True

    def _tell(self, popped: Popped) -> None:
        topic, queue_id = popped.topic, popped.queue_id
        self.start_offsets.append(start_offset_info(topic, queue_id, popped.start_offset))
        self.msg_offsets.append(msg_offset_info(topic, queue_id, popped.offsets))

    def _retried(self, start_offset: int, data: bytes) -> bytes:
        record = decode_record(data, check_crc=False)
        if not isinstance(record, Record):
            return data
        config = self.broker.config
        handle = ReceiptHandle(
            start_offset,
            self.pop_time,
            self.pop.invisible_time,
            self.revive_qid,
            topic_flag(record.topic),
            config.broker_name,
            record.queue_id,
            record.queue_offset,
        )
        actual = config.pop_response_return_actual_retry_topic
        return encode_record(retry_message(record, self.pop.topic, handle, actual))


def _span(broker: Broker, topic: Topic, queue_id: int) -> Span:
    store = broker.store
    return Span(store.min_offset(topic, queue_id), store.max_offset(topic, queue_id))


def not_popped(broker: Broker, key: OffsetKey) -> Span:
    """What a group has not popped of a queue: from its offset on, or from the first message."""
    queue = _span(broker, key.topic, key.queue_id)
    offset = broker.offsets.offset_table.get(key, -1)
    return Span(offset if offset >= 0 else queue.min, queue.max)


# Acknowledgement and change of invisible time


def ack(broker: Broker, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """200051. Also where it comes too late, or the group is unknown: 0."""
    topic, group = text(request, "topic"), request.ext_fields.get("consumerGroup", "null")
    queue_id, offset = integer(request, "queueId"), long(request, "offset")
    refusal = check_ack_queue(
        broker.metadata, topic, queue_id, connection.peer
    ) or check_ack_offset(topic, queue_id, offset, _span(broker, topic, queue_id))
    if refusal:
        return refused(request, refusal)
    handle = _handle(request)
    key = OrderKey(topic, group, queue_id)
    refusal = _ack(broker, key, (offset,), handle, connection.peer, is_batch=False)
    return refused(request, refusal) if refusal else request.response()


def batch_ack(broker: Broker, connection: Connection, request: RemotingCommand) -> RemotingCommand:
    """200151. Offsets that the queue does not have are passed over."""
    body = loads(request.body) if request.body else {}
    acks = body.get("acks") if isinstance(body, Mapping) else None
    if not acks:
        return request.response(ResponseCode.NO_MESSAGE)
    refusal = None
    for one in acks:
        topic, group, handle, offsets = _read_batch_ack(one, str(body.get("brokerName")))
        queue = _span(broker, topic, handle.queue_id)
        there = tuple(offset for offset in offsets if queue.min <= offset <= queue.max)
        if there:
            key = OrderKey(topic, group, handle.queue_id)
            done = _ack(broker, key, there, handle, connection.peer, is_batch=True)
            refusal = done or refusal
    return refused(request, refusal) if refusal else request.response()


def _ack(
    broker: Broker,
    key: OrderKey,
    offsets: tuple[int, ...],
    handle: ReceiptHandle,
    consumer: str,
    *,
    is_batch: bool,
) -> Refusal | None:
    if handle.revive_qid == ORDER_REVIVE_QUEUE:
        pop_time = handle.pop_time
        refusals = [_ack_orderly(broker, key, offset, pop_time, consumer) for offset in offsets]
        return next(filter(None, refusals), None)
    message = ack_message(*key, offsets, handle, is_batch)
    append_to_revive_log(broker, handle.revive_qid, message)
    return None


def _ack_orderly(
    broker: Broker, key: OrderKey, offset: int, pop_time: int, consumer: str
) -> Refusal | None:
    offset_key = OffsetKey(*key)
    old = broker.offsets.offset_table.get(offset_key, -1)
    if offset < old:
        return None
    try:
        step = pop_order.ack(broker.pop_order, key, offset, pop_time)
    except IllegalOffsetError:
        remark = (
            f"offset is illegal, key:{'@'.join(map(str, key))}, old:{old}, commit:{offset}, "
            f"next:-1, /{consumer}"
        )
        return Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)
    if step.result is not None and offset_key not in broker.offsets.reset_offset_table:
        carry(broker, "offsets", commit_offset(broker.offsets, offset_key, step.result))
    carry(broker, "pop_order", step)
    return None


def change_message_invisible_time(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> RemotingCommand:
    """200053. The answer is what the message's new handle is made of."""
    topic, group = text(request, "topic"), request.ext_fields.get("consumerGroup", "null")
    queue_id, offset = integer(request, "queueId"), long(request, "offset")
    invisible_time = long(request, "invisibleTime")
    refusal = check_ack_queue(broker.metadata, topic, queue_id, connection.peer)
    if refusal:
        return request.response(refusal.code, refusal.remark, NO_POP)
    queue = _span(broker, topic, queue_id)
    if not queue.min <= offset < queue.max:
        return request.response(ResponseCode.NO_MESSAGE, NOT_SET, NO_POP)
    handle = _handle(request)
    event = ChangeInvisibleTime(topic, group, queue_id, offset, handle, invisible_time)
    if handle.revive_qid == ORDER_REVIVE_QUEUE:
        fields = _change_orderly(broker, event)
        return request.response(ResponseCode.SUCCESS, NOT_SET, fields)
    check_point, ack_of_old = change_invisible_time(event, clock_ms())
    if is_too_long(broker.config, invisible_time) or not append_to_revive_log(
        broker, handle.revive_qid, check_point, event
    ):
        return request.response(ResponseCode.SYSTEM_ERROR, NOT_SET, NO_POP)
    append_to_revive_log(broker, handle.revive_qid, ack_of_old)
    fields = {
        "popTime": str(check_point.key.pop_time),
        "invisibleTime": str(invisible_time),
        "reviveQid": str(handle.revive_qid),
    }
    return request.response(ResponseCode.SUCCESS, NOT_SET, fields)


def _change_orderly(broker: Broker, event: ChangeInvisibleTime) -> dict[str, str]:
    key = OrderKey(event.topic, event.group, event.queue_id)
    if event.offset < broker.offsets.offset_table.get(OffsetKey(*key), -1):
        return dict(NO_POP)  # it is acknowledged
    pop_time = event.handle.pop_time
    next_visible_time = clock_ms() + event.invisible_time
    step = pop_order.change_invisible_time(
        broker.pop_order, key, event.offset, pop_time, next_visible_time
    )
    carry(broker, "pop_order", step)
    return {
        "popTime": str(pop_time),
        "invisibleTime": str(next_visible_time - pop_time),
        "reviveQid": str(ORDER_REVIVE_QUEUE),
    }


def _handle(request: RemotingCommand) -> ReceiptHandle:
    try:
        return parse_handle(request.ext_fields.get("extraInfo"))
    except HandleError as error:
        raise HeaderError(f"java.lang.IllegalArgumentException: {error}") from None


_BATCH_ACK_NAMES: Final = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}
"""Both names are read."""


def _read_batch_ack(
    entry: Mapping[str, Any], broker_name: str
) -> tuple[Topic, Group, ReceiptHandle, tuple[int, ...]]:
    try:
        values = {_BATCH_ACK_NAMES.get(name, name): value for name, value in entry.items()}
        start_offset, pop_time, invisible_time = (_long(values, n) for n in ("so", "pt", "it"))
        revive_qid, queue_id = (_long(values, name, INT_BITS) for name in ("rq", "q"))
        group, topic_flag = str(values.get("c", "null")), str(values["r"])
        handle = ReceiptHandle(
            start_offset,
            pop_time,
            invisible_time,
            revive_qid,
            topic_flag,
            broker_name,
            queue_id,
            -1,
        )
        topic = real_topic(str(values["t"]), group, topic_flag)
        offsets = tuple(start_offset + bit for bit in _bits(values["b"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BodyError(f"an acknowledgement that cannot be read: {error!r}") from None
    return topic, group, handle, offsets


def _long(values: Mapping[str, Any], name: str, bits: int = LONG_BITS) -> int:
    """A number of a body; one that is not there is 0, as Java's are before they are set."""
    value = values.get(name)
    if value is None or value == "":
        return 0
    return java_number(str(value), bits)


def _bits(bit_set: str | list[int]) -> Iterable[int]:
    """The bits of a Java BitSet that are set, ascending."""
    octets = b64decode(bit_set) if isinstance(bit_set, str) else bytes(n & 0xFF for n in bit_set)
    number = int.from_bytes(octets, "little")
    return (bit for bit in range(number.bit_length()) if number >> bit & 1)


def pop_rollback(_: Broker, __: Connection, request: RemotingCommand) -> RemotingCommand:
    """200056. It brings what a store of the option popConsumerKVServiceEnable holds, which is off
    and not covered, to the revive log: there is nothing to bring."""
    return request.response(remark=NOT_SET)


# Notification and polling info


def notification(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> RemotingCommand | None:
    """200054. Whether there is something to pop; held while there is nothing."""
    return _notify(broker, connection, request, _born_time(request))


def notify_again(broker: Broker, held: HeldPop) -> RemotingCommand | None:
    """A held notification, once more."""
    return _notify(broker, held.connection, held.request, held.born_time)


def _notify(
    broker: Broker, connection: Connection, request: RemotingCommand, born_time: int
) -> RemotingCommand | None:
    topic, group = text(request, "topic"), text(request, "consumerGroup")
    queue_id, poll_time = integer(request, "queueId", 0), long(request, "pollTime", 0)
    step = check_peek(
        broker.metadata, broker.config, topic, queue_id, group, connection.peer, clock_ms()
    )
    refusal = carry(broker, "metadata", step).result
    if refusal:
        return request.response(refusal.code, refusal.remark, _NO_NOTIFICATION)
    attempt_id = request.ext_fields.get("attemptId")
    is_order = boolean(request, "order")
    has_msg = any(
        _has_msg(broker, OrderKey(name, group, queue), is_order, attempt_id)
        for name, queue in _noticed(broker, topic, group, queue_id)
    )
    result = None
    if not has_msg:
        key = PollingKey(topic, group, max(queue_id, ALL_QUEUES))
        held = HeldPop(connection, request, key, born_time, poll_time)
        result = broker.notifications.polling(held)
        if result is PollingResult.POLLING_SUC:
            return None
    fields = {
        "hasMsg": str(has_msg).lower(),
        "pollingFull": str(result is PollingResult.POLLING_FULL).lower(),
    }
    return request.response(ResponseCode.SUCCESS, NOT_SET, fields)


def _noticed(broker: Broker, topic: Topic, group: Group, queue_id: int) -> Iterable[TopicQueue]:
    retry = pop_retry_topic(topic, group, broker.config.enable_retry_topic_v2)
    for name in (topic, retry):
        config = broker.metadata.topic_config_table.get(name)
        if name == topic and queue_id >= 0:
            yield name, queue_id
        elif config:
            yield from ((name, queue) for queue in range(config.read_queue_nums))


def _has_msg(broker: Broker, key: OrderKey, is_order: bool, attempt_id: str | None) -> bool:
    if is_order and is_blocked(broker.pop_order, key, attempt_id, clock_ms()):
        return False
    offset, end = not_popped(broker, OffsetKey(*key))
    return end > offset


def polling_info(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> RemotingCommand:
    """200055. How many pops are held."""
    topic, group = text(request, "topic"), text(request, "consumerGroup")
    queue_id = integer(request, "queueId", 0)
    step = check_peek(
        broker.metadata, broker.config, topic, queue_id, group, connection.peer, clock_ms()
    )
    refusal = carry(broker, "metadata", step).result
    if refusal:
        return request.response(refusal.code, refusal.remark, {"pollingNum": "0"})
    number = broker.pops.polling_num(PollingKey(topic, group, max(queue_id, ALL_QUEUES)))
    return request.response(ResponseCode.SUCCESS, NOT_SET, {"pollingNum": str(number)})
