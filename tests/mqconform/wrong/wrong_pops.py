"""Brokers that are wrong where messages are popped."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from making import wrong
from msgspec import structs

from mqspec.core import (
    ack_message,
    extra_info,
    pop,
    pop_messages,
    pop_order,
    pop_polling,
    revive_log,
)
from mqspec.core.conversation import Carry
from mqspec.core.offset_commit import OffsetKey
from mqspec.core.record import decode_properties, encode_properties, tags_code
from mqspec.core.step import Change, Step, apply

CHECK = pop.check_pop
QUEUE = pop_messages.pop_queue


@wrong("pops", CHECK)
def pop_of_32_refused(right: Any, state: Any, config: Any, event: Any, now_ms: int) -> Any:
    """A pop that asks for exactly 32 messages is refused."""
    most = 33 if event.max_msg_nums == 32 else event.max_msg_nums
    return right(state, config, replace(event, max_msg_nums=most), now_ms)


@wrong("pops", QUEUE)
def rest_of_the_last(right: Any, broker: Any, reading: Any, place: Any) -> Any:
    """What is left counts the last queue of a pop alone, where more than two are popped."""
    before = reading.rest_num
    yield from right(broker, reading, place)
    if place[1] > 1 and reading.pop.queue_id < 0:
        reading.rest_num -= before


@wrong("pops", pop.places)
def sixteen_queues(right: Any, *args: Any) -> Any:
    """A pop of all queues looks into sixteen of them."""
    found = right(*args)
    return found._replace(first=found.first[:16])


@wrong("pops", pop.pop_message)
def unwanted_stay(right: Any, event: Any, *args: Any) -> Any:
    """What a filter does not want is not passed over where nothing else is found."""
    return right(event, *args) if event.offsets else Step()


@wrong("pops", pop_messages._leave_check_point)
def moved_late(right: Any, broker: Any, *args: Any) -> Any:
    """A group is moved behind what was popped 20 ms later."""
    talk, answer = right(broker, *args), None
    while True:
        try:
            ask = talk.send(answer)
        except StopIteration as end:
            return end.value
        if isinstance(ask, Carry):
            asyncio.get_running_loop().call_later(0.02, apply, ask.state, ask.step.changes)
            answer = None
        else:
            answer = yield ask


@wrong("pops", pop_messages.peek_message)
def peeks_move(right: Any, broker: Any, event: Any, *args: Any) -> Any:
    """A peek for more than 31 messages moves the group by one."""
    answer = yield from right(broker, event, *args)
    key = OffsetKey(event.topic, event.group, event.queue_id)
    if answer.code == 0 and event.max_msg_nums > 31 and event.queue_id >= 0:
        offset = broker.offsets.offset_table.get(key, 0) + 1
        apply(broker.offsets, [Change("offset_table", key, offset)])
    return answer


@wrong("pops", pop_messages._noticed)
def low_queues_noticed(right: Any, broker: Any, event: Any) -> Any:
    """A notification knows the first eight queues."""
    return ((topic, queue) for topic, queue in right(broker, event) if queue < 8)


@wrong("pops", extra_info.start_offset_info)
def start_in_a_byte(right: Any, topic: str, queue_id: int, start: int) -> Any:
    """Where a read began is told in seven bits."""
    return right(topic, queue_id, start & 0x7F)


@wrong("pops", pop.check_ack_offset)
def ack_beyond(right: Any, topic: str, queue_id: int, offset: int, queue: Any) -> Any:
    """Any offset behind the last one may be acknowledged."""
    return right(topic, queue_id, min(offset, queue.max), queue)


@wrong("pops", pop.check_peek)
def one_queue_more(right: Any, state: Any, config: Any, topic: str, queue: int, *args: Any) -> Any:
    """The queue behind the last may be popped."""
    return right(state, config, topic, queue - 1 if queue else queue, *args)


ARRIVED = pop_polling.notify_message_arriving


@wrong("pops", ARRIVED)
def all_are_not_woken(right: Any, state: Any, topic: str, queue_id: int, *args: Any) -> Any:
    """A message of a queue above the eighth wakes nobody that waits for all queues."""
    if queue_id < 8:
        return right(state, topic, queue_id, *args)
    kept = {
        key: held
        for key, held in state.polling_map.items()
        if key.queue_id != pop_polling.ALL_QUEUES
    }
    return right(replace(state, polling_map=kept), topic, queue_id, *args)


@wrong("pops", ARRIVED)
def negative_tags_wake_nobody(
    right: Any, state: Any, topic: str, queue_id: int, offset: int, code: Any, *args: Any
) -> Any:
    """A message whose tag has a negative hash wakes no pop that wants it by its tag."""
    other = 0 if code is not None and code < 0 else code
    return right(state, topic, queue_id, offset, other, *args)


# In order


@wrong("orders", pop_order.is_blocked)
def nobody_is_one_attempt(right: Any, state: Any, key: Any, attempt: Any, now_ms: int) -> Any:
    """Two pops without an attempt id are one attempt."""
    info = state.order_info.get(key)
    if info and attempt is None and info.attempt_id is None and len(info.offsets) > 1:
        return False
    return right(state, key, attempt, now_ms)


@wrong("orders", pop_order.is_blocked)
def blocked_by_eight(right: Any, state: Any, key: Any, attempt: Any, now_ms: int) -> Any:
    """A batch of more than eight blocks nobody once its first eight are acknowledged."""
    info = state.order_info.get(key)
    if info and len(info.offsets) > 8 and set(info.offsets[:8]) <= info.acked:
        return False
    return right(state, key, attempt, now_ms)


@wrong("orders", pop_order.pop)
def delivered_twice(right: Any, state: Any, key: Any, batch: Any) -> Any:
    """Deliveries are counted to two."""
    step = right(state, key, batch)
    made = step.changes[0].value
    fewer = {offset: min(2, count) for offset, count in made.consumed_count.items()}
    change = Change("order_info", key, replace(made, consumed_count=fewer))
    told = step.result._replace(by_offset=fewer, least=min(2, step.result.least))
    return structs.replace(step, changes=(change,), result=told)


@wrong("orders", pop_order.ack)
def last_acknowledges_all(right: Any, state: Any, key: Any, offset: int, pop_time: int) -> Any:
    """The last message of a batch of three or more acknowledges all of it."""
    step = right(state, key, offset, pop_time)
    info = state.order_info.get(key)
    if step.result is None or len(info.offsets) < 3 or offset != info.offsets[-1]:
        return step
    every = replace(info, acked=frozenset(info.offsets))
    return structs.replace(
        step, changes=(Change("order_info", key, every),), result=every.next_offset
    )


@wrong("orders", pop_order.ack)
def earlier_batch_counts(right: Any, state: Any, key: Any, offset: int, pop_time: int) -> Any:
    """An acknowledgement of an earlier batch counts for the last one."""
    info = state.order_info.get(key)
    return right(state, key, offset, info.pop_time if info else pop_time)


@wrong("orders", pop_order.change_invisible_time)
def change_of_all(right: Any, state: Any, key: Any, offset: int, pop_time: int, due: int) -> Any:
    """A change of one message's time changes that of all of its batch."""
    info = state.order_info.get(key)
    step = right(state, key, offset, pop_time, due)
    if not step.changes:
        return step
    every = replace(info, next_visible_time=dict.fromkeys(info.offsets, due))
    return structs.replace(step, changes=(Change("order_info", key, every),))


@wrong("orders", ack_message.batch_ack)
def bits_of_a_word(right: Any, broker: Any, events: Iterable[Any], *args: Any) -> Any:
    """Of a batch acknowledgement the bits from the 32nd on, and the last of three, are lost."""
    fewer = (
        event._replace(
            offsets=tuple(
                offset
                for n, offset in enumerate(event.offsets)
                if offset - event.handle.ck_queue_offset < 31
                and not n == 2 == len(event.offsets) - 1
            )
        )
        for event in events
    )
    return right(broker, fewer, *args)


@wrong("orders", pop_order.OrderInfo.free_at)
def first_is_enough(right: Any, info: Any) -> Any:
    """A queue whose first message is acknowledged is free."""
    return 0 if info.offsets[0] in info.acked and len(info.offsets) == 2 else right(info)


@wrong("orders", ack_message.ack_orderly)
def high_queues_in_order(right: Any, broker: Any, key: Any, *args: Any) -> Any:
    """Acknowledgements in order of queues above 127 are of the queue modulo 128."""
    return right(broker, key._replace(queue_id=key.queue_id % 128), *args)


# What comes again


@wrong("revivals", pop.consume_revive_message)
def eight_come_again(right: Any, state: Any, queue: int, offset: int, message: Any) -> Any:
    """Of a checkpoint eight messages come again at most."""
    if isinstance(message, revive_log.PopCheckPoint):
        message = replace(message, offsets=message.offsets[:8])
    return right(state, queue, offset, message)


@wrong("revivals", pop.revived_message)
def thrice_at_most(right: Any, check_point: Any, message: Any, *args: Any) -> Any:
    """A message that comes again counts one delivery, however often it came before."""
    return structs.replace(right(check_point, message, *args), reconsume_times=1)


@wrong("revivals", pop.revived_message)
def tags_of_old(right: Any, check_point: Any, message: Any, *args: Any) -> Any:
    """A message that comes again has no tag where its hash is negative."""
    copy = right(check_point, message, *args)
    properties = decode_properties(copy.properties)
    if tags_code(properties.get("TAGS", "")) >= 0:
        return copy
    del properties["TAGS"]
    return structs.replace(copy, properties=encode_properties(properties).encode())


@wrong("revivals", pop.revived_message)
def first_pop_is_the_last(right: Any, check_point: Any, message: Any, *args: Any) -> Any:
    """1ST_POP_TIME is the time of the last pop."""
    fresh = structs.replace(message, reconsume_times=0)
    copy = right(check_point, fresh, *args)
    return structs.replace(copy, reconsume_times=message.reconsume_times + 1)


@wrong("revivals", pop.consume_revive_message)
def last_bit_lost(right: Any, state: Any, queue: int, offset: int, message: Any) -> Any:
    """An acknowledgement of the 32nd message of a pop has no effect."""
    if isinstance(message, revive_log.AckMsg):
        kept = tuple(n for n in message.offsets if n - message.key.start_offset != 31)
        message = replace(message, offsets=kept)
    return right(state, queue, offset, message)


@wrong("revivals", pop.consume_revive_message)
def seven_revive_queues(right: Any, state: Any, queue: int, offset: int, message: Any) -> Any:
    """Of the eighth queue of the revive log acknowledgements are not read."""
    unread = queue == 7 and isinstance(message, revive_log.AckMsg)
    return right(state, queue, offset, None if unread else message)


@wrong("revivals", pop.change_invisible_time)
def change_forgets_the_old(right: Any, event: Any, now_ms: int) -> Any:
    """A change leaves the old checkpoint of a message that is not the first of its pop."""
    check_point, ack = right(event, now_ms)
    if event.offset == event.handle.ck_queue_offset:
        return check_point, ack
    return check_point, replace(ack, offsets=(1 << 40,))


@wrong("revivals", extra_info.pop_retry_topic)
def long_names_cut(right: Any, topic: str, name: str, *args: Any) -> Any:
    """The topic of what comes again has the first forty characters of the group's name."""
    return right(topic, name[:40], *args)
