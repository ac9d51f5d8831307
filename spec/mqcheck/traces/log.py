"""Traces of Log: one for each start of a broker.

A flush takes as long as a disk does, and stands in its trace where it took effect: after the
append up to which it went, when it began.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from mqcheck.traces.trace import NONE, UNKNOWN, Event, Line, Trace, Value, hidden, numbered, pairs

MODULE = "Log"
_FORGET_EVERY: Final = 50  # events
_SEGMENT_SIZE: Final = 1 << 30  # where a broker does not say


@dataclass(slots=True)
class _Projection:
    """The events of a broker between one start and the next."""

    broker: str
    life: int
    segment_size: int
    found: dict[str, Any]  # the variables, as recovery left them
    events: list[tuple[tuple[int, int], Event]] = field(default_factory=list)
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)  # of appends, to their places
    queues: set[str] = field(default_factory=set)
    flushed: int = 0
    reput: int = 0

    def __post_init__(self) -> None:
        self.flushed, self.reput = self.found["flushed_where"], self.found["reput_from_offset"]

    def changed(self, number: int, line: Line) -> None:
        """A step of the log."""
        changes = {variable: (key, value) for variable, key, value in line.changes}
        if len(changes) < len(line.changes):
            self._add(number, UNKNOWN, NONE, NONE)  # of two queues at once
        elif "commit_log" in changes:
            end = changes["commit_log"][1]["max"]
            self.ends[end] = (number, 2 * len(self.events))
            if "topic_queue_table" in changes:
                self._add(number, "AppendMessage", self._queue(*changes["topic_queue_table"]), end)
            else:
                self._add(number, "AppendUnindexed", NONE, end)
        elif "reput_from_offset" in changes:
            end = changes["reput_from_offset"][1]
            if self.reput % self.segment_size and self._segment(self.reput) != self._segment(end):
                self._put(number, hidden("DispatchBlank", number))
            key, span = changes.get("consume_queue", (None, None))
            of_queue = self._queue(key, span["max"]) if span else NONE
            self._add(number, "Dispatch" if span else "DispatchUnindexed", of_queue, end)
            self.reput = end
        elif "flushed_where" in changes and changes["flushed_where"][1] != self.flushed:
            self.flushed = changes["flushed_where"][1]
            place = self.ends.get(self.flushed, (0, 0))
            event = Event("Flush", self.broker, NONE, self.flushed, number)
            self.events.append(((place[0], place[1] + 1), event))
        if len(self.events) % _FORGET_EVERY == 0:
            self._put(number, hidden("Forget", number))

    def told(self, number: int, variable: str, queue: Any, value: Any) -> None:
        """What the bytes of the last record say, or how long the batch is that comes."""
        if variable == "batch":
            self._add(number, "Batch", NONE, value)
        elif value is None:
            self._add(number, UNKNOWN, NONE, NONE)  # it is no record
        else:
            begin = value["position"]
            of_queue = self._queue(queue, value["queue_offset"])
            self._add(number, "Written", of_queue, (begin, begin + value["size"]))

    def _segment(self, end: int) -> int:
        return (end - 1) // self.segment_size

    def _queue(self, key: Any, offset: int) -> tuple[str, int]:
        name = _name(key)
        self.queues.add(name)
        return name, offset

    def _add(self, number: int, action: str, x: Value, y: Value) -> None:
        self._put(number, Event(action, self.broker, x, y, number))

    def _put(self, number: int, event: Event) -> None:
        self.events.append(((number, 2 * len(self.events)), event))

    def trace(self) -> Trace:
        found = self.found
        tables = [
            tuple((_name(key), value) for key, value in items)
            for items in (
                pairs(found["topic_queue_table"]),
                ((key, span["max"]) for key, span in pairs(found["consume_queue"])),
            )
        ]
        names = {name for table in tables for name, _ in table}
        ordered = [event for _, event in sorted(self.events, key=lambda item: item[0])]
        return Trace(
            MODULE,
            f"{self.broker}, start {self.life}",
            numbered(ordered),
            (
                found["commit_log"]["max"],
                found["flushed_where"],
                found["reput_from_offset"],
                *tables,
            ),
            frozenset(self.queues | names),
            {"TraceSegmentSize": self.segment_size},
        )


def log_traces(lines: Iterable[Line]) -> list[Trace]:
    """A trace for each start of a broker that the lines have."""
    done: list[_Projection] = []
    current: dict[str, _Projection] = {}
    sizes: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if line.module != MODULE:
            continue
        for variable, key, value in line.reads:
            if variable == "segment_size":
                sizes[line.process] = value
            elif variable in ("record", "batch") and line.process in current:
                current[line.process].told(number, variable, key, value)
        found = {variable: value[0] for variable, key, *value in line.changes if key is None}
        if "topic_queue_table" in found:
            life = sum(its.broker == line.process for its in done) + 1
            size = sizes.get(line.process, _SEGMENT_SIZE)
            current[line.process] = _Projection(line.process, life, size, found)
            done.append(current[line.process])
        elif line.changes and line.process in current:
            current[line.process].changed(number, line)
    return [its.trace() for its in done if its.events]


def _name(key: Any) -> str:
    topic, queue_id = key
    return f"{topic}/{queue_id}"
