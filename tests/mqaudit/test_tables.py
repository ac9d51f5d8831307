"""The tables on the way: each by itself, written, and under a check of a user's own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from handmade import Recorder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from mqaudit import Audit, Check, Judgement, Outcome, OwnCheck, Tables, audit

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "audit.md"


def recorded() -> Recorder:
    """Three messages; the second is lost, the third waits; and two owners for a moment."""
    r = Recorder()
    for offset in range(3):
        r.send(offset)
    r.own("a", 0)
    r.receive("a", 0)
    r.at("ack", "a", queue_offset=0, message_key="0-0")
    r.at("assign", "b")
    r.at("revoke", "a")
    r.commit("b", 2)
    return r


def slow(tables: Tables) -> DataFrame:
    """Commits that leave more than a message behind, and those that do not."""
    is_behind = F.when(F.col("backlog") > 1, "behind").otherwise("near")
    return tables.progress.where("kind = 'commit'").withColumn("outcome", is_behind)


SLOW = OwnCheck(
    Check(
        name="behind",
        about="commits that leave messages behind",
        promise="OFFSET-007",
        places=("run", "process", "seq", "queue_id"),
        outcomes={
            "near": Outcome(Judgement.HELD, "little is left"),
            "behind": Outcome(Judgement.VIOLATED, "much is left"),
        },
    ),
    slow,
)


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audit:
    directory = tmp_path_factory.mktemp("run")
    recorded().save(directory / "run.jsonl")
    return audit(spark, str(directory), own=[SLOW])


def rows(frame: DataFrame, *columns: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.select(*columns).orderBy(*columns).collect()]


def tables_of(audited: Audit) -> Tables:
    assert audited.tables is not None
    return audited.tables


def test_events(audited: Audit) -> None:
    """Every row, and the name of its message."""
    events = tables_of(audited).events
    assert events.count() == len(recorded().events)
    assert rows(events.where("kind = 'receive'"), "consumer_group", "message") == [("G", "0-0")]


def test_owners(audited: Audit) -> None:
    columns = ("seq", "owners", "sharing", "calm_ns")
    assert rows(tables_of(audited).owners, *columns) == [
        (6, 1, 0, 4 * 10**9),
        (10, 2, 0, 10**9),
        (11, 1, 0, 2 * 10**9),
    ]


def test_progress(audited: Audit) -> None:
    columns = ("seq", "kind", "client_id", "offset", "end", "backlog")
    assert rows(tables_of(audited).progress, *columns) == [
        (7, "query_offset", "a", 0, 3, 3),
        (12, "commit", "b", 2, 3, 1),
    ]


def test_deliveries(audited: Audit) -> None:
    columns = ("message", "attempt", "queue_offset", "client_id", "handled", "unsaid")
    assert rows(tables_of(audited).deliveries, *columns) == [("0-0", 0, 0, "a", True, False)]


def test_findings(audited: Audit) -> None:
    """As many as the report has, each with its meaning."""
    findings = tables_of(audited).findings
    report = audited.report
    assert findings.count() == sum(
        finding.count
        for check in report.checks
        for finding in check.findings
        if check.name != SLOW.check.name
    )
    (lost,) = rows(findings.where("outcome = 'lost'"), "judgement", "rule", "message")
    assert lost == ("violated", "OFFSET-001", "0-1")


def test_a_check_of_the_user_s_own(audited: Audit) -> None:
    (check,) = (check for check in audited.report.checks if check.name == "behind")
    assert (check.examined, check.held, check.findings) == (1, 1, ())


def test_the_page_has_a_check_of_the_user_s_own_in_twenty_lines(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As it stands there, over two commits: one leaves 1,001 messages behind, the other 2."""
    recorder = Recorder()
    for offset in range(1002):
        recorder.send(offset)
    recorder.own("a", 0)
    for value in (1, 1000):
        recorder.commit("a", value)
    recorder.save(tmp_path / "run.jsonl")

    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (block for block in blocks if "OwnCheck" in block)
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 20
    assert '"s3a://runs"' in code
    names: dict[str, Any] = {"spark": spark}
    exec(code.replace('"s3a://runs"', repr(str(tmp_path))), names)

    (check,) = (check for check in names["report"].checks if check.name == "behind")
    (behind,) = check.findings
    assert (check.examined, check.held, behind.count) == (2, 1, 1)
    assert (behind.judgement, behind.first["seq"]) == (Judgement.VIOLATED, recorder.events[-2].seq)


def test_written_and_read_again(audited: Audit, tmp_path: Path) -> None:
    """Partitioned, in Parquet that anything reads."""
    tables = tables_of(audited)
    tables.write(str(tmp_path))
    for name in ("events", "owners", "progress", "deliveries"):
        assert pq.read_table(tmp_path / name / "run=run").num_rows == getattr(tables, name).count()
    assert (tmp_path / "findings" / "check=lost").is_dir()
