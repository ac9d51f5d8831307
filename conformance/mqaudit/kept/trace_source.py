"""`rocketmq-trace`: the message trace that a store holds, as a Spark data source.

    spark.dataSource.register(TraceSource)
    spark.read.format("rocketmq-trace").load("/data/store")

The option `topic` names another topic than Apache's own; segments are read in parts of `partMiB`,
as those of `rocketmq-commitlog` are. With the option `nameserver` it is a topic of a live cluster,
`RMQ_SYS_TRACE_TOPIC` unless `load` is given another. A row is a context of `trace.COLUMNS`. What is
no context is a row of kind `damage`, with its beginning; the reading goes on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mqaudit.datasource import LogPieces, Pieces, schema_of
from mqaudit.kept.live_source import QueuesReader, live_name
from mqaudit.kept.trace import COLUMNS, TOPIC, Bodies, contexts, plain
from mqaudit.segments import log_batches

_READ: Final = ("kind", "physical_offset", "sys_flag", "crc_held", "properties", "body")
_KEY: Final = re.compile(rb"(?:^|\x02)UNIQ_KEY\x01([^\x02]*)")


class TraceSource(DataSource):
    """`rocketmq-trace`."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-trace"

    def schema(self) -> StructType:
        return schema_of(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return (_LiveReader if "nameserver" in self.options else _TraceReader)(self.options)


class _TraceReader(LogPieces):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self.topic = options.get("topic", TOPIC)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Pieces)
        for piece in partition.pieces:
            for batch in log_batches(piece.part, _READ, self.topic):
                yield contexts(_bodies(piece.store, batch))


class _LiveReader(QueuesReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__({"path": TOPIC, **options})

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            yield contexts(_bodies(live_name(self.nameserver), batch))


def _bodies(store: str, batch: pa.RecordBatch) -> Bodies:
    """The bodies of records; blanks and unreadable places are nobody's. A client that pulls leaves
    out what its CRC does not hold."""
    rows = [row for row in batch.to_pylist() if row.get("kind", "record") == "record"]
    keys = [_KEY.search(row["properties"]) for row in rows]
    return Bodies(
        store,
        pa.array([row["physical_offset"] for row in rows], pa.int64()).to_numpy(),
        [key[1].decode("ascii", "replace") if key else None for key in keys],
        [
            _body(row["body"], row["sys_flag"]) if row.get("crc_held", True) else None
            for row in rows
        ],
    )


def _body(body: bytes, sys_flag: int) -> bytes | None:
    try:
        return plain(body, sys_flag)
    except ValueError:
        return None
