"""Stores as Spark data sources, read in parallel as Arrow record batches.

    spark.dataSource.register(CommitLogSource)
    spark.read.format("rocketmq-commitlog").option("columns", "topic,size").load("/data/store")
    spark.read.format("rocketmq-consumequeue").load("/data/store")

    spark.read.format("rocketmq-plain-log").load("/data/store")
    spark.read.format("rocketmq-plain-units").load("/data/store")

The last two are for the checks: what is plain is a row a run there (`plain`).

The paths are the roots of stores, which every worker must see. A segment of the CommitLog is
read in parts of `partMiB`, 64 by default; small files are read together. Of the CommitLog's
columns (`store`, and those of `segments.LOG_COLUMNS`) only those of the option `columns` are
decoded; by default all but the bodies.

With the option `pushdown` equalities on topic and queue_id are left to the reader. A frame
loaded so is for one query: Spark 4.3 keeps the partitions that its first filter left, and gives
wrong answers to the next (seen; hence not the default).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import BinaryType, BooleanType, DataType, LongType, StringType, StructType

from mqaudit import plain
from mqaudit.plain import FILE
from mqaudit.segments import (
    LOG_COLUMNS,
    UNIT_COLUMNS,
    Part,
    log_batches,
    parts,
    unit_batches,
    whole,
)

PART_MIB: Final = 64

# A unit of 20 bytes is held against its record, of some hundred: a task takes fewer bytes of units.
_UNITS_COST: Final = 8

_LOG_TYPES: Final = {"store": pa.string()} | {name: c.type for name, c in LOG_COLUMNS.items()}
_BY_DEFAULT: Final = [name for name in _LOG_TYPES if name != "body"]

_SPARK_TYPES: Final[Mapping[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.bool_(): BooleanType(),
    pa.binary(): BinaryType(),
}


@dataclass(frozen=True)
class _Log:
    """A part of a segment of a store."""

    store: str
    part: Part


@dataclass(frozen=True)
class _Queue:
    """A file of a ConsumeQueue of a store."""

    store: str
    topic: str
    queue_id: int
    part: Part


_Piece = TypeVar("_Piece", _Log, _Queue)


@dataclass
class Pieces(InputPartition, Generic[_Piece]):
    """What one task reads."""

    pieces: tuple[_Piece, ...]


def _packed(pieces: Iterable[_Piece], bytes_max: int) -> list[InputPartition]:
    """Pieces in tasks of about so many bytes: most files of most stores are small."""
    packed: list[list[_Piece]] = []
    room = 0
    for piece in pieces:
        size = piece.part.end - piece.part.start
        if size > room:
            packed.append([])
            room = bytes_max
        packed[-1].append(piece)
        room -= size
    return [Pieces(tuple(pieces)) for pieces in packed or [[]]]  # Spark wants one at least


class _Reader(DataSourceReader):
    """What both sources share: their stores, and equalities on topic and queue_id."""

    def __init__(self, options: Mapping[str, str]) -> None:
        paths = json.loads(options["paths"]) if "paths" in options else [options["path"]]
        self.stores = {path: Path(path.removeprefix("file:")) for path in paths}
        self.pushdown = options.get("pushdown", "false").lower() == "true"
        self.part_bytes = int(options.get("partMiB", PART_MIB)) << 20
        self.equal: dict[str, Any] = {}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Keep the equalities that the reader applies itself, and give back the rest."""
        for one in filters:
            match one:
                case EqualTo(attribute=("topic" | "queue_id" as name,)) if self.pushdown:
                    self.equal[name] = one.value
                case _:
                    yield one

    def opened(self, partition: InputPartition) -> Iterator[tuple[plain.Store, Any]]:
        """The pieces of a task, each with its store, which is opened once for those in a row."""
        assert isinstance(partition, Pieces)
        for root, pieces in groupby(partition.pieces, lambda piece: piece.store):
            store = plain.Store(self.stores[root])
            for piece in pieces:
                yield store, piece


class LogPieces(_Reader):
    """What reads CommitLogs: a task has parts of segments."""

    def partitions(self) -> Sequence[InputPartition]:
        pieces = (
            _Log(store, part)
            for store, root in self.stores.items()
            for segment in sorted(root.glob("commitlog/" + FILE))
            for part in parts(segment, self.part_bytes)
        )
        return _packed(pieces, self.part_bytes)


class _CommitLogReader(LogPieces):
    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        super().__init__(options)
        self.columns = columns

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Pieces)
        # Columns that only a filter needs are decoded as well, and dropped after it; and one where
        # none is wanted, as it says how many there are.
        columns = [c for c in dict.fromkeys([*self.columns, *self.equal]) if c != "store"] or [
            "kind"
        ]
        for piece in partition.pieces:
            for batch in log_batches(piece.part, columns):
                for name, value in self.equal.items():
                    batch = batch.filter(pc.equal(batch.column(name), value))
                yield _with_store(batch, piece.store).select(list(self.columns))


class _PlainLogReader(LogPieces):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for store, piece in self.opened(partition):
            for batch in plain.log_rows(store, piece.part):
                yield _with_store(batch, piece.store)


class _ConsumeQueueReader(_Reader):
    def partitions(self) -> Sequence[InputPartition]:
        pieces = (
            _Queue(store, file.parent.parent.name, int(file.parent.name), whole(file))
            for store, root in self.stores.items()
            for file in sorted(root.glob("consumequeue/*/*/" + FILE))
            if file.parent.name.isdecimal()
        )
        wanted = (
            piece
            for piece in pieces
            if self.equal.get("topic", piece.topic) == piece.topic
            and self.equal.get("queue_id", piece.queue_id) == piece.queue_id
        )
        return _packed(wanted, self.part_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Pieces)
        for piece in partition.pieces:
            for batch in unit_batches(piece.part, piece.topic, piece.queue_id):
                yield _with_store(batch, piece.store)


class _PlainUnitsReader(_ConsumeQueueReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.part_bytes //= _UNITS_COST

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for store, piece in self.opened(partition):
            batch = plain.unit_rows(store, piece.part, piece.topic, piece.queue_id)
            yield _with_store(batch, piece.store)


class CommitLogSource(DataSource):
    """`rocketmq-commitlog`: the records, blanks and unreadable places of a CommitLog."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-commitlog"

    def schema(self) -> StructType:
        return schema_of({name: _LOG_TYPES[name] for name in self._columns()})

    def reader(self, schema: StructType) -> DataSourceReader:
        return _CommitLogReader(self.options, self._columns())

    def _columns(self) -> list[str]:
        wanted = self.options.get("columns")
        names = [name.strip() for name in wanted.split(",")] if wanted else _BY_DEFAULT
        if unknown := [name for name in names if name not in _LOG_TYPES]:
            raise ValueError(f"no column {unknown[0]!r}; known: {', '.join(_LOG_TYPES)}")
        return names


class ConsumeQueueSource(DataSource):
    """`rocketmq-consumequeue`: the written units of all ConsumeQueues of a store."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-consumequeue"

    def schema(self) -> StructType:
        return schema_of({**UNIT_COLUMNS, "store": pa.string()})

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ConsumeQueueReader(self.options)


class PlainLogSource(DataSource):
    """`rocketmq-plain-log`: a CommitLog, its plain records as runs."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-plain-log"

    def schema(self) -> StructType:
        return schema_of({**plain.LOG, "store": pa.string()})

    def reader(self, schema: StructType) -> DataSourceReader:
        return _PlainLogReader(self.options)


class PlainUnitsSource(DataSource):
    """`rocketmq-plain-units`: all ConsumeQueues of a store, their plain units as runs."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-plain-units"

    def schema(self) -> StructType:
        return schema_of({**plain.UNITS, "store": pa.string()})

    def reader(self, schema: StructType) -> DataSourceReader:
        return _PlainUnitsReader(self.options)


def _with_store(batch: pa.RecordBatch, store: str) -> pa.RecordBatch:
    return batch.append_column("store", pa.repeat(pa.scalar(store), batch.num_rows))


def schema_of(columns: Mapping[str, pa.DataType]) -> StructType:
    """Spark's schema of columns of Arrow."""
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, _SPARK_TYPES[kind])
    return schema
