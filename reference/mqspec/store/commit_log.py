"""CommitLog: all messages of a broker, in the order in which they came (CommitLog.java, 5.3.3)."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

from mqspec.core.log import DELAY_LEVELS_MS, Appended, Dispatch, Span, dispatch_of_record
from mqspec.core.record import (
    BLANK_BYTES_MIN,
    Bad,
    Blank,
    Outline,
    Record,
    decode_outline,
    decode_record,
    encode_blank,
)
from mqspec.core.recovery import Segment, Walked
from mqspec.core.retention import StoredSegment
from mqspec.store.files import DISK, Disk
from mqspec.store.mapped_file import MappedFileQueue

BY_CALL_MIN = 4096  # bytes: below, a call takes longer than the map, all in all


class CommitLog:
    """The segments, `segment_size` bytes each. Where records are is known by the store's state.

    With a transient store pool records stay in memory until `commit` writes them to the files.
    """

    def __init__(
        self,
        directory: Path,
        segment_size: int,
        disk: Disk = DISK,
        transient_store_pool: bool = False,
        delay_levels: Sequence[int] = DELAY_LEVELS_MS,
    ) -> None:
        self._files = MappedFileQueue(directory, segment_size, disk)
        self._transient_store_pool = transient_store_pool
        self._delay_levels = delay_levels
        self._uncommitted: list[tuple[int, bytes]] = []  # positions and what to write there

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
        """The record of `size` bytes at a position. Its CRC is not checked, no more than by who
        pulls it: only recovery does that (CommitLog.lookMessageByOffset, 5.3.3)."""
        return decode_record(self._files.read(position, size), check_crc=False)

    def append(self, runs: Sequence[tuple[Appended, bytes]]) -> None:
        """Write runs of records, each from the place on that core.log.append_message gave to
        its first. Raises OSError where the disk has no room for them, and writes nothing then.
        """
        for place, encoded in runs:
            if place.blank:
                self._files.reserve(place.blank.min, BLANK_BYTES_MIN)
            self._files.reserve(place.position, len(encoded))
        for place, encoded in runs:
            if place.blank:
                self._write(place.blank.min, encode_blank(place.blank.max - place.blank.min))
            self._write(place.position, encoded)

    def commit(self) -> None:
        """Write to the files what was appended."""
        for position, data in self._uncommitted:
            self._files.write(position, data)
        self._uncommitted.clear()

    def scan(self, position: int) -> Generator[Walked, None, None]:
        """Walk the log from a record on, to the first bytes that are no record of this place.

        A blank leads to the next segment; where there is none, the walk ends before the
        blank, and the next append writes over it.
        """
        while (file := self._files.file_at(position)) is not None:
            start = self._files.start_of(position)
            with memoryview(file) as view:
                while found := decode_outline(view, position - start):
                    if found.physical_offset != position:
                        return
                    position += found.size
                    yield position, found
                at_blank = isinstance(decode_record(view, position - start), Blank)
            position = start + self._files.file_size
            if not at_blank or self._files.file_at(position) is None:
                return
            yield position, None

    def dispatch_of(self, outline: Outline) -> Dispatch:
        """The dispatch of a record that a scan found."""
        data = self._files.read(outline.physical_offset, outline.size)
        record = decode_record(data, check_crc=False)  # the scan has checked it
        assert isinstance(record, Record)
        return dispatch_of_record(record, self._delay_levels)

    def flush(self, written: Span) -> None:
        """Return when the bytes of the span are on disk."""
        self._files.flush(*written)

    def stored_segments(self) -> tuple[StoredSegment, ...]:
        """The segments as the directory shows them, ascending."""
        files = self._files
        return tuple(StoredSegment(start, files.last_modified_ms(start)) for start in files.starts)

    def delete_before(self, position: int) -> None:
        """Remove the segments that lie before a position."""
        self._files.delete_before(position)

    def truncate(self, position: int) -> None:
        """Leave nothing at or behind a position, on disk when this returns."""
        self._files.truncate(position)

    def close(self) -> None:
        """Unmap the segments."""
        self._files.close()

    def _write(self, position: int, data: bytes) -> None:
        if self._transient_store_pool:
            self._uncommitted.append((position, data))
        elif len(data) >= BY_CALL_MIN:
            self._files.write_by_call(position, data)
        else:
            self._files.write(position, data)

    def _first_timestamp(self, start: int) -> int | None:
        _, first = next(self.scan(start), (start, None))
        return first.store_timestamp if first else None
