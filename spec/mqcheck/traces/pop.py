"""Traces of Pop: one for each queue of a topic that a group pops, and queue of the revive log.

Pops by other queues of the revive log are seen where they pass over messages, and what comes of
them where it is in the group's retry topic. Acknowledgements and checkpoints are numbered by
their places among what the trace knows of the log.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mqcheck.traces.trace import (
    NONE,
    UNKNOWN,
    Event,
    Line,
    Trace,
    Value,
    by_line,
    hidden,
    numbered,
    pairs,
)
from mqspec.core.extra_info import normal_topic
from mqspec.core.revive_log import REVIVE_GROUP

MODULE = "Pop"
_TOPIC, _RETRY = "topic", "retry"
_REVIVE_DELAY_MS: Final = 2_000  # how long acknowledgements may be on their way
_FORGET_EVERY: Final = 50  # events

_QueueOffset = tuple[str, str, int]  # topic, group, queue id


class _Subject(NamedTuple):
    """What a trace is about."""

    broker: str
    group: str
    topic: str
    queue_id: int
    revive_qid: int

    def __str__(self) -> str:
        return (
            f"{self.group} on {self.topic}/{self.queue_id} of {self.broker},"
            f" revive queue {self.revive_qid}"
        )


class _Key(NamedTuple):
    """A checkpoint: its pop, and where the read began."""

    topic: str
    group: str
    queue_id: int
    start: int
    pop_time: int  # ms


@dataclass(slots=True)
class _CheckPoint:
    """A checkpoint that the trace has."""

    name: tuple[str, int, int]  # queue, first place and number of the pop
    acked: set[int] = field(default_factory=set)  # by whoever acknowledged


class _Persisted(NamedTuple):
    """What reaches the disk: offsets of the topic and of its retry topic, and what is read."""

    offsets: tuple[int, int]
    read: int


_NOTHING: Final = _Persisted((0, 0), 0)


@dataclass(slots=True)
class _Projection:
    """The events of one subject."""

    subject: _Subject
    events: list[Event] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=lambda: {_TOPIC: 0, _RETRY: 0})
    check_points: dict[_Key, _CheckPoint] = field(default_factory=dict)
    entries: list[tuple[int, int]] = field(default_factory=list)
    """Of the revive log: offsets in its queue, and places in the log of the module."""
    end: int = 0  # of that log
    read: int = 0  # of that log
    scanned: int = 0  # of the revive queue
    out: dict[_Key, tuple[int, ...]] = field(default_factory=dict)  # of the checkpoints read
    revive_times: dict[_Key, int] = field(default_factory=dict)  # ms, until they are over
    changing: bool = False  # a change has left its checkpoint, and is not done
    snapshot: tuple[int, _Persisted] | None = None  # line and value of a persist that has begun
    file: _Persisted = _NOTHING
    messages: int = 1

    def add(self, line: int, action: str, x: Value = NONE, y: Value = NONE) -> None:
        self.events.append(Event(action, self.subject.broker, x, y, line))
        if len(self.events) % _FORGET_EVERY == 0:
            self.events.append(hidden("Forget", line))

    def queue_of(self, topic: str, group: str, queue_id: int) -> str | None:
        """Which of its queues that is."""
        subject = self.subject
        if group != subject.group:
            return None
        if topic == subject.topic:
            return _TOPIC if queue_id == subject.queue_id else None
        return _RETRY if normal_topic(topic, group) == subject.topic else None

    # The revive log

    def appended(self, line: int, at: int, message: Mapping[str, Any], *, is_change: bool) -> None:
        """A checkpoint or an acknowledgement is at an offset of the revive queue."""
        key = _key(message["key"])
        queue = self.queue_of(key.topic, key.group, key.queue_id)
        if queue is None:
            return
        if "re_put_times" not in message:
            self._acknowledged(line, at, key, message["offsets"])
            return
        if is_change:
            self.changing = True
        else:
            self._popped(line, key, queue, message)
        self.end += 1
        self.entries.append((at, self.end))
        name = (queue, key.start + 1, len(self.check_points) + 1)
        self.check_points[key] = _CheckPoint(name)
        self.revive_times[key] = key.pop_time + message["invisible_time"]

    def _popped(self, line: int, key: _Key, queue: str, message: Mapping[str, Any]) -> None:
        end = message["offsets"][-1] + 1
        is_known = message["offsets"] == [*range(key.start, end)] and not message["re_put_times"]
        self.passed(line, queue, key.start)
        self.add(line, "PopMessage" if is_known else UNKNOWN, (queue, end), key.start + 1)
        self._moved(queue, end)

    def _acknowledged(self, line: int, at: int, key: _Key, offsets: Iterable[int]) -> None:
        held = self.check_points.get(key)
        for offset in offsets:
            self.end += 1
            self.entries.append((at, self.end))
            if held is None:
                self.add(line, UNKNOWN, NONE, offset + 1)
                continue
            action = "ChangeInvisibleTime" if self.changing else "AckMessage"
            is_again = offset in held.acked
            self.add(line, "AckAgain" if is_again else action, held.name, offset + 1)
            held.acked.add(offset)
        self.changing = False

    # The revive service

    def looked(self, line: int, now_ms: int) -> None:
        """It is about to read the log, and to bring back what is due by now."""
        for key, revive_time in list(self.revive_times.items()):
            if now_ms - revive_time > _REVIVE_DELAY_MS:
                del self.revive_times[key]
                self.events.append(hidden("TimeUp", line, self.check_points[key].name[2]))

    def scan(self, line: int, offset: int) -> None:
        """The revive queue is read up to an offset."""
        before, self.scanned = self._unread(), offset
        if before and not self._unread():
            self.read = self.end
            self.add(line, "ConsumeReviveMessage", self._still_out())

    def revived(self, line: int, key: _Key, count: int) -> None:
        """A checkpoint is done: so many of its messages are in the retry topic."""
        if self.read < self.end and not self._unread():  # but for what was brought back
            self.read = self.end
            self.events.append(hidden("ConsumeReviveMessage", line, self._still_out()))
        out = self.out.pop(key)
        action = "Revive" if len(out) == count else UNKNOWN
        self.add(line, action, self.check_points[key].name, tuple(o + 1 for o in out))
        self.end += count

    def revived_elsewhere(self, line: int, count: int) -> None:
        """Messages are in the retry topic that were popped by another revive queue, or from
        another queue of the topic."""
        for _ in range(count):
            self.add(line, "ReviveElsewhere")
            self.end += 1

    def _unread(self) -> bool:
        return bool(self.entries) and self.entries[-1][0] >= self.scanned

    def _still_out(self) -> int:
        return sum(map(len, self.out.values()))

    # Offsets

    def passed(self, line: int, queue: str, offset: int) -> None:
        """The group goes on at an offset."""
        if offset != self.offsets[queue]:
            is_forward = offset > self.offsets[queue]
            self.add(line, "Pass" if is_forward else UNKNOWN, (queue, offset))
            self._moved(queue, offset)

    def _moved(self, queue: str, offset: int) -> None:
        self.offsets[queue] = offset
        if queue == _TOPIC:
            self.messages = max(self.messages, offset)

    def began_to_persist(self, line: int, revive_offset: int) -> None:
        found = (self.offsets[_TOPIC], self.offsets[_RETRY])
        self.snapshot = (line, _Persisted(found, self._place(revive_offset)))

    def persisted(self, *, is_told: bool) -> None:
        """What it began to write is in the file; or may be, if the broker was killed before it
        told so."""
        if self.snapshot:
            line, found = self.snapshot
            if found != self.file:
                self.add(line, "Persist" if is_told else "MayPersist", *found)
            self.file, self.snapshot = found, None

    def restarted(self, line: int, offsets: Mapping[str, int], scanned: int) -> None:
        self.persisted(is_told=False)
        self.offsets = {queue: offsets.get(queue, 0) for queue in (_TOPIC, _RETRY)}
        self.scanned, self.read = scanned, self._place(scanned)
        self.out.clear()
        self.add(line, "Restart", (self.offsets[_TOPIC], self.offsets[_RETRY]), self.read)

    def _place(self, offset: int) -> int:
        """How much of the log that is: what lies before an offset of the revive queue."""
        behind = itertools.dropwhile(lambda entry: entry[0] >= offset, reversed(self.entries))
        return next(behind, (0, 0))[1]

    def trace(self) -> Trace:
        events, constants = numbered(by_line(self.events)), {"TraceMessages": self.messages}
        return Trace(MODULE, str(self.subject), events, (), frozenset(), constants)


def pop_traces(lines: Iterable[Line]) -> list[Trace]:
    """A trace for each queue that a group popped, and queue of the revive log by which."""
    lines = list(lines)
    by_broker: dict[str, _Broker] = {}
    for subject in _subjects(lines):
        broker = by_broker.setdefault(subject.broker, _Broker())
        broker.projections.append(_Projection(subject))
    for number, line in enumerate(lines, start=1):
        if line.process in by_broker:
            by_broker[line.process].read(number, line)
    return [its.trace() for broker in by_broker.values() for its in broker.projections]


def _subjects(lines: Iterable[Line]) -> dict[_Subject, None]:
    found: dict[_Subject, None] = {}
    for line in lines:
        for variable, key, *value in line.changes if line.module == MODULE else ():
            if variable == "log" and "re_put_times" in value[0]:
                popped = _key(value[0]["key"])
                if normal_topic(popped.topic, popped.group) == popped.topic:
                    subject = _Subject(
                        line.process, popped.group, popped.topic, popped.queue_id, key
                    )
                    found[subject] = None
    return found


@dataclass(slots=True)
class _Broker:
    """What the lines of a broker tell of all its subjects."""

    projections: list[_Projection] = field(default_factory=list)
    out: dict[tuple[int, _Key], tuple[int, ...]] = field(default_factory=dict)
    appended: Counter[str] = field(default_factory=Counter)
    """By topic: messages since a checkpoint was done."""
    end: int = 0  # of the queue to which a message was appended last
    loaded: dict[_QueueOffset, int] | None = None
    has_begun: bool = False

    def read(self, number: int, line: Line) -> None:
        match line.module:
            case "Log":
                for variable, key, *value in line.changes:
                    if variable == "topic_queue_table" and key is not None:
                        self.end = value[0]
                        self.appended[key[0]] += 1
            case "OffsetCommit":
                self._offsets(number, line)
            case "Pop":
                self._pop(number, line)

    def _pop(self, number: int, line: Line) -> None:
        for variable, _, value in line.reads:
            if variable == "now_ms":
                for its in self.projections:
                    its.looked(number, value)
        changes = {variable: (key, value) for variable, key, *value in line.changes}
        if "log" in changes:
            revive_qid, (message,) = changes["log"]
            is_change = line.event is not None and "handle" in line.event
            for its in self._by(revive_qid):
                its.appended(number, self.end - 1, message, is_change=is_change)
        if "check_points" in changes:
            (revive_qid, fields), value = changes["check_points"]
            is_read = "scan_offset" in changes
            self._check_point(number, revive_qid, _key(fields), value, is_read=is_read)
        if "scan_offset" in changes:
            key, (offset,) = changes["scan_offset"]
            if key is None:
                self._restarted(number, dict(offset))
            else:
                for its in self._by(key):
                    its.scan(number, offset)

    def _by(self, revive_qid: int) -> Iterator[_Projection]:
        return (its for its in self.projections if its.subject.revive_qid == revive_qid)

    def _check_point(
        self, number: int, revive_qid: int, key: _Key, value: list[Any], *, is_read: bool
    ) -> None:
        if not is_read:
            self._revived(number, revive_qid, key)
        elif value:
            offsets, acked = value[0]["check_point"]["offsets"], value[0]["acked"]
            self.out[revive_qid, key] = tuple(o for o in offsets if o not in acked)
        else:
            self.out.pop((revive_qid, key), None)
        for its in self._by(revive_qid):
            if key in its.check_points:
                its.out.pop(key, None)
                if (revive_qid, key) in self.out:
                    its.out[key] = self.out[revive_qid, key]

    def _revived(self, number: int, revive_qid: int, key: _Key) -> None:
        self.out.pop((revive_qid, key), None)
        topic = normal_topic(key.topic, key.group)
        retry = [t for t in self.appended if t != topic and normal_topic(t, key.group) == topic]
        count = sum(self.appended.pop(t) for t in retry)
        for its in self.projections:
            if (its.subject.group, its.subject.topic) != (key.group, topic):
                continue
            if its.subject.revive_qid == revive_qid and key in its.check_points:
                its.revived(number, key, count)
            else:
                its.revived_elsewhere(number, count)

    def _restarted(self, number: int, scanned: Mapping[int, int]) -> None:
        self.out.clear()
        if self.has_begun:
            for its in self.projections:
                found = {
                    queue: offset
                    for (topic, group, queue_id), offset in (self.loaded or {}).items()
                    if (queue := its.queue_of(topic, group, queue_id))
                }
                its.restarted(number, found, scanned.get(its.subject.revive_qid, 0))
        self.has_begun = True

    def _offsets(self, number: int, line: Line) -> None:
        for variable, key, told in line.reads:
            if variable == "offset_table" and key is None:
                revive = {key["queue_id"]: o for key, o in told if key["group"] == REVIVE_GROUP}
                for its in self.projections:
                    its.began_to_persist(number, revive.get(its.subject.revive_qid, -1) + 1)
        for variable, key, *value in line.changes:
            if variable == "offset_table" and key is None:
                self.loaded = {_queue_offset(key): offset for key, offset in pairs(value[0])}
            elif variable == "offset_file":
                for its in self.projections:
                    its.persisted(is_told=True)
            elif variable == "offset_table" and value:
                for its in self.projections:
                    if queue := its.queue_of(*_queue_offset(key)):
                        its.passed(number, queue, value[0])


def _queue_offset(key: Mapping[str, Any]) -> _QueueOffset:
    return key["topic"], key["group"], key["queue_id"]


def _key(fields: Mapping[str, Any]) -> _Key:
    return _Key(*(fields[n] for n in ("topic", "group", "queue_id", "start_offset", "pop_time")))
