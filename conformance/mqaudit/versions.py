"""What a follower knows, on disk, in versions: a kill leaves the last whole one.

The tables of a version are written at leisure; it becomes the current one as `current.json`, which
names them, is replaced. Directories that it does not name are deleted then.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from mqrules import UserError


@dataclass(frozen=True)
class Version:
    """One version: which batch of the stream it holds, where, and what was counted by then.

    A table is named by its path below the directory of all versions: it may be an older one's.
    """

    batch: int = -1
    tables: Mapping[str, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()  # the tables of the events that are kept
    rows: int = 0  # how many these are
    settled_rows: int = 0  # of these, how many were kept as the last ones were left out
    again: int = 0  # rows that were read again
    late: int = 0  # rows that came too late
    told_at: int = 0  # how long the file of alerts was before those of this version
    coverage: Mapping[str, int] = field(default_factory=dict)


class Versions:
    """The versions of one follower below a directory. Raises UserError where one has it already."""

    def __init__(self, directory: Path) -> None:
        self.root = directory.absolute()
        self._file = self.root / "current.json"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            self._lock = (self.root / "lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(str(directory), "another follower works with this checkpoint") from None
        except OSError as error:
            raise UserError(str(directory), f"no checkpoint can be kept here: {error}") from None
        self.current = self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def new(self, batch: int) -> str:
        """A name for the tables of a batch that nothing has used, not even one that was killed."""
        return f"{batch:06}-{secrets.token_hex(4)}"

    def commit(self, version: Version) -> None:
        """Make a version the current one, and forget what it does not name."""
        part = self._file.with_suffix(".part")
        with part.open("w", encoding="utf-8") as file:
            json.dump(asdict(version), file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._file)
        self.current = version

        named = {path.split("/")[0] for path in (*version.tables.values(), *version.events)}
        for directory in self.root.iterdir():
            if directory.is_dir() and directory.name not in named:
                shutil.rmtree(directory, ignore_errors=True)

    def _read(self) -> Version:
        if not self._file.exists():
            return Version()
        try:
            said = json.loads(self._file.read_text(encoding="utf-8"))
            return Version(**said | {"events": tuple(said["events"])})
        except (ValueError, TypeError, KeyError):
            raise UserError(str(self._file), "no checkpoint of this version of mqspec") from None
