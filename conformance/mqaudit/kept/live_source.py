"""`rocketmq-topic`: a topic of a live cluster, as a Spark data source, in batch and as a stream.

    spark.dataSource.register(TopicSource)
    spark.read.format("rocketmq-topic").option("nameserver", "127.0.0.1:9876").load("Orders")
    spark.readStream.format("rocketmq-topic").option("nameserver", ...).load("Orders")

Topics are parted by commas. A task reads a queue. A batch holds what was there when it was planned;
a stream begins with the oldest message that is left, and goes on with what comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from mqaudit.datasource import schema_of
from mqaudit.kept.live import COLUMNS, Span, batches, spans

LIVE: Final = "rocketmq://"


@dataclass
class Queue(InputPartition):
    """What one task reads."""

    span: Span


class TopicSource(DataSource):
    """`rocketmq-topic`."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-topic"

    def schema(self) -> StructType:
        return schema_of(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return QueuesReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _StreamReader(self.options)


class _Queues:
    """The queues of the topics that the options name."""

    def __init__(self, options: Mapping[str, str]) -> None:
        for name, what in (("nameserver", "option"), ("path", "topic to load")):
            if name not in options:
                raise ValueError(f"no {what} {name!r}" if what == "option" else f"no {what}")
        self.nameserver = options["nameserver"]
        self.topics = [topic.strip() for topic in options["path"].split(",")]

    def now(self) -> list[Span]:
        return spans(self.nameserver, self.topics)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Queue)
        yield from batches(self.nameserver, [partition.span])


class QueuesReader(_Queues, DataSourceReader):
    """What reads the queues of topics as they are now: a task has one."""

    def partitions(self) -> Sequence[InputPartition]:
        return [Queue(span) for span in self.now()]


class _StreamReader(_Queues, DataSourceStreamReader):
    """Offsets of the stream: a queue's name, and the offset from which it is read."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {_name(span): span.begin for span in self.now()}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """What there is; some versions of Spark say from where on, and how much they want."""
        return {_name(span): span.end for span in self.now()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """A queue that came since begins with its first message."""
        known = {_name(span): span for span in self.now()}
        return [
            Queue(replace(span, begin=start.get(name, span.begin), end=end[name]))
            for name, span in known.items()
            if name in end
        ]


def live_name(nameserver: str, topics: str = "") -> str:
    """How topics of a live cluster are named among the paths of an audit."""
    return f"{LIVE}{nameserver}" + (f"/{topics}" if topics else "")


def _name(span: Span) -> str:
    return f"{span.topic}/{span.broker}/{span.queue_id}"
