"""Histories: read, compared with their schema, and cut into the views that the checks use.

The order of two events is known within a process, by `seq`, and along `cause`: see
`mqrules.history`. Only members that recorded what they owned are judged: a client that
pulls or commits without ever having been assigned the queue is a tool, not a member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import reduce
from typing import Final, get_type_hints

from pyspark import StorageLevel
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)
from pyspark.sql import types as T  # noqa: N812

from mqrules import Event, EventKind, Outcome, UserError

_REQUIRED: Final = ("run", "seq", "process", "kind", "outcome", "time_ns")
_MALFORMED: Final = "malformed"
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
}


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
    return (
        reader.schema(schema()).parquet(*paths).withColumn(_MALFORMED, F.lit(None).cast("string"))
    )


def _read_json(reader: DataFrameReader, paths: list[str]) -> DataFrame:
    lines = schema().add(_MALFORMED, T.StringType())
    return reader.schema(lines).option("columnNameOfCorruptRecord", _MALFORMED).json(paths)


READERS: Final[Mapping[str, Callable[[DataFrameReader, list[str]], DataFrame]]] = {
    "parquet": _read_parquet,
    "jsonl": _read_json,
}


def survey(events: DataFrame, where: str) -> tuple[Mapping[str, int], DataFrame]:
    """The coverage of events as they were read, and the runs of which rows are missing.

    Raises UserError where a row is malformed or stands there twice.
    """
    line = F.left(F.col(_MALFORMED), F.lit(_SHOWN))
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
    # Small: a row a recorder, client and queue.
    groups = (
        events.groupBy("run", "process", "client_id", "topic", "broker", "queue_id")
        .agg(
            F.count("*").alias("events"),
            F.count_if((F.col("kind") == "send") & (F.col("outcome") == "ok")).alias("sent"),
            F.count_if(F.col("kind") == "receive").alias("received"),
            F.count_if(F.col("kind") == "commit").alias("commits"),
            F.min("seq").alias("least"),
            F.max("seq").alias("greatest"),
            F.sum("seq").alias("total"),
            F.min(wrong).alias("wrong"),
        )
        .localCheckpoint()
    )
    recorders = groups.groupBy("run", "process").agg(
        F.sum("events").alias("n"),
        (F.max("greatest") + 1).alias("span"),
        (F.min("least") == 0).alias("whole"),
        (2 * F.sum("total")).alias("twice"),
    )
    row = groups.select(
        *(F.sum(name).alias(name) for name in ("events", "sent", "received", "commits")),
        F.countDistinct("run").alias("runs"),
        F.countDistinct("run", "process").alias("recorders"),
        F.countDistinct("run", "client_id").alias("clients"),
        F.countDistinct("run", "topic", "broker", "queue_id").alias("queues"),
        F.min("wrong").alias("wrong"),
    ).first()
    if row is None or not row.events:
        raise UserError(where, "no events")
    if row.wrong:
        said = "".join(c if c.isprintable() else "?" for c in row.wrong)
        raise UserError(where, f"not a history: {said}")
    twice = recorders.where("n > span").select("run", "process").first()
    if twice is not None:
        raise UserError(
            where, f"events of run {twice.run!r}, process {twice.process!r} stand there twice"
        )
    complete = F.expr("whole AND n = span AND twice = n * (n - 1)")
    torn = recorders.where(~complete).select("run").distinct()
    return {key: value for key, value in row.asDict().items() if key != "wrong"}, torn


def views(events: DataFrame, torn: DataFrame) -> dict[str, DataFrame]:
    """The views by name, each over those before it.

    Those that many others use are computed once, and their queries end there: planning them
    again inside every check would cost more than a history of a few runs.
    """
    found = {"raw": events, "torn": torn}
    for name, query in _VIEWS.items():
        view = events.sparkSession.sql(query, args=None, **found)
        found[name] = (
            view.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY)
            if name in _COMPUTED
            else view
        )
    return found


# The columns that name a queue as one group sees it, and a member's hold of it.
GROUP_QUEUE: Final = "run, consumer_group, topic, broker, queue_id"
MEMBER_QUEUE: Final = f"{GROUP_QUEUE}, process, client_id"


def of(alias: str, columns: str) -> str:
    """The same columns, of one side of a join."""
    return ", ".join(f"{alias}.{column}" for column in columns.split(", "))


def same(left: str, right: str, columns: str) -> str:
    """The condition that both sides of a join agree on columns."""
    names = columns.split(", ")
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in names)


_COMPUTED: Final = ("event", "tenured", "ownership")

_VIEWS: Final[Mapping[str, str]] = {
    # `seek`: the member told itself from where it reads on, as its user bade it.
    "event": """
        SELECT *, `group` AS consumer_group,
            kind = 'query_offset' AND coalesce(peer = client_id, false) AS seek,
            coalesce(message_key,
                     concat_ws('/', topic, broker, queue_id, queue_offset, coalesce(store_epoch, 0))
            ) AS message
        FROM {raw}
    """,
    # What members did at queues that they had been assigned. `tenure` counts a member's
    # assignments of the queue, from 1; one that asks where to begin just before it is assigned
    # the queue asks for that assignment. A seek begins a tenure as well, which is `sought`; the
    # member may repeat its `former` commit, of the tenure before, until it commits anew.
    "tenured": f"""
        SELECT *, sought AND kind = 'commit' AND value = committed AND value > reached AS former
        FROM (
            SELECT *, bool_or(seek) OVER in_tenure AS sought,
                max(CASE kind WHEN 'receive' THEN queue_offset + 1
                    WHEN 'query_offset' THEN value END) OVER in_tenure AS reached
            FROM (
                SELECT *, count_if(kind = 'assign' OR seek) OVER so_far + int(early) AS tenure,
                    lag(if(kind = 'commit', value, NULL)) IGNORE NULLS OVER so_far AS committed
                FROM (
                    SELECT *, kind = 'query_offset' AND NOT seek
                        AND lead(kind, 1, '') OVER so_far = 'assign'
                        AND lag(kind, 1, '') OVER so_far != 'assign' AS early
                    FROM {{event}}
                    WHERE kind IN ('assign', 'revoke', 'receive', 'ack', 'commit', 'query_offset')
                        AND (outcome IN ('ok', 'unknown') OR outcome = 'failed' AND kind = 'ack')
                        AND consumer_group IS NOT NULL AND client_id IS NOT NULL
                        AND topic IS NOT NULL AND broker IS NOT NULL AND queue_id IS NOT NULL
                    WINDOW so_far AS (PARTITION BY {MEMBER_QUEUE} ORDER BY seq))
                WINDOW so_far AS (PARTITION BY {MEMBER_QUEUE} ORDER BY seq))
            WHERE tenure > 0
            WINDOW in_tenure AS (PARTITION BY {MEMBER_QUEUE}, tenure ORDER BY seq))
    """,
    # Messages that a broker said it had stored, with their places.
    "stored": """
        SELECT run, process, seq, topic, broker, queue_id, queue_offset, store_epoch, tag, message
        FROM {event}
        WHERE kind = 'send' AND outcome = 'ok' AND queue_offset IS NOT NULL
    """,
    # What the members of each group want of a topic: the expressions of their subscriptions.
    "wanted": """
        SELECT run, consumer_group, topic,
            collect_set(coalesce(nullif(trim(tag), ''), '*')) AS expressions
        FROM {event} WHERE kind = 'subscribe'
        GROUP BY run, consumer_group, topic
    """,
    # Crashes and restarts of brokers, and what each brought about.
    "broker_event": """
        SELECT run, process, seq, time_ns, kind, peer AS broker
        FROM {event} WHERE kind IN ('crash', 'restart') AND client_id IS NULL
    """,
    # Groups of which the history does not hold everything: rows of the run are missing, or a
    # member joined that recorded nothing else.
    "incomplete": """
        SELECT run, consumer_group FROM {tenured} LEFT SEMI JOIN {torn} USING (run)
        UNION
        SELECT run, consumer_group FROM {event}
        WHERE consumer_group IS NOT NULL AND client_id IS NOT NULL
        GROUP BY run, consumer_group, client_id
        HAVING count_if(kind = 'join') > 0
            AND count_if(kind NOT IN ('join', 'leave', 'crash', 'restart')) = 0
    """,
    # Changes of who owns a queue: `delta` is 1 or -1. Whoever leaves or crashes owns nothing.
    "owner_change": f"""
        SELECT * FROM (
            SELECT *, int(owns) - lag(int(owns), 1, 0) OVER (
                PARTITION BY {MEMBER_QUEUE} ORDER BY seq) AS delta
            FROM (
                SELECT {MEMBER_QUEUE}, seq, time_ns, kind = 'assign' AS owns
                FROM {{tenured}} WHERE kind IN ('assign', 'revoke')
                UNION ALL
                SELECT {of("m", MEMBER_QUEUE)},
                    e.seq, e.time_ns, false
                FROM (SELECT DISTINCT {MEMBER_QUEUE} FROM {{tenured}}) m
                JOIN {{event}} e ON e.run = m.run AND e.process = m.process
                    AND e.client_id = m.client_id AND e.kind IN ('leave', 'crash')
                    AND coalesce(e.consumer_group, m.consumer_group) = m.consumer_group))
        WHERE delta != 0
    """,
    # Changes of a group's members, likewise. A member that owns a queue has joined.
    "member_change": """
        SELECT * FROM (
            SELECT *, int(joined) - lag(int(joined), 1, 0) OVER (
                PARTITION BY run, process, consumer_group, client_id ORDER BY seq) AS delta
            FROM (
                SELECT run, process, consumer_group, client_id, seq, time_ns, true AS joined
                FROM {event}
                WHERE kind IN ('join', 'assign') AND outcome = 'ok' AND client_id IS NOT NULL
                UNION ALL
                SELECT m.run, m.process, m.consumer_group, m.client_id, e.seq, e.time_ns, false
                FROM (SELECT DISTINCT run, process, consumer_group, client_id FROM {event}
                      WHERE kind IN ('join', 'assign') AND client_id IS NOT NULL) m
                JOIN {event} e ON e.run = m.run AND e.process = m.process
                    AND e.client_id = m.client_id AND e.kind IN ('leave', 'crash')
                    AND coalesce(e.consumer_group, m.consumer_group) = m.consumer_group))
        WHERE delta != 0
    """,
    # Stretches of time, a row a queue: how many owned it from event `seq` on, while the group
    # had members. `closing`: the last stretch before something changed for the group, or before
    # the recording ended. `calm_ns`: how long nothing had changed at its end. `sharing`: how many
    # are to share the topic, as they subscribed to it. Who subscribed to other topics only is no
    # member here; who subscribed to none, as one whose user assigns it queues, may be one.
    "ownership": f"""
        WITH group_topic AS (
            SELECT DISTINCT run, consumer_group, topic, process FROM {{tenured}}),
        subscribed AS (
            SELECT run, process, consumer_group, client_id, collect_set(topic) AS topics
            FROM {{event}} WHERE kind = 'subscribe'
            GROUP BY run, process, consumer_group, client_id),
        queue AS (
            SELECT {GROUP_QUEUE}, process FROM {{tenured}}
            UNION
            SELECT {GROUP_QUEUE}, g.process
            FROM {{stored}} JOIN group_topic g USING (run, topic)),
        change AS (
            SELECT {GROUP_QUEUE}, process, seq, time_ns,
                delta AS owners, 0 AS members, 0 AS sharing, false AS disturbed
            FROM {{owner_change}}
            UNION ALL
            SELECT {GROUP_QUEUE}, process, seq, time_ns, 0,
                if(topics IS NULL OR to_share, delta, 0), if(to_share, delta, 0), true
            FROM (
                SELECT *, array_contains(topics, topic)
                    OR topics IS NOT NULL AND startswith(topic, '%RETRY%') AS to_share
                FROM queue JOIN {{member_change}} USING (run, process, consumer_group)
                LEFT JOIN subscribed USING (run, process, consumer_group, client_id))
            UNION ALL
            SELECT {GROUP_QUEUE}, process, seq, time_ns, 0, 0, 0, true
            FROM queue JOIN {{broker_event}} USING (run, process, broker)
            UNION ALL
            SELECT {GROUP_QUEUE}, process, seq, time_ns, 0, 0, 0, true
            FROM queue JOIN (
                SELECT run, process, consumer_group, topic, seq, time_ns
                FROM {{event}} WHERE kind = 'subscribe')
            USING (run, process, consumer_group, topic)
            UNION ALL
            SELECT {GROUP_QUEUE}, process, seq, time_ns, 0, 0, 0, true
            FROM queue JOIN (
                SELECT run, process, max(seq) + 1 AS seq, max_by(time_ns, seq) AS time_ns
                FROM {{event}} GROUP BY run, process)
            USING (run, process)),
        moment AS (
            SELECT {GROUP_QUEUE}, process, seq, min(time_ns) AS time_ns,
                sum(owners) AS owners, sum(members) AS members, sum(sharing) AS sharing,
                bool_or(disturbed) AS disturbed
            FROM change GROUP BY {GROUP_QUEUE}, process, seq)
        SELECT {GROUP_QUEUE}, process, seq, owners, sharing, closing,
            until_ns - disturbed_ns AS calm_ns
        FROM (
            SELECT {GROUP_QUEUE}, process, seq,
                sum(owners) OVER so_far AS owners,
                sum(members) OVER so_far AS members,
                sum(sharing) OVER so_far AS sharing,
                last_value(CASE WHEN disturbed THEN time_ns END) IGNORE NULLS OVER so_far
                    AS disturbed_ns,
                lead(time_ns) OVER so_far AS until_ns,
                lead(disturbed) OVER so_far AS closing
            FROM moment
            WINDOW so_far AS (PARTITION BY {GROUP_QUEUE}, process ORDER BY seq))
        WHERE until_ns IS NOT NULL AND (members > 0 OR owners > 0)
    """,
    # Groups whose members are recorded by more than one process: what one of them recorded
    # does not show that nobody owned a queue.
    "scattered": """
        SELECT run, consumer_group FROM {tenured}
        GROUP BY run, consumer_group HAVING count(DISTINCT process) > 1
    """,
    # Pairs of holds of one queue, recorded by two processes, and what `cause` says of them.
    # `calm_ns`: by its own clock no moment of one of the holds was so long after the last change.
    "cross_hold": f"""
        WITH span AS (
            SELECT {MEMBER_QUEUE}, seq AS since, until FROM (
                SELECT *, lead(seq, 1, {2**62}) OVER (
                    PARTITION BY {MEMBER_QUEUE} ORDER BY seq) AS until
                FROM {{owner_change}})
            WHERE delta > 0),
        hold AS (
            SELECT {of("s", MEMBER_QUEUE)}, s.since, s.until, max(o.calm_ns) AS calm_ns
            FROM span s LEFT JOIN {{ownership}} o ON {same("s", "o", f"{GROUP_QUEUE}, process")}
                AND o.seq >= s.since AND o.seq < s.until
            GROUP BY {of("s", MEMBER_QUEUE)}, s.since, s.until),
        edge AS (
            SELECT run, source, source_seq, process AS target, seq AS target_seq,
                least(source, process) AS low, greatest(source, process) AS high
            FROM (
                SELECT run, process, seq, regexp_extract(cause, '(.*)/(.*)', 1) AS source,
                    bigint(regexp_extract(cause, '(.*)/(.*)', 2)) AS source_seq
                FROM {{event}} WHERE cause IS NOT NULL))
        SELECT {of("a", MEMBER_QUEUE)}, a.since AS seq,
            bool_or(e.source = a.process AND e.source_seq >= a.until AND e.target_seq <= b.since
                OR e.source = b.process AND e.source_seq >= b.until AND e.target_seq <= a.since)
                AS apart,
            bool_or(e.source = a.process AND e.source_seq >= a.since AND e.target_seq <= b.until)
            AND bool_or(
                e.source = b.process AND e.source_seq >= b.since AND e.target_seq <= a.until)
                AS together,
            least(first(a.calm_ns), first(b.calm_ns)) AS calm_ns
        FROM hold a
        JOIN hold b ON {same("a", "b", GROUP_QUEUE)} AND a.process < b.process
        LEFT JOIN edge e ON e.run = a.run AND e.low = a.process AND e.high = b.process
        GROUP BY {of("a", MEMBER_QUEUE)}, a.since, b.process, b.client_id, b.since
    """,
}
