"""Histories made by hand: a recorder that writes them, and their table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from mqrules import Event, EventKind, Outcome
from mqrules.schema import encode

SECOND = 10**9
NUMBERS = ("seq", "time_ns", "queue_id", "queue_offset", "store_epoch", "attempt", "value")


def table(events: Iterable[Event]) -> pa.Table:
    """Events as Arrow, each column of its own type even where it holds nothing."""
    names = [f.name for f in fields(Event)]
    kinds = [pa.int64() if name in NUMBERS else pa.string() for name in names]
    rows = [asdict(event) for event in events]
    return pa.Table.from_pylist(rows, pa.schema(list(zip(names, kinds, strict=True))))


@dataclass
class Recorder:
    """One recorder of one run: a second passes between any two events."""

    run: str = "run"
    process: str = "recorder"
    events: list[Event] = field(default_factory=list)
    now_s: int = 0

    def write(self, kind: str, outcome: str = "ok", **fields: Any) -> Event:
        self.now_s += 1
        event = Event(
            run=self.run,
            seq=len(self.events),
            process=self.process,
            kind=EventKind(kind),
            outcome=Outcome(outcome),
            time_ns=self.now_s * SECOND,
            **fields,
        )
        self.events.append(event)
        return event

    def send(self, offset: int, queue: int = 0, key: str | None = None, **fields: Any) -> Event:
        key = key or f"{queue}-{offset}"
        self.write("send", "invoked", topic="T", message_key=key)
        return self.write("send", message_key=key, **self.place(queue, offset), **fields)

    def member(self, kind: str, client: str, **fields: Any) -> Event:
        return self.write(kind, group="G", client_id=client, **fields)

    def at(self, kind: str, client: str, queue: int = 0, /, **fields: Any) -> Event:
        fields = {"topic": "T", "broker": "b", "queue_id": queue} | fields
        return self.member(kind, client, **fields)

    def receive(self, client: str, offset: int, queue: int = 0, **fields: Any) -> Event:
        fields = {"message_key": f"{queue}-{offset}"} | fields
        return self.at("receive", client, queue, queue_offset=offset, **fields)

    def commit(self, client: str, value: int, queue: int = 0, outcome: str = "ok") -> Event:
        return self.at("commit", client, queue, value=value, outcome=outcome)

    def own(self, client: str, start: int | None, queue: int = 0) -> None:
        self.at("assign", client, queue)
        self.at("query_offset", client, queue, value=start)

    @staticmethod
    def place(queue: int, offset: int) -> dict[str, Any]:
        return {"topic": "T", "broker": "b", "queue_id": queue, "queue_offset": offset}

    def save(self, path: Path) -> None:
        """Write the events as JSON lines."""
        lines = (json.dumps(encode(event)) + "\n" for event in self.events)
        path.write_text("".join(lines), encoding="utf-8")
