"""Traces of Delay: one for each level of each broker at which a message waited.

A message stands where it was appended; when it is due is told where it is dispatched. The
offsets are persisted as they were when the broker began to write them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from mqcheck.traces.trace import NONE, UNTOLD, Event, Line, Trace, hidden, numbered, pairs
from mqspec.core.delay import queue_of
from mqspec.core.log import SCHEDULE_TOPIC

MODULE = "Delay"


@dataclass(slots=True)
class _Told:
    """An event, and what the broker's clock said then, ms, and when a message is due."""

    event: Event
    now_ms: int | None = None
    due_ms: int | None = None


@dataclass(slots=True)
class _Projection:
    """The events of one level."""

    broker: str
    level: int
    delay_ms: int
    events: list[_Told] = field(default_factory=list)
    undispatched: dict[int, _Told] = field(default_factory=dict)  # by queue offset
    before: tuple[int, int] | None = None  # messages, and how many of them were delivered
    messages: int = 0
    disk: int = 0
    snapshot: tuple[int, int] | None = None  # line and value of a persist that began

    def found(self, number: int, messages: int) -> None:
        """What is in the queue when the broker starts."""
        if self.before is None:
            self.messages = messages
        while self.messages < messages:  # what it appended, and was killed before it told
            self.appended(number, self.messages + 1)

    def appended(self, number: int, messages: int) -> None:
        told = self._add(number, "ScheduleMessage", messages, UNTOLD)
        self.undispatched[messages - 1] = told
        self.messages = messages

    def dispatched(self, offset: int, due_ms: int, now_ms: int) -> None:
        if told := self.undispatched.pop(offset, None):
            told.now_ms, told.due_ms = now_ms, due_ms

    def delivered(self, number: int, offset: int, now_ms: int) -> None:
        self._add(number, "Deliver", offset).now_ms = now_ms

    def begins_to_persist(self, number: int, offset: int) -> None:
        self.snapshot = (number, offset)

    def persisted(self, offset: int) -> None:
        if offset != self.disk:
            self._add_persist("Persist")
        self.disk, self.snapshot = offset, None

    def loaded(self, number: int, offset: int) -> None:
        if self.before is None:
            self.before = (self.messages, offset)
        else:
            self._add_persist("MayPersist")
            self._add(number, "Load", offset)
        self.disk, self.snapshot = offset, None

    def _add_persist(self, action: str) -> None:
        if self.snapshot:
            number, offset = self.snapshot
            self._add(number, action, offset)

    def _add(self, number: int, action: str, x: int, y: int = NONE) -> _Told:
        told = _Told(Event(action, self.broker, x, y, number))
        self.events.append(told)
        return told

    def trace(self) -> Trace:
        events: list[Event] = []
        began_ms = now_ms = None
        for told in sorted(self.events, key=lambda told: told.event.line):
            if told.now_ms is not None and (now_ms is None or now_ms < told.now_ms):
                if now_ms is not None:
                    events.append(hidden("Elapse", told.event.line, told.now_ms - now_ms))
                now_ms = told.now_ms
                began_ms = now_ms if began_ms is None else began_ms
            y = told.event.y if told.due_ms is None else told.due_ms - (began_ms or 0)
            events.append(told.event._replace(y=y))
        return Trace(
            MODULE,
            f"level {self.level} of {self.broker}",
            numbered(events),
            (self.delay_ms, *(self.before or (0, 0))),
            frozenset({self.broker}),
            {"TraceMaxMessages": self.messages},
        )


def delay_traces(lines: Iterable[Line]) -> list[Trace]:
    """A trace for each level at which a message waited."""
    levels: dict[tuple[str, int], _Projection] = {}  # by broker and queue
    readers = {MODULE: _read_delay, "Log": _read_log}
    for number, line in enumerate(lines, start=1):
        if line.module in readers:
            readers[line.module](number, line, levels)
    return [its.trace() for its in levels.values() if its.messages]


Levels = dict[tuple[str, int], _Projection]


def _read_delay(number: int, line: Line, levels: Levels) -> None:
    for variable, key, value in (*line.reads, *line.changes):
        if variable == "delay_levels":
            for level, delay_ms in enumerate(value, start=1):
                new = _Projection(line.process, level, delay_ms)
                levels.setdefault((line.process, queue_of(level)), new)
        elif key is not None and line.event:
            levels[line.process, queue_of(key)].delivered(number, value, line.event["now_ms"])
        else:
            offsets = dict(pairs(value))
            for its in _of(line.process, levels):
                offset = offsets.get(its.level, 0)
                if line.reads:
                    its.begins_to_persist(number, offset)
                elif variable == "disk":
                    its.persisted(offset)
                else:
                    its.loaded(number, offset)


def _read_log(number: int, line: Line, levels: Levels) -> None:
    for variable, key, *value in line.changes:
        if variable != "topic_queue_table":
            continue
        if key is None:
            found = {tuple(queue): messages for queue, messages in pairs(value[0])}
            for its in _of(line.process, levels):
                its.found(number, found.get((SCHEDULE_TOPIC, queue_of(its.level)), 0))
        elif level := _waiting_in(key, line, levels):
            level.appended(number, value[0])
    if (event := line.event) and (level := _waiting_in(event["queue"], line, levels)):
        due_ms = event["tags_code"]
        level.dispatched(event["queue_offset"], due_ms, event["store_timestamp"])


def _waiting_in(queue: Any, line: Line, levels: Levels) -> _Projection | None:
    topic, queue_id = queue
    return levels.get((line.process, queue_id)) if topic == SCHEDULE_TOPIC else None


def _of(broker: str, levels: Levels) -> list[_Projection]:
    return [its for its in levels.values() if its.broker == broker]
