"""The checks of commits: past what was delivered, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import (
    NEVER,
    NIL,
    Flags,
    Groups,
    Whole,
    anywhere,
    below,
    combined,
    joined,
    least,
    most,
    other_most,
    spread,
)
from mqaudit.history_checks import NEVER_DELIVERED, TAKEN_AWAY, WENT_BACK
from mqaudit.judged import Cases, told
from mqaudit.locks import is_held_by_another
from mqaudit.part import Did, Part, Tenured

_AT_ONCE: Final = 1 << 23  # how many messages that were to come are looked at together


def never_delivered(part: Part) -> Iterator[pa.RecordBatch]:
    """Commits past messages that were not delivered, or not finished."""
    t = part.tenured
    at = np.flatnonzero((t.did == Did.COMMIT) & ~t.former)
    value, seq, group_queue = t["at"][at], t["seq"][at], t.group_queue[at]

    before = _so_far(t, t.reach)[at]
    reached = most(t.recorder_queue, part.recorder_queues, t.reach)
    elsewhere = other_most(part.group_queue_of, reached)[t.recorder_queue[at]]

    facts = part.facts_of_group_queue[group_queue]
    incomplete = part.known("incomplete", facts)
    filters = np.array(
        [any(wanted != "*" for wanted in known.wanted or ()) for known in part.facts], bool
    )[facts]

    last_came, last_sure = _last_came(t, at)
    is_reached = value <= before.clip(0)
    cases = Cases.of(
        ((_last_finished(t, at) > seq) & t.acks[at], "unfinished"),
        ((last_sure > seq) & ~incomplete, "skipped"),
        (is_reached & (last_came > seq) & ~incomplete, "doubtful"),
        (is_reached & (last_came > seq), "incomplete"),
        (is_reached, "delivered"),
        (incomplete, "incomplete"),
        (filters, "filtered"),
        (elsewhere >= value, "unordered"),
        (before == NIL, "start"),
        otherwise="beyond",
    )
    yield from told(NEVER_DELIVERED, cases, lambda found: part.place(t.rows[at[found]]))


def went_back(part: Part) -> Iterator[pa.RecordBatch]:
    """Commits lower than an earlier one of the same group and queue.

    `own`: in the tenure, but for what is left of the one before a seek; `others`: of all that
    one recorder saw. Another recorder's commit may be the earlier one, or the later.
    """
    t = part.tenured
    commit = t.did == Did.COMMIT
    at = np.flatnonzero(commit)
    value = np.where(commit, t["at"], NIL)

    own = t.tenures.highest(np.where(t.former, NIL, value))[at]
    others = _so_far(t, value)[at]
    highest = most(t.recorder_queue, part.recorder_queues, value)
    elsewhere = other_most(part.group_queue_of, highest)[t.recorder_queue[at]]

    value = value[at]
    cases = Cases.of(
        ((value < own) & _is_overtaken(t, at, own), "overtaken"),
        (value < own, "back"),
        (value < others, "handed over"),
        (value < elsewhere, "unordered"),
        otherwise="forward",
    )
    yield from told(WENT_BACK, cases, lambda found: part.place(t.rows[at[found]]))


def after_it_was_taken_away(part: Part) -> Iterator[pa.RecordBatch]:
    """Commits of a member that owned the queue no longer."""
    t = part.tenured
    changed = (t.did == Did.ASSIGN) | (t.did == Did.REVOKE)
    owns = Groups.of(t.hold).latest(np.where(changed, t.did == Did.ASSIGN, NIL))
    at = np.flatnonzero((t.did == Did.COMMIT) & (owns != NIL))
    cases = Cases.of(
        (owns[at] == 0, "late"),
        (is_held_by_another(part, t.rows[at]), "overlocked"),
        otherwise="owned",
    )
    yield from told(TAKEN_AWAY, cases, lambda found: part.place(t.rows[at[found]]))


CHECKS: Final[tuple[Callable[[Part], Iterator[pa.RecordBatch]], ...]] = (
    never_delivered,
    went_back,
    after_it_was_taken_away,
)


def _is_overtaken(t: Tenured, at: Whole, own: Whole) -> Flags:
    """Whether only commits of another thread were higher, and sent since its own thread read.

    A timer and the pulls of a queue are of two threads: each reads how far the queue has come, and
    then sends it. The timer reads after it has sent its last one, and pulls by tens may be sent
    before it sends this one; of the timer, which is slow, a pull is overtaken once. What had been
    sent before is not higher, nor is where the tenure began.
    """
    commits = Groups.of(t.tenure[at])
    value, carried = np.where(t.former, NIL, t["at"])[at], t.part.is_carried[t.rows[at]]
    highest = commits.highest(value)
    of_pull = commits.before(commits.before(highest))
    of_timer = commits.before(commits.latest(np.where(carried, NIL, highest)))
    began = t.first_value(t.did == Did.QUERY_OFFSET)[t.tenure[at]]
    floor = np.where(carried, of_pull, of_timer)
    floor = np.where(floor == NIL, began, floor)
    is_behind_one = (commits.before(value) == own) & (commits.before(carried.astype(int), 1) == 0)
    may_be = np.where(carried, is_behind_one, True)
    return np.asarray(may_be & (floor != NIL) & (value >= floor), bool)


def _so_far(t: Tenured, values: Whole) -> Whole:
    """The greatest value that the row's recorder had seen at the group's queue by then."""
    order = t.in_order_of_recorders
    found = np.empty(len(values), np.int64)
    found[order] = Groups.of(t.recorder_queue[order]).highest(values[order])
    return found


def _last_finished(t: Tenured, at: Whole) -> Whole:
    """When the last of all messages below a commit was finished, of those that it received."""
    rows = np.flatnonzero((t.did == Did.RECEIVE) | (t.did == Did.ACK))
    # By offset and not by message: one that was given away counts once.
    code, first = combined(t.tenure[rows], t.part.slot_of[t.copy[rows]])
    size, did = len(first), t.did[rows]
    finished = least(code, size, t["seq"][rows], did == Did.ACK)
    finished = np.where(finished == NIL, NEVER, finished)

    received = anywhere(code, size, did == Did.RECEIVE)
    kept = rows[first][received]
    tenure, offset = t.tenure[kept], t["at"][kept]
    last = Groups.of(tenure).highest(finished[received])
    found = below(tenure, offset, t.tenure[at], t["at"][at])
    return _taken(last, found)


def _last_came(t: Tenured, at: Whole) -> tuple[Whole, Whole]:
    """When the last of the messages stored below a commit had come, from where its owner began.

    The second is of those that were to come to it for sure, and to no other recorder.
    """
    part = t.part
    asked = t.did == Did.QUERY_OFFSET
    start = t.first_value(asked)
    received = least(t.tenure, t.count, t["at"], t.did == Did.RECEIVE)
    reach = most(t.tenure, t.count, t["at"], t.did == Did.COMMIT)
    begin = np.where(start == NIL, received, start)

    # When a message came to each recorder's queue, by offset.
    rows = np.flatnonzero((t.did == Did.RECEIVE) | (t.did == Did.ACK))
    slot = part.slot_of[t.copy[rows]]
    code, first = combined(t.recorder_queue[rows], slot)
    came = least(code, len(first), t["seq"][rows])
    came_at = (t.recorder_queue[rows][first], slot[first])
    _, any_first = combined(t.group_queue[rows], slot)
    came_at_all = (t.group_queue[rows][any_first], slot[any_first])

    stored = part.stored
    queue, offset = part.queue[stored], part["at"][stored]
    queue_of = t.of_tenure(part.queue[t.rows])
    low = 1 + below(queue, offset, queue_of, np.where(start == NIL, 0, start))
    high = 1 + below(queue, offset, queue_of, reach)
    first_of_queue = np.searchsorted(queue, queue_of)
    low, high = np.maximum(low, first_of_queue), np.maximum(high, first_of_queue)
    number = np.where(reach == NIL, 0, np.maximum(high - low, 0))

    last_came, last_sure = np.full(len(at), NIL), np.full(len(at), NIL)
    total = np.cumsum(number)
    for some in np.split(np.arange(t.count), np.flatnonzero(np.diff(total // _AT_ONCE)) + 1):
        if not len(some):  # nobody owned anything
            continue
        tenure = np.repeat(some, number[some])
        message = spread(low[some], number[some])
        recorder = t.of_tenure(t.recorder_queue)[tenure]
        group_queue = t.of_tenure(t.group_queue)[tenure]
        facts = part.facts_of_group_queue[group_queue]
        wanted, wanted_by_all = part.wants(facts, part["tag"][stored[message]])

        slot = part.slot_of[part.copy[stored[message]]]
        place = joined((recorder, slot), came_at)
        arrived = np.where(place >= 0, came[place] if len(came) else NEVER, NEVER)
        nowhere = joined((group_queue, slot), came_at_all) < 0
        sure = (
            (offset[message] >= begin[tenure])
            & (begin[tenure] != NIL)
            & ((place >= 0) | nowhere & wanted_by_all)
        )
        tenure, message, arrived, sure = (
            column[wanted] for column in (tenure, message, arrived, sure)
        )
        mine = np.flatnonzero((t.tenure[at] >= some[0]) & (t.tenure[at] <= some[-1]))
        found = below(tenure, offset[message], t.tenure[at[mine]], t["at"][at[mine]])
        so_far = Groups.of(tenure)
        last_came[mine] = _taken(so_far.highest(arrived), found)
        last_sure[mine] = _taken(so_far.highest(np.where(sure, arrived, NIL)), found)
    return last_came, last_sure


def _taken(values: Whole, at: Whole) -> Whole:
    """The values at some rows, NIL where there is none."""
    return np.where(at >= 0, values[at] if len(values) else NIL, NIL)
