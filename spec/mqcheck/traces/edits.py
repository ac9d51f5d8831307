"""Edits: what a trace model must refuse, if its acceptance is to say anything.

Each event of each trace is left out, changes places with the next event of its process, and
has each of its fields altered, in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mqcheck.traces.check import Edit
from mqcheck.traces.trace import Event, Trace, Value


def edits_of(traces: Sequence[Trace]) -> list[Edit]:
    """All edits of all traces, but for events that no process told."""
    return [edit for number, trace in enumerate(traces) for edit in _edits(number, trace)]


def _edits(number: int, trace: Trace) -> Iterator[Edit]:
    events = trace.events
    others = _others(sorted(trace.members))
    for at, event in enumerate(events):
        if not event.number:
            continue
        yield Edit("left out", number, at, 1, ())
        if swapped := _swapped(events, at):
            yield Edit("swapped", number, at, len(swapped), swapped)
        for kind, altered in _altered(event, others):
            yield Edit(kind, number, at, 1, (altered,))


def _others(members: Sequence[str]) -> dict[str, str]:
    """Another member for each, where there are several."""
    following = (*members[1:], *members[:1])
    return dict(zip(members, following, strict=True)) if len(members) > 1 else {}


def _swapped(events: Sequence[Event], at: int) -> tuple[Event, ...]:
    """The events from `at` on, up to the next other one of the same process, which comes first."""
    event = events[at]
    for end in range(at + 1, len(events)):
        next_one = events[end]
        if next_one.process == event.process and next_one.number:
            is_equal = (next_one.action, next_one.x, next_one.y) == (event.action, event.x, event.y)
            return () if is_equal else (next_one, *events[at + 1 : end], event)
    return ()


def _altered(event: Event, others: Mapping[str, str]) -> Iterator[tuple[str, Event]]:
    if (x := _other_value(event.x, others)) is not None:
        yield "x altered", event._replace(x=x)
    if (y := _other_value(event.y, others)) is not None:
        yield "y altered", event._replace(y=y)
    if event.process in others:
        yield "process altered", event._replace(process=others[event.process])


def _other_value(value: Value, others: Mapping[str, str]) -> Value | None:
    """Another number, another member, or one member less; None of what is no value."""
    if isinstance(value, str):
        return others.get(value)
    if isinstance(value, tuple):
        *first, last = value or (None,)
        if isinstance(last, int):
            return (*value[:-1], last + 1)
        return tuple(first) if value else None
    return value + 1 if value >= 0 else None
