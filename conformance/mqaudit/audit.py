"""The audit of whatever lies at a path: histories, stores, logs, or several of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import or_
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit import findings, history, small_files, store
from mqaudit.check import Check
from mqaudit.history_checks import HISTORY_CHECKS, PLACE
from mqaudit.kept import judging
from mqaudit.kept.live_source import LIVE
from mqaudit.kept.log_source import SUFFIXES as LOGS
from mqaudit.report import AuditReport, CheckReport, Unread
from mqaudit.session import spark_errors
from mqaudit.store_checks import STORE_CHECKS
from mqaudit.tables import Stages, Tables
from mqrules import UserError

# A store is the directory that holds commitlog/ and consumequeue/.
_STORE: Final = r"^(.*)/(commitlog/\d{20}|consumequeue/[^/]+/\d+/\d{20})$"


@dataclass(frozen=True)
class Audit:
    """A report, and the tables of the histories that it came from, if there were any."""

    report: AuditReport
    tables: Tables | None


@dataclass(frozen=True)
class OwnCheck:
    """A check of a user's: a row an instance, with an `outcome` and the columns of its place."""

    check: Check
    instances: Callable[[Tables], DataFrame]


@dataclass(frozen=True, slots=True)
class Sources:
    """What lies below some paths: formats of histories, roots of stores, and logs."""

    formats: tuple[str, ...]
    stores: tuple[str, ...]
    logs: tuple[str, ...] = ()


def audit(
    spark: SparkSession,
    uri: str | Sequence[str],
    *,
    target: str = "mqspec",
    examples: int = 0,
    progress: Callable[[str], None] = lambda step: None,
    own: Sequence[OwnCheck] = (),
    keep: bool = False,
    one_clock: bool = False,
) -> Audit:
    """Audit the histories, stores and logs at `uri`: files, directories or globs that Spark reads;
    and topics of live clusters, as `rocketmq://NAMESERVER/TOPIC,TOPIC`.

    `target` names the system that was recorded. Of each finding at most `examples` places are
    brought to the driver besides the first and the last; everything else stays in Spark.
    `own` are checks of the caller's, over the tables of the histories. `keep` is for who goes on
    to use these: what they are made of is kept on disk, and not computed again. With `one_clock`
    the clocks of the clients whose logs and traces are read are taken to agree.
    Raises UserError where there is nothing to audit, or it cannot be read.
    """
    paths = [uri] if isinstance(uri, str) else list(uri)
    subject = " ".join(paths)
    live = [judging.Live.of(path) for path in paths if path.startswith(LIVE)]
    paths = [path for path in paths if not path.startswith(LIVE)]
    coverage: dict[str, int] = {}
    reports: list[CheckReport] = []
    tables: Tables | None = None
    unread: list[Unread] = []

    with spark_errors(subject):
        progress("looking for histories and stores")
        sources = find(spark, paths) if paths else Sources((), ())
        if sources.formats:
            progress("reading the history")
            events = history.read(spark, paths, sources.formats)
            seen, seats = history.survey(events, subject)
            coverage |= seen
            progress("who owned what")
            made = Stages.of(events, seats, seen["events"], keep=keep or bool(own))
            tables = made.tables
            progress("what was sent, delivered and committed")
            reports += findings.reports(made.instances, HISTORY_CHECKS, PLACE, examples)
            for one in own:
                progress(one.check.name)
                instances = one.instances(tables).withColumns(
                    {"check": F.lit(one.check.name), "n": F.lit(1)}
                )
                reports += findings.reports(instances, [one.check], one.check.places, examples)
        if sources.stores:
            progress("reading the store")
            store.register(spark)
            views = store.views(spark, sources.stores)
            coverage |= store.coverage(views)
            unread += small_files.unread(sources.stores)
            for check in STORE_CHECKS:
                progress(check.name)
                instances = findings.queried(check, views)
                reports += findings.reports(instances, [check], check.places, examples)
        if sources.stores or sources.logs or live:
            progress("reading message traces, logs and topics")
            joined = judging.kept(spark, sources.stores, sources.logs, one_clock, live)
            if joined is not None:
                progress("what clients did, by their traces and logs")
                seen, found = judging.reports(joined, examples)
                coverage |= seen
                reports += found
                unread += joined.unread
        if not reports:
            raise _nothing([subject])
    return Audit(AuditReport(subject, coverage, tuple(reports), target, tuple(unread)), tables)


def find(spark: SparkSession, paths: Sequence[str]) -> Sources:
    """What lies at the paths. Raises UserError where there is none of it, or it cannot be read."""
    sources = _find_here(spark, paths) or _find_by_spark(spark, paths)
    if not (sources.formats or sources.stores or sources.logs):
        raise _nothing(paths)
    for path in (*sources.stores, *sources.logs):
        if not path.startswith("file:"):
            raise UserError(
                path,
                "a store or log that lies in no folder, and is mapped into memory to be read",
                "mount or copy it; histories are read from anywhere",
            )
    return sources


def _nothing(paths: Sequence[str]) -> UserError:
    """What is said where there is nothing to audit."""
    return UserError(
        " ".join(paths),
        "neither a history nor a store nor a log of RocketMQ's",
        "a history is *.parquet or *.jsonl; a store holds commitlog/ and consumequeue/; a log is "
        "*.log or *.log.gz",
    )


def _find_here(spark: SparkSession, paths: Sequence[str]) -> Sources | None:
    """The same, where all of it lies on this machine for sure: without starting a job."""
    roots = [Path(path) for path in paths]
    is_local = (spark.sparkContext.master or "").startswith("local")
    if not is_local or not all(root.exists() for root in roots):
        return None
    files = [*chain(*(root.rglob("*") if root.is_dir() else [root] for root in roots))]
    files = [file for file in files if file.name[0] not in "._"]  # which Spark leaves out
    stores = {match[1] for file in files if (match := re.match(_STORE, str(file.absolute())))}
    return Sources(
        formats=tuple(s for s in history.READERS if any(f.suffix == f".{s}" for f in files)),
        stores=tuple(sorted(f"file:{store}" for store in stores)),
        logs=tuple(sorted(f"file:{f.absolute()}" for f in files if f.name.endswith(LOGS))),
    )


def _find_by_spark(spark: SparkSession, paths: Sequence[str]) -> Sources:
    path = F.col("path")
    kinds = [F.bool_or(path.endswith(f".{suffix}")).alias(suffix) for suffix in history.READERS]
    row = (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", True)
        .load(list(paths))
        .select(
            *kinds,
            F.collect_set(F.regexp_extract(path, _STORE, 1)).alias("stores"),
            F.collect_set(F.when(reduce(or_, map(path.endswith, LOGS)), path)).alias("logs"),
        )
        .first()
    )
    assert row is not None  # an aggregate without groups always has its one row
    return Sources(
        formats=tuple(suffix for suffix in history.READERS if row[suffix]),
        stores=tuple(sorted(store for store in row.stores if store)),
        logs=tuple(sorted(row.logs)),
    )
