"""What of a store is plain: a record that is right in itself and has its unit, and that unit.

A record says which unit is its own: that of its topic, queue and queue offset. A unit says where
its record is. So each is held against the other where it lies, without sorting either. Many plain
ones in a row are one row, a *run*; whatever else is there has a row of its own, for the checks.
A record before or behind which its queue has no other in the same part of the log is no plain
one, so that checks can look across parts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mqaudit.segments import (
    LOG_COLUMNS,
    UNIT,
    UNIT_BYTES,
    Octets,
    Others,
    Part,
    Records,
    Whole,
    batches,
    is_written,
    mapped,
    table,
    written_units,
)
from mqspec.core.record import SysFlag

Flags: TypeAlias = npt.NDArray[np.bool_]

FILE: Final = "[0-9]" * 20  # a segment, or a file of a ConsumeQueue, by its first byte's offset
_PART_ROWS: Final = 1 << 30  # a part of a log is judged in one
_SEGMENTS_MAPPED: Final = 64
# Of a transaction only what was committed takes a queue offset and a unit.
_OF_TRANSACTION: Final = SysFlag.PREPARED | SysFlag.COMMIT | SysFlag.ROLLBACK
_TAKES_NONE: Final = (SysFlag.PREPARED, SysFlag.ROLLBACK)

LOG: Final[Mapping[str, pa.DataType]] = {
    "kind": pa.string(),  # run, record, blank or unreadable
    "n": pa.int64(),  # how many records a run has, else 1
    "queued": pa.int64(),  # how many of them take a queue offset and a unit
    "segment": pa.int64(),
    "physical_offset": pa.int64(),
    "size": pa.int64(),  # of all of a run
    # Of records only:
    "topic": pa.string(),
    "queue_id": pa.int64(),
    "queue_offset": pa.int64(),
    "before": pa.int64(),  # the queue offset of the one before it in its queue, in this part
    "has_unit": pa.bool_(),  # its own unit points to it
    "crc_held": pa.bool_(),
}

UNITS: Final[Mapping[str, pa.DataType]] = {
    "kind": pa.string(),  # run or unit
    "n": pa.int64(),
    "topic": pa.string(),
    "queue_id": pa.int64(),
    "queue_offset": pa.int64(),  # of a run's first
    "before": pa.int64(),  # the queue offset of the written unit before it in this file
    "physical_offset": pa.int64(),
    "size": pa.int64(),
    # Of units only:
    "meets": pa.string(),  # what is at the place: its record, another record, or nothing
    "fits": pa.bool_(),  # what is there has the size that the unit names
    "owned": pa.bool_(),  # another record is there, whose own unit points to it
}

ITS_RECORD, ANOTHER, NOTHING = "its record", "another record", "nothing"


class _Placed(NamedTuple):
    """Records that a queue holds, by their topics (as an index into `names`), ids and offsets."""

    names: list[bytes]
    topic: Whole
    queue_id: Whole
    queue_offset: Whole
    takes_unit: Flags

    @classmethod
    def of(cls, rows: Records) -> _Placed:
        topics = rows.values(pa.binary(), rows.topic_at, rows.topic_size).dictionary_encode()
        return cls(
            names=topics.dictionary.to_pylist(),
            topic=topics.indices.to_numpy().astype(np.int64),
            queue_id=LOG_COLUMNS["queue_id"].of(rows),
            queue_offset=LOG_COLUMNS["queue_offset"].of(rows),
            takes_unit=~np.isin(rows.sys_flag & _OF_TRANSACTION, _TAKES_NONE),
        )

    def queues(self) -> Iterator[tuple[bytes, int, Whole]]:
        """Each queue: its topic, its id, and which of the records it holds, in their order."""
        which = np.flatnonzero(self.takes_unit)
        order = which[np.lexsort((self.queue_id[which], self.topic[which]))]
        topic, queue_id = self.topic[order], self.queue_id[order]
        ends = np.flatnonzero((np.diff(topic) != 0) | (np.diff(queue_id) != 0)) + 1
        for mine in np.split(order, ends) if len(order) else ():
            yield self.names[int(self.topic[mine[0]])], int(self.queue_id[mine[0]]), mine


class Store:
    """The files of a store, looked into at any place."""

    def __init__(self, root: Path) -> None:
        self._segments = sorted((root / "commitlog").glob(FILE))
        self._begins = np.array([int(file.name) for file in self._segments], np.int64)
        queues = root / "consumequeue"
        folders = queues.iterdir() if queues.is_dir() else ()
        self._topics = {os.fsencode(folder.name): folder for folder in folders}
        self._files = cache(self._list_files)

    def _list_files(self, topic: bytes, queue_id: int) -> tuple[Whole, list[Path]]:
        """Where the files of a queue begin, as queue offsets."""
        folder = self._topics.get(topic)
        files = sorted((folder / str(queue_id)).glob(FILE)) if folder else []
        return np.array([int(file.name) // UNIT_BYTES for file in files], np.int64), files

    def units(self, topic: bytes, queue_id: int, offsets: Whole) -> tuple[Whole, Whole]:
        """Where the units with these offsets point to, and the sizes that they name; -1: none."""
        position, size = np.full((2, len(offsets)), -1)
        begins, files = self._files(topic, queue_id)
        which = np.searchsorted(begins, offsets, "right") - 1
        for number in np.unique(which[which >= 0]).tolist():
            mine = np.flatnonzero(which == number)
            index = offsets[mine] - begins[number]
            within = index < files[number].stat().st_size // UNIT_BYTES
            mine, index = mine[within], index[within]
            if not len(mine):
                continue
            first, last = int(index.min()), int(index.max())
            units = np.fromfile(files[number], UNIT, last - first + 1, offset=first * UNIT_BYTES)
            units = units[index - first]
            written = is_written(units)
            position[mine[written]] = units["position"][written]
            size[mine[written]] = units["size"][written]
        return position, size

    def records(self, positions: Whole) -> Iterator[tuple[Whole, Records]]:
        """The records that begin at some of the positions: which of these, and the records."""
        which = np.searchsorted(self._begins, positions, "right") - 1
        for number in np.unique(which[which >= 0]).tolist():
            mine = np.flatnonzero(which == number)
            begin = int(self._begins[number])
            rows = Records(_segment(str(self._segments[number])), begin, positions[mine] - begin)
            there = rows.is_begun & rows.is_whole
            yield (mine, rows) if there.all() else (mine[there], rows[there])


@lru_cache(_SEGMENTS_MAPPED)
def _segment(path: str) -> Octets:
    return np.frombuffer(mapped(path), np.uint8)


def log_rows(store: Store, part: Part) -> Iterator[pa.RecordBatch]:
    """A part of a segment, as rows with the columns LOG."""
    for found in batches(part, _PART_ROWS):
        if isinstance(found, Others):
            ones = np.ones(len(found.at), np.int64)
            yield table(LOG, found.columns(part.base) | {"n": ones, "queued": 0 * ones})
        else:
            yield _of_records(store, found)


def _of_records(store: Store, rows: Records) -> pa.RecordBatch:
    placed = _Placed.of(rows)
    count = len(rows.at)
    before = np.zeros(count, np.int64)
    is_first, is_last, has_unit, has_size = np.zeros((4, count), np.bool_)

    for topic, queue_id, mine in placed.queues():
        offsets = placed.queue_offset[mine]
        before[mine[1:]] = offsets[:-1]
        is_first[mine[0]] = is_last[mine[-1]] = True
        position, size = store.units(topic, queue_id, offsets)
        has_unit[mine] = position == rows.base + rows.at[mine]
        has_size[mine] = size == rows.size[mine]

    crc_held = np.fromiter(rows.crc_held(), np.bool_, count)
    follows = ~is_first & ~is_last & (placed.queue_offset == before + 1) & (before >= 0)
    is_plain = crc_held & (~placed.takes_unit | (follows & has_unit & has_size))
    adjacent = rows.at[1:] == rows.at[:-1] + rows.size[:-1]
    first, is_run, n = _runs(is_plain, adjacent)
    ends = first + n - 1
    queued = np.add.reduceat(placed.takes_unit, first, dtype=np.int64) if count else n

    no_queue = is_run | ~placed.takes_unit[first]
    topics = pa.array([_text(name) for name in placed.names], pa.string())
    return table(
        LOG,
        {
            "kind": _either(is_run, "run", "record"),
            "n": n,
            "queued": queued,
            "segment": np.full(len(first), rows.base),
            "physical_offset": rows.base + rows.at[first],
            "size": rows.at[ends] + rows.size[ends] - rows.at[first],
            "topic": topics.take(pa.array(placed.topic[first], mask=is_run)),
            "queue_id": pa.array(placed.queue_id[first], mask=is_run),
            "queue_offset": pa.array(placed.queue_offset[first], mask=is_run),
            "before": pa.array(before[first], mask=no_queue | is_first[first]),
            "has_unit": pa.array(has_unit[first], mask=no_queue),
            "crc_held": pa.array(crc_held[first], mask=is_run),
        },
    )


def unit_rows(store: Store, part: Part, topic: str, queue_id: int) -> pa.RecordBatch:
    """A part of a file of a ConsumeQueue, as rows with the columns UNITS."""
    index, units = written_units(part)
    position, size = (units[name].astype(np.int64) for name in ("position", "size"))
    is_there, is_its, fits, owned = np.zeros((4, len(units)), np.bool_)
    name = os.fsencode(topic)

    for which, rows in store.records(position):
        placed = _Placed.of(rows)
        is_there[which] = placed.takes_unit
        is_topic = np.array([one == name for one in placed.names], np.bool_)
        is_its[which] = (
            placed.takes_unit
            & is_topic[placed.topic]
            & (placed.queue_id == queue_id)
            & (placed.queue_offset == index[which])
        )
        fits[which] = rows.size == size[which]

        # Of the few that meet another record: whether that has a unit of its own.
        strange = np.flatnonzero(~is_its[which])
        other = _Placed.of(rows[strange])
        for its_topic, its_queue_id, mine in other.queues():
            points_to, _ = store.units(its_topic, its_queue_id, other.queue_offset[mine])
            owned[which[strange[mine]]] = points_to == position[which[strange[mine]]]

    before = np.concatenate((index[:1], index[:-1]))
    follows = index == before + 1
    first, is_run, n = _runs(is_its & fits & follows, follows[1:])
    meets = np.where(is_its, ITS_RECORD, np.where(is_there, ANOTHER, NOTHING))[first]
    return table(
        UNITS,
        {
            "kind": _either(is_run, "run", "unit"),
            "n": n,
            "topic": [_text(name)] * len(first),
            "queue_id": np.full(len(first), queue_id),
            "queue_offset": index[first],
            "before": pa.array(before[first], mask=first == 0),
            "physical_offset": position[first],
            "size": size[first],
            "meets": pa.array(meets, pa.string()),
            "fits": fits[first],
            "owned": owned[first],
        },
    )


def _text(name: bytes) -> str:
    """A topic's name as it is shown: one that is damaged may be no text."""
    return name.decode(errors="replace")


def _runs(is_plain: Flags, adjacent: Flags) -> tuple[Whole, Flags, Whole]:
    """Where runs begin and other rows are, which of them are runs, and how many each has.

    `adjacent` says of each but the first whether it lies directly behind the one before it.
    """
    goes_on = is_plain[1:] & is_plain[:-1] & adjacent
    first = np.flatnonzero(np.concatenate((np.ones(min(len(is_plain), 1), np.bool_), ~goes_on)))
    n = np.diff(np.append(first, len(is_plain)))
    return first, is_plain[first], n


def _either(which: Flags, one: str, other: str) -> pa.Array:
    return pa.array([one, other]).take(pa.array(np.where(which, 0, 1)))
