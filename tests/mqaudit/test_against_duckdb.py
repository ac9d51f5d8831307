"""DuckDB agrees on the counts: its queries are written apart from those of the checks.

The history is generated: many runs, each with queues that change hands, and with anomalies
strewn into them at random from a fixed seed.
"""

from __future__ import annotations

import random
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from handmade import Recorder, table
from pyspark.sql import SparkSession

from mqaudit import AuditReport, audit
from mqaudit.check import Check
from mqaudit.history_checks import (
    LOST,
    NEVER_DELIVERED,
    NO_OWNER,
    OUT_OF_ORDER,
    REPEATED,
    TWO_OWNERS,
    WENT_BACK,
)

RUNS, QUEUES, TENURES, MESSAGES = 40, 4, 5, 40


def a_run(name: str, chance: random.Random) -> Recorder:
    r = Recorder(run=name)
    for client in "ab":
        r.member("join", client)
    for client in "ab":
        r.member("subscribe", client, topic="T")
    for queue in range(QUEUES):
        committed = 0
        for tenure in range(TENURES):
            owner, other = "ab"[tenure % 2], "ab"[(tenure + 1) % 2]
            handover = chance.choice(["overlap", "gap"]) if tenure else "gap"
            if handover == "gap" and tenure:
                r.at("revoke", other, queue)
            r.own(owner, committed, queue)
            if handover == "overlap":
                r.at("revoke", other, queue)
            committed = a_tenure(r, owner, queue, committed, chance)
    return r


def a_tenure(r: Recorder, owner: str, queue: int, start: int, chance: random.Random) -> int:
    """A member's work at a queue. Returns how far its commits came: not always to the end."""
    end = start + MESSAGES
    known = {event.queue_offset for event in r.events if event.queue_id == queue}
    for offset in range(start, end):
        if offset not in known:
            r.send(offset, queue)
    offsets = [offset for offset in range(start, end) if chance.random() > 0.01]
    for i in range(len(offsets) - 1):
        if chance.random() < 0.02:
            offsets[i], offsets[i + 1] = offsets[i + 1], offsets[i]
    committed = start
    for offset in offsets:
        r.receive(owner, offset, queue)
        if chance.random() < 0.01:
            r.receive(owner, offset, queue)
        if chance.random() < 0.2:
            committed = max(committed, offset + 1)
            r.commit(owner, committed, queue)
    if chance.random() < 0.1:
        r.commit(owner, max(committed - 1, 0), queue)
        committed = max(committed - 1, 0)
    elif chance.random() < 0.1:
        committed = end + 1
        r.commit(owner, committed, queue)
    return min(committed, end)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chance = random.Random(3)
    events = [e for i in range(RUNS) for e in a_run(f"run-{i}", chance).events]
    path = tmp_path_factory.mktemp("generated") / "history.parquet"
    pq.write_table(table(events), path)
    return path


@pytest.fixture(scope="module")
def report(spark: SparkSession, history: Path) -> AuditReport:
    return audit(spark, str(history)).report


@pytest.fixture(scope="module")
def oracle(history: Path) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(
        f"""
        CREATE TABLE e AS SELECT *, count(*) FILTER (kind = 'assign') OVER (
            PARTITION BY run, client_id, queue_id ORDER BY seq) AS hold
        FROM '{history}'
        """
    )
    return connection


# A message that was stored where its owner read, and had not been received by anyone.
PAST_A_GAP = """EXISTS (
    FROM e AS begun, e AS sent LEFT JOIN (
        SELECT run, queue_id, queue_offset, min(seq) AS at
        FROM e WHERE kind = 'receive' GROUP BY ALL) AS got USING (run, queue_id, queue_offset)
    WHERE begun.kind = 'query_offset' AND begun.run = done.run AND begun.hold = done.hold
        AND begun.client_id = done.client_id AND begun.queue_id = done.queue_id
        AND sent.kind = 'send' AND sent.outcome = 'ok'
        AND sent.run = done.run AND sent.queue_id = done.queue_id
        AND sent.queue_offset >= begun.value AND sent.queue_offset < done.value
        AND coalesce(got.at, done.seq + 1) > done.seq)"""

ORACLES: list[tuple[Check, str | None, str]] = [
    (
        LOST,
        "lost",
        """
        SELECT count(*) FROM e AS sent
        JOIN (SELECT run, queue_id, max(value) AS reach FROM e GROUP BY ALL) USING (run, queue_id)
        WHERE kind = 'send' AND outcome = 'ok' AND queue_offset < reach
            AND (run, message_key) NOT IN (SELECT (run, message_key) FROM e WHERE kind = 'receive')
    """,
    ),
    (
        REPEATED,
        None,
        """
        SELECT count(*) - count(DISTINCT (run, message_key)) FROM e WHERE kind = 'receive'
    """,
    ),
    (
        REPEATED,
        "again",
        """
        SELECT count(*) - count(DISTINCT (run, client_id, hold, message_key))
        FROM e WHERE kind = 'receive'
    """,
    ),
    (
        OUT_OF_ORDER,
        "behind",
        """
        WITH first AS (
            SELECT run, client_id, queue_id, hold, queue_offset, min(seq) AS seq
            FROM e WHERE kind = 'receive' GROUP BY ALL)
        SELECT count(*) FROM first AS late WHERE EXISTS (
            FROM first AS before WHERE before.run = late.run AND before.client_id = late.client_id
                AND before.queue_id = late.queue_id AND before.hold = late.hold
                AND before.seq < late.seq AND before.queue_offset > late.queue_offset)
    """,
    ),
    (
        NEVER_DELIVERED,
        "skipped",
        f"""
        SELECT count(*) FROM e AS done WHERE kind = 'commit' AND {PAST_A_GAP}
    """,
    ),
    (
        NEVER_DELIVERED,
        "beyond",
        f"""
        SELECT count(*) FROM e AS done WHERE kind = 'commit' AND NOT {PAST_A_GAP} AND NOT EXISTS (
            FROM e AS before WHERE before.run = done.run AND before.queue_id = done.queue_id
                AND before.seq < done.seq
                AND (before.kind = 'receive' AND before.queue_offset + 1 >= done.value
                    OR before.kind = 'query_offset' AND before.value >= done.value))
    """,
    ),
    (
        WENT_BACK,
        "back",
        """
        SELECT count(*) FROM e AS done WHERE kind = 'commit' AND EXISTS (
            FROM e AS before WHERE before.kind = 'commit' AND before.run = done.run
                AND before.client_id = done.client_id AND before.queue_id = done.queue_id
                AND before.hold = done.hold
                AND before.seq < done.seq AND before.value > done.value)
    """,
    ),
    (
        TWO_OWNERS,
        None,
        """
        SELECT count(*) FROM e AS taken WHERE kind = 'assign' AND 0 < (
            SELECT count(*) FILTER (kind = 'assign') - count(*) FILTER (kind = 'revoke')
            FROM e AS other WHERE other.run = taken.run AND other.queue_id = taken.queue_id
                AND other.client_id != taken.client_id AND other.seq < taken.seq)
    """,
    ),
    # A queue is without an owner at first, until each member has joined and subscribed, and in
    # every gap.
    (
        NO_OWNER,
        None,
        """
        SELECT 4 * count(DISTINCT (run, queue_id)) + count(*) FILTER (owners = 0)
        FROM (
            SELECT *, sum(CASE kind WHEN 'assign' THEN 1 ELSE -1 END) OVER (
                PARTITION BY run, queue_id ORDER BY seq) AS owners
            FROM e WHERE kind IN ('assign', 'revoke'))
    """,
    ),
]


@pytest.mark.parametrize(
    ("check", "outcome", "query"),
    ORACLES,
    ids=[f"{c.name}, {how or 'all'}" for c, how, _ in ORACLES],
)
def test_duckdb_agrees(
    report: AuditReport,
    oracle: duckdb.DuckDBPyConnection,
    check: Check,
    outcome: str | None,
    query: str,
) -> None:
    (row,) = oracle.execute(query).fetchall()
    (checked,) = (c for c in report.checks if c.name == check.name)
    why = check.outcomes[outcome].why if outcome else None
    assert sum(f.count for f in checked.findings if why in (None, f.why)) == row[0] > 0
