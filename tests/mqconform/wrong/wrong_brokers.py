"""Wrong brokers: the reference, each wrong in one thing, by functions that stand for its own.

What they have in common is that the mistake shows at another size, order, name, sign, broker
or load than an example's. None knows a line of a file: each takes the place of a function,
wherever mqspec has a name for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import wrong_after as wrong_after
import wrong_delays as wrong_delays
import wrong_neighbours as wrong_neighbours
import wrong_others as wrong_others
import wrong_pairs as wrong_pairs
import wrong_pops as wrong_pops
import wrong_strangers as wrong_strangers
import wrong_tools as wrong_tools
import wrong_transactions as wrong_transactions
from making import BROKERS as BROKERS
from making import CASES as CASES
from making import keeping, wrong
from msgspec import structs

from mqspec.core import (
    delay,
    group,
    index,
    kv_config,
    lock,
    log,
    long_polling,
    metadata,
    offset_commit,
    query,
    record,
    retry,
    route,
    subscription,
)
from mqspec.core.response import ResponseCode
from mqspec.core.step import Change, Step, apply
from mqspec.store.message_store import MessageStore
from mqspec.wire import bodies

# Offsets

COMMIT = offset_commit.update_consumer_offset


@wrong("offsets", COMMIT)
def commit_high_queues(right: Any, state: Any, event: Any, **known: bool) -> Any:
    """Offsets of queues 8 and up are stored under queue id mod 8."""
    low = None if event.queue_id is None else event.queue_id % 8
    return right(state, replace(event, queue_id=low), **known)


@wrong("offsets", offset_commit.commit_offset)
def pulled_commit_high_queues(right: Any, state: Any, key: Any, offset: int) -> Any:
    """Offsets that a pull carries are stored under queue id mod 8."""
    return right(state, key._replace(queue_id=key.queue_id % 8), offset)


@wrong("offsets", COMMIT)
def offset_32_bits(right: Any, state: Any, event: Any, **known: bool) -> Any:
    """Offsets keep their lower 32 bits."""
    low = None if event.offset is None else event.offset & 0xFFFFFFFF
    return right(state, replace(event, offset=low), **known)


@wrong("offsets", COMMIT)
def second_topic_with_first(right: Any, state: Any, event: Any, **known: bool) -> Any:
    """A commit of a group also moves its least other topic, at queues above 2."""
    step = right(state, event, **known)
    others = sorted(
        key for key in state.offset_table
        if key.group == event.group and key.topic != event.topic and key.queue_id == event.queue_id
    )  # fmt: skip
    if not step.changes or not others or event.queue_id < 3:
        return step
    return structs.replace(
        step, changes=(*step.changes, Change("offset_table", others[0], event.offset))
    )


@wrong("offsets", COMMIT)
def commit_equal_ignored(right: Any, state: Any, event: Any, **known: bool) -> Any:
    """An offset of exactly 0 is not stored where there is one."""
    key = offset_commit.OffsetKey(event.topic, event.group, event.queue_id)
    if event.offset == 0 and key in state.offset_table:
        return Step(result=offset_commit.Answer(ResponseCode.SUCCESS))
    return right(state, event, **known)


@wrong("offsets", offset_commit.query_consumer_offset)
def query_off_by_sign(right: Any, state: Any, key: Any, **known: bool) -> Any:
    """An offset of 2^31 and above is read as a negative 32-bit number: none."""
    answer = right(state, key, **known)
    if answer.offset is not None and 1 << 31 <= answer.offset < 1 << 32:
        return offset_commit.Answer(ResponseCode.QUERY_NOT_FOUND)
    return answer


@wrong("offsets", offset_commit.clone_offset)
def clone_keeps_old(right: Any, state: Any, source: str, target: str, topic: str) -> Any:
    """A clone leaves those of the target that the source has not."""
    step = right(state, source, target, topic)
    kept = tuple(change for change in step.changes if isinstance(change.value, int))
    return structs.replace(step, changes=kept)


@wrong("offsets", COMMIT)
def last_queue_of_256(right: Any, state: Any, event: Any, **known: bool) -> Any:
    """Queue ids are kept in a byte."""
    low = None if event.queue_id is None else event.queue_id & 0xFF
    return right(state, replace(event, queue_id=low), **known)


# Messages

ARRIVED = long_polling.notify_message_arriving
MATCHED = subscription.is_matched_by_consume_queue


@wrong("holds", ARRIVED)
def wake_one(right: Any, state: Any, queue: Any, *args: Any, **known: Any) -> Any:
    """Of several pulls held on one queue one is woken."""
    step = right(state, queue, *args, **known)
    if len(step.result) < 2:
        return step
    first = step.result[0]
    rest = tuple(each for each in state.pull_request_table[queue] if each.token != first)
    return Step((Change("pull_request_table", queue, rest),), result=(first,))


@wrong("holds", ARRIVED)
def wake_by_first_tag(right: Any, state: Any, queue: Any, end: int, code: Any, *args: Any) -> Any:
    """A message with a tag whose hash is negative wakes nobody that wants it by tag."""
    return right(state, queue, end, 0 if code is not None and code < 0 else code, *args)


@wrong("holds", long_polling.suspend_pull_request)
def hold_race(right: Any, state: Any, queue: Any, request: Any) -> Any:
    """Between read and hold are 20 ms in which a message is missed."""

    def hold() -> None:
        apply(state, right(state, queue, request).changes)

    asyncio.get_running_loop().call_later(0.02, hold)
    return Step()


@wrong("messages", MessageStore.get)
def second_no_tag_filter(right: Any, store: Any, topic: str, queue: int, offset: int,
                         count: int, tags: Any = None, records: Any = None) -> Any:  # fmt: skip
    """The second broker does not filter by tag."""
    tags = None if str(store.root).endswith("b") else tags
    return right(store, topic, queue, offset, count, tags, records)


@wrong("messages", MessageStore.get)
def after_1000(right: Any, store: Any, topic: str, queue: int, offset: int,
               count: int, tags: Any = None, records: Any = None) -> Any:  # fmt: skip
    """From queue offset 1,000 on there is no tag filter."""
    return right(store, topic, queue, offset, count, None if offset >= 1000 else tags, records)


@wrong("messages", MessageStore.get)
def high_queue_first(right: Any, store: Any, topic: str, queue: int, offset: int,
                     count: int, tags: Any = None, records: Any = None) -> Any:  # fmt: skip
    """A pull of a queue above 63 gives one message less than asked for, if more than two."""
    less = count - 1 if queue > 63 and count > 2 else count
    return right(store, topic, queue, offset, less, tags, records)


@wrong("messages", bodies.decode_batch)
def batch_100(right: Any, body: bytes) -> Any:
    """Of a batch messages beyond 100 are dropped, answered OK."""
    return right(body)[:100]


@wrong("messages", bodies.decode_batch)
def batch_order(right: Any, body: bytes) -> Any:
    """A batch of more than 64 is stored in another order."""
    found = right(body)
    return [*found[64:], *found[:64]] if len(found) > 64 else found


@wrong("messages", log.check_messages)
def body_limit(right: Any, batch: Any, most: int) -> Any:
    """A body of exactly the limit is refused."""
    return right(batch, most - 1)


@wrong("messages", log.check_messages)
def body_limit_above(right: Any, batch: Any, most: int) -> Any:
    """A body of one byte more than the limit is taken."""
    return right(batch, most + 1)


@wrong("messages", log.is_batch_full)
def pull_33(right: Any, limits: Any, most: int, count: int, total: int, size: int) -> bool:
    """A pull that asks for more than 32 gets 33."""
    return bool(count > 0 and count >= min(most, 33)) or right(limits, 33, 0, total, size)


@wrong("messages", log.check_offset)
def far_beyond(right: Any, span: Any, offset: int) -> Any:
    """A pull from beyond 2^32 is told that it is at the end."""
    if span.max and offset > 1 << 32:
        return log.GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    return right(span, offset)


@wrong("messages", MATCHED)
def hash_by_absolute_value(right: Any, wanted: Any, code: int | None) -> bool:
    """Tags whose hash is negative are matched by another number."""
    return bool(right(wanted, abs(code) if code is not None else None))


@wrong("messages", subscription.build_subscription_data)
def two_tags_at_most(right: Any, topic: str, words: str, *args: Any) -> Any:
    """Of an expression's tags the last of two or more is forgotten."""
    head, bars, _ = words.rpartition("||")
    return right(topic, head if bars and head.strip(" |") else words, *args)


# Locks


@wrong("locks", lock.unlock_batch)
def unlock_all(right: Any, state: Any, event: Any) -> Any:
    """An unlock of several queues frees those of others too."""
    locks = state.mq_lock_table.get(event.group, {})
    if len(event.mq_set) < 2:
        return right(state, event)
    rest = {mq: entry for mq, entry in locks.items() if mq not in event.mq_set}
    return Step((Change("mq_lock_table", event.group, rest),))


@wrong("locks", lock.try_lock_batch)
def lock_first_64(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """Of a request for more than 64 queues the rest is granted to anybody."""
    step = right(state, event, *args)
    return keeping(step, tuple(dict.fromkeys((*step.result, *event.mq_set[64:]))))


@wrong("locks", lock.try_lock_batch)
def lock_by_queue_id(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """A member that holds one of the queues that it asks for gets all."""
    step = right(state, event, *args)
    held_one = any(
        entry.client_id == event.client_id
        for mq, entry in state.mq_lock_table.get(event.group, {}).items() if mq in event.mq_set
    )  # fmt: skip
    return keeping(step, tuple(dict.fromkeys(event.mq_set))) if held_one else step


# Members

REGISTER = group.register_consumer


@wrong("vigil", group._heard_again)
def heartbeat_no_refresh(right: Any, known: Any, now: Any) -> Any:
    """Heartbeats after the first do not keep a member alive."""
    return known


@wrong("members", REGISTER)
def notify_first_8(right: Any, state: Any, event: Any) -> Any:
    """Of a group's members the first eight are told of a change."""
    step = right(state, event)
    return structs.replace(step, sends=step.sends[:8])


@wrong("members", group.close_channel)
def closed_untold(right: Any, state: Any, channel: Any) -> Any:
    """A connection that ends is told only to the first member left."""
    step = right(state, channel)
    return structs.replace(step, sends=step.sends[:1])


@wrong("members", group.consumer_id_list)
def list_16(right: Any, state: Any, name: str) -> Any:
    """A list of members has sixteen at most."""
    ids = right(state, name)
    return ids and ids[:16]


@wrong("members", group._merge)
def equal_version_wins(right: Any, table: Any, heard: Any) -> Any:
    """A subscription of the same version replaces the one that is known."""
    older = {topic: replace(it, sub_version=it.sub_version - 1) for topic, it in table.items()}
    merged = right(older, heard)
    kept = {topic: table[topic] for topic, it in merged.items() if it is older.get(topic)}
    return {**merged, **kept}


@wrong("members", group.unregister_consumer)
def leaves_all(right: Any, state: Any, name: str, channel: Any) -> Any:
    """Who leaves one group is not told to the others of it where there are more than two."""
    step = right(state, name, channel)
    return structs.replace(step, sends=step.sends if len(step.sends) <= 2 else step.sends[:2])


# Retries and keys

SEND_BACK = retry.consumer_send_msg_back


def _with_level(step: Any, level: Callable[[int], int]) -> Any:
    if not isinstance(step.result, record.Record):
        return step
    properties = record.decode_properties(step.result.properties)
    changed = {**properties, "DELAY": str(level(int(properties.get("DELAY", "0"))))}
    encoded = record.encode_properties(changed).encode()
    return keeping(step, structs.replace(step.result, properties=encoded))


@wrong("retries", SEND_BACK)
def retry_level_cap(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """Retries never wait longer than level 5."""
    step = right(state, event, *args)
    return step if event.delay_level else _with_level(step, lambda level: min(level, 5))


@wrong("retries", SEND_BACK)
def retry_counts_once(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """A message's tries stop at 3."""
    step = right(state, event, *args)
    if not isinstance(step.result, record.Record):
        return step
    tries = min(step.result.reconsume_times, 3)
    return keeping(step, structs.replace(step.result, reconsume_times=tries))


@wrong("retries", SEND_BACK)
def asked_level_off_by_one(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """A level that the consumer asks for, above 16, is one less."""
    step = right(state, event, *args)
    return _with_level(step, lambda level: level - 1) if event.delay_level > 16 else step


@wrong("keys", index.key_hash)
def first_16_characters(right: Any, topic: str, key: str) -> int:
    """Keys are indexed by their first 16 characters."""
    return int(right(topic, key[:16]))


# KV


@wrong("kv", kv_config.delete_kv_config)
def delete_namespace(right: Any, state: Any, namespace: str, key: str) -> Any:
    """Deleting a key that is not there empties its namespace."""
    known = state.config_table.get(namespace)
    if known is None or key in known:
        return right(state, namespace, key)
    return Step((Change("config_table", namespace, {}),))


@wrong("kv", kv_config.put_kv_config)
def put_same_key(right: Any, state: Any, namespace: str, key: str, value: str | None) -> Any:
    """A namespace keeps eight keys."""
    step = right(state, namespace, key, value)
    kept = dict(list(step.changes[0].value.items())[-8:])
    return Step((Change("config_table", namespace, kept),))


# What no area explores


@wrong("members", group.consumer_id_list)
def list_8(right: Any, state: Any, name: str) -> Any:
    """A list of members has eight at most."""
    ids = right(state, name)
    return ids and ids[:8]


@wrong("members", group.close_channel)
def close_first_group(right: Any, state: Any, channel: Any) -> Any:
    """A connection that closes leaves the first of its groups."""
    mine = [name for name, it in state.consumer_table.items() if channel in it.channel_info_table]
    step = right(state, channel)
    kept = (
        each for each in step.changes if each.variable != "consumer_table" or each.key in mine[:1]
    )
    return structs.replace(step, changes=tuple(kept))


@wrong("delays", delay.delay_level)
def level_9(right: Any, properties: Any) -> int:
    """Levels above the ninth wait as long as it."""
    return min(9, int(right(properties)))


@wrong("kv", kv_config.delete_kv_config)
def delete_by_prefix(right: Any, state: Any, namespace: str, key: str) -> Any:
    """Deleting a key deletes those that begin like it."""
    known = state.config_table.get(namespace)
    if known is None:
        return Step()
    left = {name: value for name, value in known.items() if not name.startswith(key)}
    return Step((Change("config_table", namespace, left),))


@wrong("offsets", offset_commit.query_min_offset_in_all_group)
def least_of_two(right: Any, state: Any, topic: str, left_out: Any, *args: Any) -> Any:
    """The least offset is that of two groups, whatever others there are."""
    groups = sorted({key.group for key in state.offset_table if key.topic == topic})
    return right(state, topic, [*left_out, *groups[2:]], *args)


@wrong("routes", route.pick_topic_route)
def route_16(right: Any, state: Any, topic: str) -> Any:
    """A route says sixteen queues at most."""
    found = right(state, topic)
    if found is None:
        return None
    counted = (
        replace(
            each,
            read_queue_nums=min(16, each.read_queue_nums),
            write_queue_nums=min(16, each.write_queue_nums),
        )
        for each in found.queue_datas
    )
    return replace(found, queue_datas=tuple(counted))


@wrong("keys", query.by_key)
def query_last_lost(right: Any, records: Any, fields: Any) -> Any:
    """Of more than 32 messages that a query finds the newest is left out."""
    return right(records[:-1] if len(records) > 32 else records, fields)


@wrong("tools", offset_commit.reset_offset_inner)
def reset_4(right: Any, spans: Any, offset: Any) -> Any:
    """A reset moves four queues at most."""
    return right(list(spans)[:4], offset)


@wrong("tools", metadata.update_topic)
def never_fewer(right: Any, state: Any, config: Any, topic: Any, now_ms: int) -> Any:
    """A topic never gets fewer queues to read."""
    known = state.topic_config_table.get(topic.topic_name)
    least = known.read_queue_nums if known else 0
    asked = replace(topic, read_queue_nums=max(least, topic.read_queue_nums))
    return right(state, config, asked, now_ms)


@wrong("retries", retry.retry_topic)
def retry_50(right: Any, name: str) -> str:
    """A retry topic has the first fifty characters of its group's name."""
    return str(right(name[:50]))
