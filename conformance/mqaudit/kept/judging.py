"""The audit of what a cluster keeps: its sources joined, and judged as far as they tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit import findings, history
from mqaudit.history_checks import HISTORY_CHECKS, PLACE
from mqaudit.kept import events as E  # noqa: N812  (a name for what it gives)
from mqaudit.kept.tells import Source, limited
from mqaudit.kept.trace import DAMAGE
from mqaudit.report import CheckReport, Unread
from mqaudit.tables import Stages

# What is counted of it, beside what is counted of histories.
_COVERAGE: Final = {
    "events": "kept events",
    "received": "kept deliveries",
    "commits": "kept commits",
    "clients": "kept clients",
}


@dataclass(frozen=True)
class Kept:
    """What a cluster keeps, as events, and what of it cannot be used."""

    events: DataFrame
    sources: tuple[Source, ...]
    unread: tuple[Unread, ...]


def kept(spark: SparkSession, stores: Sequence[str]) -> Kept | None:
    """What stores keep, where one has a message trace; else None."""
    if not any(E.has_traces(store) for store in stores):
        return None
    E.register(spark)
    traces = E.traces(spark, stores).persist()
    stored = E.stored(spark, stores).persist()
    given = E.given(traces, stored).persist()
    rows = stored.groupBy("store").agg(F.max("broker").alias("broker")).collect()
    parts = [
        E.sends(stored),
        E.in_order(E.consumed(given).unionByName(E.ends(traces), allowMissingColumns=True)),
        E.offsets(spark, stores, {row.store: row.broker for row in rows}),
    ]
    unread = (
        _unread(
            traces.where(F.col("kind") == DAMAGE), "message trace", "no context of a message trace",
            ("store", "physical_offset", "nth", "damage"),
        ),
        _unread(
            given.where("topic is null"), "message trace", "given, and in no store that is here",
            ("client_group", "message_id", "sender"),
        ),
    )  # fmt: skip
    return Kept(E.events(parts), (Source.STORE, Source.TRACE), tuple(filter(None, unread)))


def reports(kept: Kept, examples: int) -> tuple[dict[str, int], list[CheckReport]]:
    """What there is, and what the checks of histories say of it."""
    events = kept.events.persist()
    seen, seats = history.survey(events, "what the cluster keeps")
    made = Stages.of(events, seats, seen["events"])
    found = findings.reports(made.instances, HISTORY_CHECKS, PLACE, examples)
    events.unpersist()
    return {shown: seen[name] for name, shown in _COVERAGE.items()}, [
        limited(check, report, kept.sources)
        for check, report in zip(HISTORY_CHECKS, found, strict=True)
    ]


def _unread(rows: DataFrame, source: str, why: str, places: Sequence[str]) -> Unread | None:
    place = F.min(F.struct(*places)).alias("first")
    row = rows.agg(F.count("*").alias("n"), place).first()
    assert row is not None  # an aggregate without groups always has its one row
    first = row["first"].asDict() if row.n else {}
    return Unread(source, why, row.n, first) if row.n else None
