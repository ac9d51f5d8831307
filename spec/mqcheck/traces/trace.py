"""Traces of the reference, as TRACE_ models read them: the lines of a file, and their events.

A file is what `mqspec serve --trace FILE` and clients with the same file wrote (mqspec.trace).
It holds what all processes did; of that a projection makes the traces of one module, each of
one small part of the state that steps on its own: a queue of a group, say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mqrules import UserError

NONE = -1  # None, in an event
UNTOLD = -2  # not in the trace
UNKNOWN = "Unknown"  # an action that no module has

Value = int | str | tuple[int | str, ...]
Constant = int | Mapping[str, int | str]  # of several the largest, or one of all their members


class Line(msgspec.Struct, frozen=True):
    """One line of a trace file. mqspec.trace says what its fields mean."""

    writer: str
    seq: int
    process: str
    module: str
    reads: list[list[Any]] = []
    changes: list[list[Any]] = []
    sends: list[dict[str, Any]] = []
    event: dict[str, Any] | None = None


class Event(NamedTuple):
    """One event of a trace, as the table in the header of its TRACE_ module explains it."""

    action: str
    process: str
    x: Value = NONE
    y: Value = NONE
    line: int = 0  # of the file, or before it, where the event took place earlier than it was told
    number: int = 0  # among the events of its process; 0: it is hidden
    is_hidden: bool = False  # no process told it, and the others imply it


class QueueOfGroup(NamedTuple):
    """What a trace may be about."""

    group: str
    broker: str
    topic: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.group} on {self.topic}/{self.queue_id} of {self.broker}"


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened to one part of a module's state."""

    module: str
    subject: str
    events: tuple[Event, ...]
    before: tuple[Any, ...]  # what was there when it began, as the TRACE_ module says
    members: frozenset[str]
    constants: Mapping[str, Constant] = field(default_factory=dict)  # of all traces together


def read_lines(path: Path) -> list[Line]:
    """The lines of a file. Raises UserError where it is no trace, or lines of it are missing."""
    decoder = msgspec.json.Decoder(Line)
    try:
        rows = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(str(path), f"cannot be read: {error.strerror}", "name a file") from None
    if rows.pop():
        raise UserError(f"{path}:{len(rows) + 1}", "the line has no end", "take the whole file")
    if not rows:
        raise UserError(str(path), "there is nothing in it", "record one: mqspec serve --trace")
    lines: list[Line] = []
    expected: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
        try:
            line = decoder.decode(row)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            why = f"not a line of a trace: {error}"
            raise UserError(f"{path}:{number}", why, "record one: mqspec serve --trace") from None
        if line.seq != expected.get(line.writer, 0):
            missing = f"line {expected.get(line.writer, 0)} of {line.writer} is missing"
            raise UserError(f"{path}:{number}", missing, "take the whole file")
        expected[line.writer] = line.seq + 1
        lines.append(line)
    return lines


def pairs(table: Any) -> Iterable[tuple[Any, Any]]:
    """The items of a table whose keys are no text: a list of pairs, or an object without any."""
    return table or ()


NO_PROCESS = "nobody"


def hidden(action: str, line: int, x: Value = NONE, process: str = NO_PROCESS) -> Event:
    """An event that no process told, and that the others imply."""
    return Event(action, process, x, NONE, line, is_hidden=True)


def by_line(events: Iterable[Event]) -> list[Event]:
    """The events in the order of their lines; those of one line as they were found."""
    return sorted(events, key=lambda event: event.line)


def numbered(events: Iterable[Event]) -> tuple[Event, ...]:
    """The events with their numbers among those of their process."""
    counts: dict[str, int] = {}
    found = []
    for event in events:
        if event.is_hidden:
            found.append(event)
            continue
        counts[event.process] = counts.get(event.process, 0) + 1
        found.append(event._replace(number=counts[event.process]))
    return tuple(found)
