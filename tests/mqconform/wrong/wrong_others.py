"""Brokers that are wrong in ways for which the suite was not built: written before anybody looked
whether it notices them."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import Any

from making import keeping, wrong
from msgspec import structs

from mqspec.core import group, kv_config, lock, offset_commit, record, route, subscription
from mqspec.core.step import Change
from mqspec.store.message_store import Boundary, MessageStore
from mqspec.wire import codec
from mqspec.wire.codes import RequestCode

COMMIT_TWICE_S = 0.005
ONE_WAY = 2


@wrong("messages", codec.Decoder.feed)
def twelve_binary_fields(right: Any, decoder: Any, data: bytes) -> Any:
    """Of a binary header the fields after the twelfth are lost."""
    for command in right(decoder, data):
        is_binary = command.serializer is codec.Serializer.ROCKETMQ
        kept = dict(list(command.ext_fields.items())[: 12 if is_binary else None])
        yield structs.replace(command, ext_fields=kept)


@wrong("offsets", codec.RemotingCommand.response)
def opaque_without_sign(right: Any, request: Any, *args: Any, **known: Any) -> Any:
    """An answer has the opaque of its request without the sign."""
    answer = right(request, *args, **known)
    return structs.replace(answer, opaque=abs(answer.opaque))


@wrong("locks", lock.try_lock_batch)
def locks_of_256(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """A group holds 256 locks: the oldest beyond are forgotten, and were granted."""
    step = right(state, event, *args)
    kept = (
        Change(each.variable, each.key, dict(list(each.value.items())[-256:]))
        for each in step.changes
    )
    return structs.replace(step, changes=tuple(kept))


_latest: dict[Any, float] = {}


@wrong("offsets", offset_commit.update_consumer_offset)
def commits_race(right: Any, state: Any, event: Any, **known: bool) -> Any:
    """A commit within 5 ms of another one of its queue is answered and not stored."""
    step = right(state, event, **known)
    key, now = (event.topic, event.group, event.queue_id), time.monotonic()
    before, _latest[key] = _latest.get(key, 0.0), now
    return structs.replace(step, changes=()) if now - before < COMMIT_TWICE_S else step


@wrong("kv", kv_config.get_kv_config)
def names_by_case(right: Any, state: Any, namespace: str, key: str) -> Any:
    """A key that is not there is found where one is that differs in upper and lower case."""
    found = right(state, namespace, key)
    named = {name.lower(): name for name in state.config_table.get(namespace, {})}
    other = named.get(key.lower())
    return right(state, namespace, other) if found is None and other else found


@wrong("messages", subscription.build_subscription_data)
def long_tags_alike(right: Any, topic: str, words: str, *args: Any) -> Any:
    """Of a tag that somebody wants the first 64 characters count."""
    return right(topic, "||".join(word.strip()[:64] for word in words.split("||")), *args)


@wrong("members", group.consumer_id_list)
def one_id_once(right: Any, state: Any, name: str) -> Any:
    """A list of members has each id once, however many members have it."""
    ids = right(state, name)
    return ids and list(dict.fromkeys(ids))


@wrong("members", group.register_consumer)
def two_topics_at_most(right: Any, state: Any, event: Any) -> Any:
    """Of the topics that a heartbeat subscribes the first two count."""
    heard = event.subscriptions
    return right(state, replace(event, subscriptions=heard and heard[:2]))


@wrong("delays", record.decode_properties)
def long_values_cut(right: Any, text: Any) -> Any:
    """Values of properties are read to their 4,096th character."""
    return {name: value[:4096] for name, value in right(text).items()}


@wrong("routes", route.delete_topic)
def second_cluster_forgotten(right: Any, state: Any, topic: str, cluster: str | None) -> Any:
    """A topic that is deleted in one cluster is gone in all."""
    return right(state, topic, None) if cluster else right(state, topic, cluster)


@wrong("offsets", offset_commit.query_min_offset_in_all_group)
def thousands_are_round(right: Any, *args: Any) -> Any:
    """A least offset above 1,000 is a multiple of ten."""
    found = right(*args)
    return {queue: at - at % 10 if at > 1000 else at for queue, at in found.items()}


# Written once exploration drew the kinds above.


@wrong("locks", lock.try_lock_batch)
def locks_of_any_topic(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """A queue is refused whose number another member holds in another topic."""
    step = right(state, event, *args)
    held = [
        (mq.topic, mq.queue_id)
        for mq, entry in state.mq_lock_table.get(event.group, {}).items()
        if entry.client_id != event.client_id
    ]
    others = [
        mq for mq in step.result if any(mq.topic != name and mq.queue_id == n for name, n in held)
    ]
    return keeping(step, tuple(mq for mq in step.result if mq not in others))


@wrong("offsets", codec.Decoder.feed)
def one_way_answered(right: Any, decoder: Any, data: bytes) -> Any:
    """A commit that is sent one-way is answered."""
    for command in right(decoder, data):
        is_commit = command.code == RequestCode.UPDATE_CONSUMER_OFFSET
        yield structs.replace(command, flag=command.flag & ~ONE_WAY) if is_commit else command


@wrong("kv", kv_config.put_kv_config)
def values_trimmed(right: Any, state: Any, namespace: str, key: str, value: str | None) -> Any:
    """A value is kept without the space around it."""
    return right(state, namespace, key, value and value.strip())


@wrong("tools", MessageStore.offset_by_time)
def last_of_a_time(right: Any, store: Any, topic: str, queue: int, ms: int, bound: Any) -> Any:
    """Of several messages of one millisecond a search finds the last."""
    first, last = (right(store, topic, queue, ms, each) for each in Boundary)
    is_one_of_many = bound is Boundary.LOWER and last > first
    return last if is_one_of_many else right(store, topic, queue, ms, bound)


@wrong("messages", codec.Decoder.feed)
def flags_in_16_bits(right: Any, decoder: Any, data: bytes) -> Any:
    """Of a message's flag 16 bits are kept."""
    for command in right(decoder, data):
        fields = command.ext_fields
        if command.code == RequestCode.SEND_MESSAGE_V2 and int(fields.get("h", 0)) >> 16:
            fields = {**fields, "h": str(int(fields["h"]) & 0xFFFF)}
        yield structs.replace(command, ext_fields=fields)


_commits = itertools.count(1)


@wrong("offsets", offset_commit.update_consumer_offset)
def every_hundredth(right: Any, state: Any, event: Any, **known: bool) -> Any:
    """Each hundredth commit is answered and not stored."""
    step = right(state, event, **known)
    return structs.replace(step, changes=()) if next(_commits) % 100 == 0 else step
