"""The check of places: one offset of a queue is one message's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import Groups, Whole, combined, ordered
from mqaudit.history_checks import GIVEN_TWICE
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


CHECKS: Final[tuple[Callable[[Part], Iterator[pa.RecordBatch]], ...]] = (given_twice,)
