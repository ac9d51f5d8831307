"""Files of one size, named by the position of their first byte, as one long array."""

from __future__ import annotations

import mmap
import os
from itertools import pairwise
from pathlib import Path
from threading import Lock

from mqrules import UserError
from mqspec.store.files import DISK, Disk

NAME_DIGITS = 20
ALLOCATED_AT_ONCE = 16 << 20  # bytes; much less than a segment, which a small disk may not hold


class MappedFileQueue:
    """A directory of mapped files (MappedFileQueue.java, 5.3.3). Positions are in bytes.

    Whatever a crash takes, the files that are left follow each other, and only the last one
    may be empty: a file is on disk before the next one is made, and gone before the one that
    it follows.
    """

    def __init__(self, directory: Path, file_size: int, disk: Disk = DISK) -> None:
        self.directory = directory
        self.file_size = file_size
        self._disk = disk
        self._files: dict[int, mmap.mmap] = {}  # by the position of the first byte
        self._open: tuple[int, int] | None = None  # the file written last, and its descriptor
        self._renamed: list[Path] = []  # directories in which names are not on disk yet
        self._flushing = Lock()
        self._allocated = 0  # position: before it a write finds room on the disk

    def check(self) -> None:
        """Raise UserError where a file cannot be one of this array. Changes nothing."""
        for path in self._paths():
            if not (path.name.isdecimal() and len(path.name) == NAME_DIGITS and path.is_file()):
                raise UserError(str(path), "not a store file", "move it out of the store")
            if int(path.name) % self.file_size:
                remedy = "open the store with the file size that it was written with"
                raise UserError(
                    str(path), f"its name is not a multiple of {self.file_size}", remedy
                )

        whole = self._whole()
        for path in whole:
            if (length := path.stat().st_size) != self.file_size:
                raise UserError(
                    str(path),
                    f"a file of {length} bytes, expected {self.file_size}",
                    "open the store with the file size that it was written with, or restore "
                    "the file from a copy",
                )

        for path, following in pairwise(whole):
            missing = int(path.name) + self.file_size
            if int(following.name) != missing:
                raise UserError(
                    str(self._path(missing)), "the file is missing", "restore it from a copy"
                )

    def load(self) -> None:
        """Map all files. An empty last file, which a crash leaves, is removed first."""
        for path in set(self._paths()) - set(self._whole()):
            self._disk.remove(path)
        for path in self._whole():
            self._map(path)

    @property
    def starts(self) -> list[int]:
        """The position of the first byte of each file, ascending."""
        return sorted(self._files)

    def start_of(self, position: int) -> int:
        """Where the file starts that holds, or would hold, the position."""
        return position - position % self.file_size

    def file_at(self, position: int) -> mmap.mmap | None:
        """The bytes of the file that holds the position."""
        return self._files.get(position - position % self.file_size)

    def read(self, position: int, length: int) -> bytes:
        """At most `length` bytes, fewer at the end of a file, none where there is no file."""
        file = self.file_at(position)
        at = position % self.file_size
        return file[at : at + length] if file else b""

    def write(self, position: int, data: bytes) -> None:
        """Write, in files that are made where they are missing."""
        at = position % self.file_size
        end = at + len(data)
        if end > self.file_size:
            room = self.file_size - at
            self.write(position, data[:room])
            self.write(position + room, data[room:])
            return
        file = self._files.get(position - at) or self._create(position - at)
        file[at:end] = data

    def write_by_call(self, position: int, data: bytes) -> None:
        """The same within one file, not through the map: to make a page there, when it is first
        written, stops the thread, now and then for 20 ms. It takes a descriptor more. Raises
        OSError."""
        at = position % self.file_size
        start = position - at
        if start not in self._files:
            self._create(start)
        self._disk.write_at(self._descriptor(start), at, data)

    def reserve(self, position: int, length: int) -> None:
        """Make sure that a write within one file will find room on the disk. Raises OSError
        where there is none."""
        while self._allocated < position + length:
            begin = max(position, self._allocated)
            start = self.start_of(begin)
            if start not in self._files:
                self._create(start)
            end = min(begin + ALLOCATED_AT_ONCE, start + self.file_size)
            self._disk.allocate(self._path(start), begin - start, end - begin)
            self._allocated = end

    def flush(self, begin: int, end: int) -> None:
        """Return when everything written from `begin` to `end` is on disk. Another thread may
        ask for it."""
        with self._flushing:
            for start in range(self.start_of(begin), end, self.file_size):
                if file := self._files.get(start):
                    first = max(begin - start, 0)
                    first -= first % mmap.ALLOCATIONGRANULARITY
                    size = min(end - start, self.file_size) - first
                    self._disk.sync(self._path(start), file, first, size)
            while self._renamed:
                self._disk.sync_directory(self._renamed[0])
                del self._renamed[0]

    def truncate(self, end: int) -> None:
        """Remove files that start at `end` or behind it, and zero what follows it in its file,
        on disk when this returns: no old record comes back behind a new one (RECOV-008).

        A file that is left alone stays where it starts at `end`, or nobody would know where
        the array ends.
        """
        kept = end if end and self.starts[:1] == [end] else None
        for start in [s for s in reversed(self.starts) if s >= end and s != kept]:
            self._unmap(start)
            self._disk.remove(self._path(start))
            self._disk.sync_directory(self.directory)
        if self.file_at(end) is not None:
            start = self.start_of(end)
            self._unmap(start)
            self._disk.clear(self._path(start), end - start)
            self._map(self._path(start))

    def delete_before(self, position: int) -> None:
        """Remove the files that end at `position` or before it, but for the last one."""
        *others, last = self.starts or (0,)
        expired = [start for start in others if start + self.file_size <= position]
        if expired:
            # It may be all that is left, and tells where the array begins.
            self.flush(last, last + self.file_size)
        for start in expired:
            self._unmap(start)
            self._disk.remove(self._path(start))
            self._disk.sync_directory(self.directory)  # so that a crash leaves no gap

    def remove(self) -> None:
        """Remove all files, on disk when this returns, and the directory."""
        with self._flushing:  # another thread may be at it
            self.truncate(0)
            self._renamed.clear()
        self.close()
        self._disk.remove_directory(self.directory)

    def last_modified_ms(self, start: int) -> int:
        """When a file was written last, ms since the epoch."""
        return self._path(start).stat().st_mtime_ns // 1_000_000

    def close(self) -> None:
        """Unmap all files."""
        for start in self.starts:
            self._unmap(start)

    def _paths(self) -> list[Path]:
        return sorted(self.directory.iterdir()) if self.directory.is_dir() else []

    def _whole(self) -> list[Path]:
        paths = self._paths()
        return paths[:-1] if paths and paths[-1].stat().st_size == 0 else paths

    def _path(self, start: int) -> Path:
        return self.directory / f"{start:0{NAME_DIGITS}}"

    def _create(self, start: int) -> mmap.mmap:
        if self._files:
            last = max(self._files)
            self.flush(last, last + self.file_size)
        self._renamed += [self.directory, *self._disk.make_directory(self.directory)]
        self._files[start] = self._disk.create(self._path(start), self.file_size)
        return self._files[start]

    def _map(self, path: Path) -> None:
        self._files[int(path.name)] = self._disk.map(path, self.file_size)

    def _unmap(self, start: int) -> None:
        self._files.pop(start).close()
        if self._open and self._open[0] == start:
            self._close_open()

    def _descriptor(self, start: int) -> int:
        if self._open is None or self._open[0] != start:
            self._close_open()
            self._open = start, self._disk.open(self._path(start))
        return self._open[1]

    def _close_open(self) -> None:
        if self._open:
            os.close(self._open[1])
            self._open = None
