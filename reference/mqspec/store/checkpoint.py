"""The checkpoint file: five i64, big-endian, at the start of one page (StoreCheckpoint.java)."""

from __future__ import annotations

from pathlib import Path
from struct import Struct

from mqspec.core.recovery import Checkpoint
from mqspec.store.files import DISK, Disk

_FIELDS = Struct(">5q")
CHECKPOINT_BYTES = _FIELDS.size
_FILE_BYTES = 4096


def read_checkpoint(path: Path) -> Checkpoint:
    """What the file says; zeros, which trust nothing, where it is missing or torn."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return Checkpoint()
    return Checkpoint(*_FIELDS.unpack_from(data)) if len(data) >= _FIELDS.size else Checkpoint()


def write_checkpoint(path: Path, checkpoint: Checkpoint, disk: Disk = DISK) -> None:
    """Write it, on disk when this returns."""
    disk.write(path, _FIELDS.pack(*checkpoint).ljust(_FILE_BYTES, b"\0"))
