"""What a follower keeps of the events that it has judged: those that more may be said of.

An event is recent while it is less than so many seconds older than its recorder's latest. Of the
older ones these stay:

- those of messages of which nothing is decided yet: not due, or received and not committed past;
- of each member, queue and kind the first and the last, the lowest and the highest, in each of the
  last turns of the queue, and the commit before its last: what the checks make of all that was
  before, they make of these.

What is said of an older event is settled, but of a message that stays, and of the stretch of time
that lasts. Equal judgement with less is not taken on trust: the follower judges what it keeps once
more, and corrects by the difference.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit import history
from mqaudit.arrived import KEY
from mqaudit.history import SEAT_KEYS, named
from mqaudit.history_checks import HISTORY_CHECKS, NO_OWNER, TWO_OWNERS, VIEWS
from mqaudit.report import Judgement
from mqrules import EventKind

_QUEUE: Final = ("run", "topic", "broker", "queue_id")
_MESSAGE: Final = ("run", "message")
_HOW: Final = ("kind", "outcome", "is_seek", "store_epoch", "is_retried")
_STRETCHES: Final = (TWO_OWNERS.name, NO_OWNER.name, VIEWS.name)

_AT_QUEUES: Final = tuple(
    kind.value
    for kind in (
        EventKind.RECEIVE, EventKind.ACK, EventKind.COMMIT, EventKind.QUERY_OFFSET,
        EventKind.ASSIGN, EventKind.REVOKE, EventKind.LOCK, EventKind.UNLOCK,
    )
)  # fmt: skip
_OF_MEMBERS: Final = tuple(
    kind.value
    for kind in (
        EventKind.JOIN, EventKind.LEAVE, EventKind.CRASH, EventKind.RESTART, EventKind.SUBSCRIBE,
        EventKind.VIEW, EventKind.ASSIGN, EventKind.REVOKE,
    )
)  # fmt: skip


def cuts(events: DataFrame, seats: DataFrame, recorders: DataFrame, recent_ns: int) -> DataFrame:
    """The recorders with a new cut: before it all is older than `recent_ns`.

    It stays where it is for all of a run while a gap is recent (`is_held`): what is missing may
    come.
    """
    last = seats.groupBy(*KEY).agg(F.max("last_ns").alias("last_ns"))
    found = (
        events.join(F.broadcast(last), [*KEY])
        .where(F.col("time_ns") >= F.col("last_ns") - recent_ns)
        .groupBy(*KEY)
        .agg(F.min("seq").alias("least"))
    )
    before = F.coalesce("cut", F.lit(0))
    moved = recorders.join(found, [*KEY], "left").select(
        *KEY, "spans", before.alias("cut_before"), F.greatest(before, "least").alias("least")
    )
    gap = F.exists("spans", lambda span: (span["first"] > 0) & (span["first"] >= F.col("least")))
    is_held = F.bool_or(gap).over(Window.partitionBy("run"))
    cut = F.when(F.col("is_held"), F.col("cut_before")).otherwise(F.col("least"))
    return moved.withColumn("is_held", is_held).withColumn("cut", cut).drop("least")


def live(instances: DataFrame, recorders: DataFrame, alive: DataFrame) -> DataFrame:
    """Of instances those of which more may be said: of the others all is, or they are artefacts."""
    cut = F.broadcast(recorders.select(*KEY, "cut"))
    stays = alive.withColumn("stays", F.lit(True))
    told = instances.join(cut, [*KEY], "left").join(stays, [*_MESSAGE], "left")
    is_old = F.coalesce(F.col("seq") < F.col("cut"), F.lit(False))
    of = Window.partitionBy("check", *KEY, "consumer_group", "topic", "broker", "queue_id")
    lasts = F.col("seq") == F.max(F.when(is_old, F.col("seq"))).over(of)
    return (
        told.withColumn("lasts", F.col("check").isin(*_STRETCHES) & lasts)
        .where(~is_old | F.col("stays") | F.col("lasts"))
        .select(*instances.columns)
    )


def is_judged(judgement: Judgement) -> Column:
    """The condition that an instance is judged so."""
    outcomes = [
        F.struct(F.lit(check.name), F.lit(name))
        for check in HISTORY_CHECKS
        for name, outcome in check.outcomes.items()
        if outcome.judgement is judgement
    ]
    return F.struct("check", "outcome").isin(outcomes)


def undecided(instances: DataFrame, events: DataFrame, recorders: DataFrame) -> DataFrame:
    """The messages of old events of which more may be said."""
    cut = F.broadcast(recorders.select(*KEY, "cut"))
    is_old = F.col("seq") < F.col("cut")
    not_due = (
        instances.where(is_judged(Judgement.OPEN) & F.col("message").isNotNull())
        .join(cut, [*KEY])
        .where(is_old)
    )
    work = named(events)
    committed = (
        work.where(F.col("kind") == EventKind.COMMIT.value)
        .groupBy(*SEAT_KEYS)
        .agg(F.max("value").alias("committed"))
    )
    unfinished = (
        work.where(F.col("kind") == EventKind.RECEIVE.value)
        .join(cut, [*KEY])
        .where(is_old)
        .join(F.broadcast(committed), [*SEAT_KEYS])
        .where(F.col("queue_offset") >= F.col("committed"))
        .withColumn("message", history.message())
    )
    return not_due.select(*_MESSAGE).unionByName(unfinished.select(*_MESSAGE)).distinct()


def kept(events: DataFrame, recorders: DataFrame, alive: DataFrame) -> DataFrame:
    """The events that stay: the recent ones, and what is said above of the others."""
    cut = F.broadcast(recorders.select(*KEY, "cut"))
    marked = events.join(cut, [*KEY], "left")
    recent = marked.where(F.col("seq") >= F.col("cut")).drop("cut")
    old = marked.where(F.col("seq") < F.col("cut")).drop("cut")
    rows = named(old).withColumns(
        {
            "message": history.message(),
            "is_seek": history.is_seek(),
            "is_retried": F.coalesce("attempt", F.lit(0)) > 0,
            "at": F.when(F.col("kind").isin("commit", "query_offset"), F.col("value")).otherwise(
                F.col("queue_offset")
            ),
        }
    )
    marks = _of_queues(rows).unionByName(_of_members(rows)).distinct()
    works = F.col("kind").isin(EventKind.RECEIVE.value, EventKind.ACK.value)
    beside = rows.where(works).join(marks, [*KEY, "seq"], "left_semi").select(*_MESSAGE)
    stays = alive.unionByName(beside).distinct()
    seqs = marks.unionByName(rows.join(stays, [*_MESSAGE], "left_semi").select(*KEY, "seq"))
    return recent.unionByName(old.join(seqs.distinct(), [*KEY, "seq"], "left_semi"))


def _of_queues(rows: DataFrame) -> DataFrame:
    """The first and last, lowest and highest of each kind, in the last turns of queues.

    A turn of a queue begins as a member of the group is assigned it, or goes on elsewhere in it.
    """
    queue = ("run", "process", "consumer_group", *_QUEUE[1:])
    begins = (F.col("kind") == EventKind.ASSIGN.value) | F.col("is_seek")
    turn = F.count_if(begins).over(Window.partitionBy(*queue).orderBy("seq"))
    work = rows.where(F.col("kind").isin(*_AT_QUEUES)).withColumn("turn", turn)
    marks = _extremes(work, (*SEAT_KEYS, "turn", *_HOW)).unionByName(_last_commits(work))
    found = work.join(marks, [*KEY, "seq"], "left_semi")

    last = F.max("turn").over(Window.partitionBy(*queue))
    ends = found.withColumn("last", last).where(F.col("turn") >= F.col("last") - 1)
    of_all = found.join(_extremes(found, (*SEAT_KEYS, *_HOW)), [*KEY, "seq"], "left_semi")
    turns = ends.select(*queue, "turn").unionByName(of_all.select(*queue, "turn")).distinct()
    # What is missing is equal here.
    same = [F.col(f"one.{name}").eqNullSafe(F.col(f"other.{name}")) for name in (*queue, "turn")]
    of_turns = found.alias("one").join(turns.alias("other"), reduce(and_, same), "left_semi")
    return of_turns.select(*KEY, "seq")


def _last_commits(work: DataFrame) -> DataFrame:
    """The positions of the last two commits of each member in each turn of a queue."""
    latest = Window.partitionBy(*SEAT_KEYS, "turn").orderBy(F.desc("seq"))
    commits = work.where(F.col("kind") == EventKind.COMMIT.value)
    return (
        commits.withColumn("nth", F.row_number().over(latest)).where("nth <= 2").select(*KEY, "seq")
    )


def _of_members(rows: DataFrame) -> DataFrame:
    """The first and last of what members did, and of what one recorder knew of another."""
    tag = F.when(F.col("kind") == EventKind.SUBSCRIBE.value, F.col("tag"))
    members = rows.where(F.col("kind").isin(*_OF_MEMBERS)).withColumn("about", tag)
    source = F.regexp_extract("cause", "(.*)/(.*)", 1)
    edges = rows.withColumn("source", F.coalesce(source, "process")).where(
        F.col("source") != F.col("process")
    )
    return _extremes(members, (*SEAT_KEYS, "kind", "outcome", "peer", "about")).unionByName(
        _extremes(edges, (*KEY, "source"))
    )


def _extremes(rows: DataFrame, by: tuple[str, ...]) -> DataFrame:
    """The positions of the first and last, lowest and highest rows of each kind."""
    seq, at = F.col("seq"), F.col("at")
    found: tuple[Column, ...] = (F.min(seq), F.max(seq), F.min_by(seq, at), F.max_by(seq, at))
    marks = rows.groupBy(*by).agg(F.array(*found).alias("marks"))
    return (
        marks.select(*KEY, F.explode("marks").alias("seq"))
        .where(F.col("seq").isNotNull())
        .distinct()
    )
