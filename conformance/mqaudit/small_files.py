"""The small files of a store: what its table of offsets tells, and which files cannot be read.

They are read where the audit runs: they are small, whatever the store is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from mqaudit.report import Unread
from mqspec.store.checkpoint import CHECKPOINT_BYTES
from mqspec.store.config_file import damaged, read_for_start

_OFFSETS: Final = "config/consumerOffset.json"
_OFFSET_TABLE: Final = "offsetTable"
_INT64: Final = range(-(1 << 63), 1 << 63)


class Progress(NamedTuple):
    """How far a group got in a queue, as consumerOffset.json has it."""

    topic: str
    group: str
    queue_id: int
    offset: int


def progress(root: str) -> Iterator[Progress]:
    """What the table of offsets of a store tells; what is no entry of it is `unread`."""
    for key, queue_id, offset in _entries(root):
        if (one := _progress(key, queue_id, offset)) is not None:
            yield one


def unread(roots: Sequence[str]) -> Iterator[Unread]:
    """The files of stores that are damaged, each by its name, and entries that are none."""
    for root in roots:
        for file, why in _damaged(_path(root)):
            yield Unread("store", why, 1, {"store": root, "file": file})

        torn = [
            f"{key} {queue_id}"
            for key, queue_id, offset in _entries(root)
            if _progress(key, queue_id, offset) is None
        ]
        if torn:
            place = {"store": root, "file": _OFFSETS, "entry": torn[0].strip()}
            yield Unread("store", "no offset of a group in a queue", len(torn), place)


def _damaged(root: Path) -> Iterator[tuple[str, str]]:
    for path, why in damaged(root / "config"):
        yield str(path.relative_to(root)), why
    checkpoint = root / "checkpoint"
    if checkpoint.exists() and checkpoint.stat().st_size < CHECKPOINT_BYTES:
        yield checkpoint.name, "torn: an abnormal start walks the whole log"


def _entries(root: str) -> Iterator[tuple[str, str, Any]]:
    """The entries of the table as they stand there: key, queue id, offset.

    What is no table stands for all of its entries, without their key or id.
    """
    content = read_for_start(_path(root) / _OFFSETS)
    table = content.get(_OFFSET_TABLE, {})
    if not isinstance(table, dict):
        yield _OFFSET_TABLE, "", None
        return
    for key, queues in table.items():
        if isinstance(queues, dict):
            yield from ((key, queue_id, offset) for queue_id, offset in queues.items())
        else:
            yield key, "", None


def _progress(key: str, queue_id: str, offset: Any) -> Progress | None:
    topic, _, group = key.partition("@")
    is_offset = isinstance(offset, int) and not isinstance(offset, bool) and offset in _INT64
    if topic and group and queue_id.isdecimal() and is_offset:
        return Progress(topic, group, int(queue_id), offset)
    return None


def _path(root: str) -> Path:
    return Path(root.removeprefix("file:"))
