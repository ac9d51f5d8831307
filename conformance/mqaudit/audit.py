"""The audit of whatever lies at a path: histories, stores, or both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit import history, store
from mqaudit.check import Check
from mqaudit.history_checks import HISTORY_CHECKS
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

    def run(checks: Iterable[Check], views: Mapping[str, DataFrame]) -> None:
        for check in checks:
            progress(check.name)
            reports.append(check.run(views, examples))
        for view in views.values():
            view.unpersist()

    with _spark_errors(subject):
        progress("looking for histories and stores")
        sources = find(spark, paths)
        if sources.formats:
            progress("reading the history")
            events = history.read(spark, paths, sources.formats)
            seen, torn = history.survey(events, subject)
            coverage |= seen
            run(HISTORY_CHECKS, history.views(events, torn))
        if sources.stores:
            progress("reading the store")
            store.register(spark)
            views = store.views(spark, sources.stores)
            coverage |= store.coverage(views)
            run(STORE_CHECKS, views)
    return AuditReport(subject, coverage, tuple(reports), target)


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
