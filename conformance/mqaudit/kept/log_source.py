"""`rocketmq-log`: what logs of clients and brokers tell, as a Spark data source.

    spark.dataSource.register(LogSource)
    spark.read.format("rocketmq-log").load("/logs")

A path is a file, or a folder whose files are `*.log` and `*.log.gz`, rotated ones as well; every
worker must see it. A row is a line that tells something, or damage: `log.COLUMNS`. The option
`zoneHours` is the zone of the times, 8 by default, as Apache writes them everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from mqaudit.datasource import schema_of
from mqaudit.kept.log import COLUMNS, ZONE_HOURS, log_batches

SUFFIXES: Final = (".log", ".log.gz")
_TASK_BYTES: Final = 64 << 20


@dataclass
class Logs(InputPartition):
    """The files that one task reads."""

    files: tuple[str, ...]


class LogSource(DataSource):
    """`rocketmq-log`."""

    @classmethod
    def name(cls) -> str:
        return "rocketmq-log"

    def schema(self) -> StructType:
        return schema_of(COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _LogReader(self.options)


class _LogReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self.paths = json.loads(options["paths"]) if "paths" in options else [options["path"]]
        self.zone_hours = int(options.get("zoneHours", ZONE_HOURS))

    def partitions(self) -> Sequence[InputPartition]:
        tasks: list[list[str]] = []
        room = 0
        for file in logs_below(self.paths):
            size = file.stat().st_size
            if size > room:
                tasks.append([])
                room = _TASK_BYTES
            tasks[-1].append(str(file))
            room -= size
        return [Logs(tuple(files)) for files in tasks or [[]]]  # Spark wants one at least

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Logs)
        for file in partition.files:
            yield from log_batches(file, self.zone_hours)


def logs_below(paths: Sequence[str]) -> list[Path]:
    """The logs at or below some paths."""
    found: list[Path] = []
    for path in paths:
        root = Path(path.removeprefix("file:"))
        files = [root] if root.is_file() else sorted(root.rglob("*.log*"))
        found += [file for file in files if file.is_file() and file.name.endswith(SUFFIXES)]
    return list(dict.fromkeys(found))
