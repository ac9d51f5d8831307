"""From what a cluster keeps to events of the one schema (`mqrules.history.Event`).

Each store and each client process is a recorder of its own: its events are in the order of its
own clock or log, and no two clocks are compared. All of it is one run, `kept`.

- A store tells what is stored where, by its record (`send`), which of it was stored as a
  transaction was committed (`publish`), and the progress in its table of offsets (`query_offset`,
  asked by the store itself).
- Traces tell what was given to listeners and what these said. They name no queue: a message is
  found by its unique key in the stores; of a message that was given back, in the retry topic of
  its group, where there is such a copy. How often the group had given it back is its attempt.
- Who owned a queue traces do not tell. A member counts as its owner from the first message on
  that it got from there; no check that needs to know owners decides on that (`tells`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit import history
from mqaudit.datasource import CommitLogSource
from mqaudit.kept.live_source import TopicSource, live_name
from mqaudit.kept.log_source import LogSource
from mqaudit.kept.members import RANK
from mqaudit.kept.trace import TOPIC
from mqaudit.kept.trace_source import TraceSource
from mqaudit.small_files import progress
from mqrules import EventKind, Outcome
from mqspec.core.metadata import BrokerConfig, system_topic_names
from mqspec.core.record import SysFlag

RUN: Final = "kept"
CLIENTS: Final = "clients"  # the recorder of all of them, where they have one clock
TABLE: Final = "offsets of "  # before a store, the name of who asks its table
RETRY, DEAD = "%RETRY%", "%DLQ%"

_LOG: Final = (
    "store,kind,segment,physical_offset,topic,queue_id,queue_offset,sys_flag,store_timestamp_ms,"
    "reconsume_times,prepared_transaction_offset,store_host,properties"
)
_SYSTEM: Final = sorted(system_topic_names(BrokerConfig()))
_SYSTEM_BEGINS: Final = "rmq_sys_"
_MS_NS: Final = 1_000_000
# Of the flags of a record: those of transactions, and how they are of one that is committed.
_OF_TRANSACTION: Final = int(SysFlag.ROLLBACK)
_COMMITTED: Final = int(SysFlag.COMMIT)


def register(spark: SparkSession) -> None:
    """Make the data sources of what is kept known to a session."""
    spark.dataSource.register(CommitLogSource)
    spark.dataSource.register(TraceSource)
    spark.dataSource.register(LogSource)
    spark.dataSource.register(TopicSource)


def stored(spark: SparkSession, roots: Sequence[str]) -> DataFrame:
    """A row a message that consumers can get: the records of all topics that are not the
    broker's own. `copy_of` is the group of a copy to be tried again; `half`, of a message that was
    stored as its transaction was committed, where its half message is."""
    log = _loaded(spark, CommitLogSource.name(), roots, columns=_LOG)
    return _messages(log.where("kind = 'record'"))


def live(spark: SparkSession, nameserver: str, topics: str) -> DataFrame:
    """Likewise, of topics of a live cluster. A queue is a recorder there."""
    source = spark.read.format(TopicSource.name()).option("nameserver", nameserver).load(topics)
    return _messages(
        source.withColumn("store", F.lit(live_name(nameserver))).withColumn(
            "segment", F.xxhash64("topic", "broker", "queue_id")
        )
    )


def live_traces(spark: SparkSession, nameserver: str) -> DataFrame:
    """The contexts of the traces that a live cluster holds."""
    return spark.read.format(TraceSource.name()).option("nameserver", nameserver).load(TOPIC)


def _messages(log: DataFrame) -> DataFrame:
    topic, transaction = F.col("topic"), F.col("sys_flag").bitwiseAND(_OF_TRANSACTION)
    is_system = topic.isin(_SYSTEM) | topic.startswith(_SYSTEM_BEGINS)
    return (
        log.where(transaction.isin(0, _COMMITTED))
        .where(~is_system & ~topic.startswith(DEAD))
        .select(
            "store", "segment", "physical_offset", "topic", "queue_id", "queue_offset",
            F.col("store_timestamp_ms").alias("time_ms"),
            F.col("reconsume_times").alias("attempt"),
            F.col("store_host").alias("broker"),
            _property("UNIQ_KEY").alias("message_id"),
            _property("TAGS").alias("tag"),
            F.when(topic.startswith(RETRY), F.substring(topic, len(RETRY) + 1, 1 << 30))
            .alias("copy_of"),
            F.when(transaction == _COMMITTED, F.col("prepared_transaction_offset")).alias("half"),
        )
    )  # fmt: skip


def _loaded(spark: SparkSession, name: str, paths: Sequence[str], **options: str) -> DataFrame:
    """What a data source reads at paths, which may be none: Spark would name none of them."""
    reader = spark.read.format(name).options(**options)
    return reader.option("paths", json.dumps([*paths])).load()


def _property(name: str) -> Column:
    text = F.col("properties").cast("string")  # which does not mind what is no UTF-8
    found = F.regexp_extract(text, f"(?:^|\x02){name}\x01([^\x02]*)", 1)
    return F.nullif(found, F.lit(""))


def has_traces(root: str) -> bool:
    """Whether a store has a message trace."""
    return (Path(root.removeprefix("file:")) / "consumequeue" / TOPIC).is_dir()


def traces(spark: SparkSession, roots: Sequence[str]) -> DataFrame:
    """The contexts of the traces in stores."""
    return _loaded(spark, TraceSource.name(), roots)


def logs(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """What logs tell, or that a line of theirs is torn."""
    return _loaded(spark, LogSource.name(), files)


def named(stored: DataFrame, names: DataFrame) -> DataFrame:
    """With the names of brokers instead of their addresses, where logs tell them."""
    return (
        stored.join(F.broadcast(names), F.col("broker") == F.col("address"), "left")
        .withColumn("broker", F.coalesce("broker_name", "broker"))
        .drop("broker_name", "address")
    )


def given(traces: DataFrame, stored: DataFrame) -> DataFrame:
    """A row a message that was given to a listener: by which process, from which place, and what
    the listener said (`success`, missing where nothing tells). Without a place where no store
    has the message."""
    before = traces.where("kind = 'SubBefore'").select(
        "sender", "time_ms", "client_group", "request_id", "message_id", "attempt",
        F.col("store").alias("traced_in"), F.col("physical_offset").alias("traced_at"), "nth",
    )  # fmt: skip
    after = (
        traces.where("kind = 'SubAfter'")
        .groupBy("request_id", "message_id")
        .agg(F.first("success").alias("success"), F.first("time_ms").alias("said_ms"))
    )
    # A copy to be tried again is looked for first: a listener in order has none.
    found = _placed(before, stored.where("copy_of is not null"), is_copy=True)
    placed = found.where("topic is not null")
    others = found.where("topic is null").select(before.columns)
    return placed.unionByName(_placed(others, stored.where("copy_of is null"), is_copy=False)).join(
        after, ["request_id", "message_id"], "left"
    )


def _placed(before: DataFrame, stored: DataFrame, is_copy: bool) -> DataFrame:
    """With the place of each message: of several copies the first that was stored is taken to be
    given first."""
    keys = ["message_id", *(["client_group", "attempt"] if is_copy else [])]
    given_order = Window.partitionBy("message_id", "client_group", "attempt").orderBy(
        "time_ms", "request_id"
    )
    stored = stored.withColumnRenamed("copy_of", "client_group") if is_copy else stored
    by_key = Window.partitionBy(*keys)
    copies = stored.select(
        *keys, "topic", "broker", "queue_id", "queue_offset", "tag",
        F.row_number().over(by_key.orderBy("time_ms", "physical_offset")).alias("copy"),
        F.count("*").over(by_key).alias("copies"),
    )  # fmt: skip
    numbered = before.withColumn("which", F.row_number().over(given_order))
    joined = numbered.join(copies, keys, "left")
    return joined.where(
        F.col("copy").isNull() | (F.col("copy") == F.least("which", "copies"))
    ).drop("which", "copy", "copies")


def sends(stored: DataFrame) -> DataFrame:
    """What each store has of what producers sent: copies to be tried again are the broker's.

    A segment of a log is a recorder, so that no task must put a whole log in order.
    """
    order = Window.partitionBy("store", "segment").orderBy("physical_offset")
    return stored.where("copy_of is null").select(
        F.lit(RUN).alias("run"),
        F.concat(F.lit("store "), "store", F.lit(" from "), F.col("segment")).alias("process"),
        (F.row_number().over(order) - 1).cast("long").alias("seq"),
        F.lit(EventKind.SEND.value).alias("kind"),
        F.lit(Outcome.OK.value).alias("outcome"),
        (F.col("time_ms") * _MS_NS).alias("time_ns"),
        "topic", "broker", "queue_id", "queue_offset", "tag",
        F.col("message_id").alias("message_key"), "message_id",
    )  # fmt: skip


def committed(stored: DataFrame) -> DataFrame:
    """The commits of transactions, as stores have them: a half message is stored again with each.

    A message whose half message was sent again, and each of them committed, was committed once.
    """
    of_half = Window.partitionBy("store", "broker", "message_id", "half").orderBy("physical_offset")
    of_message = Window.partitionBy("message_id", "nth").orderBy(
        "store", "broker", "physical_offset"
    )
    order = Window.partitionBy("store", "segment").orderBy("physical_offset")
    return (
        stored.where("copy_of is null and half is not null and message_id is not null")
        .withColumn("nth", F.row_number().over(of_half))
        .withColumn("which", F.row_number().over(of_message))
        .where("which = 1")
        .select(
            F.lit(RUN).alias("run"),
            F.concat(F.lit("commits in "), "store", F.lit(" from "), F.col("segment"))
            .alias("process"),
            (F.row_number().over(order) - 1).cast("long").alias("seq"),
            F.lit(EventKind.PUBLISH.value).alias("kind"),
            F.lit(Outcome.OK.value).alias("outcome"),
            (F.col("time_ms") * _MS_NS).alias("time_ns"),
            "topic", F.col("message_id").alias("message_key"), "message_id",
        )
    )  # fmt: skip


def ends(traces: DataFrame, committed: DataFrame) -> DataFrame:
    """How producers ended their transactions, but for the commits that stores have."""
    state = F.col("transaction_state")
    ended = traces.where("kind = 'EndTransaction'")
    told = committed.select("message_id", F.lit("COMMIT_MESSAGE").alias("transaction_state"))
    return (
        ended.where(state.isin("COMMIT_MESSAGE", "ROLLBACK_MESSAGE"))
        .join(told.distinct(), ["message_id", "transaction_state"], "left_anti")
        .select(
            F.coalesce("log_process", "sender").alias("process"),
            F.when(state == "COMMIT_MESSAGE", EventKind.PUBLISH.value)
            .otherwise(EventKind.ROLLBACK.value).alias("kind"),
            F.lit(Outcome.UNKNOWN.value).alias("outcome"),
            F.col("time_ms"),
            F.lit(RANK[EventKind.PUBLISH]).alias("rank"),
            F.col("message_id").alias("message_key"),
            "message_id", "topic",
            F.col("sender").alias("client_id"),
        )
    )  # fmt: skip


def consumed(given: DataFrame) -> DataFrame:
    """What members got and said of it; and of those without a log, that they owned its queue from
    then on."""
    common = ("process", "client_group", "client_id", "topic", "broker", "queue_id")
    message = (
        "queue_offset", "tag", "attempt", F.col("message_id").alias("message_key"), "message_id",
    )  # fmt: skip
    placed = given.where("topic is not null")
    received = placed.select(
        *common, *message, F.lit(EventKind.RECEIVE.value).alias("kind"),
        F.lit(Outcome.OK.value).alias("outcome"), "time_ms",
        F.lit(RANK[EventKind.RECEIVE]).alias("rank"),
    )  # fmt: skip
    said = placed.where("success is not null").select(
        *common, *message, F.lit(EventKind.ACK.value).alias("kind"),
        F.when(F.col("success"), Outcome.OK.value).otherwise(Outcome.FAILED.value).alias("outcome"),
        F.coalesce("said_ms", "time_ms").alias("time_ms"),
        F.lit(RANK[EventKind.ACK]).alias("rank"),
    )  # fmt: skip
    unlogged = placed.where("log_process is null")
    owned = unlogged.groupBy(*common).agg(F.min("time_ms").alias("time_ms")).select(
        "*", F.lit(EventKind.ASSIGN.value).alias("kind"),
        F.lit(Outcome.OK.value).alias("outcome"), F.lit(RANK[EventKind.ASSIGN]).alias("rank"),
    )  # fmt: skip
    return received.unionByName(said).unionByName(owned, allowMissingColumns=True)


def in_order(rows: DataFrame, one_clock: bool) -> DataFrame:
    """Rows of processes with their `seq`: by their clock, and within a millisecond by `rank`.

    With `one_clock` all processes are of one recorder: their clocks are taken to agree.
    """
    if one_clock:
        rows = rows.withColumn("process", F.lit(CLIENTS))
    order = Window.partitionBy("process").orderBy(
        "time_ms", "rank", "message_id", "topic", "broker", "queue_id", "client_id"
    )
    return rows.select(
        F.lit(RUN).alias("run"),
        (F.row_number().over(order) - 1).cast("long").alias("seq"),
        (F.col("time_ms") * _MS_NS).alias("time_ns"),
        "*",
    ).drop("time_ms", "rank")


def offsets(spark: SparkSession, roots: Sequence[str], brokers: Mapping[str, str]) -> DataFrame:
    """The progress in the tables of offsets of stores; `brokers` names the broker of each."""
    rows = [row for root in roots for row in _offsets(root, brokers.get(root))]
    return spark.createDataFrame(rows, history.schema())


def _offsets(root: str, broker: str | None) -> list[dict[str, Any]]:
    told = (one for one in progress(root) if not _is_system(one.topic))
    return [
        {
            "run": RUN, "process": TABLE + root, "seq": seq,
            "kind": EventKind.QUERY_OFFSET.value, "outcome": Outcome.OK.value,
            "time_ns": 0, "topic": one.topic, "broker": broker, "group": one.group,
            "queue_id": one.queue_id, "client_id": TABLE + root, "value": one.offset,
        }
        for seq, one in enumerate(told)
    ]  # fmt: skip


def _is_system(topic: str) -> bool:
    return topic in _SYSTEM or topic.lower().startswith(_SYSTEM_BEGINS)


def events(parts: Sequence[DataFrame]) -> DataFrame:
    """All of it, with the columns of a history."""
    columns = history.schema()
    whole = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    whole = whole.withColumn("group", F.coalesce("group", "client_group"))
    return whole.select(
        *(F.col(c.name).cast(c.dataType) if c.name in whole.columns
          else F.lit(None).cast(c.dataType).alias(c.name) for c in columns),
        F.lit(None).cast("string").alias(history.MALFORMED),
    )  # fmt: skip
