"""IndexFile: a file of the index, and IndexService: all of them (store/index, 5.3.3).

A file is the head (40 bytes), the slots (i32 each) and the entries (20 bytes each: key hash
i32, position i64, seconds i32, previous entry i32), all big-endian; see `mqspec.core.index`.
It is sparse on disk, and mapped when it is first needed.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice, starmap
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from mqrules import UserError
from mqspec.core import index
from mqspec.core.index import (
    ENTRY_BYTES,
    HEADER_BYTES,
    SLOT_BYTES,
    IndexEntry,
    IndexHeader,
    Key,
    Keys,
)
from mqspec.core.log import Dispatch
from mqspec.core.types import Topic
from mqspec.fast.run import StoredRun
from mqspec.store.files import DISK, Disk

if TYPE_CHECKING:
    from mqspec.fast.index_run import Numbers, Run

_HEADER = Struct(">4q2i")
_SLOT = Struct(">i")
_ENTRY = Struct(">iqii")
WAITING_MAX = 2048  # keys that wait to be indexed
RUN_MIN = 64  # keys that are taken at once: for fewer numpy is not worth while


class IndexSize(NamedTuple):
    """How big each file is."""

    max_hash_slot_num: int
    max_index_num: int  # entries, the first of which is never used

    @property
    def file_bytes(self) -> int:
        return HEADER_BYTES + self.max_hash_slot_num * SLOT_BYTES + self.max_index_num * ENTRY_BYTES


class IndexFile:
    """One file, which is there."""

    def __init__(self, path: Path, size: IndexSize, disk: Disk = DISK) -> None:
        self.path = path
        self._size = size
        self._disk = disk
        with path.open("rb") as file:
            header = IndexHeader(*_HEADER.unpack(file.read(HEADER_BYTES)))
        # A file that has no entry yet may say 0.
        first = max(header.index_count, index.FIRST_ENTRY)
        self.header = header._replace(index_count=first)

    @classmethod
    def create(
        cls, path: Path, size: IndexSize, header: IndexHeader, disk: Disk = DISK
    ) -> IndexFile:
        """Make a file without entries."""
        disk.create(path, size.file_bytes).close()
        made = cls(path, size, disk)
        made.header = header
        made.write_header()
        return made

    @property
    def room(self) -> int:
        """How many entries it takes yet."""
        return self._size.max_index_num - self.header.index_count

    def put_keys(self, keys: Iterable[Key]) -> None:
        """Add entries, for which there is room."""
        at = self._entry_at(self.header.index_count)
        added = index.put_keys(self.header, self._size.max_hash_slot_num, self._slot, keys)
        entries = b"".join(starmap(_ENTRY.pack, added.entries))
        self._map[at : at + len(entries)] = entries
        for number, head in added.slots.items():
            at = HEADER_BYTES + number * SLOT_BYTES
            self._map[at : at + SLOT_BYTES] = _SLOT.pack(head)
        self.header = added.header
        self.write_header()

    def put_run(self, run: Run) -> None:
        """Add many entries, for which there is room."""
        from mqspec.fast import index_run

        count = self._size.max_hash_slot_num
        at = self._entry_at(self.header.index_count)
        added = index_run.put_run(self.header, count, self._slots, run)
        self._map[at : at + len(added.entries)] = added.entries
        self._disk.write_items(self._map, HEADER_BYTES, added.slots, added.heads)
        self.header = added.header
        self.write_header()

    def write_header(self) -> None:
        """Write what entries there are."""
        self._map[:HEADER_BYTES] = _HEADER.pack(*self.header)

    def select_phy_offset(self, hash_: int, begin_ms: int, end_ms: int) -> Iterable[int]:
        """Positions of records whose key has the hash and that were stored in a time, the
        newest first. Times are known to the second."""
        slot = self._slot(hash_ % self._size.max_hash_slot_num)
        return index.select_phy_offset(self.header, slot, self._entry, hash_, begin_ms, end_ms)

    def flush(self) -> None:
        """Return when all of it is on disk."""
        if "_map" in self.__dict__:
            self._map.flush()

    def close(self) -> None:
        """Unmap it."""
        if "_map" in self.__dict__:
            self._map.close()
            del self._map

    @cached_property
    def _map(self) -> mmap.mmap:
        return self._disk.map(self.path, self._size.file_bytes)

    def _entry_at(self, number: int) -> int:
        slots_bytes = self._size.max_hash_slot_num * SLOT_BYTES
        return HEADER_BYTES + slots_bytes + number * ENTRY_BYTES

    def _slots(self, numbers: Numbers) -> Numbers:
        import numpy as np

        # Nothing may hold on to the map, or it could not be closed.
        slots = np.frombuffer(self._map, _SLOT.format, self._size.max_hash_slot_num, HEADER_BYTES)
        return slots[numbers].astype(np.int64)

    def _slot(self, number: int) -> int:
        at = HEADER_BYTES + number * SLOT_BYTES
        head: int = _SLOT.unpack(self._map[at : at + SLOT_BYTES])[0]
        return head

    def _entry(self, number: int) -> IndexEntry:
        at = self._entry_at(number)
        return IndexEntry(*_ENTRY.unpack(self._map[at : at + ENTRY_BYTES]))


class QueryOffsetResult(NamedTuple):
    """Where records with a key may be, and how far the index is."""

    phy_offsets: tuple[int, ...] = ()  # ascending
    index_last_update_timestamp: int = 0
    index_last_update_phy_offset: int = 0


class IndexService:
    """The index files of a store, in one directory. `clock_ms` names them.

    Records that are added wait until it is worth while to index them, or somebody asks.
    """

    def __init__(
        self, directory: Path, size: IndexSize, clock_ms: Callable[[], int], disk: Disk = DISK
    ) -> None:
        self._directory = directory
        self._size = size
        self._clock_ms = clock_ms
        self._disk = disk
        self._files: list[IndexFile] = []  # ascending
        self._waiting = Keys([], [], [], [])
        self.index_msg_timestamp = 0  # as in the checkpoint: the end of the last full file, ms

    def check(self) -> None:
        """Raise UserError where a file cannot be of the index. Changes nothing.

        It may be empty: a crash leaves it so.
        """
        for path in self._paths():
            if not path.is_file() or path.stat().st_size not in (0, self._size.file_bytes):
                raise UserError(
                    str(path),
                    f"not an index file of {self._size.file_bytes} bytes",
                    "open the store with the index sizes that it was written with, or remove "
                    "the file: messages in it are then not found by key",
                )

    def load(self, abnormal: bool, index_msg_timestamp: int) -> None:
        """Open the files. After a stop that was not clean those are removed that the checkpoint
        does not cover."""
        self.index_msg_timestamp = index_msg_timestamp
        for path in self._paths():
            if path.stat().st_size == 0:
                self._disk.remove(path)
                continue
            file = IndexFile(path, self._size, self._disk)
            if abnormal and not index.is_covered(file.header, index_msg_timestamp):
                self._disk.remove(path)
            else:
                self._files.append(file)

    def add(self, dispatches: Sequence[Dispatch]) -> None:
        """Records, the next ones in the order of the log, are to be indexed.

        Raises OSError where too many wait that cannot be; these were not added then.
        """
        self._make_room()
        self._waiting.add(dispatches)

    def add_run(self, run: StoredRun) -> None:
        """The same of a run."""
        self._make_room()
        topics = [topic for topic, _ in run.queues]
        self._waiting.add_columns(run.properties, b"", topics, run.positions, run.store_timestamps)

    def build(self) -> None:
        """Index the records that were added, but for those that were indexed before. Raises
        OSError where there is no room for another file: the rest goes on waiting."""
        if not self._waiting.keys:
            return
        columns = self._waiting.not_indexed(self._last().header)
        if len(columns.keys) < RUN_MIN:
            self._put_keys(columns.hashed())
        else:
            self._put_run(*columns)
        self._waiting = Keys([], [], [], [])

    def _make_room(self) -> None:
        if len(self._waiting.keys) >= WAITING_MAX:
            self.build()

    def _put_keys(self, keys: list[Key]) -> None:
        while keys:
            file = self._last()
            room = file.room
            file.put_keys(keys[:room])
            keys = keys[room:]

    def _put_run(
        self,
        topics: Sequence[Topic],
        keys: Sequence[bytes],
        positions: Sequence[int],
        store_timestamps: Sequence[int],
    ) -> None:
        import numpy as np

        from mqspec.fast import index_run

        left = index_run.Run(
            index_run.key_hashes(topics, keys),
            np.fromiter(positions, np.int64, len(keys)),
            np.fromiter(store_timestamps, np.int64, len(keys)),
        )
        while len(left.key_hashes):
            file = self._last()
            run, left = left.cut(file.room)
            file.put_run(run)

    def query_offset(
        self, topic: Topic, key: str, max_count: int, begin_ms: int, end_ms: int
    ) -> QueryOffsetResult:
        """The newest records of a topic whose key has this one's hash."""
        with suppress(OSError):  # what finds no room is not found
            self.build()
        if not self._files:
            return QueryOffsetResult()
        hash_ = index.key_hash(topic, key)
        found: list[int] = []
        for file in reversed(self._files):
            if index.is_time_matched(file.header, begin_ms, end_ms):
                room = max(0, max_count - len(found))
                found += islice(file.select_phy_offset(hash_, begin_ms, end_ms), room)
            if file.header.begin_timestamp < begin_ms or len(found) >= max_count:
                break

        last = self._files[-1].header
        return QueryOffsetResult(tuple(sorted(found)), last.end_timestamp, last.end_phy_offset)

    def delete_expired_file(self, log_min: int) -> None:
        """Remove files all of whose records are gone, but for the last one."""
        with suppress(OSError):  # or nothing would make room
            self.build()
        while len(self._files) > 1 and self._files[0].header.end_phy_offset < log_min:
            file = self._files.pop(0)
            file.close()
            self._disk.remove(file.path)

    def flush(self) -> None:
        """Return when the last file is on disk; the others are since they were full."""
        if self._files:
            self._files[-1].flush()

    def close(self) -> None:
        """Unmap the files."""
        while self._files:
            self._files.pop().close()

    def _last(self) -> IndexFile:
        """The file that takes the next entry."""
        if not self._files:
            self._begin_file(IndexHeader())
        elif (last := self._files[-1]).room <= 0:
            last.flush()
            self.index_msg_timestamp = last.header.end_timestamp
            self._begin_file(last.header.following())
        return self._files[-1]

    def _begin_file(self, header: IndexHeader) -> None:
        renamed = [self._directory, *self._disk.make_directory(self._directory)]
        now_ms = self._clock_ms()
        while (path := self._directory / _name(now_ms)).exists():
            now_ms += 1
        self._files.append(IndexFile.create(path, self._size, header, self._disk))
        for directory in renamed:
            self._disk.sync_directory(directory)

    def _paths(self) -> list[Path]:
        return sorted(self._directory.iterdir()) if self._directory.is_dir() else []


def _name(time_ms: int) -> str:
    """yyyyMMddHHmmssSSS, in local time."""
    seconds, ms = divmod(time_ms, 1000)
    return time.strftime("%Y%m%d%H%M%S", time.localtime(seconds)) + f"{ms:03}"
