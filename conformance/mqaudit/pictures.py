"""What the page draws of an audit, counted by Spark until it fits on a screen.

A history of any size gives so many rows and no more: of one run, of its queues with the most
anomalies, in so many spans of time. What was left out is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.window import Window

from mqaudit.history_checks import REPEATED
from mqaudit.report import AuditReport, Finding, Judgement
from mqaudit.tables import Tables
from mqrules import EventKind, Outcome

QUEUES: Final = 24
SPANS: Final = 100
CHANGES: Final = 4_000  # of owners, and crashes
DIAGRAMS: Final = 12
STEPS: Final = 14  # of a diagram
NEAR: Final = 400  # events to both sides: what else happened at the queue

_WORST: Final = (Judgement.VIOLATED, Judgement.PERMITTED)
_QUEUE: Final = ("consumer_group", "topic", "broker", "queue_id")
_OWNERSHIP: Final = (EventKind.ASSIGN.value, EventKind.REVOKE.value)
_USED: Final = (*_OWNERSHIP, EventKind.COMMIT.value)
_LIVES: Final = (EventKind.LEAVE.value, EventKind.CRASH.value, EventKind.RESTART.value)
_OF_MEMBERS: Final = (
    *_OWNERSHIP, *_LIVES, EventKind.JOIN.value, EventKind.SUBSCRIBE.value, EventKind.COMMIT.value,
    EventKind.VIEW.value,
)  # fmt: skip
_AT_QUEUE: Final = (
    *_OWNERSHIP, EventKind.COMMIT.value, EventKind.QUERY_OFFSET.value, EventKind.LOCK.value,
    EventKind.UNLOCK.value,
)  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Queue:
    """A queue, as a group sees it."""

    group: str
    topic: str
    broker: str
    queue_id: int

    @property
    def name(self) -> str:
        """As a plot names it where there is but one group."""
        return f"{self.topic} {self.broker}-{self.queue_id}"

    @property
    def whole_name(self) -> str:
        return f"{self.group}: {self.name}"


@dataclass(frozen=True, slots=True)
class Band:
    """A member owned a queue from one moment to another, in seconds of the run."""

    queue: Queue
    client: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Span:
    """What a group had committed of a queue by some time, at most so much being left then."""

    queue: Queue
    at: float
    offset: int
    backlog: int | None  # None where no message was seen stored


@dataclass(frozen=True, slots=True)
class Anomalies:
    """How many of one kind were found in a span of time; of repeats also what is undecidable."""

    at: float
    check: str
    judgement: str
    why: str
    count: int


@dataclass(frozen=True, slots=True)
class Happened:
    """An event beside a finding. `is_it`: the finding is about this one."""

    kind: str
    outcome: str
    who: str  # a client, or who recorded it
    broker: str | None
    queue_id: int | None
    offset: int | None  # of the message, or the one committed or asked for; of a view, how many
    message: str | None
    is_it: bool


@dataclass(frozen=True)
class Pictures:
    """All of it, of one run. `around` holds the events around each finding, by check and why."""

    run: str
    runs: int
    seconds: float
    queues: tuple[Queue, ...]
    queues_in_all: int
    bands: tuple[Band, ...]
    is_cut: bool  # of the changes of owners only the first ones are drawn
    crashes: tuple[tuple[float, str], ...]
    progress: tuple[Span, ...]
    anomalies: tuple[Anomalies, ...]
    around: Mapping[tuple[str, str], tuple[Happened, ...]]


def pictures(tables: Tables, report: AuditReport) -> Pictures:
    """Of the run with the most anomalies. The driver sees some thousands of rows at most."""
    findings = tables.findings.persist(StorageLevel.DISK_ONLY)
    drawn = _pictures(replace(tables, findings=findings), report)
    findings.unpersist()
    return drawn


def _pictures(tables: Tables, report: AuditReport) -> Pictures:
    run, runs = _run(tables)
    here = F.col("run") == run
    events = tables.events.where(here)
    time = events.select(F.min("time_ns").alias("begin"), F.max("time_ns").alias("end")).first()
    assert time is not None  # an aggregate without groups always has its one row
    queues, in_all = _queues(tables, here)
    begin, span = time.begin, max(1, -(-(time.end - time.begin) // SPANS))

    changes = _changes(events, queues, begin)
    is_cut = len(changes) == CHANGES
    seconds = (time.end - begin) / 1e9
    known_until = changes[-1].at if is_cut else seconds
    return Pictures(
        run=run,
        runs=runs,
        seconds=seconds,
        queues=tuple(queues),
        queues_in_all=in_all,
        bands=tuple(bands(changes, queues, known_until)),
        is_cut=is_cut,
        crashes=tuple(
            (row.at, row.client_id or row.peer or "")
            for row in changes
            if row.kind == EventKind.CRASH
        ),
        progress=tuple(_progress(tables.progress.where(here), queues, begin, span)),
        anomalies=tuple(_anomalies(tables.findings.where(here), events, begin, span)),
        around=_around(tables.events, report),
    )


def _run(tables: Tables) -> tuple[str, int]:
    """The run with the most anomalies, the worst first, and how many runs there are."""
    is_violated = F.col("judgement") == Judgement.VIOLATED.value
    found = tables.findings.groupBy("run").agg(
        F.count_if(is_violated).alias("violated"), F.count("*").alias("found")
    )
    runs = tables.events.select("run").distinct()
    worst = (
        runs.join(found, "run", "left")
        .select("*", F.count("*").over(Window.partitionBy(F.lit(0))).alias("runs"))
        .orderBy(F.desc_nulls_last("violated"), F.desc_nulls_last("found"), "run")
        .first()
    )
    assert worst is not None  # an audit without events has ended before
    return worst.run, worst.runs


def _queues(tables: Tables, here: Column) -> tuple[list[Queue], int]:
    """The queues to draw, those with the most anomalies; and how many there are."""
    used = tables.events.where(here & F.col("kind").isin(*_USED)).select(*_QUEUE).distinct()
    found = tables.findings.where(here).groupBy(*_QUEUE).agg(F.count("*").alias("found"))
    rows = (
        used.join(found, [*_QUEUE], "left")
        .select("*", F.count("*").over(Window.partitionBy(F.lit(0))).alias("queues"))
        .orderBy(F.desc_nulls_last("found"), *_QUEUE)
        .limit(QUEUES)
        .collect()
    )
    queues = sorted(Queue(*(row[name] for name in _QUEUE)) for row in rows)
    return queues, rows[0].queues if rows else 0


def _changes(events: DataFrame, queues: Sequence[Queue], begin: int) -> list[Any]:
    """What changed the owners of the queues, in order."""
    kind = F.col("kind")
    is_change = kind.isin(*_OWNERSHIP) & (F.col("outcome") == Outcome.OK.value) & _among(queues)
    return (
        events.where(is_change | kind.isin(*_LIVES))
        .select(
            ((F.col("time_ns") - begin) / 1e9).alias("at"),
            "process", "seq", "kind", "client_id", "peer", *_QUEUE,
        )
        .orderBy("at", "process", "seq")
        .limit(CHANGES)
        .collect()
    )  # fmt: skip


def bands(changes: Sequence[Any], queues: Sequence[Queue], seconds: float) -> list[Band]:
    """Who owned each queue from when to when; who still did at the end, until then."""
    since: dict[tuple[Queue, str], float] = {}
    found: list[Band] = []

    def end(queue: Queue, client: str, at: float) -> None:
        begin = since.pop((queue, client), None)
        if begin is not None:
            found.append(Band(queue, client, begin, at))

    for row in changes:
        queue = Queue(row.consumer_group, row.topic, row.broker, row.queue_id)
        if row.kind == EventKind.ASSIGN:
            since.setdefault((queue, row.client_id), row.at)
        elif row.kind == EventKind.REVOKE:
            end(queue, row.client_id, row.at)
        else:  # a client is gone, with all that it owned; of a broker there is no client
            for one, client in [*since]:
                if client == row.client_id:
                    end(one, client, row.at)
    for queue, client in [*since]:
        end(queue, client, seconds)
    return sorted(found, key=lambda band: (queues.index(band.queue), band.begin, band.client))


def _progress(progress: DataFrame, queues: Sequence[Queue], begin: int, span: int) -> list[Span]:
    rows = (
        progress.where(_among(queues))
        .groupBy(*_QUEUE, _span(begin, span).alias("span"))
        .agg(
            F.max_by("offset", F.struct("time_ns", "seq")).alias("offset"),
            F.max("backlog").alias("backlog"),
        )
        .where("offset IS NOT NULL")
        .orderBy(*_QUEUE, "span")
        .collect()
    )
    return [
        Span(Queue(*(row[n] for n in _QUEUE)), row.span * span / 1e9, row.offset, row.backlog)
        for row in rows
    ]


def _anomalies(findings: DataFrame, events: DataFrame, begin: int, span: int) -> list[Anomalies]:
    at = events.select("process", "seq", "time_ns")
    kind = ("check", "judgement", "why")
    is_worst = F.col("judgement").isin(*(one.value for one in _WORST))
    rows = (
        findings.where(is_worst | (F.col("check") == REPEATED.name))
        .join(at, ["process", "seq"])
        .groupBy(_span(begin, span).alias("span"), *kind)
        .agg(F.count("*").alias("n"))
        .orderBy(*kind, "span")
        .collect()
    )
    return [
        Anomalies(row.span * span / 1e9, row.check, row.judgement, row.why, row.n) for row in rows
    ]


def worst(report: AuditReport) -> list[tuple[str, Finding]]:
    """The kinds of anomalies, each with its check, what breaks a rule first."""
    found = [(check.name, finding) for check in report.checks for finding in check.findings]
    anomalies = [one for one in found if one[1].judgement in _WORST]
    return sorted(anomalies, key=lambda one: _WORST.index(one[1].judgement))


def _around(events: DataFrame, report: AuditReport) -> dict[tuple[str, str], tuple[Happened, ...]]:
    """The events around the first place of each kind of anomaly.

    Of its message all that there is, and of its queue what happened soon before and after; of what
    has no queue, of its group.
    """
    drawn = [one for one in worst(report) if "seq" in one[1].first][:DIAGRAMS]
    if not drawn:
        return {}
    wanted = ("run", "process", "seq", "consumer_group", "topic", "broker", "queue_id", "message")
    places = events.sparkSession.createDataFrame(
        [(number, *(f.first.get(name) for name in wanted)) for number, (_, f) in enumerate(drawn)],
        _PLACES,
    )
    at, place = F.col("event.seq"), F.col("at.seq")
    is_it = (F.col("event.process") == F.col("at.process")) & (at == place)
    same = F.coalesce(F.col("event.message") == F.col("at.message"), F.lit(False))
    at_queue = F.col("event.kind").isin(*_AT_QUEUE)
    for name in ("topic", "broker", "queue_id"):
        at_queue &= F.col(f"event.{name}") == F.col(f"at.{name}")
    is_life = F.col("event.kind").isin(*_LIVES)
    # What is found of a member, and not at a queue, has its group around it.
    of_group = F.col("at.topic").isNull() & F.col("event.kind").isin(*_OF_MEMBERS)
    of_group &= F.col("event.consumer_group") == F.col("at.consumer_group")
    near = (F.col("event.process") == F.col("at.process")) & (F.abs(at - place) <= NEAR)
    closest = Window.partitionBy("number").orderBy(is_it.desc(), same.desc(), F.abs(at - place), at)
    rows = (
        events.alias("event")
        .join(F.broadcast(places.alias("at")), F.col("event.run") == F.col("at.run"))
        .where(is_it | same | near & (at_queue | is_life | of_group))
        .select(
            "number", "event.*", is_it.alias("is_it"), F.row_number().over(closest).alias("rank")
        )
        .where(F.col("rank") <= STEPS)
        .orderBy("number", "time_ns", "process", "seq")
        .collect()
    )
    around: dict[tuple[str, str], list[Happened]] = {}
    for row in rows:
        check, finding = drawn[row.number]
        around.setdefault((check, finding.why), []).append(_happened(row))
    return {kind: tuple(steps) for kind, steps in around.items()}


_PLACES: Final = T.StructType(
    [
        T.StructField("number", T.LongType()),
        T.StructField("run", T.StringType()),
        T.StructField("process", T.StringType()),
        T.StructField("seq", T.LongType()),
        T.StructField("consumer_group", T.StringType()),
        T.StructField("topic", T.StringType()),
        T.StructField("broker", T.StringType()),
        T.StructField("queue_id", T.LongType()),
        T.StructField("message", T.StringType()),
    ]
)


def _happened(row: Any) -> Happened:
    is_progress = row.kind in (EventKind.COMMIT, EventKind.QUERY_OFFSET, EventKind.VIEW)
    return Happened(
        kind=row.kind,
        outcome=row.outcome,
        who=row.client_id or row.process,
        broker=row.broker or (row.peer if not row.client_id else None),
        queue_id=row.queue_id,
        offset=row.value if is_progress else row.queue_offset,
        message=row.message_key,
        is_it=row.is_it,
    )


def _among(queues: Sequence[Queue]) -> Column:
    """Whether a row is at one of the queues."""
    among = F.lit(False)
    for queue in queues:
        at = F.lit(True)
        for name, value in zip(_QUEUE, astuple(queue), strict=True):
            at &= F.col(name) == value
        among |= at
    return among


def _span(begin: int, span: int) -> Column:
    return F.floor((F.col("time_ns") - begin) / span)
