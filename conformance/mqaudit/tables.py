"""What an audit knows on the way, as DataFrames with names and schemas.

They are lazy: each is computed when it is used, and by the stages that the report came from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit import findings, history, stages
from mqaudit.check import Check
from mqaudit.history_checks import HISTORY_CHECKS, PLACE
from mqaudit.judged import Known, Row
from mqrules import EventKind, Outcome

_QUEUE: Final = ("run", "topic", "broker", "queue_id")
_PARTITION: Final = {"findings": "check"}


@dataclass(frozen=True)
class Tables:
    """The tables of a history."""

    events: DataFrame
    owners: DataFrame
    progress: DataFrame
    deliveries: DataFrame
    findings: DataFrame

    def write(self, path: str) -> None:
        """Write each table below a path, as Parquet, partitioned by run, findings by check."""
        for column in fields(self):
            table: DataFrame = getattr(self, column.name)
            by = _PARTITION.get(column.name, "run")
            table.write.mode("overwrite").partitionBy(by).parquet(f"{path}/{column.name}")


@dataclass(frozen=True)
class Stages:
    """What the stages made of some events, once."""

    events: DataFrame
    by_group: DataFrame
    by_queue: DataFrame
    by_message: DataFrame

    @classmethod
    def of(cls, events: DataFrame, seats: DataFrame, number: int, keep: bool = False) -> Stages:
        """Of so many events; `keep` is for who uses more than the report: on disk, not anew."""
        tasks = stages.tasks(number, events.sparkSession.sparkContext.defaultParallelism)
        by_group = stages.groups(events, seats, tasks).localCheckpoint()
        by_queue = stages.queues(events, by_group, tasks)
        if keep:
            by_queue = by_queue.persist(StorageLevel.DISK_ONLY)
        return cls(events, by_group, by_queue, stages.messages(events, by_queue, tasks))

    @property
    def instances(self) -> DataFrame:
        """All instances that the checks look at, the held ones counted."""
        is_told = F.col("row") <= int(Row.FOUND)
        return self.by_message.unionByName(self.by_group.where(is_told))

    @property
    def tables(self) -> Tables:
        return Tables(
            events=events(self.events),
            owners=owners(self.by_group),
            progress=progress(self.events),
            deliveries=deliveries(self.by_queue),
            findings=found(self.instances, HISTORY_CHECKS, PLACE),
        )


def events(raw: DataFrame) -> DataFrame:
    """A row an event: the columns of `mqrules.history.Event`, and the name of its message.

    `group` is `consumer_group` here.
    """
    return history.named(raw.withColumn("message", history.message())).drop(history.MALFORMED)


def owners(by_group: DataFrame) -> DataFrame:
    """A row a stretch of time of a queue, as one recorder saw it, while its group had members.

    `owners` owned it from event `seq` on, and `sharing` were to share its topic; `calm_ns`: how
    long nothing had changed for the group as the stretch ended.
    """
    return by_group.where(F.col("row") == int(Row.STRETCH)).select(
        "run", "consumer_group", "topic", "broker", "queue_id", "process", "seq",
        F.col("n").alias("owners"), F.col("attempt").alias("sharing"),
        F.col("value").alias("calm_ns"),
    )  # fmt: skip


def progress(raw: DataFrame) -> DataFrame:
    """A row a commit or answered query of an offset, with the queue's backlog by then.

    `end` is behind the last message that the same recorder had seen stored; `backlog` how many
    there were from `offset` on. Both are missing where it had seen none.
    """
    kind, outcome = F.col("kind"), F.col("outcome")
    stored = (kind == EventKind.SEND.value) & (outcome == Outcome.OK.value)
    told = kind.isin(EventKind.COMMIT.value, EventKind.QUERY_OFFSET.value) & outcome.isin(
        Outcome.OK.value, Outcome.UNKNOWN.value
    )
    so_far = Window.partitionBy(*_QUEUE, "process").orderBy("seq")
    end = F.max(F.when(stored, F.col("queue_offset") + 1)).over(so_far)
    return (
        history.named(raw)
        .where(stored | told)
        .withColumn("end", end)
        .where(told)
        .select(
            *_QUEUE, "consumer_group", "process", "client_id", "seq", "time_ns", "kind", "outcome",
            F.col("value").alias("offset"), "end",
            # What is missing counts for nothing in `greatest`.
            F.when(F.col("end").isNotNull(), F.greatest(F.col("end") - F.col("value"), F.lit(0)))
            .alias("backlog"),
        )
    )  # fmt: skip


def deliveries(by_queue: DataFrame) -> DataFrame:
    """A row a message, group, place and try: the first time that a member got it from there.

    `attempt` counts how often it had been given back. What became of it there: `handled`,
    `unsaid` (its receiver does not record what it has finished), `given_back`.
    """
    known = F.col("known")
    what = {"handled": Known.HANDLED, "unsaid": Known.UNSAID, "given_back": Known.GIVEN_BACK}
    return by_queue.where(F.col("row") == int(Row.DELIVERY)).select(
        "run", "consumer_group", "message", "attempt", *_QUEUE[1:], "queue_offset", "store_epoch",
        "process", "client_id", "seq",
        *(known.bitwiseAND(int(flag)).cast("boolean").alias(name) for name, flag in what.items()),
    )  # fmt: skip


def found(instances: DataFrame, checks: Sequence[Check], places: Iterable[str]) -> DataFrame:
    """A row an instance that did not simply hold: check, judgement, rule, why, and its place."""
    told = described(instances.where(findings.is_anomaly(checks)), checks)
    return told.select("check", "outcome", *_SAID, *places)


_SAID: Final[Mapping[str, Callable[[Check, str], str]]] = {
    "judgement": lambda check, name: check.outcomes[name].judgement.value,
    "rule": lambda check, name: check.rule_of(name),
    "why": lambda check, name: check.outcomes[name].why,
}


def described(instances: DataFrame, checks: Iterable[Check]) -> DataFrame:
    """Instances, with how each is judged, under which rule, and why."""
    said = pa.Table.from_pylist(
        [
            {"check": check.name, "outcome": name}
            | {column: of(check, name) for column, of in _SAID.items()}
            for check in checks
            for name in check.outcomes
        ]
    )
    # A table to join with: as one expression it would take a second to build.
    known = instances.sparkSession.createDataFrame(said)
    return instances.join(F.broadcast(known), ["check", "outcome"], "left")
