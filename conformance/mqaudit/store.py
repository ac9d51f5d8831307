"""Stores: their CommitLogs and ConsumeQueues as views for the checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from mqaudit.datasource import (
    CommitLogSource,
    ConsumeQueueSource,
    PlainLogSource,
    PlainUnitsSource,
)
from mqaudit.plain import FILE


def register(spark: SparkSession) -> None:
    """Make the data sources known to a session. Its workers need this package as well."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    for source in (CommitLogSource, ConsumeQueueSource, PlainLogSource, PlainUnitsSource):
        spark.dataSource.register(source)


def views(spark: SparkSession, roots: Sequence[str]) -> dict[str, DataFrame]:
    """What the checks of stores look at, by name: `log` and `unit` (`mqaudit.plain`), read once and
    kept, and what follows from them. Without damage these two are small."""
    # Persisting would not do: `spark.sql` does not find it again of a Python source (Spark 4.3).
    log, unit = (
        spark.read.format(source.name()).load(list(roots)).localCheckpoint()
        for source in (PlainLogSource, PlainUnitsSource)
    )
    return views_over(log, unit, roots)


def views_over(log: DataFrame, unit: DataFrame, roots: Sequence[str]) -> dict[str, DataFrame]:
    """The views by name, each over those before it."""
    spark, states = log.sparkSession, [_state(root) for root in roots]
    found = {
        "log": log,
        "unit": unit,
        "state": spark.createDataFrame(states, "store string, unrecovered boolean, begin long"),
    }
    for name, query in _VIEWS.items():
        found[name] = spark.sql(query, args=None, **found)
    return found


def _state(root: str) -> tuple[str, bool, int]:
    """A store, whether its broker was not stopped, and where its log begins."""
    path = Path(root.removeprefix("file:"))
    segments = path.glob("commitlog/" + FILE)
    return root, (path / "abort").exists(), min((int(s.name) for s in segments), default=0)


def coverage(views: Mapping[str, DataFrame]) -> dict[str, int]:
    """How much there is."""
    return {
        "stores": views["state"].count(),
        "records": _sum(views["log"].where("kind IN ('run', 'record')")),
        "units": _sum(views["unit"]),
    }


def _sum(rows: DataFrame) -> int:
    row = rows.selectExpr("coalesce(sum(n), 0) AS n").first()
    assert row is not None  # an aggregate without groups always has its one row
    return int(row.n)


_VIEWS: Final[Mapping[str, str]] = {
    # Where each log begins and ends, and whether its broker was running or had crashed. One
    # without any record ends where it begins.
    "extent": """
        SELECT store, any_value(unrecovered) AS unrecovered, max(segment) AS last_segment,
            coalesce(min(physical_offset), any_value(begin)) AS log_start,
            coalesce(max(physical_offset + size), any_value(begin)) AS log_end
        FROM {state} LEFT JOIN {log} USING (store) GROUP BY store
    """,
    # Records that take a queue offset and a unit, but for those in runs.
    "queued": """
        SELECT * FROM {log} WHERE kind = 'record' AND queued = 1
    """,
}
