"""Stores as Spark data sources, read in parallel as Arrow record batches.

    spark.dataSource.register(CommitLogSource)
    spark.read.format("rocketmq-commitlog").option("columns", "topic,size").load("/root/store")
    spark.read.format("rocketmq-consumequeue").load("/root/store")

The path is a store's root, which every worker must see. A segment of the CommitLog is read in
parts of `partMiB`, 64 by default; ConsumeQueue files are read whole. Of the CommitLog's columns
(`segments.LOG_COLUMNS`) only those of the option `columns` are decoded; by default all.
Equalities on topic and queue_id are taken over from Spark's filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from pyspark.sql.types import BinaryType, BooleanType, DataType, LongType, StringType, StructType

from mqaudit.segments import LOG_COLUMNS, UNIT_COLUMNS, Part, log_batches, parts, unit_batches

PART_MIB: Final = 64

_SPARK_TYPES: Final[Mapping[pa.DataType, DataType]] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.bool_(): BooleanType(),
    pa.binary(): BinaryType(),
}


@dataclass
class LogPartition(InputPartition):
    """A part of a segment."""

    part: Part


@dataclass
class QueuePartition(InputPartition):
    """A file of a ConsumeQueue."""

    topic: str
    queue_id: int
    part: Part


class _Reader(DataSourceReader):
    """What both sources share: their path, and equalities on topic and queue_id."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.root = Path(options["path"].removeprefix("file:"))
        self.equal: dict[str, Any] = {}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        """Keep the equalities that the reader applies itself, and give back the rest."""
        for one in filters:
            if isinstance(one, EqualTo) and one.attribute in (("topic",), ("queue_id",)):
                self.equal[one.attribute[0]] = one.value
            else:
                yield one


class _CommitLogReader(_Reader):
    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        super().__init__(options)
        self.columns = columns
        self.part_bytes = int(options.get("partMiB", PART_MIB)) << 20

    def partitions(self) -> Sequence[InputPartition]:
        segments = sorted(self.root.glob("commitlog/" + "[0-9]" * 20))
        return [LogPartition(p) for segment in segments for p in parts(segment, self.part_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogPartition)
        # Columns that only a filter needs are decoded as well, and dropped after it.
        columns = list(dict.fromkeys([*self.columns, *self.equal]))
        for batch in log_batches(partition.part, columns):
            for name, value in self.equal.items():
                batch = batch.filter(pc.equal(batch.column(name), value))
            yield batch.select(list(self.columns))


class _ConsumeQueueReader(_Reader):
    def partitions(self) -> Sequence[InputPartition]:
        files = sorted(self.root.glob("consumequeue/*/*/" + "[0-9]" * 20))
        places = ((file.parent.parent.name, int(file.parent.name), file) for file in files)
        return [
            QueuePartition(topic, queue_id, Part(str(file), int(file.name), 0, file.stat().st_size))
            for topic, queue_id, file in places
            if self.equal.get("topic", topic) == topic
            and self.equal.get("queue_id", queue_id) == queue_id
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, QueuePartition)
        return unit_batches(partition.part, partition.topic, partition.queue_id)


class CommitLogSource(DataSource):
    """`rocketmq-commitlog`: the records, blanks and unreadable places of a CommitLog."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-commitlog"

    def schema(self) -> StructType:
        return _schema({name: LOG_COLUMNS[name].type for name in self._columns()})

    def reader(self, schema: StructType) -> DataSourceReader:
        return _CommitLogReader(self.options, self._columns())

    def _columns(self) -> list[str]:
        wanted = self.options.get("columns")
        names = [name.strip() for name in wanted.split(",")] if wanted else list(LOG_COLUMNS)
        if unknown := [name for name in names if name not in LOG_COLUMNS]:
            raise ValueError(f"no column {unknown[0]!r}; known: {', '.join(LOG_COLUMNS)}")
        return names


class ConsumeQueueSource(DataSource):
    """`rocketmq-consumequeue`: the written units of all ConsumeQueues of a store."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-consumequeue"

    def schema(self) -> StructType:
        return _schema(UNIT_COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _ConsumeQueueReader(self.options)


def _schema(columns: Mapping[str, pa.DataType]) -> StructType:
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, _SPARK_TYPES[kind])
    return schema
