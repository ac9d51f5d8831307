"""Where the log stood when a topic was deleted: records of it before that are nobody's.

The log keeps them, and recovery gives every record of the log its place in a queue, also where
a queue was lost. Without this memory a topic that was made again would have messages of the
deleted one behind its own, after the next start (ADMIN-017). 5.3.3 has no need of it: it does
not give a queue what lies before its last record (ConsumeQueue.putMessagePositionInfo), and so
does not mend a queue either.

The file is `config/deletedTopics.json`, which the real broker does not know and leaves alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from mqspec.core.log import Dispatch, Span, TopicQueue, Unit
from mqspec.core.recovery import BLANK_UNIT, Walked
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
        """A topic is deleted while the log ends at `end`; on disk when this returns. Raises
        OSError, and then it is not."""
        self._persist(self._ends | {topic: end})

    def truncate(self, log_max: int) -> None:
        """The log ends at `log_max` again, as a crash left it: what is stored behind that is of a
        topic that was made again. On disk when this returns."""
        if any(end > log_max for end in self._ends.values()):
            self._persist({topic: min(end, log_max) for topic, end in self._ends.items()})

    def is_dead(self, topic: str, position: int) -> bool:
        """Whether the record at a position is of the topic as it was before it was deleted."""
        return position < self._ends.get(topic, 0)

    def queues_left(
        self, spans: Mapping[TopicQueue, Span], unit: Callable[[TopicQueue, int], Unit]
    ) -> list[TopicQueue]:
        """The queues that a crash left of topics while they were being deleted: those whose last
        unit, and so each, is of a record that is nobody's."""
        left = []
        for queue, span in spans.items():
            if span.min < span.max:
                last = unit(queue, span.max - 1)
                if last != BLANK_UNIT and self.is_dead(queue[0], last.position):
                    left.append(queue)
        return left

    def living(self, scan: Callable[[int], Iterator[Walked]]) -> Callable[[int], Iterator[Walked]]:
        """The walk of the log, with records of deleted topics as if they were blank."""
        if not self._ends:
            return scan

        def walk(position: int) -> Iterator[Walked]:
            for end, record in scan(position):
                if record is not None and self.is_dead(record.topic, record.physical_offset):
                    record = None
                yield end, record

        return walk

    def unindexed(self, dispatches: Sequence[Dispatch]) -> Sequence[Dispatch]:
        """Dispatches of what was stored, maybe before its topic was deleted: that enters no
        queue any more."""
        if not self._ends:
            return dispatches
        return [
            structs.replace(each, indexed=False)
            if self.is_dead(each.queue[0], each.positions[0])
            else each
            for each in dispatches
        ]

    def _persist(self, ends: dict[str, int]) -> None:
        self._file.persist({"endTable": ends})
        self._ends = ends
