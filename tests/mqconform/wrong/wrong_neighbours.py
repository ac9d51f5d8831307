"""Brokers that are wrong beside what the cases of each area show: at another size, value, order or
member. Written before anybody looked whether cases or exploration notice them."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any

from making import wrong
from msgspec import structs

from mqspec.core import (
    delay,
    group,
    kv_config,
    lock,
    long_polling,
    metadata,
    offset_commit,
    query,
    retry,
    route,
    transaction,
)
from mqspec.core.record import decode_properties, encode_properties
from mqspec.core.step import Change

FOUND_BYTES = 262_144


@wrong("locks", lock.try_lock_batch)
def renewed_first(right: Any, state: Any, event: Any, *args: int) -> Any:
    """Who renews several locks at once renews the first; the others live on from when they were
    granted."""
    before = state.mq_lock_table.get(event.group, {})
    step = right(state, event, *args)
    locks = {
        mq: before[mq]
        if mq in event.mq_set[1:] and mq in before and before[mq].client_id == event.client_id
        else entry
        for change in step.changes
        for mq, entry in change.value.items()
    }
    changes = tuple(Change(change.variable, change.key, locks) for change in step.changes)
    return structs.replace(step, changes=changes)


@wrong("routes", route.pick_topic_route)
def queues_of_the_first(right: Any, state: Any, topic: str) -> Any:
    """In a route every broker has as many queues to read as the first."""
    found = right(state, topic)
    if not found:
        return found
    first = found.queue_datas[0].read_queue_nums
    return replace(
        found, queue_datas=tuple(replace(each, read_queue_nums=first) for each in found.queue_datas)
    )


@wrong("offsets", offset_commit.clone_offset)
def zeros_are_not_cloned(right: Any, state: Any, source: str, target: str, topic: str) -> Any:
    """A clone leaves out the queues whose offset is 0."""
    step = right(state, source, target, topic)
    return structs.replace(step, changes=tuple(c for c in step.changes if c.value != 0))


@wrong("kv", kv_config.put_kv_config)
def values_of_255(right: Any, state: Any, namespace: str, key: str, value: str | None) -> Any:
    """A value is kept to its 255th character."""
    return right(state, namespace, key, value and value[:255])


@wrong("delays", delay.delivered_copy)
def last_byte_of_a_page(right: Any, message: Any) -> Any:
    """A delayed message whose body has 4,096 bytes or more comes without the last of them."""
    copy = right(message)
    if copy is None or len(copy.body) < 4096:
        return copy
    return structs.replace(copy, body=copy.body[:-1])


@wrong("transactions", transaction.next_producer)
def two_are_asked(right: Any, state: Any, producers: int) -> Any:
    """Of a producer group's members the first two are asked."""
    return right(state, min(producers, 2))


@wrong("keys", query.by_key)
def found_to_a_size(right: Any, records: Any, fields: Any) -> Any:
    """A query finds 256 KiB at most, and one message in any case."""
    sizes = list(accumulate(map(len, records)))
    few = [one for n, one in enumerate(records) if not n or sizes[n] <= FOUND_BYTES]
    return right(few, fields)


@wrong("retries", retry.consumer_send_msg_back)
def keys_lost_at_last(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """A message that is sent back for the third time loses its keys."""
    step = right(state, event, *args)
    copy = step.result
    if getattr(copy, "reconsume_times", 0) != 3:
        return step
    kept = decode_properties(copy.properties)
    kept.pop("KEYS", None)
    return structs.replace(
        step, result=structs.replace(copy, properties=encode_properties(kept).encode())
    )


@wrong("members", group.register_consumer)
def nothing_means_the_same(right: Any, state: Any, event: Any) -> Any:
    """A heartbeat that subscribes to no topic leaves the group's topics as they are."""
    wanted = event.subscriptions or None
    return right(state, replace(event, subscriptions=wanted))


@wrong("holds", long_polling.suspend_pull_request)
def later_takes_the_place(right: Any, state: Any, queue: Any, request: Any) -> Any:
    """Of two pulls that are held on a queue at one offset for one expression the later one takes
    the place of the other, where there are four or more."""
    held = state.pull_request_table.get(queue, ())
    alike = [
        one for one in held
        if (one.pull_from_this_offset, one.subscription.sub_string)
        == (request.pull_from_this_offset, request.subscription.sub_string)
    ]  # fmt: skip
    if len(alike) >= 4:
        rest = tuple(one for one in held if one is not alike[0])
        state.pull_request_table[queue] = rest
    return right(state, queue, request)


@wrong("tools", metadata.forbid_read)
def one_forbidden_topic(right: Any, state: Any, name: str, topic: str, now_ms: int) -> Any:
    """A group that is kept from reading a topic may read the one before again."""
    step = right(state, name, topic, now_ms)
    changes = tuple(
        Change(c.variable, c.key, {topic: c.value[topic]}) if c.variable == "forbidden_table" else c
        for c in step.changes
    )
    return structs.replace(step, changes=changes)


@wrong("restarts", offset_commit.persist)
def zeros_unwritten(right: Any, state: Any) -> Any:
    """An offset of 0 is not written: after a restart there is none."""
    kept = {key: offset for key, offset in state.offset_table.items() if offset}
    return right(replace(state, offset_table=kept))
