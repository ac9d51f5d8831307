"""A store, its traces and the logs of broker and clients together, and what each decides."""

from __future__ import annotations

import argparse
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from recorded_cluster import CONTEXT_ENDS, FIELD_ENDS, rewrite_traces, unpacked

from mqaudit import CheckReport, Judgement, audit, command
from mqaudit.kept import judging
from mqaudit.kept.log_source import logs_below
from mqaudit.store import register
from mqrules import UserError

SOURCES = {
    "lost": ["store", "message trace"],
    "repeated": ["store", "message trace"],
    "committed, never delivered": ["store", "message trace", "client log"],
    "went back": ["client log"],
    "two owners": ["client log"],
    "no owner": ["client log"],
    "equal client ids": ["client log"],
    "committed after it was taken away": ["client log"],
    "not subscribed": ["store", "message trace", "broker log"],
    "one offset, two messages": ["store"],
    "rolled back, and delivered": ["message trace"],
}


def judged(
    spark: SparkSession, folder: Path, one_clock: bool = True, examples: int = 0
) -> tuple[judging.Kept, dict[str, CheckReport]]:
    register(spark)
    logs = [str(file) for file in logs_below([str(folder / "logs")])]
    kept = judging.kept(spark, [str(folder / "store")], logs, one_clock)
    assert kept is not None
    _, reports = judging.reports(kept, examples)
    return kept, {report.name: report for report in reports}


def edit(log: Path, old: str, new: str, count: int = 1) -> None:
    """Change so many lines of a log, each of which holds a text."""
    text = log.read_text(encoding="utf-8")
    assert text.count(old) >= count, old
    log.write_text(text.replace(old, new, count), encoding="utf-8")


@pytest.mark.usefixtures("shared_session")
def test_a_real_run_is_clean_from_all_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three members on one machine: one joined, one left, one was killed."""
    folder = unpacked(tmp_path)
    parser = argparse.ArgumentParser()
    command.configure(parser)
    words = [str(folder / "store"), str(folder / "logs"), "--one-clock", "--json"]
    assert command.run(parser.parse_args(words)) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    checks = {check["name"]: check for check in report["checks"]}

    assert report["unread"] == []
    assert {name: checks[name]["sources"] for name in SOURCES} == SOURCES
    assert not [f for c in report["checks"] for f in c["findings"] if f["judgement"] == "violated"]
    for name in ("lost", "two owners", "went back", "committed after it was taken away"):
        assert checks[name]["held"] == checks[name]["examined"] > 0, name

    # As members came and went, queues were without an owner for a while.
    (gap,) = checks["no owner"]["findings"]
    assert (gap["judgement"], gap["rule"]) == ("permitted", "REBAL-003")
    # What the killed member had got came again: its commits on the way nobody logs.
    (again,) = checks["repeated"]["findings"]
    assert (again["judgement"], again["count"]) == ("undecidable", 1)
    assert again["why"].endswith("no source here tells each commit")


def test_clocks_are_not_compared_unless_they_are_one(spark: SparkSession, tmp_path: Path) -> None:
    _, apart = judged(spark, unpacked(tmp_path), one_clock=False)
    findings = {f.why: f.judgement for f in apart["two owners"].findings}
    assert findings == {
        "owners recorded by two processes, in no known order": Judgement.UNDECIDABLE
    }
    assert not any(report.count(Judgement.VIOLATED) for report in apart.values())


def test_planted_anomalies_are_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    """A queue that its member keeps as another gets it, and a message lost.

    The member that was killed leaves instead, so that no trace is missing of necessity.
    """
    folder = unpacked(tmp_path)
    logs = folder / "logs"
    second = logs / "second" / "rocketmq_client.log"
    kept_queue = "MessageQueue [topic=Traced, brokerName=broker-a, queueId=2]"
    edit(
        logs / "first" / "rocketmq_client.log",
        f"doRebalance, TracedGroup, remove unnecessary mq, {kept_queue}",
        "nothing",
    )
    edit(logs / "broker" / "broker.log", "NETTY EVENT: remove not active channel", "NETTY EVENT: X")
    lines = second.read_text(encoding="utf-8").splitlines()
    head = next(line for line in reversed(lines) if " - " in line).partition(" - ")[0]
    second.write_text("\n".join([*lines, f"{head} - the consumer [TracedGroup] shutdown OK", ""]))
    lost: list[str] = []

    def lose(bodies: list[str]) -> list[str]:
        contexts = [c for b in bodies for c in b.split(CONTEXT_ENDS) if c.startswith("SubBefore")]
        ids = [c.split(FIELD_ENDS)[5] for c in contexts]
        lost.append(next(one for one in ids[30:] if ids.count(one) == 1))
        return [
            "".join(
                c + CONTEXT_ENDS
                for c in b.split(CONTEXT_ENDS)[:-1]
                if not c.startswith("Sub") or lost[0] not in c
            )
            for b in bodies
        ]

    rewrite_traces(folder / "store", lose)
    kept, reports = judged(spark, folder)

    assert kept.unread == ()
    (missed,) = reports["lost"].findings
    assert (missed.count, missed.judgement) == (1, Judgement.VIOLATED)
    assert missed.first["message"] == lost[0]
    (owners,) = reports["two owners"].findings
    assert owners.judgement is Judgement.PERMITTED
    assert {owners.first["queue_id"], owners.last["queue_id"]} == {2}
    # The commit that passed what is lost is told as well, and nothing else.
    violated = {name: r.count(Judgement.VIOLATED) for name, r in reports.items()}
    expected = {"lost": 1, "committed, never delivered": 1}
    assert {name: n for name, n in violated.items() if n} == expected
    found = reports["committed, never delivered"].findings
    (passed,) = (one for one in found if one.judgement is Judgement.VIOLATED)
    assert passed.first["queue_id"] == missed.first["queue_id"]


RESET = (
    "invoke reset offset operation from broker. brokerAddr=127.0.0.1:1, topic=Traced, "
    "group=TracedGroup, timestamp=0"
)
ILLEGAL = (
    "the pull request offset illegal, PullRequest [consumerGroup=TracedGroup, messageQueue={queue},"
    " nextOffset=9] PullResult [pullStatus=OFFSET_ILLEGAL, nextBeginOffset=1, minOffset=0, "
    "maxOffset=9, msgFoundList=0]"
)


TOLD: list[tuple[str, int, int, Judgement]] = [
    (RESET, 0, 10, Judgement.PERMITTED),  # a member waits so long
    (RESET, 0, 50, Judgement.VIOLATED),
    (ILLEGAL, 0, 0, Judgement.PERMITTED),
    (ILLEGAL, 0, 50, Judgement.VIOLATED),
    (ILLEGAL, 1, 0, Judgement.VIOLATED),  # it was told of another queue
    ("", 0, 0, Judgement.VIOLATED),
]
"""What a member is told, the queue that it is told of from that which goes back, and the seconds
until it goes back."""


def test_a_commit_goes_back_only_soon_after_its_member_was_told_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By a reset, or by its broker of that queue: each on a queue of its own, two minutes apart."""
    folder = unpacked(tmp_path)
    log = folder / "logs" / "second" / "rocketmq_client.log"
    lines = log.read_text(encoding="utf-8").splitlines()
    commit = next(line for line in reversed(lines) if " updateConsumeOffsetToBroker " in line)
    head, _, committed = commit.partition(" - ")
    start, who = datetime.fromisoformat(head[:23]), committed.partition("MessageQueue ")[0]
    for nth, (told, of_queue, seconds, _) in enumerate(TOLD, 1):
        at, number = start + timedelta(minutes=2 * nth), 10 * nth
        queue = f"MessageQueue [topic=Traced, brokerName=broker-a, queueId={number}]"
        told_of = queue.replace(f"{number}]", f"{number + of_queue}]")
        for later, message in (
            (0, f"doRebalance, TracedGroup, add a new mq, {queue}"),
            (0.5, f"{who}{queue} 9"),
            (1, told.format(queue=told_of)),
            (1 + seconds, f"{who}{queue} 1"),
            (2 + seconds, f"{who}{queue} 1"),
        ):
            time = (at + timedelta(seconds=later)).isoformat(sep=" ", timespec="milliseconds")
            lines.append(f"{time}{head[23:]} - {message}")
    log.write_text("\n".join([*lines, ""]), encoding="utf-8")

    _, reports = judged(spark, folder, examples=10)
    found = {
        place["queue_id"]: one.judgement
        for one in reports["went back"].findings
        for place in one.examples
    }
    assert found == {10 * nth: judgement for nth, (*_, judgement) in enumerate(TOLD, 1)}


def test_a_member_without_its_log_leaves_owners_open(spark: SparkSession, tmp_path: Path) -> None:
    """And a line that is cut in the middle is named, and changes nothing else."""
    folder = unpacked(tmp_path)
    first = folder / "logs" / "first" / "rocketmq_client.log"
    (folder / "logs" / "second" / "rocketmq_client.log").unlink()
    edit(first, "changed, rebalance immediately", "chang")
    kept, reports = judged(spark, folder)
    cut, missing = kept.unread
    assert (cut.source, cut.why, cut.count) == ("logs", "no whole line", 1)
    assert cut.first["file"] == str(first)
    assert (missing.source, missing.why) == ("client logs", "member whose own log is not here")
    assert reports["two owners"].held == 0
    assert reports["two owners"].sources == ()


def test_a_log_that_is_there_twice_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """A copy in a folder of its own would be another process, with the same member."""
    folder = unpacked(tmp_path)
    _, once = judged(spark, folder)
    (folder / "logs" / "backup").mkdir()
    first = folder / "logs" / "first" / "rocketmq_client.log"
    copy = folder / "logs" / "backup" / "of first.log"
    copy.write_bytes(first.read_bytes())
    kept, twice = judged(spark, folder)

    (left,) = kept.unread
    assert (left.source, left.why, left.count) == ("logs", "copy of another log", 1)
    assert left.first["file"] in (str(first), str(copy))
    assert twice == once


def test_logs_that_tell_nothing_are_nothing_to_audit(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "other.log").write_text("2026-11-28 08:15:25 INFO main - something else\n")
    assert judging.kept(spark, [], [str(tmp_path / "other.log")]) is None
    with pytest.raises(UserError, match="neither a history nor a store nor a log of"):
        audit(spark, str(tmp_path))
