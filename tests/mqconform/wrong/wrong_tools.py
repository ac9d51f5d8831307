"""Brokers that are wrong in what administrators do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from making import wrong
from msgspec import structs

from mqspec.core import metadata, offset_commit, pull
from mqspec.core.response import ResponseCode
from mqspec.core.step import Change, Step

INNER = offset_commit.reset_offset_inner
COMMIT = offset_commit.update_consumer_offset


@wrong("tools", INNER)
def reset_to_the_end_refused(right: Any, spans: Any, offset: int | None) -> Any:
    """A reset to the end of a queue and one is refused."""
    shorter = [span._replace(max_offset=span.max_offset - 1) for span in spans]
    return right(shorter if offset is not None else spans, offset)


@wrong("tools", INNER)
def high_queues_stay(right: Any, spans: Any, offset: int | None) -> Any:
    """A reset of all queues leaves those above 63 where they are, and says otherwise."""
    step = right(spans, offset)
    kept = tuple(change for change in step.changes if len(spans) < 2 or change.key.queue_id < 64)
    return structs.replace(step, changes=kept)


@wrong("tools", INNER)
def the_thousandth(right: Any, spans: Any, offset: int | None) -> Any:
    """A reset beyond 1,000 goes to 1,000."""
    return right(spans, min(offset, 1000) if offset is not None else None)


@wrong("tools", offset_commit.query_then_erase_reset_offset)
def learned_again(right: Any, state: Any, key: Any) -> Any:
    """Every pull of a queue above the first learns of its reset."""
    step = right(state, key)
    return structs.replace(step, changes=()) if key.queue_id else step


@wrong("tools", COMMIT)
def forward_undoes(right: Any, state: Any, event: Any, **known: bool) -> Any:
    """A commit beyond a reset that waits is stored."""
    key = offset_commit.OffsetKey(event.topic, event.group, event.queue_id)
    reset = state.reset_offset_table.get(key)
    if reset is not None and all(known.values()) and event.offset > reset + 30:
        answer = offset_commit.Answer(ResponseCode.SUCCESS)
        return Step((Change("offset_table", key, event.offset),), result=answer)
    return right(state, event, **known)


@wrong("tools", offset_commit.clean_offset_by_topic)
def offsets_outlive_topics(right: Any, state: Any, topic: str) -> Any:
    """Of a topic that is deleted two offsets go at most."""
    step = right(state, topic)
    return structs.replace(step, changes=step.changes[:1])


@wrong("tools", offset_commit.clean_offset)
def resets_outlive_groups(right: Any, state: Any, group: str) -> Any:
    """A reset that waits outlives its group."""
    step = right(state, group)
    kept = tuple(change for change in step.changes if change.variable != "reset_offset_table")
    return structs.replace(step, changes=kept)


@wrong("tools", metadata.delete_subscription_group)
def second_group_stays(right: Any, state: Any, group: str, now_ms: int) -> Any:
    """A group that is not to be consumed cannot be deleted."""
    known = state.subscription_group_table.get(group)
    return right(state, group, now_ms) if known is None or known.consume_enable else Step()


@wrong("tools", metadata.update_topic)
def writes_as_reads(right: Any, state: Any, config: Any, topic: Any, now_ms: int) -> Any:
    """A topic with more than 64 queues to write has as many to read."""
    most = topic.write_queue_nums
    changed = replace(topic, read_queue_nums=most) if most > 64 else topic
    return right(state, config, changed, now_ms)


@wrong("tools", metadata.update_subscription_group)
def hundred_tries(right: Any, state: Any, group: Any, now_ms: int) -> Any:
    """A group has a hundred tries at most."""
    return right(state, replace(group, retry_max_times=min(100, group.retry_max_times)), now_ms)


@wrong("tools", pull._check_permissions)
def last_queue_pulled(right: Any, group: Any, topic: Any, event: Any) -> Any:
    """The queue behind the last may be pulled, where there are eight or more."""
    more = topic and topic.read_queue_nums >= 8
    wider = replace(topic, read_queue_nums=topic.read_queue_nums + 1) if more else topic
    return right(group, wider, event)
