"""Traces of Lock: one for each queue that a group locked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mqcheck.traces.trace import NONE, Event, Line, QueueOfGroup, Trace, hidden, numbered

MODULE = "Lock"
_GRANTED, _REFUSED = 1, 0
_MAX_LIVE_TIME_MS: Final = 60_000  # where a broker does not say


class _Entry(NamedTuple):
    """Who holds a queue, and when that was granted, in ms."""

    client_id: str
    last_update_ms: int


@dataclass(slots=True)
class _Projection:
    """The events of one queue."""

    subject: QueueOfGroup
    events: list[Event] = field(default_factory=list)
    members: set[str] = field(default_factory=set)
    entry: _Entry | None = None
    now_ms: int | None = None

    def changed(self, number: int, entry: _Entry | None) -> None:
        if entry == self.entry:
            return
        if entry:
            self.tried(number, entry.client_id, entry.last_update_ms, _GRANTED)
        elif self.entry:
            self._add(number, "UnlockBatch", self.entry.client_id)
        self.entry = entry

    def tried(self, number: int, member: str, now_ms: int, outcome: int) -> None:
        if self.now_ms is not None and self.now_ms < now_ms:
            self.events.append(hidden("Elapse", number, now_ms - self.now_ms))
        self.now_ms = now_ms
        self.members.add(member)
        self._add(number, "TryLockBatch", member, outcome)

    def restarted(self, number: int) -> None:
        if self.entry:
            self._add(number, "Restart")
        self.entry = None

    def _add(self, number: int, action: str, x: int | str = NONE, y: int = NONE) -> None:
        self.events.append(Event(action, self.subject.broker, x, y, number))

    def trace(self, max_live_time_ms: int) -> Trace:
        constants = {"TraceMaxLiveTime": max_live_time_ms}
        members = frozenset(self.members)
        return Trace(MODULE, str(self.subject), numbered(self.events), (), members, constants)


def lock_traces(lines: Iterable[Line]) -> list[Trace]:
    """A trace for each queue that a member asked a broker to lock."""
    projections: dict[QueueOfGroup, _Projection] = {}
    max_live_time_ms = _MAX_LIVE_TIME_MS

    def of(group: str, mq: dict[str, Any]) -> _Projection:
        subject = QueueOfGroup(group, mq["broker_name"], mq["topic"], mq["queue_id"])
        return projections.setdefault(subject, _Projection(subject))

    for number, line in enumerate(lines, start=1):
        for variable, key, value in line.reads:
            if variable == "max_live_time_ms":
                max_live_time_ms = value
            elif variable == "mq_lock_table":
                group, member, mq = key
                of(group, mq).tried(number, str(member), value, _REFUSED)
        for variable, key, *value in line.changes:
            if variable == "mq_lock_table":
                entries = value[0] if value else []
                found = {of(key, mq).subject: _Entry(**entry) for mq, entry in entries}
                for subject, its in projections.items():
                    if (subject.group, subject.broker) == (key, line.process):
                        its.changed(number, found.get(subject))
            elif variable == "offset_table" and key is None:  # loaded: the broker starts
                for subject, its in projections.items():
                    if subject.broker == line.process:
                        its.restarted(number)
    return [its.trace(max_live_time_ms) for its in projections.values()]
