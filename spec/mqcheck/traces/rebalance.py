"""Traces of Rebalance: one for each topic of each group.

Who is in the group is told by its brokers, as in the traces of Group. A rebalance of a topic is
two steps of its member: it reads the list where a broker tells it, and a notice that comes
before that, in the same rebalance, is of no effect on the list and stands behind it; it uses the
list where it says by what it rebalances, and holds then what it holds in the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mqcheck.traces.group import group_traces
from mqcheck.traces.trace import NONE, UNKNOWN, Event, Line, Trace, Value, by_line, hidden, numbered
from mqspec.core.types import string_order

MODULE = "Rebalance"
STRATEGIES: Final = ("AVG", "AVG_BY_CIRCLE")  # that the module has
_OF_BROKERS: Final = (
    "RegisterConsumer",
    "CloseChannel",
    "ScanNotActiveChannel",
    "NotifyAgain",
    "Restart",
)

_Queue = tuple[bytes, int]  # by its broker, in the order of queues


@dataclass(slots=True)
class _Round:
    """A rebalance that has begun."""

    began: int  # its line
    used: int | None = None  # the line where the list is used
    own: tuple[str, int] | None = None  # writer and number of the line of what it drops itself
    is_cut: bool = False  # a queue was given up meanwhile, to begin anew elsewhere
    woken: list[tuple[int, str]] = field(default_factory=list)  # before that: lines, and how


@dataclass(slots=True)
class _Member:
    """A member that runs, as far as its lines tell."""

    held: set[_Queue] = field(default_factory=set)
    route: list[_Queue] | None = None
    round: _Round | None = None
    is_told: bool = False  # of a change, by a notice that it has not taken note of yet


@dataclass(slots=True)
class _Projection:
    """The events of one topic of one group."""

    group: str
    topic: str
    queues: list[_Queue]  # all that were ever seen, in their order
    told: list[tuple[int, str, list[str]]] = field(default_factory=list)
    """The lists that brokers told: line, broker, ids of members."""
    strategies: dict[str, str] = field(default_factory=dict)
    running: dict[str, _Member] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def add(self, line: int, action: str, process: str, x: Value = NONE, y: Value = NONE) -> None:
        self.events.append(Event(action, process, x, y, line))

    def read(self, number: int, line: Line) -> None:
        """A line of a member."""
        name = line.process
        if name not in self.running:
            self.running[name] = _Member()
            self.add(number, "Join", name)
        member = self.running[name]
        for variable, key, value in line.reads:
            if variable == "strategy":
                self.strategies[name] = value
            elif variable == "notices":
                member.is_told = True
            elif (variable, key) == ("view", self.topic):
                self._viewed(number, line, member, value)
        for variable, key, *value in line.changes:
            match variable:
                case "has_notified" if value[0]:
                    self._woken(number, name, member)
                case "has_notified":
                    member.round = _Round(number)
                case "balanced":
                    self._ended(name, member, is_whole=value[0])
                case "crashed":
                    self._ended(name, member, is_whole=False)
                    self.add(number, "Crash", name)
                    del self.running[name]
                case "process_queue_table" if key["topic"] == self.topic:
                    self._changed(number, line, member, _queue(key), value)

    def _woken(self, number: int, name: str, member: _Member) -> None:
        how = "NotifyConsumerIdsChanged" if member.is_told else "Wakeup"
        member.is_told = False
        if member.round and member.round.used is None:
            member.round.woken.append((number, how))
        else:
            self.add(number, how, name)

    def _viewed(self, number: int, line: Line, member: _Member, view: Mapping[str, Any]) -> None:
        name = line.process
        if view["mq_all"] is not None:
            route = sorted(map(_queue, view["mq_all"]))
            if route != member.route:
                self.add(number, "UpdateRoute", name, self._numbers(route))
            member.route = route
        if not (member.round and view["mq_all"] and view["cid_all"]):  # nothing changes
            return
        members = tuple(sorted({f"{self.group}/{each}" for each in view["cid_all"]}))
        if asked := self._asked(member.round.began, view["cid_all"]):
            at, broker = asked
            self.add(at, "DoRebalance", name, broker, members)
        else:
            at = number
            self.add(at, UNKNOWN, name, NONE, members)
        self._release(name, member.round, at)
        member.round.used = number
        member.round.own = line.writer, line.seq + 1

    def _asked(self, began: int, ids: list[str]) -> tuple[int, str] | None:
        """Where a list was told since a rebalance began, and by which broker."""
        since = itertools.takewhile(lambda told: told[0] > began, reversed(self.told))
        return next(((at, broker) for at, broker, told in since if told == ids), None)

    def _release(self, name: str, of: _Round, at: int) -> None:
        """What woke the member before the list was read."""
        for number, how in of.woken:
            self.add(max(number, at), how, name)
        of.woken.clear()

    def _changed(
        self, number: int, line: Line, member: _Member, queue: _Queue, value: list[Any]
    ) -> None:
        is_held = bool(value) and not value[0]["dropped"]
        if is_held == (queue in member.held):
            return
        member.held ^= {queue}
        if member.round and member.round.used:
            member.round.is_cut |= not is_held and member.round.own != (line.writer, line.seq)
        else:
            (place,) = self._numbers([queue])
            self.add(number, UNKNOWN if is_held else "Drop", line.process, place)

    def _ended(self, name: str, member: _Member, *, is_whole: bool) -> None:
        this, member.round = member.round, None
        if this is None:
            return
        if this.used is None:
            self.add(this.began, "Unknowing", name)
        else:
            is_whole = is_whole and not this.is_cut
            action = "RebalanceByTopic" if is_whole else "RebalanceInPart"
            self.add(this.used, action, name, self._numbers(member.held))
        self._release(name, this, this.began)

    def _numbers(self, queues: Iterable[_Queue]) -> tuple[int, ...]:
        return tuple(sorted(map(self.queues.index, queues)))

    def trace(self, of_group: Trace) -> Trace:
        """The trace; `of_group` is what the brokers knew."""
        for event in of_group.events:
            if event.action in _OF_BROKERS:
                member = NONE if event.x == NONE else f"{self.group}/{event.x}"
                self.events.append(event._replace(x=member, y=NONE, number=0))
        names = {f"{self.group}/{each}" for each in of_group.members} | self.strategies.keys()
        ids = sorted(names, key=string_order)
        return Trace(
            MODULE,
            f"{self.group} on {self.topic}",
            numbered(_with_silent(by_line(self.events))),
            (),
            frozenset(names),
            {
                "TraceClientId": {name: place for place, name in enumerate(ids)},
                "TraceStrategy": {name: self.strategies.get(name, "AVG") for name in ids},
            },
        )


def _with_silent(events: Iterable[Event]) -> Iterator[Event]:
    """The events, and before each what its member must have done and did not tell."""
    running: set[str] = set()
    gone: set[str] = set()
    silent: set[str] = set()  # and taken as gone
    for event in events:
        member = str(event.x) if event.action in _OF_BROKERS else event.process
        match event.action:
            case "Join":
                running.add(member)
            case "Crash":
                running.discard(member)
                gone.add(member)
            case "RegisterConsumer" if member not in running | gone:
                running.add(member)
                yield hidden("Join", event.line, process=member)
            case "ScanNotActiveChannel" if member in running:
                running.discard(member)
                silent.add(member)
                yield hidden("Crash", event.line, process=member)
            case _ if member in silent:
                silent.discard(member)
                running.add(member)
                yield hidden("Join", event.line, process=member)
        yield event


def rebalance_traces(lines: Iterable[Line]) -> list[Trace]:
    """A trace for each topic of each group of which a broker and a member told."""
    lines = list(lines)
    of_groups = {trace.subject: trace for trace in group_traces(lines)}
    found = [
        _Projection(group, topic, sorted(queues))
        for (group, topic), queues in _queues(lines).items()
        if group in of_groups
    ]
    for number, line in enumerate(lines, start=1):
        group, is_member, _ = line.process.partition("/")
        lists = {key: told for name, key, told in line.reads if name == "consumer_table"}
        for its in found:
            if is_member and its.group == group:
                its.read(number, line)
            elif its.group in lists:
                its.told.append((number, line.process, lists[its.group]))
    return [
        its.trace(of_groups[its.group])
        for its in found
        if set(its.strategies.values()) <= set(STRATEGIES)
    ]


def _queues(lines: Iterable[Line]) -> dict[tuple[str, str], set[_Queue]]:
    """All queues of each topic that members of a group shared."""
    found: dict[tuple[str, str], set[_Queue]] = {}
    for line in lines:
        group, is_member, _ = line.process.partition("/")
        for variable, topic, view in line.reads:
            if is_member and variable == "view" and view["mq_all"] and view["cid_all"]:
                found.setdefault((group, topic), set()).update(map(_queue, view["mq_all"]))
    return found


def _queue(mq: Mapping[str, Any]) -> _Queue:
    return string_order(mq["broker_name"]), mq["queue_id"]
