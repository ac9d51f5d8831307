"""Histories: read, compared with their schema, and counted.

The order of two events is known within a process, by `seq`, and along `cause`: see
`mqrules.history`. Only members that recorded what they owned are judged: a client that
pulls or commits without ever having been assigned the queue is a tool, not a member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from itertools import chain
from typing import Final, get_type_hints

from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)
from pyspark.sql import types as T  # noqa: N812

from mqrules import Event, EventKind, Outcome, UserError

_REQUIRED: Final = ("run", "seq", "process", "kind", "outcome", "time_ns")
MALFORMED: Final = "malformed"
_SHOWN: Final = 200  # characters of a line that is none

# What names where a member did something, and what else a row of a kind must have: without it
# the row would be left out of every check, and nobody would know.
_AT_A_QUEUE: Final = ("group", "client_id", "topic", "broker", "queue_id")
_NEEDED: Final[Mapping[EventKind, tuple[str, ...]]] = {
    EventKind.ASSIGN: _AT_A_QUEUE,
    EventKind.REVOKE: _AT_A_QUEUE,
    EventKind.QUERY_OFFSET: _AT_A_QUEUE,
    EventKind.RECEIVE: (*_AT_A_QUEUE, "queue_offset"),
    EventKind.ACK: (*_AT_A_QUEUE, "queue_offset"),
    EventKind.COMMIT: (*_AT_A_QUEUE, "value"),
    EventKind.SUBSCRIBE: ("group", "client_id", "topic"),
    EventKind.JOIN: ("group", "client_id"),
    EventKind.VIEW: ("group", "client_id", "tag"),
    EventKind.PUBLISH: ("message_key",),
    EventKind.ROLLBACK: ("message_key",),
}


# What a member does at a queue that it has.
_WORK: Final = tuple(
    kind.value
    for kind in (EventKind.RECEIVE, EventKind.ACK, EventKind.COMMIT, EventKind.QUERY_OFFSET)
)

# What is counted of a history.
COVERAGE: Final = (
    "events", "sent", "received", "commits", "runs", "recorders", "clients", "queues",
)  # fmt: skip

# What a seat is: a recorder, and a member of a group at a queue. Some of it may be missing.
SEAT_KEYS: Final = ("run", "process", "consumer_group", "client_id", "topic", "broker", "queue_id")


def schema() -> T.StructType:
    """Spark's schema of a history: that of `mqrules.Event`."""
    hints = get_type_hints(Event)
    whole = {name for name, hint in hints.items() if hint in (int, int | None)}
    return T.StructType(
        [
            T.StructField(f.name, T.LongType() if f.name in whole else T.StringType())
            for f in fields(Event)
        ]
    )


def read(spark: SparkSession, paths: list[str], formats: Sequence[str]) -> DataFrame:
    """The events in all files of the formats at or below the paths.

    Raises UserError where a column is missing or of a wrong type.
    """
    parts = []
    for suffix in formats:
        reader = spark.read.option("recursiveFileLookup", True).option(
            "pathGlobFilter", f"*.{suffix}"
        )
        parts.append(READERS[suffix](reader, paths))
    return reduce(DataFrame.unionByName, parts)


def _read_parquet(reader: DataFrameReader, paths: list[str]) -> DataFrame:
    found = reader.parquet(*paths).schema
    for column in schema():
        if column.name not in found.names:
            raise UserError(paths[0], f"not a history: no column {column.name!r}")
        kind = found[column.name].dataType
        if isinstance(column.dataType, T.LongType) != isinstance(kind, T.IntegralType):
            raise UserError(paths[0], f"column {column.name!r} is of type {kind.simpleString()}")
    return reader.schema(schema()).parquet(*paths).withColumn(MALFORMED, F.lit(None).cast("string"))


def _read_json(reader: DataFrameReader, paths: list[str]) -> DataFrame:
    lines = schema().add(MALFORMED, T.StringType())
    return reader.schema(lines).option("columnNameOfCorruptRecord", MALFORMED).json(paths)


READERS: Final[Mapping[str, Callable[[DataFrameReader, list[str]], DataFrame]]] = {
    "parquet": _read_parquet,
    "jsonl": _read_json,
}


def stream(spark: SparkSession, path: str, suffix: str, most_bytes: int) -> DataFrame:
    """The events in the files of a format at or below a path, and in those that are added."""
    reader = (
        spark.readStream.option("recursiveFileLookup", True)
        .option("pathGlobFilter", f"*.{suffix}")
        .option("maxBytesPerTrigger", most_bytes)
    )
    lines = schema().add(MALFORMED, T.StringType())
    if suffix == "jsonl":
        return reader.schema(lines).option("columnNameOfCorruptRecord", MALFORMED).json(path)
    rows = reader.schema(schema()).parquet(path)
    return rows.withColumn(MALFORMED, F.lit(None).cast("string"))


def survey(events: DataFrame, where: str) -> tuple[Mapping[str, int], DataFrame]:
    """The coverage of events as they were read, and their `seats`: a row a recorder, member and
    queue, which is little, and kept.

    Raises UserError where a row is malformed or stands there twice.
    """
    found = seats(events).localCheckpoint()
    seen = coverage(found, events, where)
    twice = (
        found.groupBy("run", "process")
        .agg(F.sum("events").alias("n"), (F.max("greatest") + 1).alias("span"))
        .where("n > span")
        .first()
    )
    if twice is not None:
        raise UserError(
            where, f"events of run {twice.run!r}, process {twice.process!r} stand there twice"
        )
    return seen, found


def coverage(found: DataFrame, events: DataFrame, where: str) -> Mapping[str, int]:
    """What there is of what, as the seats of some events, and of earlier ones, count it.

    Raises UserError where there is nothing, or one of the events is malformed.
    """
    row = found.select(
        *(F.sum(name).alias(name) for name in ("events", "sent", "received", "commits")),
        F.countDistinct("run").alias("runs"),
        F.countDistinct("run", "process").alias("recorders"),
        F.countDistinct("run", "client_id").alias("clients"),
        F.countDistinct("run", "topic", "broker", "queue_id").alias("queues"),
        F.sum("wrong").alias("wrong"),
        (F.countDistinct(seat()) < F.count("*")).alias("is_ambiguous"),
    ).first()
    if row is None or not row.events:
        raise UserError(where, "no events")
    if row.wrong:
        said = events.select(F.min(_wrong()).alias("wrong")).first()
        assert said is not None  # an aggregate without groups always has its one row
        printed = "".join(c if c.isprintable() else "?" for c in said.wrong)
        raise UserError(where, f"not a history: {printed}")
    if row.is_ambiguous:
        raise UserError(where, "two members at queues have one hash: audit its runs one by one")
    return {name: row[name] for name in COVERAGE}


def _is_wrong() -> Column:
    """Whether anything is wrong with a row; what, says `_wrong`."""
    wrong = F.col(MALFORMED).isNotNull()
    for name in _REQUIRED:
        wrong |= F.col(name).isNull()
    for name, values in (("kind", EventKind), ("outcome", Outcome)):
        wrong |= ~F.col(name).isin([value.value for value in values])
    for name in dict.fromkeys(chain(*_NEEDED.values())):
        kinds = [kind.value for kind, needed in _NEEDED.items() if name in needed]
        wrong |= F.col(name).isNull() & F.col("kind").isin(kinds)
    return wrong


def _wrong() -> Column:
    """What is wrong with a row, in words."""
    line = F.left(F.col(MALFORMED), F.lit(_SHOWN))
    wrong = F.when(line.isNotNull(), F.concat(F.lit("no event: "), line))
    for name in _REQUIRED:
        wrong = wrong.when(F.col(name).isNull(), F.lit(f"a row without {name!r}"))
    for name, values in (("kind", EventKind), ("outcome", Outcome)):
        known = F.col(name).isin([value.value for value in values])
        wrong = wrong.when(~known, F.concat(F.lit(f"{name} of a row: "), F.col(name)))
    for kind, needed in _NEEDED.items():
        for name in needed:
            missing = (F.col("kind") == kind.value) & F.col(name).isNull()
            wrong = wrong.when(missing, F.lit(f"{kind.value} without {name!r}"))
    return wrong


def seats(events: DataFrame) -> DataFrame:
    """A row a recorder, group, client and queue: `runs.INPUT` says what it holds."""
    kind, outcome = F.col("kind"), F.col("outcome")
    happened = outcome.isin(Outcome.OK.value, Outcome.UNKNOWN.value)
    stored = (kind == EventKind.SEND.value) & (outcome == Outcome.OK.value)
    acked = (kind == EventKind.ACK.value) & (happened | (outcome == Outcome.FAILED.value))
    progress = kind.isin(EventKind.COMMIT.value, EventKind.QUERY_OFFSET.value)
    asks = kind.isin(EventKind.COMMIT.value, EventKind.QUERY_OFFSET.value, EventKind.LOCK.value)
    answered = asks & ~is_seek() & (outcome == Outcome.OK.value)
    membership = [EventKind.JOIN, EventKind.LEAVE, EventKind.CRASH, EventKind.RESTART]
    return named(events.withColumn("is_wrong", _is_wrong())).groupBy(*SEAT_KEYS).agg(
        F.count("*").alias("events"),
        F.count_if(stored & F.col("queue_offset").isNotNull()).alias("sent"),
        F.count_if(kind == EventKind.RECEIVE.value).alias("received"),
        F.count_if(kind == EventKind.COMMIT.value).alias("commits"),
        F.count_if(kind == EventKind.JOIN.value).alias("joins"),
        F.count_if(~kind.isin([kind.value for kind in membership])).alias("others"),
        F.min(F.when(((kind == EventKind.ASSIGN.value) | is_seek()) & happened, F.col("seq")))
        .alias("first_assigned"),
        F.max(F.when(acked, F.col("seq"))).alias("last_acked"),
        F.max(F.when(answered, F.col("seq"))).alias("last_answered"),
        # Of the last life of its store, which comes first.
        F.max(F.when(stored, F.struct(
            F.coalesce("store_epoch", F.lit(0)).alias("store_epoch"), "queue_offset"
        ))).alias("last_stored"),
        F.max(F.when(progress & happened, F.col("value"))).alias("reached"),
        F.max(F.when(kind.isin(*_WORK), F.col("seq"))).alias("last_worked"),
        F.min("seq").alias("least"),
        F.max("seq").alias("greatest"),
        F.sum("seq").alias("total"),
        F.max("time_ns").alias("last_ns"),
        F.count_if(F.col("is_wrong")).alias("wrong"),
    )  # fmt: skip


_LEAST: Final = ("first_assigned", "least")
_MOST: Final = (
    "last_acked", "last_answered", "last_stored", "reached", "last_worked", "greatest", "last_ns",
)  # fmt: skip


def merged(parts: DataFrame) -> DataFrame:
    """The seats of all events together, from those of some parts of them."""
    how = dict.fromkeys(_LEAST, F.min) | dict.fromkeys(_MOST, F.max)
    numbers = [name for name in parts.columns if name not in SEAT_KEYS]
    return parts.groupBy(*SEAT_KEYS).agg(
        *(how.get(name, F.sum)(name).alias(name) for name in numbers)
    )


def named(events: DataFrame) -> DataFrame:
    """The same, with `group` under a name that is no word of SQL's."""
    return events.withColumnRenamed("group", "consumer_group")


def seat() -> Column:
    """A number for the row's seat. Two seats do not share one: `survey` looks."""
    # What is missing counts for nothing in a hash, and would move the next text into its place.
    return F.xxhash64(*(F.coalesce(F.col(name).cast("string"), F.lit("\0")) for name in SEAT_KEYS))


def is_seek() -> Column:
    """The member told itself from where it reads on, as its user bade it."""
    asks = F.col("kind") == EventKind.QUERY_OFFSET.value
    return asks & F.coalesce(F.col("peer") == F.col("client_id"), F.lit(False))


def message() -> Column:
    """The name of a row's message: the key that its producer gave it, else its place."""
    epoch = F.coalesce(F.col("store_epoch"), F.lit(0))
    place = F.concat_ws("/", "topic", "broker", "queue_id", "queue_offset", epoch)
    return F.coalesce(F.col("message_key"), place)
