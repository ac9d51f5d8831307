"""Traces of Route: one for each broker that registered at a nameserver.

A broker is its processes, by their addresses: the master and its replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mqcheck.traces.trace import NONE, UNKNOWN, Event, Line, Trace, Value, hidden, numbered, pairs

MODULE = "Route"
_NOBODY = "nobody"  # an id that is free


@dataclass(slots=True)
class _Projection:
    """The events of one broker at one nameserver."""

    nameserver: str
    broker: str
    events: list[Event] = field(default_factory=list)
    processes: set[str] = field(default_factory=set)
    addresses: dict[int, str] = field(default_factory=dict)  # by broker id
    topics: set[str] = field(default_factory=set)
    alive: set[str] = field(default_factory=set)
    max_id: int = 1

    def registers(self, number: int, event: Mapping[str, Any], *, is_taken: bool) -> None:
        process, broker_id = event["address"], event["broker_id"]
        told = sorted(topic["topic_name"] for topic in event["topics"])
        self.processes.add(process)
        self.max_id = max(self.max_id, broker_id)
        self.events.append(hidden("Tell", number, (process, broker_id, *told)))
        self._add(number, "RegisterBroker" if is_taken else "RefuseBroker", process, self.routes())

    def is_gone(self, number: int, process: str) -> None:
        self._add(number, "UnregisterBroker", process, self.routes())

    def routed(self, number: int, topic: str, addresses: tuple[str, ...]) -> None:
        self._add(number, "PickTopicRoute", topic, addresses)

    def started(self, number: int) -> None:
        self._add(number, "Restart", NONE, NONE)
        self.addresses, self.topics, self.alive = {}, set(), set()

    def changed(self, number: int, before: set[str]) -> None:
        """Topics, and no process: an administrator did that."""
        for topic in sorted(before - self.topics):
            self._add(number, "DeleteTopic", topic, NONE)
        if self.topics - before:
            self._add(number, UNKNOWN, NONE, NONE)

    def routes(self) -> tuple[int | str, ...]:
        """The addresses by broker id, and the number of topics, after a step."""
        ids = range(max(self.addresses, default=NONE) + 1)
        return (*(self.addresses.get(i, _NOBODY) for i in ids), len(self.topics))

    def _add(self, number: int, action: str, x: Value, y: Value) -> None:
        self.events.append(Event(action, self.nameserver, x, y, number))

    def trace(self) -> Trace:
        return Trace(
            MODULE,
            f"{self.broker} at {self.nameserver}",
            numbered(self.events),
            (),
            frozenset(self.processes),
            {"TraceMaxId": self.max_id},
        )


def route_traces(lines: Iterable[Line]) -> list[Trace]:
    """A trace for each broker that registered at a nameserver."""
    brokers: dict[tuple[str, str], _Projection] = {}
    for number, line in enumerate(lines, start=1):
        if line.module == MODULE:
            if line.event:
                name = line.event["broker_name"]
                brokers.setdefault((line.process, name), _Projection(line.process, name))
            for its in brokers.values():
                if its.nameserver == line.process:
                    _read(number, line, its)
    return [its.trace() for its in brokers.values()]


def _read(number: int, line: Line, its: _Projection) -> None:
    for _, topic, route in line.reads:
        its.routed(number, topic, _addresses(route, its.broker))
    if any(key is None for _, key, *_ in line.changes):
        its.started(number)
        return
    topics, gone, entered = set(its.topics), set[str](), set[str]()
    for variable, key, *value in line.changes:
        match variable:
            case "topic_queue_table" if value and its.broker in value[0]:
                its.topics.add(key)
            case "topic_queue_table":
                its.topics.discard(key)
            case "broker_addr_table" if key == its.broker:
                its.addresses = _by_id(value[0]["broker_addrs"]) if value else {}
            case "broker_live_table" if not value:
                gone |= {key["address"]} & its.alive
            case "broker_live_table" if value[0]["broker_name"] == its.broker:
                entered.add(key["address"])
    its.alive = its.alive - gone | entered
    if line.event and line.event["broker_name"] == its.broker:
        its.registers(number, line.event, is_taken=bool(entered))
    elif gone:
        (process,) = gone
        its.is_gone(number, process)
    else:
        its.changed(number, topics)


def _addresses(route: Mapping[str, Any] | None, broker: str) -> tuple[str, ...]:
    """The addresses of a broker in a route; none where its queues are not in it."""
    if route is None or all(queues["broker_name"] != broker for queues in route["queue_datas"]):
        return ()
    return tuple(
        address
        for data in route["broker_datas"]
        if data["broker_name"] == broker
        for _, address in sorted(_by_id(data["broker_addrs"]).items())
    )


def _by_id(table: Any) -> dict[int, str]:
    return dict(pairs(table))
