"""What is judged by queue: all that groups did at a queue, and what was stored in it.

The checks are functions of `Part`; what needs to know what became of a message elsewhere leaves as
a row for `by_message`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from mqaudit import commits, deliveries, locks, losses, places
from mqaudit.part import Part


def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What the checks of queues say of the queues in some batches: rows of `judged.SCHEMA`."""
    part = Part.of(batches)
    if part is not None:
        for check in (
            *losses.CHECKS,
            *deliveries.CHECKS,
            *commits.CHECKS,
            *locks.CHECKS,
            *places.CHECKS,
        ):
            yield from check(part)
