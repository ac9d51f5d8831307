"""Disk: all that a store does to the disk, in one place.

What is written counts as on disk only behind a sync: of the file for its bytes and its size,
of the directory for the names in it. Before, a crash of the machine may leave any of it. The
tests of crashes put a Disk in this one's place that remembers what was synced, and lose the
rest.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mqspec.fast.index_run import Heads, Numbers

_NOT_KNOWN = frozenset({errno.EOPNOTSUPP, errno.EINVAL})
_sync = os.fdatasync if sys.platform == "linux" else os.fsync


class Disk:
    """The disk as it is. A file that is mapped is written by slices, by `write_items`, or by
    `write_at`: what one writes is read by all."""

    def map(self, path: Path, size: int) -> mmap.mmap:
        """The bytes of a file of `size` bytes."""
        with path.open("rb+") as file:
            return mmap.mmap(file.fileno(), size)

    def create(self, path: Path, size: int) -> mmap.mmap:
        """Make a file of zeros, and map it."""
        with path.open("xb") as file:
            file.truncate(size)
        return self.map(path, size)

    def write_items(self, mapped: mmap.mmap, begin: int, numbers: Numbers, items: Heads) -> None:
        """Write some items of an array that begins at a byte of a mapped file, by their numbers."""
        import numpy as np

        np.frombuffer(mapped, items.dtype, offset=begin)[numbers] = items

    def open(self, path: Path) -> int:
        """A descriptor of a file, for `write_at`; whoever asked for it closes it."""
        return os.open(path, os.O_RDWR)

    def write_at(self, descriptor: int, at: int, data: bytes) -> None:
        """Write from a byte of a file on. Raises OSError where there is no room."""
        written = os.pwrite(descriptor, data, at)
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], at + written)

    def sync(self, path: Path, mapped: mmap.mmap, begin: int, size: int) -> None:
        """Return when `size` bytes of a mapped file, from a page on, are on disk. Other threads
        go on meanwhile, where the system takes a sync of the file for one of its pages too."""
        if sys.platform != "linux":
            mapped.flush(begin, size)
        descriptor = os.open(path, os.O_RDWR)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)

    def allocate(self, path: Path, begin: int, size: int) -> None:
        """Take room on the disk for a part of a file: to write it cannot fail any more. Raises
        OSError where there is none. Does nothing where a file system knows no such thing."""
        if not hasattr(os, "posix_fallocate"):
            return
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.posix_fallocate(descriptor, begin, size)
        except OSError as error:
            if error.errno not in _NOT_KNOWN:
                raise
        finally:
            os.close(descriptor)

    def used_percent(self, path: Path) -> int:
        """How much of the disk is used, of what an ordinary user may use of it, rounded up."""
        disk = os.statvfs(path)
        used = disk.f_blocks - disk.f_bfree
        return -(-used * 100 // (used + disk.f_bavail))

    def clear(self, path: Path, begin: int) -> None:
        """Zero a file, which is not mapped, from a byte on; on disk when this returns."""
        with path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            file.truncate(begin)
            file.truncate(size)
            os.fsync(file.fileno())

    def write(self, path: Path, data: bytes) -> None:
        """Make `data` the content of a file, which is made where it is missing; the content is
        on disk when this returns."""
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "rb+") as file:
            file.write(data)
            file.truncate()
            os.fsync(file.fileno())

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def replace(self, path: Path, target: Path) -> None:
        """Give a file another name, whose file is removed."""
        path.replace(target)

    def make_directory(self, path: Path) -> list[Path]:
        """Make a directory and those that it lies in. Returns the ones that have a new name
        in them, to be synced."""
        missing = [each for each in (path, *path.parents) if not each.exists()]
        path.mkdir(parents=True, exist_ok=True)
        return [each.parent for each in missing]

    def remove_directory(self, path: Path) -> None:
        """Remove a directory, unless something lies in it. A crash may leave it, empty."""
        with contextlib.suppress(OSError):
            path.rmdir()

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory are on disk."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


DISK: Final = Disk()
