"""CommitLog segments and ConsumeQueue files, decoded with numpy into Arrow.

The layouts are those of `mqspec.core.record` and of ConsumeQueue.java (5.3.3). A segment may
be read in parts at once: a record names its own position, so that a reader that starts in the
middle finds the first record that begins in its part.
"""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from struct import unpack_from
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mqspec.core.record import Host, Magic, SysFlag

Octets: TypeAlias = npt.NDArray[np.uint8]
Whole: TypeAlias = npt.NDArray[np.int64]

BATCH_ROWS: Final = 1 << 16
UNIT_BYTES: Final = 20  # physicalOffset i64 · size i32 · tagsCode i64
BLANK_UNIT_SIZE: Final = 0x7FFFFFFF  # of the units that fill the head of a queue

UNIT: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])

_SIZE_AND_MAGIC: Final = ">iI"
_POSITION: Final = ">q"
_POSITION_AT: Final = 28
_RECORD_BYTES_MIN: Final = 91  # one without topic, body and properties
_MAGICS: Final = {int(Magic.V1), int(Magic.V2)}
_BLANK: Final = int(Magic.BLANK)
_V2: Final = int(Magic.V2)
_BORN_V6: Final = int(SysFlag.BORN_HOST_V6)
_STORE_V6: Final = int(SysFlag.STORE_HOST_V6)
_MAGIC_BYTES: Final = tuple(magic.to_bytes(4, "big") for magic in sorted(_MAGICS))


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes [start, end) of a file whose first byte is `base` of the whole log or queue."""

    path: str
    base: int
    start: int
    end: int


def parts(path: Path, part_bytes: int) -> list[Part]:
    """A file, named by the offset of its first byte, cut into parts."""
    size = path.stat().st_size
    return [
        Part(str(path), int(path.name), start, min(start + part_bytes, size))
        for start in range(0, size, part_bytes)
    ]


def whole(path: Path) -> Part:
    """A file that is not cut."""
    return Part(str(path), int(path.name), 0, path.stat().st_size)


def log_batches(
    part: Part, columns: Sequence[str], topic: str | None = None
) -> Iterator[pa.RecordBatch]:
    """What begins in a part of a segment: records, blanks, and places where nothing is readable.

    `kind` is record, blank or unreadable; of the last two only the place is known, and of an
    unreadable one the size is where its header is whole. With a topic, records of others are left
    out before anything of them is decoded.
    """
    types = {name: LOG_COLUMNS[name].type for name in columns}
    for found in batches(part, BATCH_ROWS):
        if isinstance(found, Others):
            yield table(types, found.columns(part.base))
            continue
        rows = found if topic is None else found.of_topic(topic)
        yield table(types, {name: LOG_COLUMNS[name].of(rows) for name in columns})


def table(types: Mapping[str, pa.DataType], values: Mapping[str, Any]) -> pa.RecordBatch:
    """A batch with these columns. One that has no values is empty."""
    rows = len(next(iter(values.values())))
    arrays = [
        pa.array(values[name], kind) if name in values else pa.nulls(rows, kind)
        for name, kind in types.items()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(types))


UNIT_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "topic": pa.string(),
    "queue_id": pa.int64(),
    "queue_offset": pa.int64(),
    "physical_offset": pa.int64(),
    "size": pa.int64(),
    "tags_code": pa.int64(),
}


def unit_batches(part: Part, topic: str, queue_id: int) -> Iterator[pa.RecordBatch]:
    """The written units of a part of a ConsumeQueue file."""
    index, units = written_units(part)
    values = (
        [topic] * len(units),
        np.full(len(units), queue_id),
        index,
        *(units[field].astype(np.int64) for field in ("position", "size", "tags_code")),
    )
    yield pa.RecordBatch.from_arrays(
        [pa.array(v, kind) for v, kind in zip(values, UNIT_COLUMNS.values(), strict=True)],
        names=list(UNIT_COLUMNS),
    )


def written_units(part: Part) -> tuple[Whole, npt.NDArray[Any]]:
    """The written units of a part of a ConsumeQueue file, by their queue offsets."""
    count = (part.end - part.start) // UNIT_BYTES
    units = np.fromfile(part.path, UNIT, count, offset=part.start)
    written = is_written(units)
    index = (part.base + part.start) // UNIT_BYTES + np.flatnonzero(written)
    return index, units[written]


def is_written(units: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether a unit names a record; the others fill the head of a queue, or were never written."""
    sizes = units["size"]
    return np.asarray((sizes > 0) & (sizes != BLANK_UNIT_SIZE), np.bool_)


def mapped(path: str) -> mmap.mmap:
    """A segment. It is never closed: it goes when no array looks into it any more."""
    with Path(path).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@dataclass
class Others:
    """What begins in a part of a segment and is no record: blanks, and nothing readable; each with
    its size, where its header is whole."""

    kinds: list[str] = field(default_factory=list)
    at: list[int] = field(default_factory=list)
    sizes: list[int | None] = field(default_factory=list)

    def add(self, kind: str, at: int, size: int | None = None) -> None:
        self.kinds.append(kind)
        self.at.append(at)
        self.sizes.append(size)

    def columns(self, base: int) -> dict[str, Any]:
        return {
            "kind": self.kinds,
            "segment": [base] * len(self.at),
            "physical_offset": [base + at for at in self.at],
            "size": self.sizes,
        }


def batches(part: Part, rows_max: int) -> Iterator[Records | Others]:
    """The records that begin in a part of a segment, some at a time, and at last what else does.

    What is no record is reported by the part from whose records it is reached, even if it
    lies behind that part: the next one begins with the first record that it finds.
    """
    view = mapped(part.path)
    octets = np.frombuffer(view, np.uint8)
    found, others = _walk(view, octets, part)
    for first in range(0, len(found), rows_max):
        rows = Records(octets, part.base, found[first : first + rows_max])
        if not rows.is_whole.all():
            torn = rows[~rows.is_whole]
            for at, size in zip(torn.at.tolist(), torn.size.tolist(), strict=True):
                others.add("unreadable", at, size)
            rows = rows[rows.is_whole]
        yield rows
    yield others


def _walk(view: mmap.mmap, octets: Octets, part: Part) -> tuple[Whole, Others]:
    """Where headers of records begin in the part, one behind the other, and what else does."""
    found: list[int] = []
    others = Others()
    length = len(view)
    # CPython's find looks at the octet behind what it searches, which is not ours behind the map:
    # where nothing else is mapped there, the process would die. No record begins that late.
    behind = min(part.end + 4, length - 1)

    def size_at(at: int) -> int:
        """The size of the record at a position, 0 where there is none."""
        if at + _RECORD_BYTES_MIN > length:
            return 0
        size, magic = unpack_from(_SIZE_AND_MAGIC, view, at)
        (position,) = unpack_from(_POSITION, view, at + _POSITION_AT)
        whole = size >= _RECORD_BYTES_MIN and at + size <= length
        return size if magic in _MAGICS and whole and position == part.base + at else 0

    def next_record(at: int) -> int:
        """The first position from `at` on where a record begins, or the part's end."""
        candidates = []
        for magic in _MAGIC_BYTES:
            hit = view.find(magic, at + 4, behind)
            while hit >= 0 and not size_at(hit - 4):
                hit = view.find(magic, hit + 1, behind)
            candidates.append(hit - 4 if hit >= 0 else part.end)
        return min(candidates)

    at = next_record(part.start) if part.start else 0
    reached = at < part.end
    while reached and at < length:
        if size := size_at(at):
            if at >= part.end:
                break
            found.append(at)
            at += size
            continue
        size, magic = unpack_from(_SIZE_AND_MAGIC, view, at) if at + 8 <= length else (0, 0)
        if magic == _BLANK and at + size == length:
            others.add("blank", at, size)
            break
        # What was never written is zero to the end; zeros before a record are a hole.
        after = next_record(at)
        if after < part.end or octets[at : max(part.end, at + 8)].any():
            others.add("unreadable", at)
        at, reached = after, after < part.end
    return np.array(found, np.int64), others


class Records:
    """Records of a segment, by where they begin; a field is decoded only when it is asked for.

    What lies outside the segment is read as its last byte, so that a damaged length leads nowhere
    else: `is_whole` tells.
    """

    def __init__(self, octets: Octets, base: int, at: Whole) -> None:
        self._octets, self.base, self.at = octets, base, at

    def __getitem__(self, which: slice | npt.NDArray[Any]) -> Records:
        return Records(self._octets, self.base, self.at[which])

    def of_topic(self, topic: str) -> Records:
        """Those of a topic."""
        names = self.values(pa.binary(), self.topic_at, self.topic_size)
        return self[pc.equal(names, topic.encode()).to_numpy(zero_copy_only=False)]

    def number(self, at: Whole, code: str) -> Whole:
        """Big-endian numbers at positions; `code` is numpy's."""
        places = at[:, None] + np.arange(np.dtype(code).itemsize)
        octets = self._octets.take(places, mode="clip")
        return octets.view(code)[:, 0].astype(np.int64)

    @cached_property
    def is_begun(self) -> npt.NDArray[np.bool_]:
        """Whether the header of a record that is all in the segment begins there."""
        within = (self.at >= 0) & (self.at + self.size <= len(self._octets))
        magic = np.isin(self.number(self.at + 4, ">u4"), list(_MAGICS))
        here = self.number(self.at + _POSITION_AT, ">i8") == self.base + self.at
        return np.asarray(within & magic & here & (self.size >= _RECORD_BYTES_MIN), np.bool_)

    @cached_property
    def is_whole(self) -> npt.NDArray[np.bool_]:
        """Whether the lengths in a record come to its size (checkMessageAndReturnSize, 5.3.3)."""
        end = self.properties_at + self.properties_size
        return np.asarray((self.body_size >= 0) & (end == self.at + self.size), np.bool_)

    def values(self, kind: pa.DataType, at: Whole, sizes: Whole) -> pa.Array:
        """Strings or binaries of various sizes."""
        offsets = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        index = np.arange(offsets[-1]) + np.repeat(at - offsets[:-1], sizes)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._octets[index])]
        return pa.Array.from_buffers(kind, len(sizes), buffers)

    @cached_property
    def size(self) -> Whole:
        return self.number(self.at, ">i4")

    @cached_property
    def sys_flag(self) -> Whole:
        return self.number(self.at + 36, ">i4")

    @cached_property
    def stored_at(self) -> Whole:
        """Where the store timestamp is: after the born host, of 4 or 16 bytes, and its port."""
        return self.at + 48 + np.where(self.sys_flag & _BORN_V6, 20, 8)

    @cached_property
    def body_at(self) -> Whole:
        return self.stored_at + 8 + np.where(self.sys_flag & _STORE_V6, 20, 8) + 16

    @cached_property
    def body_size(self) -> Whole:
        return self.number(self.body_at - 4, ">i4")

    def store_host(self) -> pa.Array:
        """Who stored each record: `address:port`, as clients know the broker."""
        size = np.where(self.sys_flag & _STORE_V6, 16, 4)
        at = self.stored_at + 8
        hosts = self.values(pa.binary(), at, size + 4).dictionary_encode()
        names = pa.array([_host(host) for host in hosts.dictionary.to_pylist()], pa.string())
        return names.take(hosts.indices)

    @cached_property
    def _topic_head(self) -> Whole:
        """How many bytes say how long the topic is."""
        return np.where(self.number(self.at + 4, ">u4") == _V2, 2, 1)

    @cached_property
    def topic_at(self) -> Whole:
        return self.body_at + self.body_size + self._topic_head

    @cached_property
    def topic_size(self) -> Whole:
        high = np.where(self._topic_head == 2, self.number(self.topic_at - 2, ">u1"), 0)
        return 256 * high + self.number(self.topic_at - 1, ">u1")

    @cached_property
    def properties_at(self) -> Whole:
        return self.topic_at + self.topic_size + 2

    @cached_property
    def properties_size(self) -> Whole:
        return self.number(self.properties_at - 2, ">u2")

    def crc_held(self) -> Iterator[bool]:
        """Whether the stored CRC of each body is that of its bytes."""
        view = self._octets.data
        stored = self.number(self.at + 8, ">i4").tolist()
        bodies = zip(self.body_at.tolist(), self.body_size.tolist(), stored, strict=True)
        for at, size, crc in bodies:
            yield zlib.crc32(view[at : at + size]) & 0x7FFFFFFF == crc


def _host(octets: bytes) -> str:
    return str(Host(octets[:-4], int.from_bytes(octets[-4:], "big")))


class _Column(NamedTuple):
    type: pa.DataType
    of: Callable[[Records], Any]


def _fixed(at: int, code: str) -> _Column:
    return _Column(pa.int64(), lambda rows: rows.number(rows.at + at, code))


LOG_COLUMNS: Final[Mapping[str, _Column]] = {
    "kind": _Column(pa.string(), lambda rows: ["record"] * len(rows.at)),
    "segment": _Column(pa.int64(), lambda rows: np.full(len(rows.at), rows.base)),
    "physical_offset": _Column(pa.int64(), lambda rows: rows.base + rows.at),
    "size": _Column(pa.int64(), lambda rows: rows.size),
    "topic": _Column(
        pa.string(), lambda rows: rows.values(pa.string(), rows.topic_at, rows.topic_size)
    ),
    "queue_id": _fixed(12, ">i4"),
    "queue_offset": _fixed(20, ">i8"),
    "flag": _fixed(16, ">i4"),
    "sys_flag": _Column(pa.int64(), lambda rows: rows.sys_flag),
    "born_timestamp_ms": _fixed(40, ">i8"),
    "store_timestamp_ms": _Column(pa.int64(), lambda rows: rows.number(rows.stored_at, ">i8")),
    "reconsume_times": _Column(pa.int64(), lambda rows: rows.number(rows.body_at - 16, ">i4")),
    "prepared_transaction_offset": _Column(
        pa.int64(), lambda rows: rows.number(rows.body_at - 12, ">i8")
    ),
    "store_host": _Column(pa.string(), lambda rows: rows.store_host()),
    "body_size": _Column(pa.int64(), lambda rows: rows.body_size),
    "crc_held": _Column(pa.bool_(), lambda rows: list(rows.crc_held())),
    "properties": _Column(
        pa.binary(),
        lambda rows: rows.values(pa.binary(), rows.properties_at, rows.properties_size),
    ),
    "body": _Column(
        pa.binary(), lambda rows: rows.values(pa.binary(), rows.body_at, rows.body_size)
    ),
}
