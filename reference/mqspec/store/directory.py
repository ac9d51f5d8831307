"""The directory of a store: whether it is one, and who has it."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path
from struct import Struct
from typing import BinaryIO

from mqrules import UserError
from mqspec.store.files import DISK, Disk

_KNOWN = frozenset({"abort", "checkpoint", "commitlog", "config", "consumequeue", "index", "lock"})

_FLOCK = Struct("@hhqqi4x")  # struct flock of Linux: type, whence, start, length, pid

# A lock of POSIX belongs to a process, which would not be refused by its own.
_ours: set[Path] = set()


class StoreDirectory:
    """The directory, held from `take` to `release`."""

    def __init__(self, root: Path, disk: Disk = DISK) -> None:
        self.root = root
        self._disk = disk
        self._lock: BinaryIO | None = None

    def check(self) -> None:
        """Raise UserError where the path cannot be a store. Changes nothing."""
        if self.root.is_dir():
            try:
                names = {path.name for path in self.root.iterdir()}
            except OSError as error:
                raise _unusable(self.root, error) from None
            if names and not names & _KNOWN:
                raise UserError(
                    str(self.root),
                    "not a store: it holds other files and no commitlog",
                    "name an empty or a new directory, or one that a broker has written",
                )
        elif self.root.exists():
            raise UserError(str(self.root), "not a directory", "name a directory for the store")

    def take(self) -> None:
        """Make the directory where it is missing and lock it, as the real broker does: byte 0
        of the file `lock`. Raises UserError where somebody else has it."""
        in_use = UserError(
            str(self.root), "the store is in use", "stop the broker that uses it, or name another"
        )
        real = self.root.resolve()
        if real in _ours:
            raise in_use
        try:
            for renamed in self._disk.make_directory(self.root):
                self._disk.sync_directory(renamed)
            lock = (self.root / "lock").open("ab")
        except OSError as error:
            raise _unusable(self.root, error) from None

        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError:
            lock.close()
            raise in_use from None

        if lock.tell() == 0:
            lock.write(b"lock")
            lock.flush()
        self._lock = lock
        _ours.add(real)

    @property
    def is_taken(self) -> bool:
        return self._lock is not None

    def release(self) -> None:
        """Let others have it."""
        if self._lock:
            self._lock.close()
            self._lock = None
            _ours.discard(self.root.resolve())


def is_in_use(root: Path) -> bool:
    """Whether a process has the store, seen from outside: the lock is not taken."""
    if root.resolve() in _ours:
        return True
    if sys.platform != "linux":
        return (root / "abort").exists()
    try:
        with (root / "lock").open("rb") as lock:
            answer = fcntl.fcntl(lock, fcntl.F_GETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 1, 0))
    except OSError:
        return False
    return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


def _unusable(root: Path, error: OSError) -> UserError:
    return UserError(str(root), f"cannot be used: {error.strerror}", "name another directory")
