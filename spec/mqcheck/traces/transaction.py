"""Traces of Transaction: one for each broker that stored a half message.

What a broker appends to the half queue are new halves, but for those of a round of checks: these
stand before its line. How far it looked at halves is persisted with the offsets of consumers,
as that was when it began to write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from mqcheck.traces.trace import NONE, UNKNOWN, Event, Line, Trace, Value, hidden, numbered
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.transaction import CONSUMER_GROUP, OP_TOPIC

MODULE = "Transaction"
_ROLLBACK, _COMMIT = 0, 1
_ENDED, _ASKED, _PARKED = 0, 1, 2  # what became of a half that was looked at
_FORGET_EVERY: Final = 50  # events


class _Offsets(NamedTuple):
    """How far halves were looked at, and op messages are done with."""

    half: int
    op: int


_NOWHERE: Final = _Offsets(0, 0)


@dataclass(slots=True)
class _Projection:
    """The events of one broker."""

    broker: str
    check_max: int = 15
    is_started: bool = False
    found: int = 0  # halves from before the trace
    events: list[Event | None] = field(default_factory=list)
    appended: list[tuple[int, int]] = field(default_factory=list)  # lines and offsets not yet told
    transactions: dict[int, int] = field(default_factory=dict)  # of halves; named by their first
    decided: set[int] = field(default_factory=set)
    at: _Offsets = _NOWHERE
    disk: _Offsets = _NOWHERE
    ops: int = 0  # op messages of events
    ops_appended: int = 0
    snapshot: tuple[int, int, _Offsets] | None = None  # place and line of a persist, and what

    # The log's lines

    def holds(self, number: int, halves: int, ops: int) -> None:
        """What the queues hold when the broker starts."""
        if not self.is_started:
            self.found = halves
        for offset in range(len(self.transactions) + len(self.appended), halves):
            self.appended.append((number, offset))
        self.ops_appended = ops

    # The broker's lines

    def ended(self, number: int, half: int, *, is_commit: bool) -> None:
        transaction = self.transactions.get(half, half)
        end = _COMMIT if is_commit else _ROLLBACK
        if transaction not in self.decided:
            self.decided.add(transaction)
            self.events.append(hidden("Decide", number, (transaction, end)))
        self._add(number, "EndTransaction", half, end)

    def wrote_ops(self, number: int) -> None:
        self.ops = self.ops_appended
        self._add(number, "BatchSendOpMessage", self.ops)

    def checked(self, number: int, at: _Offsets, sends: Iterable[Mapping[str, Any]]) -> None:
        sent = {send["message"]["queue_offset"]: send for send in sends}
        for half in range(self.at.half, at.half):
            send = sent.get(half)
            if send and "group" in send:
                self.transactions[len(self.transactions)] = self.transactions[half]
                action = "Check" if send["is_checked"] else UNKNOWN
                self._add(number, action, half, _ASKED)
            else:
                self._add(number, "Check", half, _PARKED if send else _ENDED)
        self._add(number, "EndOfChecks", *at)
        self.at = at

    def started(self, number: int, at: _Offsets) -> None:
        if self.is_started:
            if self.snapshot:
                self._persist("MayPersist", *self.snapshot)
            if self.ops < self.ops_appended:
                self.wrote_ops(number)
            self._add(number, "Kill", *at)
        self.at = self.disk = at
        self.is_started, self.snapshot = True, None

    def prepared(self, number_of_copies: int) -> None:
        """What was appended so far are new halves, but for the last: a round of checks."""
        new = self.appended[: len(self.appended) - number_of_copies]
        for number, offset in new:
            self.transactions[offset] = offset
            self._add(number, "Prepare", offset)
        self.appended = []

    def begins_to_persist(self, number: int, offsets: _Offsets) -> None:
        self.snapshot = (len(self.events), number, offsets)
        self.events.append(None)

    def persisted(self, offsets: _Offsets) -> None:
        if self.snapshot and offsets != self.disk:
            self._persist("Persist", *self.snapshot)
        self.disk, self.snapshot = offsets, None

    def _persist(self, action: str, place: int, number: int, offsets: _Offsets) -> None:
        self.events[place] = Event(action, self.broker, *offsets, number)

    def _add(self, number: int, action: str, x: Value, y: int = NONE) -> None:
        self.events.append(Event(action, self.broker, x, y, number))

    def trace(self) -> Trace:
        return Trace(
            MODULE,
            self.broker,
            numbered(_with_forgets(filter(None, self.events))),
            (),
            frozenset({self.broker}),
            {"TraceMaxChecks": self.check_max, "TraceHalves": _FORGET_EVERY},
        )


def _with_forgets(events: Iterable[Event]) -> Iterator[Event]:
    for count, event in enumerate(events, start=1):
        yield event
        if count % _FORGET_EVERY == 0:
            yield hidden("Forget", event.line)


def transaction_traces(lines: Iterable[Line]) -> list[Trace]:
    """A trace for each broker that stored a half, and had none when the lines begin."""
    brokers: dict[str, _Projection] = {}
    readers = {MODULE: _read_transaction, "Log": _read_log, "OffsetCommit": _read_offset_commit}
    for number, line in enumerate(lines, start=1):
        if line.module in readers and "/" not in line.process:
            its = brokers.setdefault(line.process, _Projection(line.process))
            readers[line.module](number, line, its)
    for its in brokers.values():
        its.prepared(0)
    return [its.trace() for its in brokers.values() if its.transactions and not its.found]


def _read_log(number: int, line: Line, its: _Projection) -> None:
    for variable, key, *value in line.changes:
        if variable != "topic_queue_table":
            continue
        if key is None:
            found = {tuple(queue): messages for queue, messages in value[0] or ()}
            its.holds(number, *(found.get((topic, 0), 0) for topic in (HALF_TOPIC, OP_TOPIC)))
        elif key == [HALF_TOPIC, 0]:
            its.appended.append((number, value[0] - 1))
        elif key == [OP_TOPIC, 0]:
            its.ops_appended = value[0]


def _read_offset_commit(number: int, line: Line, its: _Projection) -> None:
    for variable, key, *value in (*line.reads, *line.changes):
        if key is not None:
            continue
        table = {(of["topic"], of["group"]): offset for of, offset in value[0] or ()}
        offsets = _Offsets(*(table.get((t, CONSUMER_GROUP), 0) for t in (HALF_TOPIC, OP_TOPIC)))
        if line.reads:
            its.prepared(0)
            its.begins_to_persist(number, offsets)
        elif variable == "offset_file":
            its.persisted(offsets)


def _read_transaction(number: int, line: Line, its: _Projection) -> None:
    for _, _, value in line.reads:  # transaction_check_max
        its.check_max = value
    changes = {variable: value for variable, _, value in line.changes}
    match changes:
        case {"half_offset": half, "op_offset": op, "op_batch": _}:  # all: it starts
            its.prepared(0)
            its.started(number, _Offsets(half, op))
        case {"half_offset": half, "op_offset": op}:
            its.prepared(sum("group" in send for send in line.sends))
            its.checked(number, _Offsets(half, op), line.sends)
        case {"op_batch": [*_, half]}:
            its.prepared(0)
            its.ended(number, half, is_commit=bool(line.sends))
        case {"op_batch": []}:
            its.prepared(0)
            its.wrote_ops(number)
