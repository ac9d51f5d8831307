"""The checks of places: one offset of a queue is one message's, and none is left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import NIL, Flags, Groups, Whole, anywhere, combined, least, ordered
from mqaudit.history_checks import GIVEN_TWICE, LEFT_OUT
from mqaudit.judged import Cases, told
from mqaudit.losses import lives
from mqaudit.part import Did, Part


def given_twice(part: Part) -> Iterator[pa.RecordBatch]:
    """Messages that were stored at an offset that another one had got before, or came from it."""
    rows = np.concatenate([part.stored, _come_from_nowhere(part)])
    copy, epoch = part.copy[rows], part["store_epoch"][rows].clip(0)
    _, first = combined(copy, epoch)
    rows, copy, epoch = rows[first], copy[first], epoch[first]
    slot = part.slot_of[copy]
    order = ordered(slot, epoch, part["seq"][rows])
    rows, copy, epoch, slot = (column[order] for column in (rows, copy, epoch, slot))
    is_first = Groups.of(slot, epoch).begins

    again = np.flatnonzero(~is_first)
    crashed, is_ordered, alone = (np.ones(len(rows), bool) for _ in range(3))
    if len(again):
        shared = np.bincount(part.slot_of) > 1
        crashed_of, ordered_of, alone_of, _ = lives(part, shared)
        crashed, is_ordered, alone = crashed_of[copy], ordered_of[copy], alone_of[copy]
    cases = Cases.of(
        (is_first, "one"),
        (crashed & ~is_ordered, "unordered"),
        (crashed & alone, "given away"),
        otherwise="twice",
    )
    yield from told(GIVEN_TWICE, cases, lambda found: part.place(rows[found]))


def _come_from_nowhere(part: Part) -> Whole:
    """The rows of messages that came from an offset, and that nobody is known to have stored
    there, in their order."""
    is_stored = np.zeros(part.copies, bool)
    is_stored[part.copy[part.stored]] = True
    received = np.flatnonzero((part.did == Did.RECEIVE) & (part.copy >= 0))
    strange = received[~is_stored[part.copy[received]]]
    return np.asarray(strange[ordered(part["seq"][strange])], np.int64)


def left_out(part: Part) -> Iterator[pa.RecordBatch]:
    """Messages that a broker said it had stored, and the offsets before each in its queue: what
    was received or acknowledged has one as well."""
    rows = part.placed
    places = Groups.of(part.queue[rows], part["at"][rows])
    is_stored = part.did[rows] == Did.SEND
    stored = least(places.number, len(places.firsts), np.arange(len(rows)), is_stored)
    offset = part["at"][rows[places.firsts]]
    before = Groups.of(part.queue[rows[places.firsts]]).before(offset)
    follows = (before == NIL) | (before == offset - 1)

    passed = np.zeros(len(offset), bool)
    if not follows[stored != NIL].all():
        passed = _passed(part, before)
    mine = np.flatnonzero(stored != NIL)
    # Where nobody is known to have stored the one before, what is between may be as old, and gone.
    known = np.append(False, (stored != NIL)[:-1])
    cases = Cases.of((follows, "next"), (known & passed, "passed"), otherwise="unseen")[mine]
    yield from told(LEFT_OUT, cases, lambda found: part.place(rows[stored[mine[found]]]))


def _passed(part: Part, before: Whole) -> Flags:
    """By offset of a queue that something is known of: whether a member that takes all tags has
    received what is there, and had not begun behind the one known before it."""
    t = part.tenured
    lowest = -t.tenures.before(t.tenures.highest(np.where(t.reach == NIL, NIL, -t.reach)))
    takes_all = [
        not known.incomplete and all(tag == "*" for tag in known.wanted or ())
        for known in part.facts
    ]
    received = np.flatnonzero(
        (t.did == Did.RECEIVE) & np.array(takes_all)[part.facts_of_hold[t.hold]]
    )
    place = part.slot_of[t.copy[received]]
    return anywhere(place, len(before), lowest[received] <= before[place] + 1)


CHECKS: Final[tuple[Callable[[Part], Iterator[pa.RecordBatch]], ...]] = (given_twice, left_out)
