"""ConsumeQueue: where the records of one queue lie, 20 bytes each (ConsumeQueue.java, 5.3.3).

A unit is the record's position in the CommitLog (i64), its size (i32) and its tags code
(i64), all big-endian; the unit of queue offset k is at byte 20 k.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mqspec.core.log import UNIT_BYTES, UNIT_LAYOUT, Span, Unit
from mqspec.core.recovery import BLANK_UNIT
from mqspec.store.files import DISK, Disk
from mqspec.store.mapped_file import MappedFileQueue

_BLANK = UNIT_LAYOUT.pack(*BLANK_UNIT)
_CHUNK = 1024 * UNIT_BYTES
FILES_SCANNED = 3  # at load, from the end: earlier files were on disk long ago


class ConsumeQueue:
    """The files of one queue. Which of its units count is known by the store's state."""

    def __init__(self, directory: Path, units_per_file: int, disk: Disk = DISK) -> None:
        self._files = MappedFileQueue(directory, units_per_file * UNIT_BYTES, disk)
        self._end: int | None = None  # byte behind the last unit; None: there is no file
        self._dirty_from: int | None = None  # byte: from there on it was written, not flushed

    def check(self) -> None:
        """Raise UserError where the files are not those of a ConsumeQueue."""
        self._files.check()

    def load(self) -> Span:
        """Map the files, and return the queue offsets that they hold, blank units included.

        A unit with size 0 was never written: what follows it does not count.
        """
        self._files.load()
        starts = self._files.starts
        if not starts:
            return Span(0, 0)
        trusted = starts[-FILES_SCANNED:][0]
        end = self._written(trusted // UNIT_BYTES)
        self._end = end * UNIT_BYTES
        return Span(starts[0] // UNIT_BYTES, end)

    def unit(self, queue_offset: int) -> Unit:
        """The unit at a queue offset that the queue holds."""
        return Unit(*UNIT_LAYOUT.unpack(self._files.read(queue_offset * UNIT_BYTES, UNIT_BYTES)))

    def units(self, queue_offset: int, count: int) -> Iterator[Unit]:
        """Units from a queue offset on, at most `count`, and no further than its file goes."""
        data = self._files.read(queue_offset * UNIT_BYTES, count * UNIT_BYTES)
        return map(Unit._make, UNIT_LAYOUT.iter_unpack(data))

    def put(self, queue_offset: int, data: bytes) -> None:
        """Write units that follow each other, as `core.log.pack_units` gives them. What is left
        out before them, at the head of the first file or where units of expired records were
        lost, is filled with blank units: readers take a unit with size 0 for the end."""
        begin = at = queue_offset * UNIT_BYTES
        if at != self._end:
            begin = self._fill_before(at)
        self._files.write(at, data)
        self._end = at + len(data)
        # Last: a flush that another thread does meanwhile has not seen all of it.
        if self._dirty_from is None or begin < self._dirty_from:
            self._dirty_from = begin

    def _fill_before(self, at: int) -> int:
        """Blank units up to a byte; from where on something is written then."""
        end = self._files.start_of(at) if self._end is None else self._end
        begin = min(end, at)
        while end < at:
            following = min(at, self._files.start_of(end) + self._files.file_size)
            self._files.write(end, _BLANK * ((following - end) // UNIT_BYTES))
            end = following
        return begin

    def delete_before(self, queue_offset: int) -> None:
        """Remove the files of units before a queue offset."""
        self._files.delete_before(queue_offset * UNIT_BYTES)

    def truncate(self, queue_offset: int) -> None:
        """Drop the units from a queue offset on, on disk when this returns."""
        self._files.truncate(queue_offset * UNIT_BYTES)
        self._end = queue_offset * UNIT_BYTES if self._files.starts else None

    def remove(self) -> None:
        """Remove the files, on disk when this returns. Nothing can be put any more."""
        self._files.remove()
        self._end = None

    @property
    def is_dirty(self) -> bool:
        return self._dirty_from is not None

    def flush(self) -> None:
        """Return when all units are on disk. Another thread may ask for it."""
        begin, self._dirty_from = self._dirty_from, None
        if begin is None or self._end is None:
            return
        try:
            self._files.flush(begin, self._end)
        except OSError:
            self._dirty_from = begin
            raise

    def close(self) -> None:
        """Unmap the files."""
        self._files.close()

    def _written(self, queue_offset: int) -> int:
        """The offset of the first unit, from one on, that was never written."""
        while data := self._files.read(queue_offset * UNIT_BYTES, _CHUNK):
            for position, size, _ in UNIT_LAYOUT.iter_unpack(data):
                if position < 0 or size <= 0:
                    return queue_offset
                queue_offset += 1
        return queue_offset
