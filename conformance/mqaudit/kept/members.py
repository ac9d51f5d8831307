"""Who is who: processes that logs and traces tell of, and what their logs say they did.

A trace names its process by address, pid and a hash; a log by its folder and pid, and the client
ids in it begin with an address. They are one where pid and address are the same, or where only one
log has the pid: an address of IPv6 stands in traces for that of IPv4 in a client id.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit.kept.tells import Source
from mqrules import EventKind, Outcome

_TRACER: Final = "@PID_CLIENT_INNER_TRACE_PRODUCER"  # in the client id of what sends traces
_SENDER: Final = re.compile(r"(?P<address>.+)@(?P<pid>\d+)#.*")
_PID_BITS: Final = 0xFFFF  # of a pid in a unique key

# The lines that are events of a member, what came of them, and in which order within a millisecond.
_EVENTS: Final[Mapping[str, tuple[EventKind, Outcome]]] = {
    "join": (EventKind.JOIN, Outcome.OK),
    "assign": (EventKind.ASSIGN, Outcome.OK),
    "commit": (EventKind.COMMIT, Outcome.UNKNOWN),
    "revoke": (EventKind.REVOKE, Outcome.OK),
    "leave": (EventKind.LEAVE, Outcome.OK),
}
RANK: Final[Mapping[EventKind, int]] = {
    kind: rank
    for rank, kind in enumerate(
        (EventKind.JOIN, EventKind.SUBSCRIBE, EventKind.ASSIGN, EventKind.RECEIVE, EventKind.ACK,
         EventKind.QUERY_OFFSET, EventKind.COMMIT, EventKind.REVOKE, EventKind.PUBLISH,
         EventKind.LEAVE, EventKind.CRASH)
    )
}  # fmt: skip

# How long after it is told of a reset a member commits by it: it waits ten seconds for what is at
# work (MQClientInstance.resetOffset, 5.3.3), and may be slow.
_RESET_MS: Final = 30_000


@dataclass(frozen=True)
class Process:
    """A process that a log tells of."""

    name: str
    pid: int | None
    addresses: frozenset[str]


def matched(senders: Iterable[str], processes: Iterable[Process]) -> dict[str, str]:
    """Of those that sent traces, the process whose log is here."""
    by_pid: dict[int, list[Process]] = defaultdict(list)
    for process in processes:
        if process.pid is not None:
            by_pid[process.pid & _PID_BITS].append(process)
    found: dict[str, str] = {}
    for sender in senders:
        if (match := _SENDER.fullmatch(sender)) is None:
            continue
        of_pid = by_pid.get(int(match["pid"]), [])
        near = [p for p in of_pid if match["address"] in p.addresses] or of_pid
        if len(near) == 1:
            found[sender] = near[0].name
    return found


def processes(logs: DataFrame) -> list[Process]:
    """The clients' processes: a row each, which is little."""
    rows = (
        logs.where(F.col("source") == Source.CLIENT_LOG.value)
        .groupBy("process", "pid")
        .agg(F.collect_set(F.substring_index("client_id", "@", 1)).alias("addresses"))
        .collect()
    )
    return [Process(row.process, row.pid, frozenset(row.addresses)) for row in rows]


def broker_names(logs: DataFrame) -> DataFrame:
    """The name of each broker by its address, as clients know it, and as its own log has it:
    through a recorder, clients know other addresses."""
    return (
        logs.where("kind = 'broker'")
        .groupBy(F.col("address"))
        .agg(F.min("broker").alias("broker_name"))
    )


def client_ids(logs: DataFrame) -> DataFrame:
    """The client id of each process and group, and of the process in any other (a null group)."""
    told = logs.where(F.col("client_id").isNotNull() & ~F.col("client_id").contains(_TRACER))
    told = told.where(F.col("source") == Source.CLIENT_LOG.value)
    return (
        told.where("client_group is not null")
        .groupBy("process", "client_group")
        .agg(F.min("client_id").alias("known_id"))
        .unionByName(
            told.where("kind = 'client'")
            .groupBy("process")
            .agg(F.min("client_id").alias("known_id")),
            allowMissingColumns=True,
        )
    )


def with_client_id(rows: DataFrame, ids: DataFrame, otherwise: Column) -> DataFrame:
    """Rows of processes and groups with their `client_id`."""
    of_group = ids.where("client_group is not null")
    of_process = ids.where("client_group is null").select(
        "process", F.col("known_id").alias("process_id")
    )
    return (
        rows.join(F.broadcast(of_group), ["process", "client_group"], "left")
        .join(F.broadcast(of_process), "process", "left")
        .withColumn("client_id", F.coalesce("known_id", "process_id", otherwise))
        .drop("known_id", "process_id")
    )


def events(logs: DataFrame, ids: DataFrame) -> DataFrame:
    """What members did, as their logs tell: joined, left, owned, committed; and that they were cut
    off, or subscribed, as the broker's log tells."""
    mine = logs.where(F.col("source") == Source.CLIENT_LOG.value)
    line = F.col("kind")
    rows = with_client_id(
        mine.where(line.isin([*_EVENTS])).drop("client_id"), ids, F.col("process")
    )
    did = rows.select(
        "process", "client_id", "client_group", "topic", "broker", "queue_id", "value", "time_ms",
        F.lit(None).cast("string").alias("tag"),
        _mapped(line, {name: kind.value for name, (kind, _) in _EVENTS.items()}).alias("kind"),
        _mapped(line, {name: out.value for name, (_, out) in _EVENTS.items()}).alias("outcome"),
        _mapped(line, {name: str(RANK[kind]) for name, (kind, _) in _EVENTS.items()})
        .cast("int").alias("rank"),
    )  # fmt: skip
    whole = did.unionByName(_cut_off(logs, did))
    for others in (_sought(mine, did), _subscribed(logs, ids)):
        whole = whole.unionByName(others, allowMissingColumns=True)
    return whole


def _cut_off(logs: DataFrame, did: DataFrame) -> DataFrame:
    """That members crashed: their broker was cut off from them, and no log says that they left.

    It happened between their last line and that of the broker, whose clock tells only seconds.
    """
    cut = (
        logs.where("kind = 'cut off'")
        .groupBy("client_id")
        .agg(F.max("time_ms").alias("cut_ms"), F.first("client_group").alias("cut_group"))
    )
    last = did.groupBy("process", "client_id").agg(
        F.max("time_ms").alias("last_ms"),
        F.bool_or(F.col("kind") == EventKind.LEAVE.value).alias("has_left"),
    )
    crashed = last.join(cut, "client_id").where(~F.col("has_left"))
    return crashed.select(
        "process", "client_id", F.col("cut_group").alias("client_group"),
        *(F.lit(None).cast(did.schema[n].dataType).alias(n)
          for n in ("topic", "broker", "queue_id", "value")),
        F.greatest("last_ms", "cut_ms").alias("time_ms"),
        F.lit(None).cast("string").alias("tag"),
        F.lit(EventKind.CRASH.value).alias("kind"),
        F.lit(Outcome.OK.value).alias("outcome"),
        F.lit(RANK[EventKind.CRASH]).alias("rank"),
    )  # fmt: skip


def _sought(mine: DataFrame, did: DataFrame) -> DataFrame:
    """That members read on from an earlier place, as they were told to: just before the first
    commit lower than the one before it, after a tool's reset of the topic, or after the broker's
    answer that the offset of that very queue is none (so it tells of a reset that it keeps to
    itself). Where to it was is not told."""
    queue = ("process", "client_id", "client_group", "topic", "broker", "queue_id")
    commits = did.where(F.col("kind") == EventKind.COMMIT.value)
    before = F.lag("value").over(Window.partitionBy(*queue).orderBy("time_ms", F.desc("value")))
    lower = commits.withColumn("before", before).where("value < before")
    told = mine.where("kind in ('reset', 'illegal offset')").select(
        "process", "client_group", "topic", F.col("time_ms").alias("told_ms"),
        F.struct("broker", "queue_id").alias("of"),
    )  # fmt: skip
    is_of_queue = F.col("of.queue_id").isNull() | (F.col("of") == F.struct("broker", "queue_id"))
    since = F.col("time_ms") - F.col("told_ms")
    return (
        lower.join(F.broadcast(told), ["process", "client_group", "topic"])
        .where(is_of_queue & since.between(0, _RESET_MS))
        .groupBy(*queue, "told_ms")
        .agg(F.min("time_ms").alias("time_ms"))
        .select(
            *queue, "time_ms",
            F.col("client_id").alias("peer"),
            F.lit(EventKind.QUERY_OFFSET.value).alias("kind"),
            F.lit(Outcome.OK.value).alias("outcome"),
            F.lit(RANK[EventKind.QUERY_OFFSET]).alias("rank"),
        )
    )  # fmt: skip


def _subscribed(logs: DataFrame, ids: DataFrame) -> DataFrame:
    """Who subscribed to which topic, as its rebalances tell, and how, as the broker's log does of
    the group."""
    how = (
        logs.where("kind = 'subscribed'")
        .groupBy("client_group", "topic")
        .agg(F.collect_set("tag").alias("tags"))
        .where(F.size("tags") == 1)
        .select("client_group", "topic", F.col("tags")[0].alias("tag"))
    )
    when = (
        logs.where("kind = 'rebalanced'")
        .groupBy("process", "client_group", "client_id", "topic")
        .agg(F.min("time_ms").alias("time_ms"))
    )
    return when.join(F.broadcast(how), ["client_group", "topic"]).select(
        "process", "client_id", "client_group", "topic", "tag", "time_ms",
        F.lit(EventKind.SUBSCRIBE.value).alias("kind"),
        F.lit(Outcome.OK.value).alias("outcome"),
        F.lit(RANK[EventKind.SUBSCRIBE]).alias("rank"),
    )  # fmt: skip


def _mapped(column: Column, values: Mapping[str, str]) -> Column:
    found = F.lit(None).cast("string")
    for name, value in values.items():
        found = F.when(column == name, F.lit(value)).otherwise(found)
    return found
