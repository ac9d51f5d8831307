"""Brokers that are wrong by load, history, numbers, the second broker or a restart: written before
anybody looked whether cases or exploration notice them."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from itertools import islice
from typing import Any

from making import CASES, wrong
from msgspec import structs

from mqspec.broker.processor import replying
from mqspec.core import (
    ack_message,
    group,
    index,
    lock,
    long_polling,
    offset_commit,
    route,
    sql92,
)
from mqspec.core.step import Change, apply
from mqspec.store.message_store import MessageStore

RACE_S = 0.002
HELD_MAX = 20


@wrong("tools", MessageStore.offset_by_time)
def second_searches_late(right: Any, store: Any, topic: str, queue: int, ms: int, way: Any) -> Any:
    """The second broker searches a time as if it were one ms later."""
    late = 1 if str(store.root).endswith("b") and ms >= 0 else 0
    return right(store, topic, queue, ms + late, way)


@wrong("holds", long_polling.suspend_pull_request)
def twenty_held(right: Any, state: Any, queue: Any, request: Any) -> Any:
    """A broker holds twenty pulls: beyond them the oldest of a queue is forgotten."""
    if sum(map(len, state.pull_request_table.values())) >= HELD_MAX:
        first = next(iter(state.pull_request_table))
        rest = state.pull_request_table[first][1:]
        apply(state, [Change("pull_request_table", first, rest)])
    return right(state, queue, request)


@wrong("holds", long_polling.suspend_pull_request)
def held_ten_seconds(right: Any, state: Any, queue: Any, request: Any) -> Any:
    """A pull is held for ten seconds at most."""
    soonest = time.time_ns() // 1_000_000 + 10_000
    return right(state, queue, request._replace(deadline_ms=min(soonest, request.deadline_ms)))


_gave_up: set[Any] = set()


@wrong("locks", lock.unlock_batch)
def former_holders_unlock(right: Any, state: Any, event: Any) -> Any:
    """Who gave up a queue once can free it for ever, whoever holds it."""
    locks = state.mq_lock_table.get(event.group, {})
    freed = {
        mq: replace(entry, client_id=event.client_id)
        if mq in event.mq_set and (event.group, mq, event.client_id) in _gave_up
        else entry
        for mq, entry in locks.items()
    }
    _gave_up.update((event.group, mq, event.client_id) for mq in event.mq_set)
    return right(replace(state, mq_lock_table={event.group: freed}), event)


@wrong("offsets", offset_commit.update_consumer_offset)
def names_run_together(right: Any, state: Any, event: Any, **known: bool) -> Any:
    """A commit also moves the offset of a topic and group whose names, written one behind the
    other, are the same."""
    step = right(state, event, **known)
    alike = [
        key for key in state.offset_table
        if step.changes and key.queue_id == event.queue_id and key.topic != event.topic
        and key.topic + key.group == event.topic + event.group
    ]  # fmt: skip
    moved = (Change("offset_table", key, event.offset) for key in alike)
    return structs.replace(step, changes=(*step.changes, *moved))


@wrong("keys", index.Keys.add_columns)
def four_keys(right: Any, keys: Any, own: Any, *args: Any) -> Any:
    """A message is found by the first four of its keys."""
    words = re.compile(rb"KEYS\x01([^ \x02]+(?: [^ \x02]+){3})[^\x02]*")
    return right(keys, [words.sub(b"KEYS\x01\\1", each) for each in own], *args)


@wrong(CASES, replying._push)
async def long_replies_cut(right: Any, broker: Any, record: Any, *args: Any) -> Any:
    """Of a reply 64 KiB are pushed."""
    return await right(broker, structs.replace(record, body=record.body[: 1 << 16]), *args)


@wrong("messages", sql92._comparable)
def integers_as_doubles(right: Any, *values: Any) -> Any:
    """Whole numbers are compared as doubles, of which those beyond 2^53 are alike."""
    pair = right(*values)
    is_whole = pair and all(isinstance(each, int) for each in pair)
    return tuple(map(float, pair)) if is_whole else pair


@wrong("routes", route.topics_of_cluster)
def topics_of_the_first(right: Any, state: Any, cluster: str) -> Any:
    """Of a cluster's topics those are listed that its first broker has."""
    first = state.cluster_addr_table.get(cluster, ())[:1]
    return right(replace(state, cluster_addr_table={cluster: first}), cluster)


@wrong("members", group._merge)
def newer_by_a_second(right: Any, table: Any, heard: Any) -> Any:
    """A subscription counts that is newer by a second or more."""
    newest = {
        topic: replace(known, sub_version=known.sub_version + 999) for topic, known in table.items()
    }
    merged = right(newest, heard)
    return {
        topic: table[topic] if found is newest.get(topic) else found
        for topic, found in merged.items()
    }


_latest: dict[Any, tuple[float, Any]] = {}


@wrong("messages", MessageStore._append)
def one_offset_for_two(right: Any, store: Any, wanted: Any) -> Any:
    """Of two sends to a queue within 2 ms the second is told the queue offset of the first."""
    results = right(store, wanted)
    for n, ((put, _, _), result) in enumerate(zip(wanted, results, strict=True)):
        place, now = (str(store.root), put.queue), time.monotonic()
        before, told = _latest.get(place, (0.0, 0))
        _latest[place] = now, result.queue_offset
        if now - before < RACE_S:
            results[n] = structs.replace(result, queue_offset=told)
    return results


@wrong("orders", ack_message.batch_ack)
def sixteen_entries(right: Any, broker: Any, events: Any, *args: Any) -> Any:
    """Of a batch acknowledgement sixteen entries count."""
    return right(broker, islice(events, 16), *args)


@wrong("restarts", offset_commit.load)
def low_queues_loaded(right: Any, data: Any) -> Any:
    """After a restart the offsets of queues above the tenth are gone."""
    state = right(data)
    kept = {key: at for key, at in state.offset_table.items() if key.queue_id < 10}
    return offset_commit.OffsetState(kept)
