"""What worlds are told in: the names of the reference's core, and values as TLC prints them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from mqcheck.values import FrozenDict, ModelValue
from mqcheck.worlds.conversing import written
from mqspec.core import offset_commit, rebalance
from mqspec.core.group import ConsumeFromWhere
from mqspec.core.offset_commit import CommitOffset, ConsumerState, OffsetKey, OffsetState
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

GROUP, TOPIC, BROKER = "group", "topic", "broker"
NONE = ModelValue("None")


def message_queue(number: int) -> MessageQueue:
    """A queue of a model with one topic and one broker."""
    return MessageQueue(TOPIC, BROKER, number)


def offset_key(number: int) -> OffsetKey:
    """What a broker keeps the group's offset of a queue by."""
    return OffsetKey(TOPIC, GROUP, number)


def consume_from_where(constants: Mapping[str, Any]) -> ConsumeFromWhere:
    """Where the members of a model with these constants begin."""
    if constants["FromLast"]:
        return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    return ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


def store_offset(offsets: OffsetState, queue: int, offset: int) -> None:
    """A commit of the group's offset of a queue arrives at the broker."""
    event = CommitOffset(GROUP, TOPIC, queue, offset)
    step = offset_commit.update_consumer_offset(
        offsets, event, group_exists=True, topic_exists=True
    )
    apply(offsets, step.changes)


def offset_file(offsets: OffsetState) -> str:
    """What a broker's file of offsets has, once it persists them."""
    return json.dumps(offset_commit.persist(offsets))


def persist_offsets(offsets: OffsetState, flush: Callable[[], None] = lambda: None) -> str:
    """The broker's file of offsets, as its clock writes it; `flush` has the log flushed."""
    (state,) = written(partial(offset_commit.persist_offsets, offsets), flush)
    return offset_file(state)


def load_offsets(file: str) -> OffsetState:
    """What a broker starts with."""
    return offset_commit.load(json.loads(file))


def rebalance_by_topic(
    consumer: ConsumerState, who: rebalance.Member, view: rebalance.View
) -> None:
    """A member takes its slice; it begins at 0 on each queue that it gets."""
    step = rebalance.rebalance_by_topic(consumer, who, view, 0)
    apply(consumer, step.changes)
    for mq in step.result.added:
        apply(consumer, offset_commit.add_message_queue(consumer, mq, 0, 0, 0).changes)


def function(domain: Iterable[Any], value: Callable[[Any], object]) -> FrozenDict:
    """[x \\in domain |-> value(x)]"""
    return FrozenDict({x: value(x) for x in domain})


def sequence_or_function(items: Mapping[Any, Any]) -> tuple[Any, ...] | FrozenDict:
    """A function as TLC prints it: one on 1 .. n, or on nothing, is a sequence."""
    if set(items) == set(range(1, len(items) + 1)):
        return tuple(items[n] for n in range(1, len(items) + 1))
    return FrozenDict(items)


def records(triples: Iterable[tuple[str, int, int]]) -> frozenset[FrozenDict]:
    """A set of records of a member, a queue and an offset."""
    return frozenset(FrozenDict({"member": m, "queue": q, "offset": o}) for m, q, o in triples)
