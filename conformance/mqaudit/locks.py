"""The checks of locks: one holder at a time, and none for longer than a lock lives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import NIL, Flags, Groups, Whole, below, least, most, ordered
from mqaudit.deliveries import crashes
from mqaudit.history_checks import LOCK_KEPT, LOCKED_TWICE
from mqaudit.judged import Cases, told
from mqaudit.part import Did, Part, Went

# A lock that is not renewed lives for so long, unless the broker was told otherwise.
LIVES_NS: Final = 60 * 10**9

# An answer comes later than the grant, at an unknown time: only what is much shorter is certain.
_SURELY_NS: Final = LIVES_NS // 2


# How much later than it was refused a member hears of it, at most: it waits for a second.
_HEARD_NS: Final = 10 * 10**9


class _Locks:
    """Locks, unlocks and crashes at queues, as one recorder saw them, in its order.

    Its clock tells how old a lock is.
    """

    def __init__(self, part: Part) -> None:
        is_lock = (part.did == Did.LOCK) & ((part.went == Went.OK) | (part.went == Went.FAILED))
        is_unlock = (part.did == Did.UNLOCK) & (part.went != Went.FAILED)
        rows = np.flatnonzero((is_lock | is_unlock) & part.has_group)
        crash_queue, crash_seq = crashes(part)
        queue = np.concatenate([part.recorder_queue[rows], crash_queue])
        order = ordered(queue, np.concatenate([part["seq"][rows], crash_seq]))
        self._queues, self._number = Groups.of(queue[order]), np.arange(len(order))

        none = np.full(len(crash_seq), NIL)
        self.row, did, went, self.hold, self.at = (
            np.concatenate([column, none])[order]
            for column in (rows, part.did[rows], part.went[rows], part.hold[rows], part["at"][rows])
        )
        self.got = (did == Did.LOCK) & (went == Went.OK)
        self.refused = (did == Did.LOCK) & (went == Went.FAILED)
        self.unlocked, self.crashed = did == Did.UNLOCK, did == NIL

        lock = self.last(self.got)
        self.lock = lock  # the last one that was granted before
        self.holder = np.where(lock == NIL, NIL, self.hold[lock.clip(0)])
        self.age_ns = self.at - self.at[lock.clip(0)]
        self.forgotten = self.last(self.crashed) > lock

    def last(self, is_one: Flags) -> Whole:
        """The last row of some kind before each row."""
        found = self._queues.latest(np.where(is_one, self._number, NIL))
        return self._queues.before(found)


def locked_twice(part: Part) -> Iterator[pa.RecordBatch]:
    """Locks that a member got while another member of its group held the queue."""
    locks = _Locks(part)
    freed = locks.last(locks.unlocked & (locks.hold == locks.holder))
    cases = Cases.of(
        (locks.lock == NIL, "first"),
        (locks.holder == locks.hold, "renewed"),
        (freed > locks.lock, "freed"),
        (locks.forgotten, "forgotten"),
        (locks.age_ns >= LIVES_NS, "expired"),
        (locks.age_ns >= _SURELY_NS, "old"),
        otherwise="held",
    )
    mine = np.flatnonzero(locks.got)
    yield from told(LOCKED_TWICE, cases[mine], lambda found: part.place(locks.row[mine[found]]))


def kept(part: Part) -> Iterator[pa.RecordBatch]:
    """Locks that a member did not get, as another one of its group may hold the queue."""
    locks = _Locks(part)
    mine = np.flatnonzero(locks.refused)
    row = locks.row[mine]
    unknown = (locks.lock == NIL) | locks.forgotten | (locks.holder == locks.hold)
    unseen = part.known("incomplete", part.facts_of_hold[part.hold[row]])
    unseen |= _scattered(part)[part.group_queue[row]]
    cases = Cases.of(
        (unknown[mine], "unknown"),
        (locks.age_ns[mine] <= LIVES_NS + _HEARD_NS, "held"),
        (unseen, "unknown"),
        otherwise="stuck",
    )
    yield from told(LOCK_KEPT, cases, lambda found: part.place(row[found]))


def is_held_by_another(part: Part, rows: Whole) -> Flags:
    """Whether the lock of a row's queue was granted to another member since the row's own had got
    it, which had not unlocked it."""
    is_grant = (part.did == Did.LOCK) & (part.went == Went.OK)
    seq = part["seq"]

    def last(of: Flags, place: Whole) -> Whole:
        """The row of a kind before each of the rows at its place; -1 where there is none."""
        some = np.flatnonzero(of & part.has_group)
        some = some[ordered(place[some], seq[some])]
        found = below(place[some], seq[some], place[rows], seq[rows])
        return np.append(some, -1)[found]

    grant = last(is_grant, part.recorder_queue)
    own = last(is_grant | (part.did == Did.UNLOCK), part.hold)
    return np.asarray((own >= 0) & is_grant[own] & (part.hold[grant] != part.hold[rows]), bool)


def _scattered(part: Part) -> Flags:
    """Queues of groups whose locks more than one recorder saw."""
    is_lock = part.did == Did.LOCK
    greatest = most(part.group_queue, part.group_queues, part.recorder_queue, is_lock)
    smallest = least(part.group_queue, part.group_queues, part.recorder_queue, is_lock)
    return np.asarray(greatest != smallest, bool)


CHECKS: Final[tuple[Callable[[Part], Iterator[pa.RecordBatch]], ...]] = (locked_twice, kept)
