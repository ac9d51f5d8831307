"""Retention on the reference: one broker's log and queues, its segments and its disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.terms import TOPIC, function
from mqspec.core import log, retention
from mqspec.core.log import EMPTY, Append, Dispatch, LogState, Put, Span, TopicQueue, Unit
from mqspec.core.record import BLANK_BYTES_MIN
from mqspec.core.retention import RetentionConfig, StoredSegment
from mqspec.core.step import apply

RECORD_BYTES = 100
CONFIG = RetentionConfig(delete_when="04")
NOW_MS = CONFIG.file_reserved_time * 3_600_000
OLD_MS, YOUNG_MS = 0, NOW_MS  # when a segment was last written
USED = {"normal": 75, "max used": 85, "clean forcibly": 90, "warning level": 91}  # percent


class RetentionWorld(World):
    """Everything of a model of Retention. A position of the model is that of a record here, and
    a segment has room for the closing blank besides."""

    module = "Retention"
    actions: ClassVar = {
        "PutMessage": ("queue",),
        "GrowOld": ("segment",),
        "UseDisk": ("ratio",),
        "CleanCommitLog": ("is_time_up",),
        "DeleteExpiredFile": (),
    }

    def __init__(self, queues: Iterable[str], segment_records: int, max_records: int) -> None:
        self.queues = {name: (TOPIC, number) for number, name in enumerate(queues)}
        self.segment_records, self.max_records = segment_records, max_records
        self.segment_size = segment_records * RECORD_BYTES + BLANK_BYTES_MIN
        self.broker = LogState()
        self.records: tuple[tuple[str, int, Unit], ...] = ()  # queue, queue offset, unit
        self.old: frozenset[int] = frozenset()
        self.used = "normal"
        self.is_disk_full = False
        self.cut = 0

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> RetentionWorld:
        """The world at the beginning of a model with these constants."""
        numbers = constants["SegmentRecords"], constants["MaxRecords"]
        return cls(sorted(constants["Queues"]), *numbers)

    def domain(self, name: str) -> Iterable[object]:
        return {
            "queue": self.queues,
            "segment": self._segments(),
            "ratio": USED,
            "is_time_up": (True, False),
        }[name]

    def state(self) -> dict[str, object]:
        first, end = self.broker.commit_log
        return {
            "log": tuple(queue for queue, _, _ in self.records),
            "commitLog": _span(Span(self._number(first), self._number(end))),
            "consumeQueue": function(
                self.queues, lambda q: _span(self.broker.consume_queue.get(self.queues[q], EMPTY))
            ),
            "old": frozenset(map(self._number, self.old)),
            "used": self.used,
            "isDiskFull": self.is_disk_full,
            "cut": self._number(self.cut),
            "offsets": tuple(offset for _, offset, _ in self.records),
        }

    def put_message(self, queue: str) -> None:
        require(not self.is_disk_full and len(self.records) < self.max_records)
        place = self.queues[queue]
        puts = (Put(place, RECORD_BYTES),)
        step = log.append_message(self.broker, Append(puts, self.segment_size))
        apply(self.broker, step.changes)
        (stored,) = step.result
        unit = Unit(stored.position, RECORD_BYTES, 0)
        self.records += ((queue, stored.queue_offset, unit),)
        columns = (unit.position,), (unit.size,), (unit.tags_code,)
        event = Dispatch(place, stored.queue_offset, True, *columns)
        apply(self.broker, log.dispatch(self.broker, (event,)).changes)

    def grow_old(self, segment: int) -> None:
        require(segment not in self.old and segment != self._segments()[-1])
        self.old |= {segment}

    def use_disk(self, ratio: str) -> None:
        require(ratio != self.used)
        self.used = ratio

    def clean_commit_log(self, is_time_up: bool) -> None:
        require(self.cut == self.broker.commit_log.min)
        segments = [
            StoredSegment(start, OLD_MS if start in self.old else YOUNG_MS)
            for start in self._segments()
        ]
        hour = int(CONFIG.delete_when)
        seen = segments, self.broker.commit_log.max, USED[self.used], self.is_disk_full
        in_time = retention.clean_commit_log(CONFIG, *seen, hour, NOW_MS)
        asked_for = retention.clean_commit_log(CONFIG, *seen, hour + 1, NOW_MS, is_manual=True)
        require(in_time == asked_for)
        later = retention.clean_commit_log(CONFIG, *seen, hour + 1, NOW_MS)
        found = in_time if is_time_up else later
        self.is_disk_full = found.is_disk_full
        if found.expired:
            self.cut = found.expired[-1] + self.segment_size

    def delete_expired_file(self) -> None:
        require(self.cut > self.broker.commit_log.min)
        step = retention.delete_expired_file(self.broker, self.cut, self._unit)
        apply(self.broker, step.changes)

    def _segments(self) -> range:
        """The starts of the segments that are there."""
        first, end = self.broker.commit_log
        return range(first, max(end, first + 1), self.segment_size)

    def _unit(self, queue: TopicQueue, offset: int) -> Unit:
        return next(u for q, k, u in self.records if (self.queues[q], k) == (queue, offset))

    def _number(self, position: int) -> int:
        """How many records were put before a position."""
        before, within = divmod(position, self.segment_size)
        return before * self.segment_records + within // RECORD_BYTES


def _span(span: Span) -> FrozenDict:
    return FrozenDict(span._asdict())
