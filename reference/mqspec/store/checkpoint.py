"""The checkpoint file: five i64, big-endian, at the start of one page (StoreCheckpoint.java)."""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct

from mqspec.core.recovery import Checkpoint

_FIELDS = Struct(">5q")
_FILE_BYTES = 4096


def read_checkpoint(path: Path) -> Checkpoint:
    """What the file says; zeros, which trust nothing, where it is missing or torn."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Checkpoint()
    return Checkpoint(*_FIELDS.unpack_from(data)) if len(data) >= _FIELDS.size else Checkpoint()


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write it, on disk when this returns."""
    with path.open("wb") as file:
        file.write(_FIELDS.pack(*checkpoint).ljust(_FILE_BYTES, b"\0"))
        file.flush()
        os.fsync(file.fileno())
