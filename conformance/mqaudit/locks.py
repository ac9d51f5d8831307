"""The check of locks: one holder at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import NIL, Groups, Whole, ordered
from mqaudit.deliveries import crashes
from mqaudit.history_checks import LOCKED_TWICE
from mqaudit.judged import Cases, told
from mqaudit.part import Did, Part, Went

# A lock that is not renewed lives for so long, unless the broker was told otherwise.
LIVES_NS: Final = 60 * 10**9

# An answer comes later than the grant, at an unknown time: only what is much shorter is certain.
_SURELY_NS: Final = LIVES_NS // 2


def locked_twice(part: Part) -> Iterator[pa.RecordBatch]:
    """Locks that a member got while another member of its group held the queue.

    By one recorder, whose clock tells how old the other lock was.
    """
    rows = np.flatnonzero(
        ((part.did == Did.LOCK) & (part.went == Went.OK)
         | (part.did == Did.UNLOCK) & (part.went != Went.FAILED))
        & part.has_group
    )  # fmt: skip
    crash_queue, crash_seq = crashes(part)
    queue = np.concatenate([part.recorder_queue[rows], crash_queue])
    seq = np.concatenate([part["seq"][rows], crash_seq])
    order = ordered(queue, seq)
    queue = queue[order]
    gone = np.full(len(crash_seq), NIL)
    did, hold, at = (
        np.concatenate([column, gone])[order]
        for column in (part.did[rows], part.hold[rows], part["at"][rows])
    )
    queues, number = Groups.of(queue), np.arange(len(queue))
    locks = did == Did.LOCK

    def last(is_one: Whole) -> Whole:
        """The last row of some kind before each row."""
        return queues.before(queues.latest(np.where(is_one, number, NIL)))

    lock = last(locks)
    holder = np.where(lock == NIL, NIL, hold[lock.clip(0)])
    freed = last((did == Did.UNLOCK) & (hold == holder))
    forgot = last(did == NIL)
    age_ns = at - at[lock.clip(0)]
    cases = Cases.of(
        (lock == NIL, "first"),
        (holder == hold, "renewed"),
        (freed > lock, "freed"),
        (forgot > lock, "forgotten"),
        (age_ns >= LIVES_NS, "expired"),
        (age_ns >= _SURELY_NS, "old"),
        otherwise="held",
    )
    mine = np.flatnonzero(locks)
    yield from told(LOCKED_TWICE, cases[mine], lambda found: part.place(rows[order[mine[found]]]))


CHECKS: Final[tuple[Callable[[Part], Iterator[pa.RecordBatch]], ...]] = (locked_twice,)
