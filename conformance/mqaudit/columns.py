"""Whole columns at once: codes for texts, and windows over rows that stand in groups.

A check sees the rows of many queues together, as numpy arrays of one length. Rows of a group
stand next to each other, in the order in which they are to be read; a `Groups` knows where
each group begins, and gives what a window function of SQL gives. A number that is missing is
`NIL`, which is smaller than any other; a text that is missing has the code 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Whole: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

NIL: Final = -(2**62)
NEVER: Final = 2**62  # later than any event, further than any offset


@dataclass(frozen=True, slots=True)
class Texts:
    """A column of texts as codes in the order of the texts; 0 is the text that is missing."""

    codes: Whole
    known: pa.Array  # by code, the missing one first

    @property
    def count(self) -> int:
        return len(self.known)

    def take(self, rows: Whole) -> pa.Array:
        """The texts of some rows."""
        return self.known.take(pa.array(self.codes[rows]))

    def where(self, wanted: Sequence[bool]) -> Flags:
        """Which rows have one of the texts that are wanted, told by code."""
        return np.asarray(wanted, bool)[self.codes]


def texts(column: pa.ChunkedArray) -> Texts:
    """The codes of a column of texts, which may come with dictionaries already."""
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # of no chunks
        whole = pa.array([], column.type)
    indices = pc.fill_null(whole.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    order = pc.sort_indices(whole.dictionary).to_numpy()
    code = np.zeros(len(order) + 1, np.int64)  # the last, which is at -1, is that of nothing
    code[order] = np.arange(1, len(order) + 1)
    known = pa.concat_arrays([pa.nulls(1, pa.string()), whole.dictionary.take(pa.array(order))])
    return Texts(code[indices], known)


def unordered(column: pa.ChunkedArray) -> Whole:
    """The codes of a column of texts in no order, which is quicker where nearly all differ; -1 of
    what is missing."""
    whole = pc.dictionary_encode(column).unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # of no chunks
        return np.zeros(0, np.int64)
    return np.asarray(pc.fill_null(whole.indices.cast(pa.int64()), -1).to_numpy(), np.int64)


def numbers(column: pa.ChunkedArray) -> Whole:
    """A column of numbers, NIL where there is none."""
    column = column.cast(pa.int64())
    filled = pc.fill_null(column, NIL) if column.null_count else column
    return np.asarray(filled.to_numpy(), np.int64)


def nullable(values: Whole) -> pa.Array:
    """Numbers as Arrow has them."""
    return pa.array(values, pa.int64(), mask=values == NIL)


def combined(*codes: Whole) -> tuple[Whole, Whole]:
    """A code for each combination, dense and in their order, and a row of each."""
    whole = _dense(codes[0])
    for more in codes[1:]:
        more = _dense(more)
        size = int(more.max(initial=0)) + 1
        if (int(whole.max(initial=0)) + 1) * size > NEVER:
            whole = _dense(whole)
        whole = whole * size + more
    whole = _dense(whole)
    rows = np.empty(int(whole.max(initial=-1)) + 1, np.int64)
    rows[whole] = np.arange(len(whole))
    return whole, rows


def _dense(codes: Whole) -> Whole:
    """The same codes in the same order, from 0 and without gaps."""
    if not len(codes):
        return codes
    low = int(codes.min())
    size = int(codes.max()) - low + 1
    if size > 4 * len(codes) + (1 << 16):
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    codes = codes - low
    seen = np.zeros(size, bool)
    seen[codes] = True
    return (np.cumsum(seen) - 1)[codes]


def ordered(*keys: Whole) -> Whole:
    """The rows in the order of keys, the first of which counts most; else as they stand.

    Rows that come from few places are nearly in order already, where timsort is quick: keys that
    fit are packed into one.
    """
    if not len(keys[0]):
        return np.zeros(0, np.int64)
    low = [int(key.min()) for key in keys]
    size = [int(key.max()) - least + 1 for key, least in zip(keys, low, strict=True)]
    if math.prod(size) > NEVER:
        return np.lexsort(keys[::-1])
    packed = np.zeros(len(keys[0]), np.int64)
    for key, least, number in zip(keys, low, size, strict=True):
        packed = packed * number + (key - least)
    return np.argsort(packed, kind="stable")


def joined(left: Sequence[Whole], right: Sequence[Whole]) -> Whole:
    """For each row of the left the row of the right with equal keys, and -1 where there is none.

    The keys of the right are unique.
    """
    size = len(left[0])
    code, _ = combined(*(np.concatenate(both) for both in zip(left, right, strict=True)))
    found = np.full(int(code.max(initial=-1)) + 1, -1, np.int64)
    found[code[size:]] = np.arange(len(code) - size)
    return found[code[:size]]


def paired(left: Sequence[Whole], right: Sequence[Whole]) -> tuple[Whole, Whole]:
    """The rows of all pairs of the left and the right with equal keys."""
    size = len(left[0])
    code, _ = combined(*(np.concatenate(both) for both in zip(left, right, strict=True)))
    order = np.argsort(code[size:], kind="stable")
    keys = code[size:][order]
    first = np.searchsorted(keys, code[:size], "left")
    number = np.searchsorted(keys, code[:size], "right") - first
    return np.repeat(np.arange(size), number), np.asarray(order[spread(first, number)])


def spread(first: Whole, number: Whole) -> Whole:
    """The numbers first, first + 1, ... of each range, one range after the other."""
    total = np.cumsum(number)
    start = np.repeat(first - (total - number), number)
    return np.asarray(np.arange(len(start)) + start, np.int64)


def below(group: Whole, value: Whole, of_group: Whole, of_value: Whole) -> Whole:
    """The last row of a group whose value is smaller than one asked for; -1 where there is none.

    The rows stand in the order of their group and value; asked for is (of_group, of_value).
    """
    if not len(group):
        return np.full(len(of_group), -1)
    low, high = int(value.min()), int(value.max()) + 1
    if (high - low + 1) * (int(max(group.max(), of_group.max(initial=0))) + 1) > NEVER:
        distinct, value = np.unique(value, return_inverse=True)
        of_value = np.searchsorted(distinct, of_value, "left")
        low, high = 0, len(distinct)
    size = high - low + 1
    at = np.searchsorted(
        group * size + (value - low), of_group * size + (np.clip(of_value, low, high) - low)
    )
    found = at - 1
    found[(found < 0) | (group[found] != of_group)] = -1
    return found


def most(code: Whole, size: int, values: Whole, when: Flags | None = None) -> Whole:
    """The greatest value of each of the codes 0 to size - 1; NIL where there is none."""
    found = np.full(size, NIL)
    np.maximum.at(found, *((code, values) if when is None else (code[when], values[when])))
    return found


def least(code: Whole, size: int, values: Whole, when: Flags | None = None) -> Whole:
    """The smallest value of each code that is not NIL; NIL where there is none."""
    when = (values != NIL) if when is None else when & (values != NIL)
    found = np.full(size, NEVER)
    np.minimum.at(found, code[when], values[when])
    found[found == NEVER] = NIL
    return found


def anywhere(code: Whole, size: int, when: Flags) -> Flags:
    """Of each code, whether the flag is up in any row."""
    found = np.zeros(size, bool)
    found[code[when]] = True
    return found


def other_most(group: Whole, values: Whole) -> Whole:
    """For each row the greatest value of the other rows of its group, NIL where there is none."""
    order = ordered(group, values)
    found = np.full(len(group), NIL)
    if not len(group):
        return found
    g, v = group[order], values[order]
    last = np.append(np.flatnonzero(g[1:] != g[:-1]), len(g) - 1)
    first = np.append(0, last[:-1] + 1)
    size = last - first + 1
    top = np.repeat(v[last], size)
    second = np.repeat(np.where(size > 1, v[np.maximum(last - 1, 0)], NIL), size)
    is_last = np.zeros(len(g), bool)
    is_last[last] = True
    found[order] = np.where(is_last, second, top)
    return found


def other_least(group: Whole, values: Whole) -> Whole:
    """Likewise the smallest, NEVER where there is none."""
    found = other_most(group, -values)
    return np.where(found == NIL, NEVER, -found)


@dataclass(frozen=True)
class Groups:
    """Rows in groups, each of which begins where `begins` is up. All results are by row."""

    begins: Flags

    @classmethod
    def of(cls, *keys: Whole) -> Groups:
        """Those of rows that were put in order by these keys first."""
        begins = np.zeros(len(keys[0]), bool)
        begins[:1] = True
        for key in keys:
            begins[1:] |= key[1:] != key[:-1]
        return cls(begins)

    @cached_property
    def number(self) -> Whole:
        """Which group, from 0."""
        return np.cumsum(self.begins) - 1

    @cached_property
    def firsts(self) -> Whole:
        """The first row of each group."""
        return np.flatnonzero(self.begins)

    @cached_property
    def start(self) -> Whole:
        """The first row of the row's group."""
        return self.firsts[self.number]

    @cached_property
    def nth(self) -> Whole:
        """The row's place in its group, from 0."""
        return np.arange(len(self.begins)) - self.start

    def before(self, values: Whole, nothing: int = NIL) -> Whole:
        """The value of the row before; `nothing` in the first row of a group."""
        found = np.full(len(values), nothing, np.int64)
        found[1:] = values[:-1]
        found[self.begins] = nothing
        return found

    def after(self, values: Whole, nothing: int = NIL) -> Whole:
        """The value of the row after; `nothing` in the last row of a group."""
        found = np.full(len(values), nothing, np.int64)
        found[:-1] = values[1:]
        found[:-1][self.begins[1:]] = nothing
        return found

    def count(self, flags: Flags) -> Whole:
        """How often the flag was up so far, in this row as well."""
        total = np.cumsum(flags)
        return total - (total - flags)[self.start]

    def latest(self, values: Whole) -> Whole:
        """The last value that is not missing so far, in this row as well."""
        row = np.where(values != NIL, np.arange(len(values)), -1)
        row = np.maximum.accumulate(row) if len(row) else row
        return np.where(row >= self.start, values[row], NIL)

    def highest(self, values: Whole) -> Whole:
        """The greatest value so far, in this row as well."""
        if not len(values):
            return values
        # Each group is lifted above the one before, by as much as the values lie apart.
        whole = values != NIL
        known = values[whole & (values != NEVER)]
        low, high = int(known.min(initial=0)) - 1, int(known.max(initial=0)) + 1
        if (high - low + 1) * (int(self.number[-1]) + 1) > NEVER:
            distinct, rank = np.unique(values, return_inverse=True)
            lifted = rank + self.number * len(distinct)
            return distinct[np.maximum.accumulate(lifted) - self.number * len(distinct)]
        flat = np.where(whole, np.minimum(values, high), low) - low
        lifted = flat + self.number * (high - low + 1)
        found = np.maximum.accumulate(lifted) - self.number * (high - low + 1) + low
        found[found == low] = NIL
        found[found == high] = NEVER
        return found

    def sum(self, values: Whole) -> Whole:
        """The sum so far, of this row as well."""
        total = np.cumsum(values)
        return total - (total - values)[self.start]
