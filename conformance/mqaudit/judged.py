"""What leaves a stage: rows of one schema, be they counts, findings, or open questions.

A row that holds is only counted. What a queue cannot tell of itself, as whether a message was
handled when it came again elsewhere, leaves it as a row that `by_message` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqaudit.check import Check
from mqaudit.columns import Flags, Whole, nullable
from mqaudit.report import Judgement


class Row(IntEnum):
    """What a row is."""

    HELD = 1  # `n` instances that held
    FOUND = 2  # an instance that turned out otherwise
    # The first time that a group got a message from one place, by try; `value` is the position at
    # which its recorder first saw it come from there.
    DELIVERY = 3
    EVIDENCE = 4  # what a group did with a message where it was not delivered to a member
    STORED = 5  # a message that was not handled where it was stored: see `losses`
    SENT = 6  # what came of a send, of which the message is named
    REFUSED = 7  # likewise, where it was refused
    INVOKED = 8  # a try, and who recorded it
    SEAT = 9  # what is known of a member at a queue
    STRETCH = 10  # who owned a queue: see `tables.owners`
    PUBLISHED = 11  # the transaction of a message was committed
    ROLLED_BACK = 12  # or rolled back
    DELAYED = 13  # it was sent with a delay, and is not to come before the time `value`
    CAME = 14  # what was sent so came to a member at the time `value`
    CAUSED = 15  # a try was made after another recorder's event, whose recorder and position it has


class Known(IntFlag):
    """What is known of a group and a message from one place."""

    HANDLED = 1
    UNSAID = 2  # received by a member that does not record what it has finished
    GIVEN_BACK = 4
    ELSEWHERE = 8  # received by a client that owns nothing
    RUN_CRASHED = 16  # a broker of the run crashed


_TEXT: Final = pa.string()
_FIELDS: Final = {
    "row": pa.int32(),
    "check": _TEXT,
    "outcome": _TEXT,
    "n": pa.int64(),
    "run": _TEXT,
    "process": _TEXT,
    "seq": pa.int64(),
    "consumer_group": _TEXT,
    "topic": _TEXT,
    "broker": _TEXT,
    "queue_id": pa.int64(),
    "queue_offset": pa.int64(),
    "client_id": _TEXT,
    "value": pa.int64(),
    "message": _TEXT,
    "store_epoch": pa.int64(),
    "attempt": pa.int64(),
    "known": pa.int32(),
}
ARROW: Final = pa.schema(list(_FIELDS.items()))
_SPARK: Final = {_TEXT: "string", pa.int64(): "long", pa.int32(): "int"}
SCHEMA: Final = ", ".join(f"`{name}` {_SPARK[kind]}" for name, kind in _FIELDS.items())

_BATCH_ROWS: Final = 1 << 16


def batches(size: int, columns: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
    """Rows of the schema; a column may be one value for all of them, or be left out."""
    if not size:
        return
    arrays = []
    for name, kind in _FIELDS.items():
        column = columns.get(name)
        if column is None:
            arrays.append(pa.nulls(size, kind))
        elif isinstance(column, (int, str)):
            arrays.append(pa.repeat(pa.scalar(column, kind), size))
        elif isinstance(column, np.ndarray):
            arrays.append(nullable(column.astype(np.int64)).cast(kind))
        else:
            arrays.append(column)
    yield from pa.Table.from_arrays(arrays, schema=ARROW).to_batches(_BATCH_ROWS)


@dataclass(frozen=True)
class Cases:
    """How each of some instances turned out: the first case that applies, else the last one."""

    names: Sequence[str]
    codes: Whole

    @classmethod
    def of(cls, *cases: tuple[Flags, str], otherwise: str) -> Cases:
        names = [*dict.fromkeys(name for _, name in cases), otherwise]
        codes = np.select(
            [flags for flags, _ in cases], [names.index(name) for _, name in cases], len(names) - 1
        )
        return cls(names, codes)

    def __getitem__(self, rows: Flags | Whole) -> Cases:
        return Cases(self.names, self.codes[rows])

    def texts(self) -> pa.Array:
        return pa.array(self.names).take(pa.array(self.codes))


def told(
    check: Check, cases: Cases, place: Callable[[Whole], Mapping[str, Any]]
) -> Iterator[pa.RecordBatch]:
    """What a check says of instances: how many of them held, and each of the others.

    `place` gives the columns of the instances with some numbers.
    """
    number = np.bincount(cases.codes, minlength=len(cases.names))
    held = np.array([check.outcomes[name].judgement is Judgement.HELD for name in cases.names])
    for code in np.flatnonzero(held & (number > 0)).tolist():
        name, n = cases.names[code], int(number[code])
        yield from batches(1, {"row": Row.HELD, "check": check.name, "outcome": name, "n": n})
    found = np.flatnonzero(~held[cases.codes])
    if len(found):
        columns = {name: column for name, column in place(found).items() if name in check.places}
        about = {"row": Row.FOUND, "check": check.name, "outcome": cases[found].texts(), "n": 1}
        yield from batches(len(found), about | columns)
