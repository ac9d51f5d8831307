"""Stores: their CommitLogs and ConsumeQueues as views for the checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit.datasource import CommitLogSource, ConsumeQueueSource

# What the checks read of a record: decoding costs by the column.
_COLUMNS: Final = "kind,segment,physical_offset,size,topic,queue_id,queue_offset,sys_flag,crc_held"


def register(spark: SparkSession) -> None:
    """Make the data sources known to a session. Its workers need this package as well."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(CommitLogSource)
    spark.dataSource.register(ConsumeQueueSource)


def views(spark: SparkSession, roots: Sequence[str]) -> dict[str, DataFrame]:
    """The views by name, each over those before it. `log` and `unit` are kept."""
    logs, units, states = [], [], []
    for root in roots:
        store = F.lit(root).alias("store")
        log = spark.read.format("rocketmq-commitlog").option("columns", _COLUMNS).load(root)
        unit = spark.read.format("rocketmq-consumequeue").load(root)
        logs.append(log.select(store, "*"))
        units.append(unit.select(store, "*"))
        states.append((root, (Path(root.removeprefix("file:")) / "abort").exists()))
    found = {
        "log": reduce(DataFrame.unionByName, logs).persist(),
        "unit": reduce(DataFrame.unionByName, units).persist(),
        "state": spark.createDataFrame(states, "store string, unrecovered boolean"),
    }
    for name, query in _VIEWS.items():
        found[name] = spark.sql(query, args=None, **found)
    return found


def coverage(views: Mapping[str, DataFrame]) -> dict[str, int]:
    """How much there is."""
    return {
        "stores": views["state"].count(),
        "records": views["log"].where("kind = 'record'").count(),
        "units": views["unit"].count(),
    }


_VIEWS: Final[Mapping[str, str]] = {
    # Where each log begins and ends, and whether its broker was running or had crashed.
    "extent": """
        SELECT store, any_value(unrecovered) AS unrecovered, max(segment) AS last_segment,
            min(physical_offset) AS log_start, max(physical_offset + size) AS log_end
        FROM {log} JOIN {state} USING (store) GROUP BY store
    """,
    # Records that take a queue offset and a unit: all but prepared and rolled-back ones, which
    # the transaction bits of sysFlag tell (MessageSysFlag.java, 5.3.3).
    "queued": """
        SELECT * FROM {log} WHERE kind = 'record' AND sys_flag & 12 NOT IN (4, 12)
    """,
}
