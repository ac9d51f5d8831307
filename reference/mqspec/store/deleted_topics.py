"""Where the log stood when a topic was deleted: records of it before that are nobody's.

The log keeps them, and recovery gives every record of the log its place in a queue, also where
a queue was lost. Without this memory a topic that was made again would have messages of the
deleted one behind its own, after the next start (ADMIN-017). 5.3.3 has no need of it: it does
not give a queue what lies before its last record (ConsumeQueue.putMessagePositionInfo), and so
does not mend a queue either.

The file is `config/deletedTopics.json`, which the real broker does not know and leaves alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from mqspec.core.recovery import Walked
from mqspec.store.config_file import ConfigFile
from mqspec.store.files import DISK, Disk


class DeletedTopics:
    """The topics that were deleted since the log begins."""

    def __init__(self, root: Path, disk: Disk = DISK) -> None:
        self._file = ConfigFile(root / "config" / "deletedTopics.json", disk)
        self._ends: dict[str, int] = {}  # position, by topic

    def load(self, log_min: int) -> None:
        """Read what is still of use, the log beginning at `log_min`."""
        ends = self._file.load(spare=True).get("endTable", {})
        self._ends = {topic: int(end) for topic, end in ends.items() if int(end) > log_min}

    def add(self, topic: str, end: int) -> None:
        """A topic is deleted while the log ends at `end`; on disk when this returns."""
        self._ends[topic] = end
        self._file.persist({"endTable": self._ends})

    def living(self, scan: Callable[[int], Iterator[Walked]]) -> Callable[[int], Iterator[Walked]]:
        """The walk of the log, with records of deleted topics as if they were blank."""
        if not self._ends:
            return scan

        def walk(position: int) -> Iterator[Walked]:
            for end, record in scan(position):
                is_dead = record is not None and record.physical_offset < self._ends.get(
                    record.topic, 0
                )
                yield end, None if is_dead else record

        return walk
