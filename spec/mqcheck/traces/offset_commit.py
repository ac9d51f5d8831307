"""Traces of OffsetCommit: one for each queue of each group.

What takes time in the reference is one step in the module, and stands in its trace where it
took effect: a member starts on a queue where the broker told it what is stored, and a broker
has persisted what its table was when it began to write, once it has written it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mqcheck.traces.trace import (
    NO_PROCESS,
    NONE,
    UNKNOWN,
    UNTOLD,
    Event,
    Line,
    QueueOfGroup,
    Trace,
    hidden,
    numbered,
    pairs,
)

MODULE = "OffsetCommit"
_MOVES = (
    "SendMessage",
    "AddMessageQueue",
    "PullMessage",
    "SkipMessages",
)  # x is an end or a next offset


class _Held(NamedTuple):
    """A process queue, as far as the module has it."""

    next_offset: int
    tree: frozenset[int]


@dataclass(slots=True)
class _Sent:
    """A commit on its way."""

    at: tuple[int, int]
    member: str
    offset: int
    arrived: bool = False


@dataclass(slots=True)
class _Projection:
    """The events of one queue of one group, as they are found line by line."""

    subject: QueueOfGroup
    events: list[tuple[tuple[int, int], Event]] = field(default_factory=list)
    held: dict[str, _Held] = field(default_factory=dict)
    progress: dict[str, int] = field(default_factory=dict)
    told: list[tuple[int, int]] = field(default_factory=list)  # line, and what was told
    sent: list[_Sent] = field(default_factory=list)
    max_before: int | None = None  # of the queue, when the trace begins
    end: int | None = None
    table_before: int | None = None
    file: int = NONE
    snapshot: tuple[int, int] | None = None  # line and value of a persist that has begun
    _sub: Iterator[int] = field(default_factory=itertools.count)

    def add(
        self, line: int, action: str, process: str, x: int | str = NONE, y: int | str = NONE
    ) -> tuple[int, int]:
        at = (line, next(self._sub))
        self.events.append((at, Event(action, process, x, y, line)))
        return at

    # A broker's lines

    def stored_message(self, line: int, end: int, *, is_found: bool) -> None:
        if self.end is None:
            self.end = self.max_before = end if is_found else end - 1
        if end != self.end:
            self.add(line, "SendMessage", self.subject.broker, end)
        self.end = end

    def arrived(self, line: int, offset: int) -> None:
        first = next((s for s in self.sent if s.offset == offset and not s.arrived), None)
        if first:
            first.arrived = True
        sender = first.member if first else NO_PROCESS
        self.add(line, "UpdateConsumerOffset", self.subject.broker, offset, sender)

    def loaded(self, line: int, offset: int) -> None:
        if self.table_before is None:
            self.table_before = self.file = offset
            return
        if self.snapshot:
            self.add(self.snapshot[0], "MayPersist", self.subject.broker, self.snapshot[1])
            self.snapshot = None
        self.add(line, "Load", self.subject.broker, offset)

    def persisted(self, offset: int) -> None:
        if self.snapshot and offset != self.file:
            self.add(self.snapshot[0], "Persist", self.subject.broker, offset)
        self.file, self.snapshot = offset, None

    # A member's lines

    def changed(
        self,
        line: int,
        member: str,
        queue: Mapping[str, Any] | None,
        progress: int,
        commit: int | None,
    ) -> None:
        """What a line leaves of a member's process queue and progress, and what it sends."""
        before, now = self.held.get(member), _held(queue)
        was = self.progress.get(member, NONE)
        if before is None and now is not None:
            self._started(line, member, now, progress)
        elif before is not None and now is None:
            at = self.add(line, "RemoveUnnecessaryMessageQueue", member, _or_none(commit))
            self._commit(at, member, commit)
        elif before is not None and now is not None:
            self._worked(line, member, before, now, was, progress)
            if commit is not None:
                self._commit(self.add(line, "PersistAll", member, commit), member, commit)
        if now is None:
            self.held.pop(member, None)
            self.progress.pop(member, None)
        else:
            self.held[member], self.progress[member] = now, progress

    def ended(self, line: int, member: str) -> None:
        self.add(line, "CrashMember", member)
        self.held.pop(member, None)
        self.progress.pop(member, None)

    def _started(self, line: int, member: str, now: _Held, progress: int) -> None:
        asked = (at for at, told in reversed(self.told) if told == progress)
        self.add(next(asked, line), "AddMessageQueue", member, now.next_offset, progress)
        self._pulled(line, member, _Held(now.next_offset, frozenset()), now)

    def _worked(
        self, line: int, member: str, before: _Held, now: _Held, was: int, progress: int
    ) -> None:
        self._pulled(line, member, before, now)
        done = sorted(before.tree - now.tree)
        for offset in done:
            told = progress if offset == done[-1] else UNTOLD
            self.add(line, "ProcessConsumeResult", member, offset, told)
        if progress != was and not done:
            self.add(line, "CorrectTagsOffset", member, progress)

    def _pulled(self, line: int, member: str, before: _Held, now: _Held) -> None:
        at = before.next_offset
        for offset in sorted(now.tree - before.tree):
            if at < offset:
                self.add(line, "SkipMessages", member, offset)
            at = offset + 1
            self.add(line, "PullMessage", member, at)
        if at != now.next_offset:
            forward = at < now.next_offset
            self.add(line, "SkipMessages" if forward else UNKNOWN, member, now.next_offset)

    def _commit(self, at: tuple[int, int], member: str, offset: int | None) -> None:
        if offset is not None:
            self.sent.append(_Sent(at, member, offset))

    # The whole

    def trace(self) -> Trace:
        if self.snapshot:
            self.add(self.snapshot[0], "MayPersist", self.subject.broker, self.snapshot[1])
        lost = [
            (s.at, hidden("LoseCommit", s.at[0], s.offset, s.member))
            for s in self.sent
            if not s.arrived
        ]
        ordered = sorted((*self.events, *lost), key=lambda item: item[0])
        events = tuple(event for _, event in ordered)
        started = [e for e in events if e.action == "AddMessageQueue"]
        moves = [e.x for e in events if e.action in _MOVES and isinstance(e.x, int)]
        members = {s.member for s in self.sent} | {e.process for e in started}
        end = max(moves, default=0) if self.max_before is None else self.max_before
        return Trace(
            MODULE,
            str(self.subject),
            numbered(events),
            (end, NONE if self.table_before is None else self.table_before),
            frozenset(members),
            {
                "TraceFromLast": any(e.y == NONE and e.x != 0 for e in started),
                "TraceMaxOffset": max(moves, default=end),
            },
        )


def offset_commit_traces(lines: Iterable[Line]) -> list[Trace]:
    """A trace for each queue that a member of a group held."""
    lines = list(lines)
    projections = {subject: _Projection(subject) for subject in _subjects(lines)}
    readers = {MODULE: _read_offset_commit, "Log": _read_log}
    lives: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if line.module in readers:
            readers[line.module](number, line, projections, lives)
    return [projection.trace() for projection in projections.values()]


def _subjects(lines: Iterable[Line]) -> dict[QueueOfGroup, None]:
    return {
        QueueOfGroup(group, mq["broker_name"], mq["topic"], mq["queue_id"]): None
        for line in lines
        if line.module == MODULE and (group := _group(line))
        for variable, mq, *_ in line.changes
        if variable == "process_queue_table"
    }


def _group(line: Line) -> str | None:
    group, slash, _ = line.process.partition("/")
    return group if slash else None


Projections = Mapping[QueueOfGroup, _Projection]


def _read_log(number: int, line: Line, projections: Projections, _: dict[str, int]) -> None:
    for variable, key, *value in line.changes:
        if variable == "consume_queue" and value:
            found = [(key, value[0])] if key else pairs(value[0])
            for (topic, queue_id), span in found:
                for subject, projection in projections.items():
                    if subject[1:] == (line.process, topic, queue_id):
                        projection.stored_message(number, span["max"], is_found=key is None)


def _read_offset_commit(
    number: int, line: Line, projections: Projections, lives: dict[str, int]
) -> None:
    if group := _group(line):
        _read_member(number, line, group, projections, lives)
    else:
        _read_broker(number, line, projections)


def _read_broker(number: int, line: Line, projections: Projections) -> None:
    for variable, key, *value in (*line.reads, *line.changes):
        of_all = key is None
        tables = _table(value[0]) if of_all else {}
        for subject, projection in projections.items():
            if subject.broker != line.process:
                continue
            if not of_all and (key["group"], key["topic"], key["queue_id"]) != (
                subject.group,
                subject.topic,
                subject.queue_id,
            ):
                continue
            is_read = bool(line.reads)
            stored = tables.get((subject.group, subject.topic, subject.queue_id), NONE)
            match variable, of_all, is_read:
                case "offset_table", True, True:
                    projection.snapshot = (number, stored)
                case "offset_table", True, False:
                    projection.loaded(number, stored)
                case "offset_file", True, False:
                    projection.persisted(stored)
                case "offset_table", False, True:
                    projection.told.append((number, _or_none(value[0])))
                case "offset_table", False, False if value:
                    projection.arrived(number, value[0])
                case "pull_offset_table", _, _:
                    pass
                case _:
                    projection.add(number, UNKNOWN, line.process)


def _read_member(
    number: int, line: Line, group: str, projections: Projections, lives: dict[str, int]
) -> None:
    life = lives.get(line.process, 0)
    member = f"{line.process}#{life}" if life else line.process
    queues: dict[tuple[str, str, int], dict[str, Any]] = {}
    for variable, key, *value in line.changes:
        if variable == "crashed":
            for subject, projection in projections.items():
                if subject.group == group:
                    projection.ended(number, member)
            lives[line.process] = life + 1
        elif variable in ("process_queue_table", "offset_store"):
            queues.setdefault(_of(key), {})[variable] = value[0] if value else None
    for send in line.sends:
        if send["group"] == group:
            queues.setdefault(_of(send["mq"]), {})["commit"] = send["commit_offset"]
    for (broker, topic, queue_id), found in queues.items():
        its = projections.get(QueueOfGroup(group, broker, topic, queue_id))
        if its is None:
            continue
        held = its.held.get(member)
        queue = found.get("process_queue_table", held)
        progress = found.get("offset_store", its.progress.get(member, NONE))
        its.changed(number, member, queue, _or_none(progress), found.get("commit"))


def _held(queue: Mapping[str, Any] | _Held | None) -> _Held | None:
    if queue is None or isinstance(queue, _Held):
        return queue
    tree = (*queue["msg_tree_map"], *queue["consuming_msg_orderly_tree_map"])
    return _Held(queue["next_offset"], frozenset(tree))


def _table(pairs: Any) -> dict[tuple[str, str, int], int]:
    return {(key["group"], key["topic"], key["queue_id"]): offset for key, offset in pairs}


def _of(mq: Mapping[str, Any]) -> tuple[str, str, int]:
    return mq["broker_name"], mq["topic"], mq["queue_id"]


def _or_none(offset: int | None) -> int:
    return NONE if offset is None else offset
