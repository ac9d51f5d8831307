"""The stages of an audit of histories: by group, by queue, by message; one shuffle each.

Each is a function from DataFrames to one DataFrame of `judged.SCHEMA`; what happens to the rows
that a shuffle brought together is written with numpy in `by_group`, `by_queue` and `by_message`,
which see whole partitions as Arrow batches.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit import by_group, by_message, by_queue, judged, part, runs
from mqaudit.history import SEAT_KEYS, is_seek, message, named, seat
from mqaudit.judged import Row
from mqaudit.part import Did, Went
from mqrules import EventKind, Outcome

# How many events a task is to see, more or less: enough to be worth its start, and little enough
# for the memory of a small worker.
TASK_EVENTS: Final = 400_000

_OF_MESSAGES: Final = (EventKind.SEND.value, EventKind.RECEIVE.value, EventKind.ACK.value)
_MILLISECOND_NS: Final = 1_000_000
_OF_MEMBERS: Final = (
    EventKind.JOIN, EventKind.LEAVE, EventKind.CRASH, EventKind.RESTART, EventKind.SUBSCRIBE,
    EventKind.VIEW,
)  # fmt: skip


def tasks(events: int, parallelism: int) -> int:
    """In how many tasks a stage is done."""
    return max(1, min(parallelism, events // 50_000), events // TASK_EVENTS)


def groups(events: DataFrame, seats: DataFrame, number: int) -> DataFrame:
    """By group: who owned what, and what the next stage must know of each seat."""
    about = {"kind": F.lit(runs.SEAT), "last_stored": F.col("last_stored").getField("queue_offset")}
    rows = _membership(events).unionByName(seats.withColumns(about), allowMissingColumns=True)
    columns = _columns(runs.INPUT)
    return (
        rows.select(*columns).repartition(number, "run").mapInArrow(by_group.judge, judged.SCHEMA)
    )


def queues(events: DataFrame, known: DataFrame, number: int) -> DataFrame:
    """By queue: what became of what was stored, received and committed there."""
    about = F.to_json(F.struct(*SEAT_KEYS, F.col("outcome").alias("facts")))
    seats = known.where(F.col("row") == Row.SEAT).select(
        _queue().alias("queue"), seat().alias("seat"), F.lit(int(Did.SEAT)).alias("did"),
        about.alias("about"),
    )  # fmt: skip
    rows = _at_queues(events).unionByName(seats, allowMissingColumns=True)
    return (
        rows.select(*_columns(part.INPUT))
        .repartition(number, "queue")
        .mapInArrow(by_queue.judge, judged.SCHEMA)
    )


def messages(events: DataFrame, judged_by_queue: DataFrame, number: int) -> DataFrame:
    """By message: what came from several places, or was not handled where it was stored."""
    rows = judged_by_queue
    for more in (_sends(events), _causes(events)):
        rows = rows.unionByName(more, allowMissingColumns=True)
    return rows.repartition(
        number, F.col("run"), F.coalesce("message", F.col("seq").cast("string"))
    ).mapInArrow(by_message.judge, judged.SCHEMA)


def _membership(events: DataFrame) -> DataFrame:
    """What is no work at a queue, and what one recorder knew of another."""
    kind = F.col("kind")
    happened = F.col("outcome").isin(Outcome.OK.value, Outcome.UNKNOWN.value)
    ownership = kind.isin(EventKind.ASSIGN.value, EventKind.REVOKE.value) & happened
    source = _source()
    is_edge = F.coalesce(source != F.col("process"), F.lit(False))
    return (
        named(events)
        .where(kind.isin([one.value for one in _OF_MEMBERS]) | ownership | is_edge)
        .select(
            "run", "process", "seq", "time_ns", "kind", "consumer_group", "client_id", "topic",
            "broker", "queue_id", "tag", "peer",
            (F.col("outcome") == Outcome.OK.value).alias("went_ok"),
            F.when(is_edge, source).alias("source"),
            F.when(is_edge, _source_seq()).alias("source_seq"),
        )
    )  # fmt: skip


def _at_queues(events: DataFrame) -> DataFrame:
    """What was done at queues, and stored in them."""
    kind = F.col("kind")
    is_send = kind == EventKind.SEND.value
    is_stored = (F.col("outcome") == Outcome.OK.value) & F.col("queue_offset").isNotNull()
    is_lock = kind.isin(EventKind.LOCK.value, EventKind.UNLOCK.value)
    is_progress = kind.isin(EventKind.COMMIT.value, EventKind.QUERY_OFFSET.value)
    named_queue = F.col("topic").isNotNull() & F.col("broker").isNotNull()
    # A commit or a lock is of no message: what need not be carried is not.
    of_message = F.when(kind.isin(*_OF_MESSAGES), message())
    at_queue = [one.name.lower() for one in Did if one not in (Did.SEND, Did.SEAT)]
    return (
        named(events)
        .where(kind.isin(at_queue) | is_send & is_stored)
        .where(named_queue & F.col("queue_id").isNotNull())
        .select(
            _queue().alias("queue"),
            seat().alias("seat"),
            "seq",
            _coded("kind", Did).alias("did"),
            _coded("outcome", Went).alias("went"),
            (
                is_seek() | (kind == EventKind.COMMIT.value) & F.col("queue_offset").isNotNull()
            ).alias("marked"),
            F.when(is_progress, F.col("value"))
            .when(is_lock, F.col("time_ns"))
            .otherwise(F.col("queue_offset"))
            .alias("at"),
            "store_epoch",
            "attempt",
            "tag",
            of_message.alias("message"),
            F.when(of_message.isNotNull(), F.xxhash64(of_message)).alias("message_hash"),
        )
    )


def _sends(events: DataFrame) -> DataFrame:
    """The tries to send each message, what came of them, of its transaction, and of its delay."""
    kind, outcome = F.col("kind"), F.col("outcome")
    is_send, is_delayed = kind == EventKind.SEND.value, F.col("value").isNotNull()
    is_end = kind.isin(EventKind.PUBLISH.value, EventKind.ROLLBACK.value)
    is_end &= outcome != Outcome.FAILED.value
    came = (kind == EventKind.RECEIVE.value) & is_delayed
    tried = is_send & (outcome == Outcome.INVOKED.value)
    cases = {
        Row.PUBLISHED: kind == EventKind.PUBLISH.value,
        Row.ROLLED_BACK: kind == EventKind.ROLLBACK.value,
        Row.CAME: came,
        Row.DELAYED: tried & is_delayed,
        Row.INVOKED: tried,
        Row.REFUSED: outcome == Outcome.FAILED.value,
    }
    row = F.lit(int(Row.SENT))
    for what, condition in reversed(cases.items()):
        row = F.when(condition, F.lit(int(what))).otherwise(row)
    due = F.col("time_ns") + F.col("value") * _MILLISECOND_NS
    time = F.when(came, F.col("time_ns")).when(tried & is_delayed, due)
    place = ("consumer_group", "topic", "broker", "queue_id", "queue_offset", "client_id")
    return (
        named(events)
        .where(is_send | is_end | came)
        .where(F.col("message_key").isNotNull() | F.col("queue_offset").isNotNull())
        .select(
            row.alias("row"),
            F.lit(1).cast("long").alias("n"),
            "run",
            "seq",
            message().alias("message"),
            time.alias("value"),
            F.when(tried | time.isNotNull(), F.col("process")).alias("process"),
            # Only of what may be a finding.
            *(F.when(time.isNotNull(), F.col(name)).alias(name) for name in place),
        )
    )


def _causes(events: DataFrame) -> DataFrame:
    """What another recorder had seen before a message was tried to be sent."""
    tried = (F.col("kind") == EventKind.SEND.value) & (F.col("outcome") == Outcome.INVOKED.value)
    source, seq = _source(), _source_seq()
    is_told = F.col("cause").isNotNull() & F.col("message_key").isNotNull()  # which a file may know
    return events.where(is_told & tried & (source != F.col("process"))).select(
        F.lit(int(Row.CAUSED)).alias("row"),
        F.lit(1).cast("long").alias("n"),
        "run",
        source.alias("process"),
        seq.alias("seq"),
        message().alias("message"),
    )


def _source() -> Column:
    """The recorder of the event that a row names as its cause."""
    return F.regexp_extract("cause", "(.*)/(.*)", 1)


def _source_seq() -> Column:
    """That event's position."""
    return F.regexp_extract("cause", "(.*)/(.*)", 2).try_cast("long")


def _queue() -> Column:
    return F.xxhash64("run", "topic", "broker", "queue_id")


def _coded(column: str, codes: type[Did] | type[Went]) -> Column:
    coded = F.lit(None).cast("int")
    for code in codes:
        coded = F.when(F.col(column) == code.name.lower(), F.lit(int(code))).otherwise(coded)
    return coded


def _columns(schema: str) -> list[str]:
    """The names of the columns of a schema in Spark's words."""
    return [column.split()[0] for column in schema.split(",")]
