"""The audit of whatever lies at a path: histories, stores, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit import findings, history, stages, store
from mqaudit.history_checks import HISTORY_CHECKS, PLACE
from mqaudit.judged import Row
from mqaudit.report import AuditReport, CheckReport
from mqaudit.session import first_line
from mqaudit.store_checks import STORE_CHECKS
from mqrules import UserError

# A store is the directory that holds commitlog/ and consumequeue/.
_STORE: Final = r"^(.*)/(commitlog/\d{20}|consumequeue/[^/]+/\d+/\d{20})$"


@dataclass(frozen=True, slots=True)
class Sources:
    """What lies below some paths: formats of histories, and roots of stores."""

    formats: tuple[str, ...]
    stores: tuple[str, ...]


def audit(
    spark: SparkSession,
    uri: str | Sequence[str],
    *,
    target: str = "mqspec",
    examples: int = 0,
    progress: Callable[[str], None] = lambda step: None,
) -> AuditReport:
    """Audit the histories and stores at `uri`: files, directories or globs that Spark reads.

    `target` names the system that was recorded. Of each finding at most `examples` places are
    brought to the driver besides the first and the last; everything else stays in Spark.
    Raises UserError where there is nothing to audit, or it cannot be read.
    """
    paths = [uri] if isinstance(uri, str) else list(uri)
    subject = " ".join(paths)
    coverage: dict[str, int] = {}
    reports: list[CheckReport] = []

    with _spark_errors(subject):
        progress("looking for histories and stores")
        sources = find(spark, paths)
        if sources.formats:
            progress("reading the history")
            events = history.read(spark, paths, sources.formats)
            seen, seats = history.survey(events, subject)
            coverage |= seen
            progress("who owned what")
            known = _known(events, seats, seen["events"])
            progress("what was sent, delivered and committed")
            instances = judge(events, known, seen["events"])
            reports += findings.reports(instances, HISTORY_CHECKS, PLACE, examples)
        if sources.stores:
            progress("reading the store")
            store.register(spark)
            views = store.views(spark, sources.stores)
            coverage |= store.coverage(views)
            for check in STORE_CHECKS:
                progress(check.name)
                instances = findings.queried(check, views)
                reports += findings.reports(instances, [check], check.places, examples)
            for view in views.values():
                view.unpersist()
    return AuditReport(subject, coverage, tuple(reports), target)


def _known(events: DataFrame, seats: DataFrame, number: int) -> DataFrame:
    """What is judged by group, and known of seats: little, and kept."""
    return stages.groups(events, seats, _tasks(events, number)).localCheckpoint()


def judge(events: DataFrame, known: DataFrame, number: int) -> DataFrame:
    """All instances that the checks of histories look at, the held ones counted."""
    many = _tasks(events, number)
    by_queue = stages.queues(events, known, many)
    by_message = stages.messages(events, by_queue, many)
    is_told = F.col("row") <= int(Row.FOUND)
    return by_message.unionByName(known.where(is_told))


def _tasks(events: DataFrame, number: int) -> int:
    return stages.tasks(number, events.sparkSession.sparkContext.defaultParallelism)


def find(spark: SparkSession, paths: Sequence[str]) -> Sources:
    """What lies at the paths. Raises UserError where there is neither history nor store."""
    path = F.col("path")
    kinds = [F.bool_or(path.endswith(f".{suffix}")).alias(suffix) for suffix in history.READERS]
    row = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", True)
        .load(list(paths))
        .select(*kinds, F.collect_set(F.regexp_extract(path, _STORE, 1)).alias("stores"))
        .first()
    )
    assert row is not None  # an aggregate without groups always has its one row
    sources = Sources(
        formats=tuple(suffix for suffix in history.READERS if row[suffix]),
        stores=tuple(sorted(store for store in row.stores if store)),
    )
    if not sources.formats and not sources.stores:
        raise UserError(
            " ".join(paths),
            "neither a history nor a store",
            "a history is *.parquet or *.jsonl; a store holds commitlog/ and consumequeue/",
        )
    return sources


@contextmanager
def _spark_errors(where: str) -> Iterator[None]:
    """Turn what Spark raises about its input into one line."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        line = first_line(error)
        if "PATH_NOT_FOUND" in line:
            raise UserError(where, "no such path") from None
        raise UserError(where, f"Spark cannot read it: {line}") from None
