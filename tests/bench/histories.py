"""Histories of any size in which nothing is amiss, and events strewn into them.

One group consumes one topic: each message is sent, stored, received and acknowledged, and each
round ends with a one-way commit of every queue, as real clients commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mqrules import Event

ROUND: Final = 100_000  # messages
RUN: Final = "r"
PROCESS: Final = "p"

_WHOLE: Final = {name for name, hint in get_type_hints(Event).items() if hint in (int, int | None)}
SCHEMA: Final = pa.schema(
    [(f.name, pa.int64() if f.name in _WHOLE else pa.string()) for f in fields(Event)]
)
_MICROSECOND: Final = 1000


@dataclass(frozen=True)
class Shape:
    """How large a history is; `hot`: the part of the messages that are in queue 0."""

    messages: int
    queues: int = 64
    members: int = 8
    hot: float = 0.0
    round: int = ROUND

    def owner(self, queue: int) -> str:
        return f"c{queue * self.members // self.queues}"


class Writer:
    """Writes rows one after the other, with their positions and times."""

    def __init__(self, path: Path) -> None:
        self._file = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        self.events = 0
        self.time_ns = 0
        self.ends = np.zeros(0, np.int64)  # of the queues

    def columns(self, size: int, **columns: Any) -> None:
        """Rows as columns, each an array or one value for all rows; a microsecond apart."""
        ticks = np.arange(size)
        columns |= {
            "run": RUN,
            "process": PROCESS,
            "seq": self.events + ticks,
            "time_ns": self.time_ns + ticks * _MICROSECOND,
        }
        arrays = []
        for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True):
            column = columns.get(name)
            if column is None:
                arrays.append(pa.nulls(size, kind))
            elif isinstance(column, str | int):
                arrays.append(pa.repeat(pa.scalar(column, kind), size))
            else:
                arrays.append(pa.array(column, kind))
        self._file.write_table(pa.table(arrays, schema=SCHEMA))
        self.events += size
        self.time_ns += size * _MICROSECOND

    def rows(self, events: Iterable[Event]) -> None:
        """Events of some other recorder, which keep the time between them."""
        rows = [
            asdict(event)
            | {
                "run": RUN,
                "process": PROCESS,
                "seq": self.events + n,
                "time_ns": self.time_ns + event.time_ns,
            }
            for n, event in enumerate(events)
        ]
        self._file.write_table(pa.Table.from_pylist(rows, SCHEMA))
        self.events += len(rows)
        self.time_ns = max(row["time_ns"] for row in rows) + _MICROSECOND

    def close(self) -> None:
        self._file.close()


def write(path: Path, shape: Shape, strewn: Mapping[int, Iterable[Event]] | None = None) -> int:
    """Write a clean history; `strewn`: events before the round of a number. How many there are."""
    strewn = strewn or {}
    writer = Writer(path)
    _beginning(writer, shape)
    rounds = [*_rounds(shape)]
    for number, (first, size) in enumerate(rounds):
        if before := strewn.get(number):
            writer.rows(before)
        _round(writer, shape, first, size, np.random.default_rng(number))
    if last := strewn.get(len(rounds)):
        writer.rows(last)
    writer.close()
    return writer.events


def _rounds(shape: Shape) -> Iterator[tuple[int, int]]:
    for first in range(0, shape.messages, shape.round):
        yield first, min(shape.round, shape.messages - first)


def _beginning(writer: Writer, shape: Shape) -> None:
    """The members join and subscribe, and ask where to begin."""
    for n in range(shape.members):
        member = {"group": "G", "client_id": f"c{n}"}
        writer.columns(1, kind="join", outcome="ok", **member)
        writer.columns(1, kind="subscribe", outcome="ok", topic="T", tag="*", **member)
    owned = {
        "topic": "T",
        "broker": "b",
        "group": "G",
        "queue_id": np.arange(shape.queues),
        "client_id": [shape.owner(queue) for queue in range(shape.queues)],
    }
    writer.columns(shape.queues, kind="assign", outcome="ok", **owned)
    writer.columns(shape.queues, kind="query_offset", outcome="ok", value=0, **owned)
    writer.ends = np.zeros(shape.queues, np.int64)


def _round(
    writer: Writer, shape: Shape, first: int, size: int, chance: np.random.Generator
) -> None:
    queue = chance.integers(0, shape.queues, size)
    queue[chance.random(size) < shape.hot] = 0
    order = np.argsort(queue, kind="stable")
    number = np.bincount(queue, minlength=shape.queues)
    offset = np.empty(size, np.int64)
    offset[order] = np.arange(size) - np.repeat(np.cumsum(number) - number, number)
    offset += writer.ends[queue]
    writer.ends += number

    owners = np.array([shape.owner(q) for q in range(shape.queues)])
    key = np.char.add("k", (first + np.arange(size)).astype(str))
    place = {
        "topic": "T",
        "broker": "b",
        "queue_id": queue,
        "queue_offset": offset,
        "message_key": key,
    }
    got = {"group": "G", "client_id": owners[queue], "attempt": 0}
    writer.columns(size, kind="send", outcome="invoked", topic="T", message_key=key)
    writer.columns(size, kind="send", outcome="ok", **place)
    writer.columns(size, kind="receive", outcome="ok", **place, **got)
    writer.columns(size, kind="ack", outcome="ok", **place, **got)
    writer.columns(
        shape.queues,
        kind="commit",
        outcome="unknown",
        topic="T",
        broker="b",
        group="G",
        queue_id=np.arange(shape.queues),
        client_id=owners,
        value=writer.ends,
    )
