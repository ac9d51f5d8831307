"""Anomalies at the front, in the middle and at the end of a history in which nothing is amiss.

Each is one of the runs made by hand, with names of its own. The audit finds these, at their
places, and nothing else; DuckDB counts as many by queries written apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import histories
import pytest
import test_history_checks as made
from handmade import Recorder
from pyspark.sql import SparkSession

from mqaudit import AuditReport, audit
from mqaudit.check import Check
from mqaudit.history_checks import HISTORY_CHECKS, LOST
from mqaudit.report import Judgement
from mqrules import Event

ROUNDS = 4
SHAPE = histories.Shape(messages=25_000, queues=16, members=4, round=25_000 // ROUNDS)
PLACES = (0, ROUNDS // 2, ROUNDS)

PLANTED: tuple[made.Case, ...] = (
    made.lost,
    made.received_but_not_consumed,
    made.passed_by_a_commit_that_a_tool_saw,
    made.passed_by_a_commit_behind_which_the_next_owner_began,
    made.repeated_though_committed,
    made.repeated_from_below_the_start,
    made.repeated_to_its_owner,
    made.stored_again,
    made.out_of_order,
    made.commit_beyond,
    made.commit_went_back,
    made.two_owners_for_good,
    made.no_owner_for_good,
    made.two_of_one_id,
    made.more_without_an_owner_than_one_id_leaves,
    made.unequal_views,
    made.committed_after_it_was_taken_away,
    made.delivered_against_its_own_subscription,
    made.locked_by_two,
    made.a_lock_that_is_stuck,
    made.one_offset_for_two,
    made.an_offset_left_out,
    made.received_before_it_was_sent,
    made.delivered_though_refused,
    made.transactions,
    made.delayed,
)


@dataclass
class Planted:
    """A history and where an anomaly was planted: (check, outcome, position)."""

    path: Path
    events: int
    expected: set[tuple[str, str, int]]


def renamed(event: Event, name: str) -> Event:
    """The same event, of a group, topic, broker, members and messages of their own."""
    return replace(
        event,
        topic=event.topic and f"{event.topic}-{name}",
        broker=event.broker and f"{event.broker}-{name}",
        group=event.group and f"{event.group}-{name}",
        client_id=event.client_id and f"{name}-{event.client_id}",
        message_key=event.message_key and f"{event.message_key}-{name}",
    )


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return plant(tmp_path_factory.mktemp("planted") / "history.parquet", SHAPE, PLACES)


def plant(path: Path, shape: histories.Shape, places: tuple[int, ...]) -> Planted:
    """Write a history with all anomalies before the rounds of some numbers."""
    strewn: dict[int, list[Event]] = {}
    marks: dict[int, list[tuple[Check, str, int]]] = {}
    for round_ in places:
        strewn[round_], marks[round_] = [], []
        for case in PLANTED:
            recorder = Recorder()
            found = case(recorder)
            before = len(strewn[round_])
            last_ns = max((event.time_ns for event in strewn[round_]), default=0)
            marks[round_] += [(check, how, before + event.seq) for check, how, event in found]
            strewn[round_] += [
                renamed(
                    replace(event, time_ns=event.time_ns + last_ns), f"{case.__name__}-{round_}"
                )
                for event in recorder.events
            ]
    events = histories.write(path, shape, strewn)
    starts = starts_of(path, strewn)
    expected = {
        (check.name, check.outcomes[how].why, starts[round_] + at)
        for round_, found in marks.items()
        for check, how, at in found
    }
    return Planted(path, events, expected)


def starts_of(path: Path, strewn: dict[int, list[Event]]) -> dict[int, int]:
    """The position of the first event of each place, told by its group's or topic's name."""
    connection = duckdb.connect()
    return {
        round_: connection.execute(
            f"SELECT min(seq) FROM '{path}' WHERE topic LIKE ?", [f"%-{round_}"]
        ).fetchall()[0][0]
        for round_ in strewn
    }


@pytest.fixture(scope="module")
def report(spark: SparkSession, planted: Planted) -> AuditReport:
    return audit(spark, str(planted.path), examples=10_000).report


def test_what_was_planted_is_found_and_nothing_else(report: AuditReport, planted: Planted) -> None:
    assert report.coverage["events"] == planted.events > 100_000
    found = {
        (check.name, finding.why, place["seq"])
        for check in report.checks
        for finding in check.findings
        for place in finding.examples
    }
    assert {one for one in found if not is_of_the_clean_part(one)} == planted.expected
    rest = {one for one in found if is_of_the_clean_part(one)}
    assert {why for _, why, _ in rest} <= {"no owner while the group rebalanced"}


def is_of_the_clean_part(found: tuple[str, str, str | int]) -> bool:
    """While its members join the clean group has queues without an owner, which is no anomaly."""
    name, _, seq = found
    return name == "no owner" and int(seq) < 2 * SHAPE.members + SHAPE.queues


@pytest.mark.parametrize("check", HISTORY_CHECKS, ids=lambda check: check.name)
def test_each_check_has_something_planted(planted: Planted, check: Check) -> None:
    violated = {
        outcome.why
        for outcome in check.outcomes.values()
        if outcome.judgement is Judgement.VIOLATED
    }
    planted_whys = {why for name, why, _ in planted.expected if name == check.name}
    assert violated <= planted_whys


ORACLES = {
    "lost": """
        SELECT count(*) FROM e AS sent
        JOIN (SELECT topic, queue_id, max(value) AS reach FROM e
              WHERE kind IN ('commit', 'query_offset') GROUP BY ALL) USING (topic, queue_id)
        WHERE kind = 'send' AND outcome = 'ok' AND queue_offset < reach
            AND tag IS NULL AND message_key NOT IN (
                SELECT message_key FROM e WHERE kind = 'ack' OR kind = 'receive' AND client_id NOT
                IN (SELECT client_id FROM e WHERE kind = 'ack'))
    """,
    "committed after it was taken away": """
        SELECT count(*) FROM (
            SELECT kind, last_value(CASE WHEN kind IN ('assign', 'revoke') THEN kind END
                IGNORE NULLS) OVER (PARTITION BY client_id, topic, queue_id ORDER BY seq) AS state
            FROM e) WHERE kind = 'commit' AND state = 'revoke'
    """,
    "unequal views": """
        SELECT count(*) FROM e AS one JOIN e AS other USING ("group")
        WHERE one.kind = 'view' AND other.kind = 'view' AND other.seq > one.seq
            AND one.client_id != other.client_id AND one.tag != other.tag
    """,
    "equal client ids": """
        SELECT count(*) FROM e AS second WHERE kind = 'assign' AND client_id LIKE '% #2'
            AND EXISTS (FROM e AS first WHERE kind = 'assign' AND first.seq < second.seq
                AND first.client_id = replace(second.client_id, ' #2', ''))
    """,
    "not subscribed": """
        SELECT count(*) FROM e AS got JOIN e AS wants USING (client_id, topic)
        WHERE got.kind = 'receive' AND wants.kind = 'subscribe' AND wants.tag != '*'
            AND NOT EXISTS (FROM e AS sent WHERE sent.kind = 'send' AND sent.outcome = 'ok'
                AND sent.message_key = got.message_key AND contains(wants.tag, sent.tag))
    """,
    "locked twice": """
        SELECT count(*) FROM (
            SELECT *, lag(client_id) OVER w AS holder, lag(seq) OVER w AS since,
                lag(time_ns) OVER w AS got_ns FROM e
            WHERE kind = 'lock' AND outcome = 'ok'
            WINDOW w AS (PARTITION BY topic, queue_id ORDER BY seq)) AS lock
        WHERE holder != client_id AND time_ns - got_ns < 60 * 10**9 AND NOT EXISTS (
            FROM e AS free WHERE free.kind = 'unlock' AND free.topic = lock.topic
                AND free.client_id = lock.holder AND free.seq BETWEEN since AND lock.seq)
    """,
    "lock kept": """
        SELECT count(*) FROM e AS refused WHERE kind = 'lock' AND outcome = 'failed'
            AND refused.time_ns - (SELECT max(time_ns) FROM e AS got WHERE got.kind = 'lock'
                AND got.outcome = 'ok' AND got.topic = refused.topic AND got.seq < refused.seq)
                > 70 * 10**9
    """,
    "one offset, two messages": """
        SELECT sum(n - 1) FROM (
            SELECT count(DISTINCT message_key) AS n FROM e
            WHERE kind = 'send' AND outcome = 'ok' AND queue_offset IS NOT NULL
            GROUP BY topic, queue_id, queue_offset)
    """,
    "offsets left out": """
        SELECT count(*) FROM (
            SELECT *, queue_offset - lag(queue_offset) OVER (
                PARTITION BY topic, queue_id ORDER BY queue_offset) AS step
            FROM (SELECT DISTINCT topic, queue_id, queue_offset FROM e
                WHERE queue_offset IS NOT NULL)) AS place
        WHERE step > 1 AND EXISTS (FROM e AS sent WHERE sent.kind = 'send' AND sent.outcome = 'ok'
            AND sent.topic = place.topic AND sent.queue_id = place.queue_id
            AND sent.queue_offset = place.queue_offset)
    """,
    "received before it was sent": """
        SELECT count(*) FROM (
            SELECT message_key, min(seq) FILTER (kind = 'receive') AS came,
                min(seq) FILTER (kind = 'send' AND outcome = 'invoked') AS sent
            FROM e GROUP BY message_key) WHERE came < sent
    """,
    "rolled back, and delivered": """
        SELECT count(*) FROM e AS got WHERE kind = 'receive'
            AND EXISTS (FROM e AS o WHERE o.kind = 'rollback' AND o.outcome != 'failed'
                AND o.message_key = got.message_key)
            AND NOT EXISTS (FROM e AS o WHERE o.kind = 'publish'
                AND o.message_key = got.message_key)
    """,
    "delayed": """
        SELECT count(*) FROM e AS came JOIN e AS sent USING (message_key)
        WHERE came.kind = 'receive' AND sent.kind = 'send' AND sent.outcome = 'invoked'
            AND came.time_ns < sent.time_ns + sent.value * 1000000
    """,
    "refused, and delivered": """
        SELECT count(DISTINCT message_key) FROM e AS got WHERE kind = 'receive' AND EXISTS (
            FROM e AS sent WHERE sent.message_key = got.message_key AND sent.kind = 'send'
                AND sent.outcome = 'failed')
    """,
}


@pytest.mark.parametrize("name", ORACLES)
def test_duckdb_counts_as_many(report: AuditReport, planted: Planted, name: str) -> None:
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW e AS FROM '{planted.path}'")
    (row,) = connection.execute(ORACLES[name]).fetchall()
    (check,) = (check for check in report.checks if check.name == name)
    what = (Judgement.VIOLATED,) if check.can_violate else (Judgement.PERMITTED,)
    decided = check.count(*what, Judgement.UNDECIDABLE)
    assert decided == row[0] > 0


def test_a_clean_history_shows_nothing(report: AuditReport) -> None:
    """Most of it was examined, and held."""
    (lost,) = (check for check in report.checks if check.name == LOST.name)
    assert lost.held >= SHAPE.messages
