"""Traces of Group: one for each group, of what its brokers knew of its members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mqcheck.traces.trace import NONE, Event, Line, Trace, hidden, numbered

MODULE = "Group"


@dataclass(slots=True)
class _Projection:
    """The events of one group."""

    group: str
    events: list[Event] = field(default_factory=list)
    tables: dict[str, frozenset[str]] = field(default_factory=dict)  # of each broker
    seen: set[str] = field(default_factory=set)

    def changed(self, number: int, line: Line, channels: Mapping[str, str]) -> None:
        """A broker's table of the group, channel to client id, after a line."""
        before = self.tables.get(line.process, frozenset())
        after = frozenset(channels.values())
        told = {channels.get(s["channel"], s["channel"]) for s in line.sends if self._notifies(s)}
        expired = any("group" not in send for send in line.sends)
        for member in sorted(after - before):
            if member not in self.seen:
                self.events.append(hidden("Join", number, member))
            self.seen.add(member)
            self._add(number, "RegisterConsumer", line.process, member, len(told))
        for member in sorted(before - after):
            if expired:
                self.events.append(hidden("Crash", number, member))
            action = "ScanNotActiveChannel" if expired else "CloseChannel"
            self._add(number, action, line.process, member, len(told))
        if before == after and told:
            self._add(number, "NotifyAgain", line.process, NONE, len(told))
        self.tables[line.process] = after

    def listed(self, number: int, broker: str, ids: Iterable[str]) -> None:
        members = tuple(sorted(set(map(str, ids))))
        self.events.append(Event("ConsumerIdList", broker, members, NONE, number))

    def restarted(self, number: int, broker: str) -> None:
        if self.tables.pop(broker, None):
            self._add(number, "Restart", broker, NONE, NONE)

    def _notifies(self, send: Mapping[str, Any]) -> bool:
        return send.get("group") == self.group

    def _add(self, number: int, action: str, broker: str, x: int | str, y: int) -> None:
        self.events.append(Event(action, broker, x, y, number))
        if y > 0:
            self.events.append(hidden("NoticesAreGone", number))

    def trace(self) -> Trace:
        return Trace(MODULE, self.group, numbered(self.events), (), frozenset(self.seen))


def group_traces(lines: Iterable[Line]) -> list[Trace]:
    """A trace for each group that had a member."""
    projections: dict[str, _Projection] = {}
    for number, line in enumerate(lines, start=1):
        for variable, key, told in line.reads:
            if variable == "consumer_table" and key in projections:
                projections[key].listed(number, line.process, told)
        for variable, key, *value in line.changes:
            if variable == "consumer_table":
                channels = _channels(value[0]) if value else {}
                its = projections.setdefault(key, _Projection(key))
                its.changed(number, line, channels)
            elif variable == "offset_table" and key is None:  # loaded: the broker starts
                for its in projections.values():
                    its.restarted(number, line.process)
    return [its.trace() for its in projections.values() if its.events]


def _channels(info: Mapping[str, Any]) -> dict[str, str]:
    return {channel: str(of["client_id"]) for channel, of in info["channel_info_table"]}
