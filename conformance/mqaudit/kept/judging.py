"""The audit of what a cluster keeps: its sources joined, and judged as far as they tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit import findings, history
from mqaudit.history_checks import HISTORY_CHECKS, PLACE
from mqaudit.kept import events as E  # noqa: N812  (a name for what it gives)
from mqaudit.kept import members
from mqaudit.kept.copies import distinct
from mqaudit.kept.live_source import LIVE
from mqaudit.kept.tells import TELLS, Source, Told, limited, told_by
from mqaudit.kept.trace import DAMAGE, TOPIC
from mqaudit.report import CheckReport, Unread
from mqaudit.tables import Stages
from mqrules import UserError

# What is counted of it, beside what is counted of histories.
_COVERAGE: Final = {
    "events": "kept events",
    "received": "kept deliveries",
    "commits": "kept commits",
    "clients": "kept clients",
}


@dataclass(frozen=True)
class Kept:
    """What a cluster keeps, as events; what it tells; and what of it cannot be used."""

    events: DataFrame
    sources: tuple[Source, ...]
    told: frozenset[Told]
    unread: tuple[Unread, ...]


@dataclass(frozen=True, slots=True)
class Live:
    """Topics of a live cluster, with commas between them; the trace's own topic is one of them
    where traces are to be read."""

    nameserver: str
    topics: str

    @classmethod
    def of(cls, path: str) -> Live:
        """What `rocketmq://HOST:PORT/TOPIC,TOPIC` names. Raises UserError."""
        nameserver, _, topics = path.removeprefix(LIVE).partition("/")
        if not nameserver or not topics:
            raise UserError(path, "names no topic", f"write {LIVE}HOST:PORT/TOPIC,TOPIC")
        return cls(nameserver, topics)

    @property
    def messages(self) -> str:
        """The topics that are no trace."""
        return ",".join(one for one in self.topics.split(",") if one.strip() != TOPIC)

    @property
    def has_traces(self) -> bool:
        return TOPIC in (one.strip() for one in self.topics.split(","))


def kept(
    spark: SparkSession,
    stores: Sequence[str],
    logs: Sequence[str] = (),
    one_clock: bool = False,
    live: Sequence[Live] = (),
) -> Kept | None:
    """What stores with a message trace keep, logs, and topics of live clusters; None where there
    is nothing of it.

    `one_clock`: the clocks of all clients agree, as on one machine.
    """
    stores = [*stores] if any(E.has_traces(store) for store in stores) else []
    if not (stores or logs or live):
        return None
    E.register(spark)
    logs, copies = distinct(logs)
    lines = E.logs(spark, logs).persist()
    traced = bool(stores) or any(one.has_traces for one in live)
    has_messages = bool(stores) or any(one.messages for one in live)
    sources = _sources({Source.STORE: has_messages, Source.TRACE: traced}, lines)
    if not sources:
        return None
    traces, stored = E.traces(spark, stores), E.stored(spark, stores)
    for one in live:
        if one.has_traces:
            traces = traces.unionByName(E.live_traces(spark, one.nameserver))
        if one.messages:
            stored = stored.unionByName(E.live(spark, one.nameserver, one.messages))
    traces = traces.persist()
    stored = E.named(stored, members.broker_names(lines)).persist()
    rows = stored.groupBy("store").agg(F.max("broker").alias("broker")).collect()

    # Who is who is little, and told here.
    senders = [row.sender for row in traces.select("sender").distinct().collect() if row.sender]
    found = members.matched(senders, members.processes(lines))
    of_sender = spark.createDataFrame([*found.items()], "sender string, log_process string")
    ids = members.client_ids(spark, lines, one_clock).persist()
    traces = traces.join(F.broadcast(of_sender), "sender", "left")
    given = E.given(traces, stored).join(F.broadcast(of_sender), "sender", "left")
    given = given.withColumn("process", F.coalesce("log_process", "sender"))
    given = members.with_client_id(given, ids, F.col("sender")).persist()

    did = members.events(lines, ids)
    committed = E.committed(stored)
    clients = [E.consumed(given), E.ends(traces, committed), did]
    parts = [
        E.sends(stored),
        committed,
        E.in_order(
            reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), clients), one_clock
        ),
        E.offsets(spark, stores, {row.store: row.broker for row in rows}),
    ]
    # Where there are logs of clients at all, all of them are wanted.
    not_logged = _not_logged(given, lines) if Source.CLIENT_LOG in sources else None
    copied = (
        Unread("logs", "copy of another log", len(copies), {"file": copies[0]}) if copies else None
    )
    unread = (*_not_read(traces, lines), copied, _not_placed(given), not_logged)
    told = _told(sources, lines, not_logged is None)
    return Kept(E.events(parts), sources, told, tuple(filter(None, unread)))


def reports(kept: Kept, examples: int) -> tuple[dict[str, int], list[CheckReport]]:
    """What there is, and what the checks of histories say of it."""
    events = kept.events.persist()
    seen, seats = history.survey(events, "what the cluster keeps")
    made = Stages.of(events, seats, seen["events"])
    found = findings.reports(made.instances, HISTORY_CHECKS, PLACE, examples)
    events.unpersist()
    return {shown: seen[name] for name, shown in _COVERAGE.items()}, [
        limited(check, report, kept.sources, kept.told)
        for check, report in zip(HISTORY_CHECKS, found, strict=True)
    ]


def _sources(here: Mapping[Source, bool], lines: DataFrame) -> tuple[Source, ...]:
    """The kinds of sources that there are; logs, as their lines say."""
    logs = {row.source for row in lines.select("source").distinct().collect()}
    return tuple(source for source in Source if here.get(source, source.value in logs))


def _told(sources: Sequence[Source], lines: DataFrame, is_whole: bool) -> frozenset[Told]:
    """What the sources tell. Owners, where every member's log is here; all that was given and how
    every transaction ended, where the logs say besides that no trace was left out."""
    told = told_by(sources)
    if not is_whole:
        return told - TELLS[Source.CLIENT_LOG]
    needed = {Source.TRACE, Source.CLIENT_LOG, Source.BROKER_LOG}
    gaps = ("trace left out", "cut off", DAMAGE)
    if needed <= {*sources} and lines.where(F.col("kind").isin(*gaps)).isEmpty():
        told |= {Told.ALL_GIVEN, Told.ALL_ENDS}
    return told


def _not_read(traces: DataFrame, lines: DataFrame) -> Iterator[Unread | None]:
    """Pieces of sources that are none of theirs."""
    is_damage = F.col("kind") == DAMAGE
    yield _unread(
        traces.where(is_damage), "message trace", "no context of a message trace",
        ("store", "physical_offset", "nth", "damage"),
    )  # fmt: skip
    yield _unread(lines.where(is_damage), "logs", "no whole line", ("file", "line", "damage"))


def _not_placed(given: DataFrame) -> Unread | None:
    """Messages that no store has."""
    return _unread(
        given.where("topic is null"), "message trace", "given, and in no store that is here",
        ("client_group", "message_id", "sender"),
    )  # fmt: skip


def _not_logged(given: DataFrame, lines: DataFrame) -> Unread | None:
    """Members that traces or a broker's log tell of, and whose own log is not here."""
    is_own = F.col("source") == Source.CLIENT_LOG.value
    own = lines.where(is_own).select("client_id").distinct()
    traced = given.where("log_process is null").select("client_group", "client_id")
    seen = lines.where("kind = 'member'").select("client_group", "client_id")
    missing = traced.unionByName(seen.join(own, "client_id", "left_anti").select(traced.columns))
    return _unread(
        missing.distinct(), "client logs", "member whose own log is not here",
        ("client_group", "client_id"),
    )  # fmt: skip


def _unread(rows: DataFrame, source: str, why: str, places: Sequence[str]) -> Unread | None:
    place = F.min(F.struct(*places)).alias("first")
    row = rows.agg(F.count("*").alias("n"), place).first()
    assert row is not None  # an aggregate without groups always has its one row
    first = row["first"].asDict() if row.n else {}
    return Unread(source, why, row.n, first) if row.n else None
