"""CommitLog: all messages of a broker, in the order in which they came (CommitLog.java, 5.3.3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mqspec.core.log import Appended, Span, dispatch_of
from mqspec.core.record import Bad, Blank, Record, decode_record, encode_blank
from mqspec.core.recovery import Scanned, Segment
from mqspec.store.files import DISK, Disk
from mqspec.store.mapped_file import MappedFileQueue


class CommitLog:
    """The segments, `segment_size` bytes each. Where records are is known by the store's state."""

    def __init__(self, directory: Path, segment_size: int, disk: Disk = DISK) -> None:
        self._files = MappedFileQueue(directory, segment_size, disk)

    def check(self) -> None:
        """Raise UserError where the files are not those of a CommitLog."""
        self._files.check()

    def load(self) -> tuple[Segment, ...]:
        """Map the segments, and look at the first record of each."""
        self._files.load()
        return tuple(Segment(start, self._first_timestamp(start)) for start in self._files.starts)

    def read(self, position: int, length: int) -> bytes:
        """Bytes of one segment; none where the segment is gone."""
        return self._files.read(position, length)

    def record(self, position: int, size: int) -> Record | Blank | Bad:
        """The record of `size` bytes at a position."""
        return decode_record(self._files.read(position, size))

    def append(self, encoded: bytes, place: Appended) -> None:
        """Write records at the place that core.log.append_message gave them."""
        if place.blank:
            room = place.blank.max - place.blank.min
            self._files.write(place.blank.min, encode_blank(room))
        self._files.write(place.position, encoded)

    def scan(self, position: int) -> Iterator[Scanned]:
        """Walk the log from a record on, to the first bytes that are no record of this place.

        A blank leads to the next segment; where there is none, the walk ends before the
        blank, and the next append writes over it.
        """
        while (file := self._files.file_at(position)) is not None:
            start = self._files.start_of(position)
            with memoryview(file) as view:
                found = decode_record(view, position - start)
            match found:
                case Record(physical_offset=there) if there == position:
                    position += found.size
                    yield Scanned(position, dispatch_of(found))
                case Blank() if self._files.file_at(start + self._files.file_size) is not None:
                    position = start + self._files.file_size
                    yield Scanned(position, None)
                case _:
                    return

    def flush(self, written: Span) -> None:
        """Return when the bytes of the span are on disk."""
        self._files.flush(*written)

    def truncate(self, position: int) -> None:
        """Leave nothing at or behind a position, on disk when this returns."""
        self._files.truncate(position)

    def close(self) -> None:
        """Unmap the segments."""
        self._files.close()

    def _first_timestamp(self, start: int) -> int | None:
        first = next(self.scan(start), None)
        return first.record.store_timestamp if first and first.record else None
