"""Stores: their CommitLogs and ConsumeQueues as views for the checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from mqaudit.datasource import FILE, CommitLogSource, ConsumeQueueSource

# What the checks read of a record: decoding costs by the column.
COLUMNS: Final = (
    "store,kind,segment,physical_offset,size,topic,queue_id,queue_offset,sys_flag,crc_held"
)


def register(spark: SparkSession) -> None:
    """Make the data sources known to a session. Its workers need this package as well."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(CommitLogSource)
    spark.dataSource.register(ConsumeQueueSource)


def views(spark: SparkSession, roots: Sequence[str]) -> dict[str, DataFrame]:
    """The views by name, each over those before it. `log` and `unit` are kept."""
    unit = spark.read.format(ConsumeQueueSource.name())
    states = [_state(root) for root in roots]
    found = {
        "log": read_log(spark, roots).persist(),
        "unit": unit.load(list(roots)).persist(),
        "state": spark.createDataFrame(states, "store string, unrecovered boolean, begin long"),
    }
    for name, query in _VIEWS.items():
        found[name] = spark.sql(query, args=None, **found)
    return found


def read_log(spark: SparkSession, roots: Sequence[str]) -> DataFrame:
    """What the checks read of the logs of stores."""
    log = spark.read.format(CommitLogSource.name()).option("columns", COLUMNS)
    return log.load(list(roots))


def _state(root: str) -> tuple[str, bool, int]:
    """A store, whether its broker was not stopped, and where its log begins."""
    path = Path(root.removeprefix("file:"))
    segments = path.glob("commitlog/" + FILE)
    return root, (path / "abort").exists(), min((int(s.name) for s in segments), default=0)


def coverage(views: Mapping[str, DataFrame]) -> dict[str, int]:
    """How much there is."""
    return {
        "stores": views["state"].count(),
        "records": views["log"].where("kind = 'record'").count(),
        "units": views["unit"].count(),
    }


_VIEWS: Final[Mapping[str, str]] = {
    # Where each log begins and ends, and whether its broker was running or had crashed. One
    # without any record ends where it begins.
    "extent": """
        SELECT store, any_value(unrecovered) AS unrecovered, max(segment) AS last_segment,
            coalesce(min(physical_offset), any_value(begin)) AS log_start,
            coalesce(max(physical_offset + size), any_value(begin)) AS log_end
        FROM {state} LEFT JOIN {log} USING (store) GROUP BY store
    """,
    # Records that take a queue offset and a unit: all but prepared and rolled-back ones, which
    # the transaction bits of sysFlag tell (MessageSysFlag.java, 5.3.3).
    "queued": """
        SELECT * FROM {log} WHERE kind = 'record' AND sys_flag & 12 NOT IN (4, 12)
    """,
}
