"""The check of losses, as far as a queue tells: the rest is decided by message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import (
    NIL,
    Flags,
    Groups,
    Whole,
    anywhere,
    combined,
    joined,
    least,
    most,
    ordered,
    paired,
)
from mqaudit.history_checks import LOST
from mqaudit.judged import Cases, Row, batches, told
from mqaudit.part import Did, Part, Tenured, Went


@dataclass(frozen=True)
class Progress:
    """How far each group's queue had come, by its code."""

    is_there: Flags  # a member owned it
    reach: Whole  # how far it is known to have come
    reach_maybe: Whole  # may have
    start: Whole  # where a member began
    first_received: Whole
    begun: Flags  # it is known where the first to own it began, of each recorder
    passed: Whole  # how far one came that owned nothing, or went on elsewhere

    @classmethod
    def of(cls, part: Part) -> Progress:
        t, size = part.tenured, part.group_queues
        code, value = t.group_queue, t["at"]
        commit = t.did == Did.COMMIT
        first_start, _ = _beginnings(t)
        has_begun = ~anywhere(part.group_queue_of[first_start[0]], size, first_start[1] == NIL)
        return cls(
            is_there=anywhere(code, size, np.ones(len(code), bool)),
            reach=_reach(t),
            reach_maybe=most(code, size, value, commit),
            start=least(code, size, value, t.asks),
            first_received=least(code, size, t["at"], t.did == Did.RECEIVE),
            begun=has_begun,
            passed=_passed(part),
        )


def _reach(t: Tenured) -> Whole:
    """How far each group's queue is known to have come, by what its broker showed to know.

    It answered a commit, or what anyone asked; it had read a one-way commit when it answered what
    the same member asked later; or it let a later owner begin behind.
    """
    part, size = t.part, t.part.group_queues
    commit = t.did == Did.COMMIT
    asked = (part.did == Did.QUERY_OFFSET) & (part.went == Went.OK) & ~part.is_seek & part.has_group
    facts = part.facts_of_hold[t.hold]
    is_read = (t["seq"] > part.known("read_after", facts)) & (
        t["seq"] < part.known("read_before", facts)
    )
    first_received = least(t.tenure, t.count, t["at"], t.did == Did.RECEIVE)
    recorder, since = t.of_tenure(t.recorder_queue), t.of_tenure(t["seq"])
    is_later = since > least(recorder, part.recorder_queues, since)[recorder]
    is_told = anywhere(t.tenure, t.count, t.did == Did.QUERY_OFFSET)
    committed = most(t.group_queue, size, t["at"], commit & (t.is_ok | is_read))
    answered = most(part.group_queue, size, part["at"], asked)
    begun = most(t.of_tenure(t.group_queue), size, first_received, is_later & ~is_told)
    return np.maximum(np.maximum(committed, answered), begun)


def lost(part: Part) -> Iterator[pa.RecordBatch]:
    """Messages that the group committed past and never handled."""
    progress = Progress.of(part)
    queues = np.flatnonzero(progress.is_there)
    stored = part.stored
    which, group = paired([part.queue[stored]], [part.queue_of[queues]])
    rows, group_queue = stored[which], queues[group]

    handled = part.evidence.is_handled(part.copy[rows], part.group_of[group_queue])
    none = np.zeros(int(handled.sum()), np.int64)
    yield from told(LOST, Cases(("handled",), none), lambda found: {})

    rows, group_queue = rows[~handled], group_queue[~handled]
    outcome = _otherwise(part, progress, rows, group_queue)
    yield from batches(
        len(rows),
        part.place(rows, part.group_of[group_queue])
        | {"row": Row.STORED, "n": 1, "client_id": None, "value": None, "outcome": outcome},
    )


CHECKS: Final[tuple[Callable[[Part], Iterator[pa.RecordBatch]], ...]] = (lost,)

# What is said of a message that was not handled depends on what was done with it elsewhere, in
# this order: the first part whatever it was, the second if it was neither received by one that
# says no more nor given back, the last if it was not received at all.
SEPARATOR: Final = "|"


def _otherwise(part: Part, p: Progress, rows: Whole, group_queue: Whole) -> pa.Array:
    """What is said of messages if they were not handled elsewhere: three parts."""
    offset, seq = part["at"][rows], part["seq"][rows]
    facts = part.facts_of_group_queue[group_queue]
    wanted, wanted_by_all = part.wants(facts, part["tag"][rows])
    start, first, reach = (column[group_queue] for column in (p.start, p.first_received, p.reach))
    lowest = np.where(first == NIL, start, np.minimum(start, first))
    since = _since(part, rows, group_queue)
    below_start = (start != NIL) & (offset < lowest)
    sent_after = (since != NIL) & (seq > since)
    surely = Cases.of(
        (~wanted, "unwanted"),
        (below_start & p.begun[group_queue] & ~sent_after, "before"),
        (below_start, "start"),
        (offset >= np.maximum(reach, p.reach_maybe[group_queue]).clip(0), "open"),
        ((start == NIL) & ((first == NIL) | (offset < first)), "start"),
        (part.known("incomplete", facts), "incomplete"),
        otherwise="",
    )
    given_away, replaced, anew = _replaced(part, rows)
    perhaps = Cases.of(
        (given_away, "given away"),
        (replaced, "replaced"),
        (anew, "anew"),
        (offset < p.passed[group_queue], "passed"),
        otherwise="",
    )
    at_last = Cases.of(
        (~wanted_by_all, "mixed"),
        (offset < reach.clip(0), "lost"),
        otherwise="unconfirmed",
    )
    names = [
        SEPARATOR.join((a, b, c))
        for a in surely.names
        for b in perhaps.names
        for c in at_last.names
    ]
    code = surely.codes
    for cases in (perhaps, at_last):
        code = code * len(cases.names) + cases.codes
    return Cases(names, code).texts()


def _beginnings(t: Tenured) -> tuple[tuple[Whole, Whole], Whole]:
    """Of each recorder's queue where its first owner began, and since when it owned it.

    As ((recorder's queue, offset or NIL), seq).
    """
    since = t.of_tenure(t["seq"])
    recorder = t.of_tenure(t.recorder_queue)
    order = ordered(recorder, since)
    order = order[Groups.of(recorder[order]).begins]
    return (recorder[order], t.first_value(t.asks)[order]), since[order]


def _since(part: Part, rows: Whole, group_queue: Whole) -> Whole:
    """When the recorder of each stored message first saw an owner; NIL if it never did."""
    (recorder, _), since = _beginnings(part.tenured)
    found = joined(
        (group_queue, part["process"][rows]),
        (part.group_queue_of[recorder], part.process_of[recorder]),
    )
    return np.where(found >= 0, since[found] if len(since) else NIL, NIL)


def _passed(part: Part) -> Whole:
    """How far each group's queue was passed by a reset, or as an owner went on elsewhere."""
    t = part.tenured
    owned = anywhere(t.hold, part.holds, np.ones(len(t.rows), bool))
    tools = (part.did == Did.COMMIT) & part.has_group & ~owned[part.hold]
    return np.maximum(
        most(part.group_queue, part.group_queues, part["at"], tools),
        most(t.group_queue, part.group_queues, t["at"], t.is_seek),
    )


def _replaced(part: Part, rows: Whole) -> tuple[Flags, Flags, Flags]:
    """Of messages whose offset was given to another as well, what the lives of the store tell.

    First: a crash gave it away, in no known order; second: it did; third: its queue began again.
    """
    shared = np.bincount(part.slot_of, minlength=1) > 1 if part.copies else np.zeros(1, bool)
    mine = np.flatnonzero(shared[part.slot_of[part.copy[rows]]]) if len(rows) else rows
    given_away, replaced, anew = (np.zeros(len(rows), bool) for _ in range(3))
    if len(mine):
        slot, copy = part.slot_of[part.copy[rows[mine]]], part.copy[rows[mine]]
        crashed, ordered_, alone, epoch = lives(part, shared)
        given_away[mine] = crashed[copy] & ~ordered_[copy]
        replaced[mine] = crashed[copy] & alone[copy]
        anew[mine] = epoch[slot] > part["store_epoch"][rows[mine]].clip(0)
    return given_away, replaced, anew


def lives(part: Part, shared: Flags) -> tuple[Flags, Flags, Flags, Whole]:
    """By copy: its broker crashed; all was seen by one recorder; no other copy of its life.

    A life lasts from one crash to the next. Last, by offset: the latest life of its store.
    """
    did = part.did
    seen = np.flatnonzero(
        ((did == Did.RECEIVE) | (did == Did.SEND) & (part.went == Went.OK)) & (part.copy >= 0)
    )
    seen = seen[shared[part.slot_of[part.copy[seen]]]]
    slots = len(shared)
    epoch = most(part.slot_of[part.copy[seen]], slots, part["store_epoch"][seen])

    # Where each copy was first seen: as it was stored, if that was recorded.
    order = seen[ordered(part.copy[seen], did[seen] == Did.RECEIVE, part["seq"][seen])]
    first = order[Groups.of(part.copy[order]).begins]
    copy, queue, process = part.copy[first], part.queue[first], part["process"][first]
    slot = part.slot_of[copy]
    one = most(slot, slots, process) == least(slot, slots, process)

    has_crash, all_one, life = (np.zeros(len(first), np.int64) for _ in range(3))
    number = {name: code for code, name in enumerate(part.seats.text["process"].known.to_pylist())}
    facts = part.facts_of_queue[queue]
    for code in np.unique(facts):
        here = np.flatnonzero(facts == code)
        crashes = part.facts[code].crashes
        has_crash[here] = len(crashes) > 0
        recorders = {number.get(name, -1) for name, _ in crashes}
        all_one[here] = one[slot[here]] & (
            np.isin(process[here], list(recorders)) & (len(recorders) == 1)
        )
        for name, seq in crashes:
            life[here] += (process[here] == number.get(name, -1)) & (seq < part["seq"][first[here]])

    crashed, is_ordered, alone = (np.zeros(part.copies, bool) for _ in range(3))
    crashed[copy], is_ordered[copy] = has_crash > 0, all_one > 0
    together, _ = combined(slot, life)
    alone[copy] = np.bincount(together)[together] == 1
    return crashed, is_ordered, alone, epoch
