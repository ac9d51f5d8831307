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
from functools import reduce
from itertools import count
from operator import and_
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit.kept.tells import Source
from mqrules import SECOND, EventKind, Outcome

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

# A client that runs writes each five seconds what it commits: this is long for it to say nothing.
_SILENT_MS: Final = 60_000


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


class Life(NamedTuple):
    """From when to when a process with a client id wrote its log."""

    first_ms: int
    last_ms: int
    process: str
    client_id: str


def further(lives: Iterable[Life]) -> dict[tuple[str, str], str]:
    """The name of each further client of one id by its process and id: one that began while others
    of the id were there has the least rank behind it that these do not have."""
    there: dict[str, list[tuple[int, int]]] = defaultdict(list)
    found = {}
    for life in sorted(lives):
        at_once = [one for one in there[life.client_id] if one[0] >= life.first_ms]
        ranks = {rank for _, rank in at_once}
        rank = next(n for n in count(1) if n not in ranks)
        there[life.client_id] = [*at_once, (life.last_ms, rank)]
        if rank > 1:
            found[life.process, life.client_id] = f"{life.client_id}{SECOND}{rank}"
    return found


def client_ids(spark: SparkSession, logs: DataFrame, one_clock: bool) -> DataFrame:
    """The client id of each process and group, and of the process in any other (a null group).

    With `one_clock` several processes of one id at once are told apart by their ranks.
    """
    told = logs.where(F.col("client_id").isNotNull() & ~F.col("client_id").contains(_TRACER))
    told = told.where(F.col("source") == Source.CLIENT_LOG.value)
    ids = (
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
    if not one_clock:
        return ids
    spans = logs.groupBy("process").agg(F.min("time_ms"), F.max("time_ms"))
    rows = ids.select("process", "known_id").distinct().join(spans, "process").collect()
    named = further(Life(first, last, process, client) for process, client, first, last in rows)
    names = spark.createDataFrame(
        [(*of, name) for of, name in named.items()],
        "process string, known_id string, second_id string",
    )
    return (
        ids.join(F.broadcast(names), ["process", "known_id"], "left")
        .withColumn("known_id", F.coalesce("second_id", "known_id"))
        .drop("second_id")
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
    cuts = _cuts(logs)
    whole = did.unionByName(_cut_off(cuts, did))
    for others in (_silent(cuts, mine, did), _sought(mine, did), _subscribed(logs, ids)):
        whole = whole.unionByName(others, allowMissingColumns=True)
    return whole


def _cuts(logs: DataFrame) -> DataFrame:
    """When brokers were cut off from which client, of a group. Some lines name it by its address:
    it is the last one that the broker took as a member from there."""
    cut = logs.where("kind = 'cut off'").select(
        "process", "client_group", "address", "client_id", F.col("time_ms").alias("cut_ms")
    )
    at = ("process", "client_group", "address")
    members = logs.where("kind = 'member'").select(
        *(F.col(name).alias(f"member_{name}") for name in (*at, "client_id", "time_ms"))
    )
    is_before = F.col("member_time_ms") <= F.col("cut_ms")
    same = (F.col(name) == F.col(f"member_{name}") for name in at)
    return (
        cut.join(F.broadcast(members), reduce(and_, same, is_before), "left")
        .groupBy(*at, "client_id", "cut_ms")
        .agg(F.max_by("member_client_id", "member_time_ms").alias("member_id"))
        .select(
            F.coalesce("client_id", "member_id").alias("cut_id"),
            F.col("client_group").alias("cut_group"), "cut_ms",
        )
    )  # fmt: skip


def _cut_off(cuts: DataFrame, did: DataFrame) -> DataFrame:
    """That members crashed: their broker was cut off from them, and no log says that they left.

    It happened between their last line and that of the broker, whose clock tells only seconds.
    """
    cut = cuts.groupBy("cut_id").agg(
        F.max("cut_ms").alias("cut_ms"), F.first("cut_group").alias("cut_group")
    )
    last = did.groupBy("process", "client_id").agg(
        F.max("time_ms").alias("last_ms"),
        F.bool_or(F.col("kind") == EventKind.LEAVE.value).alias("has_left"),
    )
    crashed = last.join(cut, _own_id() == F.col("cut_id")).where(~F.col("has_left"))
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


def _silent(cuts: DataFrame, mine: DataFrame, did: DataFrame) -> DataFrame:
    """That members crashed as their brokers see it, and came back: they wrote nothing for long
    until they were cut off, and then more. They still have what they had."""
    member = ["process", "client_id", "client_group"]
    is_it = (_own_id() == F.col("cut_id")) & (F.col("client_group") == F.col("cut_group"))
    cut = did.select(*member).distinct().join(F.broadcast(cuts), is_it)
    at = F.col("time_ms")
    silent = (
        cut.join(mine.select("process", "time_ms"), "process")
        .groupBy(*member, "cut_ms")
        .agg(
            F.max(F.when(at <= F.col("cut_ms"), at)).alias("before_ms"),
            F.min(F.when(at > F.col("cut_ms"), at)).alias("back_ms"),
        )
        .where(F.col("cut_ms") - F.col("before_ms") > _SILENT_MS)
        .groupBy(*member, "back_ms")
        .agg(F.max("cut_ms").alias("cut_ms"))
        .where("back_ms is not null")
    )
    owned = (
        did.where(F.col("kind").isin(EventKind.ASSIGN.value, EventKind.REVOKE.value))
        .join(F.broadcast(silent), member)
        .where(F.col("time_ms") <= F.col("cut_ms"))
        .groupBy(*member, "topic", "broker", "queue_id", "back_ms")
        .agg(F.max_by("kind", F.struct("time_ms", "rank")).alias("kind"))
        .where(F.col("kind") == EventKind.ASSIGN.value)
    )
    moments = (
        (silent, EventKind.CRASH, "cut_ms"),
        (silent, EventKind.JOIN, "back_ms"),
        (owned, EventKind.ASSIGN, "back_ms"),
    )
    return reduce(
        lambda a, b: a.unionByName(b, allowMissingColumns=True),
        (
            rows.withColumns(
                {
                    "kind": F.lit(kind.value),
                    "time_ms": F.col(when),
                    "outcome": F.lit(Outcome.OK.value),
                    "rank": F.lit(RANK[kind]),
                }
            ).drop("cut_ms", "back_ms")
            for rows, kind, when in moments
        ),
    )


def _own_id() -> Column:
    """The id that a client has, whatever its rank among those of one id."""
    return F.substring_index("client_id", SECOND, 1)


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
    when = with_client_id(
        logs.where("kind = 'rebalanced'")
        .groupBy("process", "client_group", "topic")
        .agg(F.min("time_ms").alias("time_ms")),
        ids, F.col("process"),
    )  # fmt: skip
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
