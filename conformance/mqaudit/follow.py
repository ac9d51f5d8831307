"""Following: histories are judged while they grow, by the checks of the batch.

Structured Streaming says which files are new. Each batch of them is put together with the events
that stay, and judged as a whole by `tables.Stages`: a follower has no check of its own. What is
said then, is compared with what was told before; what differs are the alerts. From time to time
events that are settled leave (`settled`), so that what stays is bounded.

What is judged, and what was told, are tables of one form: a check, an outcome, a place, and how
many (`n`). They are added and subtracted: see `_sum`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from threading import Event, Lock
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)
from pyspark.sql.streaming.query import StreamingQuery

from mqaudit import alerts, findings, history, settled
from mqaudit.arrived import RECORDERS, arrived, marked
from mqaudit.history_checks import (
    BEFORE_SENT,
    DELAYED,
    GIVEN_TWICE,
    HISTORY_CHECKS,
    LEFT_OUT,
    LOST,
    PLACE,
    REFUSED,
    REPEATED,
    ROLLED_BACK,
)
from mqaudit.report import AuditReport, Judgement
from mqaudit.session import spark_errors
from mqaudit.tables import Stages
from mqaudit.versions import Version, Versions
from mqrules import UserError

_WHAT: Final = ("check", "outcome", *PLACE)
_NUMBERS: Final = ("seq", "queue_id", "queue_offset", "value", "n")
_KINDS: Final = {name: "long" if name in _NUMBERS else "string" for name in (*_WHAT, "n")}
_INSTANCES: Final = ", ".join(f"`{name}` {kind}" for name, kind in _KINDS.items())
_PLACE: Final = ", ".join(f"{name}: {_KINDS[name]}" for name in PLACE)
_COUNTS: Final = (
    f"`check` string, outcome string, n long, first struct<{_PLACE}>, last struct<{_PLACE}>"
)
# The tables of a version, besides those of events and seats.
_TABLES: Final = {
    "recorders": RECORDERS,
    "instances": _INSTANCES,  # what is said of what more may be said of
    "corrections": _INSTANCES,  # what judging less makes different
    "told": _INSTANCES,  # which of the instances were told
    "alive": "run string, message string",  # messages that are not decided, however old
    "settled": _COUNTS,  # what nothing more is said of
    "counts": _COUNTS,  # all together
}
_WRITTEN: Final = ("seats", "alerts")
# What the batch sees, and a follower cannot when the events lie further apart than is recent.
LIMITS: Final = {
    f"{REPEATED.name}; {REFUSED.name}; {ROLLED_BACK.name}": (
        "another delivery of a message, its sends, or the end of its transaction"
    ),
    f"{GIVEN_TWICE.name}; {LEFT_OUT.name}": "the other message at an offset",
    BEFORE_SENT.name: "the delivery of a message, or its send",
    LOST.name: "what was stored before a group began",
    DELAYED.name: "the send of a message that was delayed, and has come before",
    "all": "what changes how a member, a group or a run is seen from its beginning on",
}
_FEW_ROWS = 100_000  # so many more are worth no look at which are settled


@dataclass(frozen=True)
class Settings:
    """How to follow. `recent_s`: an event is recent, by its recorder's clock, for so long."""

    paths: Sequence[str]
    checkpoint: Path
    alerts: Path | None = None
    recent_s: float = 600.0
    every_s: float = 10.0
    once: bool = False
    lines: bool = False  # files of JSON lines too, which are whole when they are seen
    target: str = "mqspec"
    batch_bytes: int = 8 << 20  # of files that are judged together, where there are more


class _Stopped(Exception):  # noqa: N818  (no error: what Spark asks for is not judged any more)
    """The follower was stopped."""


class Follower:
    """Follows histories; `judged` is called with itself after each batch."""

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        judged: Callable[[Follower], None] = lambda follower: None,
    ) -> None:
        self._spark, self._settings, self._after = spark, settings, judged
        self._versions = Versions(settings.checkpoint / "state")
        self._error: Exception | None = None
        self._judging, self._is_stopped = Lock(), False

    @property
    def version(self) -> Version:
        return self._versions.current

    def run(self, stopped: Event) -> AuditReport:
        """Follow until `stopped`, or until all is read. Raises UserError."""
        with self._versions, spark_errors(self._subject):
            self._deliver()
            query = self._start()
            while query.isActive and not stopped.wait(0.2):
                pass
            with self._judging:  # to its end
                self._is_stopped = stopped.is_set()
            query.stop()
            error = self._error or query.exception()
            if error is not None and not isinstance(error, _Stopped):
                raise error
            if self._settings.once and not self.version.tables:
                raise UserError(self._subject, "no events")
            if self._settings.once and not stopped.is_set():
                self._commit(self._step(self.version.batch).ended())
            return self.report()

    def report(self) -> AuditReport:
        """What is known by now, in the form of the batch's report."""
        counts = table(self._spark, self._versions.root, self.version, "counts")
        checks = findings.of_counts(counts, HISTORY_CHECKS)
        return AuditReport(
            self._subject, self.version.coverage, tuple(checks), self._settings.target
        )

    @property
    def _subject(self) -> str:
        return " ".join(self._settings.paths)

    def _start(self) -> StreamingQuery:
        streams = [
            history.stream(self._spark, path, suffix, self._settings.batch_bytes)
            for path in self._settings.paths
            for suffix in (history.READERS if self._settings.lines else ("parquet",))
        ]
        writer = (
            reduce(DataFrame.unionByName, streams)
            .writeStream.foreachBatch(self._judge)
            .option("checkpointLocation", str(self._settings.checkpoint / "stream"))
        )
        if self._settings.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._settings.every_s} seconds").start()

    def _judge(self, rows: DataFrame, batch: int) -> None:
        """What Spark calls with each batch, perhaps with the last one again after a kill."""
        try:
            with self._judging:
                if self._is_stopped:
                    raise _Stopped
                if batch > self.version.batch:
                    self._commit(self._step(batch).judged(rows, batch))
        except Exception as error:
            self._error = error  # Spark would make a text of it
            raise

    def _step(self, batch: int) -> _Step:
        name = self._versions.new(batch)
        return _Step(self._spark, self._settings, self._versions.root, self.version, name)

    def _commit(self, version: Version) -> None:
        self._versions.commit(version)
        self._deliver()
        self._after(self)

    def _deliver(self) -> None:
        if self.version.tables:
            told = self._versions.root / self.version.tables["alerts"]
            alerts.deliver(told, self._settings.alerts, self.version.told_at)


class _Step:
    """What a batch makes of the version before: tables, and what is written into `current.json`."""

    def __init__(
        self, spark: SparkSession, settings: Settings, root: Path, before: Version, name: str
    ) -> None:
        self._spark, self._settings = spark, settings
        self._root, self._before, self._name = root, before, name
        self._tables = dict(before.tables)

    def judged(self, rows: DataFrame, batch: int) -> Version:
        """The version with some more rows."""
        before = self._before
        # Only what comes from the stream is done in its session, which plans ahead.
        old = table(rows.sparkSession, self._root, before, "recorders")
        marked(rows, old).write.parquet(self._path("read"))
        read = rows.schema.add("came", "string")
        rows = self._spark.read.schema(read).parquet(self._path("read"))
        came = arrived(rows, self._old("recorders"), self._keep)
        self._keep(came.rows.drop(history.MALFORMED), "fresh")

        parts = history.seats(came.rows)
        if before.tables:
            path = str(self._root / before.tables["seats"])
            parts = self._spark.read.parquet(path).unionByName(parts)
        seats = self._keep(history.merged(parts), "seats")
        coverage = history.coverage(seats, came.rows, " ".join(self._settings.paths))

        version = replace(
            before,
            batch=batch,
            events=(*before.events, f"{self._name}/fresh"),
            rows=before.rows + came.new,
            again=before.again + came.again,
            late=before.late + came.late,
            coverage=coverage,
        )
        events = self._events(version)
        judged = self._judged(events, seats, version, self._old("recorders"), self._old("alive"))
        instances = self._keep(_sum(judged, _negative(self._old("corrections"))), "judged")

        recent_ns = int(self._settings.recent_s * 10**9)
        recorders = self._keep(settled.cuts(events, seats, came.recorders, recent_ns), "cuts")
        cut, left = "cut_before", self._none()
        if version.rows - before.settled_rows > max(_FEW_ROWS, before.settled_rows):
            version, left = self._settle(version, events, seats, recorders, instances)
            cut = "cut"
        now = recorders.select("run", "process", "spans", F.col(cut).alias("cut"))
        self._keep(now, "recorders")
        self._tell(instances, left, recorders.where("is_held").select("run").distinct())
        self._keep(_total(_counted(instances), self._old("settled")), "counts")
        self._keep(_sum(instances, _negative(left)), "instances")
        return self._whole(version)

    def ended(self) -> Version:
        """The same version when no more will come: what was held back is told."""
        self._tell(self._old("instances"), self._none(), self._none().select("run"))
        return self._whole(self._before)

    def _whole(self, version: Version) -> Version:
        tables = {
            name: self._tables[name] for name in (*_TABLES, *_WRITTEN) if name in self._tables
        }
        return replace(version, tables=tables, told_at=alerts.size(self._settings.alerts))

    def _settle(
        self,
        version: Version,
        events: DataFrame,
        seats: DataFrame,
        recorders: DataFrame,
        instances: DataFrame,
    ) -> tuple[Version, DataFrame]:
        """Let go of what is settled: the version then, and what will not be looked at again."""
        alive = self._keep(settled.undecided(instances, events, recorders), "alive")
        stays = self._keep(settled.kept(events, recorders, alive), "kept")
        number = stays.count()
        version = replace(version, events=(f"{self._name}/kept",), rows=number, settled_rows=number)
        judged = self._judged(stays, seats, version, recorders, alive)
        change = self._keep(_sum(judged, _negative(instances)), "change")

        # Of what was judged before and is not now an anomaly has left, and the rest is no change
        # at all, but what comes of looking at less.
        is_gone = findings.is_anomaly(HISTORY_CHECKS) & (F.col("n") < 0)
        self._keep(change.where(~is_gone), "corrections")
        left = _negative(change.where(is_gone))
        self._keep(_total(_counted(left), self._old("settled")), "settled")
        return version, left

    def _judged(
        self,
        events: DataFrame,
        seats: DataFrame,
        version: Version,
        recorders: DataFrame,
        alive: DataFrame,
    ) -> DataFrame:
        made = Stages.of(events, seats, version.rows)
        return settled.live(_sum(made.instances.select(*_WHAT, "n")), recorders, alive)

    def _tell(self, instances: DataFrame, left: DataFrame, held: DataFrame) -> None:
        """The changes since what was told; of `left` nothing is told any more after this."""
        is_anomaly = findings.is_anomaly(HISTORY_CHECKS)
        due = _sum(instances.where(is_anomaly & ~_is_open()), left.where(_is_open()))
        told, held = self._old("told"), F.broadcast(held)
        due, before = (one.join(held, ["run"], "left_anti") for one in (due, told))
        changes = self._keep(_sum(due, _negative(before)), "changes")
        alerts.lines(changes).write.text(self._path("alerts"))
        self._tables["alerts"] = f"{self._name}/alerts"
        self._keep(_sum(told, changes, _negative(left)), "told")

    def _events(self, version: Version) -> DataFrame:
        paths = [str(self._root / part) for part in version.events]
        rows = self._spark.read.schema(history.schema()).parquet(*paths)
        return rows.withColumn(history.MALFORMED, F.lit(None).cast("string"))

    def _old(self, name: str) -> DataFrame:
        """A table of the version before."""
        return table(self._spark, self._root, self._before, name)

    def _none(self) -> DataFrame:
        return self._spark.createDataFrame([], _INSTANCES)

    def _keep(self, rows: DataFrame, name: str) -> DataFrame:
        rows.write.parquet(self._path(name))
        self._tables[name] = f"{self._name}/{name}"
        return self._spark.read.schema(rows.schema).parquet(self._path(name))

    def _path(self, name: str) -> str:
        return str(self._root / self._name / name)


def table(spark: SparkSession, root: Path, version: Version, name: str) -> DataFrame:
    """A table of a version; an empty one before the first."""
    if name not in version.tables:
        return spark.createDataFrame([], _TABLES[name])
    return spark.read.schema(_TABLES[name]).parquet(str(root / version.tables[name]))


def _sum(*parts: DataFrame) -> DataFrame:
    every = reduce(DataFrame.unionByName, parts)
    return every.groupBy(*_WHAT).agg(F.sum("n").alias("n")).where("n != 0")


def _negative(instances: DataFrame) -> DataFrame:
    return instances.withColumn("n", -F.col("n"))


def _counted(instances: DataFrame) -> DataFrame:
    return findings.counted(instances, PLACE)


def _total(*counts: DataFrame) -> DataFrame:
    """Counts of parts together: how many, the first and the last."""
    every = reduce(DataFrame.unionByName, counts)
    return every.groupBy("check", "outcome").agg(
        F.sum("n").alias("n"), F.min("first").alias("first"), F.max("last").alias("last")
    )


def _is_open() -> Column:
    return settled.is_judged(Judgement.OPEN)
