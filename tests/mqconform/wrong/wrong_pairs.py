"""Brokers that are wrong where two features meet, in one answer of several, after a start or under
requests at once: written before anybody looked whether cases or exploration notice them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from making import keeping, wrong
from msgspec import structs

from mqspec.broker.config_files import ConfigFiles
from mqspec.core import (
    delay,
    extra_info,
    lock,
    log,
    offset_commit,
    record,
    retry,
    route,
    sql92,
    transaction,
)
from mqspec.core.step import Step
from mqspec.wire import codec

RACE_S = 0.003


@wrong("messages", log.unit_tags_codes)
def tags_of_the_first(right: Any, topic: str, own: Any, *args: Any) -> Any:
    """Messages that are stored together are filtered by the tag of the first."""
    codes = right(topic, own, *args)
    return codes if topic == log.SCHEDULE_TOPIC else [codes[0]] * len(codes)


@wrong("retries", retry.consumer_send_msg_back)
def delayed_once_retried_alike(
    right: Any, state: Any, event: Any, group: Any, message: Any, *args: Any
) -> Any:
    """A message that was sent with a delay waits as long again when it is sent back first."""
    step = right(state, event, group, message, *args)
    if message is None or not isinstance(step.result, record.Record):
        return step
    before = record.decode_properties(message.properties)
    if "REAL_TOPIC" not in before or "RETRY_TOPIC" in before or event.delay_level:
        return step
    properties = record.decode_properties(step.result.properties)
    encoded = record.encode_properties({**properties, "DELAY": before["DELAY"]}).encode()
    return keeping(step, structs.replace(step.result, properties=encoded))


@wrong("transactions", transaction.end_transaction)
def committed_uncompressed(right: Any, *args: Any) -> Any:
    """A half that is committed is no longer said to be compressed."""
    step = right(*args)
    mask = ~(record.SysFlag.COMPRESSED | record.COMPRESSION_TYPE)
    finals = tuple(
        final._replace(
            message=structs.replace(final.message, sys_flag=final.message.sys_flag & mask)
        )
        for final in step.sends
    )
    return structs.replace(step, sends=finals)


@wrong("orders", extra_info.order_count_info)
def tries_of_queue_0(right: Any, topic: str, queue_id: int, count: Any) -> str:
    """How often a message was popped in order is told of each message in queue 0 alone."""
    return str(right(topic, queue_id, count._replace(by_offset={}) if queue_id else count))


@wrong("restarts", ConfigFiles.load_metadata)
def attributes_lost_at_a_start(right: Any, files: Any) -> Any:
    """A broker that starts reads topics without their attributes."""
    found = right(files)
    topics = {name: replace(it, attributes={}) for name, it in found.topic_config_table.items()}
    return replace(found, topic_config_table=topics)


_granted: dict[Any, float] = {}


@wrong("locks", lock.try_lock_batch)
def two_lockers_at_once(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """Within 3 ms of a lock's grant another member is granted it, too."""
    step, now = right(state, event, *args), time.monotonic()
    late = [mq for mq in event.mq_set if now - _granted.get((event.group, mq), 0.0) < RACE_S]
    _granted.update(((event.group, mq), now) for mq in step.result)
    return keeping(step, tuple(dict.fromkeys((*step.result, *late))))


@wrong("offsets", offset_commit.commit_offset)
def pulled_commits_never_back(right: Any, state: Any, key: Any, offset: int) -> Any:
    """An offset that a pull carries is stored where it is higher alone."""
    return Step() if offset < state.offset_table.get(key, 0) else right(state, key, offset)


@wrong("offsets", codec.Decoder.feed)
def sixteen_of_a_segment(right: Any, decoder: Any, data: bytes) -> Any:
    """Of requests that arrive together sixteen are read: others, with what arrives next."""
    for count, command in enumerate(right(decoder, data), 1):
        yield command
        if count == 16:
            return


@wrong("locks", lock.try_lock_batch)
def ids_to_the_second_at(right: Any, state: Any, event: Any, *args: Any) -> Any:
    """Who locks is told apart by host and process, not by what stands behind a second @."""
    head = "@".join((event.client_id or "").split("@")[:2])
    return right(state, replace(event, client_id=event.client_id and head), *args)


@wrong("delays", delay.delivered_copy)
def one_key_delivered(right: Any, message: Any) -> Any:
    """Of a delayed message's keys the first is delivered."""
    copy = right(message)
    properties = record.decode_properties(message.properties)
    if copy is None or " " not in properties.get("KEYS", ""):
        return copy
    kept = {**properties, "KEYS": properties["KEYS"].split(" ")[0]}
    return structs.replace(copy, properties=record.encode_properties(kept).encode())


@wrong("routes", route.cluster_info)
def masters_of_the_cluster(right: Any, state: Any) -> Any:
    """Among all brokers the masters are told alone; a topic's route has slaves."""
    found = right(state)
    masters = {
        name: replace(it, broker_addrs={n: at for n, at in it.broker_addrs.items() if n == 0})
        for name, it in found.broker_addr_table.items()
    }
    return replace(found, broker_addr_table=masters)


@wrong("messages", sql92.In.evaluate)
def in_of_eight(right: Any, condition: Any, properties: Any) -> Any:
    """Of the texts behind IN eight count."""
    first = frozenset(sorted(condition.texts)[:8])
    return right(replace(condition, texts=first), properties)
