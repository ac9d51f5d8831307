"""Brokers that are wrong where messages wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from making import wrong
from msgspec import structs

from mqspec.core import delay, timer
from mqspec.core.record import Record, decode_properties, encode_properties, tags_code

COPY = delay.delivered_copy


@wrong("delays", delay.schedule_message)
def seventeen_levels(right: Any, levels: Any, message: Any) -> Any:
    """Levels above the last are the last but one."""
    asked = decode_properties(message.properties).get("DELAY", "0")
    above = asked.isdecimal() and int(asked) > len(levels)
    return right(levels[:-1] if above else levels, message)


@wrong("delays", delay.deliver)
def early_by_a_second(right: Any, state: Any, event: Any, delay_ms: int) -> Any:
    """What waits for five seconds and more comes one early."""
    early = event.now_ms + (1000 if delay_ms >= 5000 else 0)
    return right(state, event._replace(now_ms=early), delay_ms + 1000)


@wrong("delays", COPY)
def high_queues_to_0(right: Any, message: Any) -> Any:
    """What waited for a queue above 127 comes to queue 0."""
    copy = right(message)
    return structs.replace(copy, queue_id=0) if copy and copy.queue_id > 127 else copy


@wrong("delays", COPY)
def negative_tags_left(right: Any, message: Any) -> Any:
    """A message that waited has no tag, if its hash is negative."""
    copy = right(message)
    properties = decode_properties(copy.properties) if copy else {}
    if tags_code(properties.get("TAGS", "")) >= 0:
        return copy
    del properties["TAGS"]
    return structs.replace(copy, properties=encode_properties(properties).encode())


@wrong("delays", timer.schedule_timer)
def longest_refused(right: Any, config: Any, message: Any, now_ms: int) -> Any:
    """A time of exactly three days is refused."""
    shorter = replace(config, timer_max_delay_sec=config.timer_max_delay_sec - 1)
    placed = right(shorter, message, now_ms)
    return placed if isinstance(placed, Record) else right(shorter, message, now_ms)


@wrong("delays", timer._deliver_at)
def milliseconds_first(right: Any, properties: Any, now_ms: int) -> Any:
    """Of two delays the one in ms counts."""
    if "TIMER_DELAY_MS" in properties:
        properties = {"TIMER_DELAY_MS": properties["TIMER_DELAY_MS"]}
    return right(properties, now_ms)


@wrong("delays", timer.slot_of)
def slots_begin_early(right: Any, deliver_at: int) -> int:
    """A time that ends with a second is in the next slot."""
    return int(right(deliver_at + 1))


@wrong("delays", timer.dequeue)
def two_of_a_slot(right: Any, state: Any, now_ms: int) -> Any:
    """Of the messages of one second two come."""
    step = right(state, now_ms)
    if step.result is None:
        return step
    return structs.replace(
        step, result=step.result._replace(queue_offsets=step.result.queue_offsets[:2])
    )


@wrong("delays", timer.delivered_copy)
def timed_to_the_first(right: Any, message: Any, *args: Any) -> Any:
    """What waited for a time comes to a queue below 64."""
    copy = right(message, *args)
    return copy and structs.replace(copy, queue_id=copy.queue_id % 64)


@wrong("delays", timer.schedule_timer)
def level_and_time(right: Any, config: Any, message: Any, now_ms: int) -> Any:
    """Of a level above nine and a time the time counts."""
    properties = decode_properties(message.properties)
    level = properties.get("DELAY", "")
    if len(level) > 1 and level.isdecimal() and "TIMER_DELAY_SEC" in properties:
        del properties["DELAY"]
        message = structs.replace(message, properties=encode_properties(properties).encode())
    return right(config, message, now_ms)
