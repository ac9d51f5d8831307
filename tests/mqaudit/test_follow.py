"""Following tells what the batch tells: in any order of files, over any cuts, after any kill."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from threading import Event as Signal
from typing import Any

import pyarrow.parquet as pq
import pytest
import test_history_checks as made
from handmade import Recorder, table
from pyspark.sql import SparkSession
from test_planted import PLANTED, renamed

from mqaudit import AuditReport, audit
from mqaudit.follow import Follower, Settings
from mqaudit.history_checks import HISTORY_CHECKS
from mqaudit.report import Judgement
from mqrules import Event

NEVER_MIND = 10**9  # seconds: nothing is old


def planted(cases: tuple[made.Case, ...]) -> list[Event]:
    """The anomalies of some cases, one after the other, as one recorder saw them."""
    events: list[Event] = []
    for number, case in enumerate(cases):
        recorder = Recorder()
        case(recorder)
        last_ns = max((event.time_ns for event in events), default=0)
        for event in recorder.events:
            moved = replace(event, seq=len(events), time_ns=last_ns + event.time_ns)
            events.append(renamed(moved, f"{case.__name__}-{number}"))
    return events


def cut(events: list[Event], into: Path, parts: int, chance: random.Random) -> list[Path]:
    """The events as files in their order, cut at places by chance."""
    into.mkdir()
    places = sorted(chance.sample(range(1, len(events)), parts - 1))
    files = []
    for number, (first, behind) in enumerate(
        zip([0, *places], [*places, len(events)], strict=True)
    ):
        files.append(into / f"{number:03}.parquet")
        pq.write_table(table(events[first:behind]), files[-1])
    return files


class Followed:
    """A folder that grows, and a follower that is started each time that it has."""

    def __init__(self, spark: SparkSession, at: Path, recent_s: float) -> None:
        self._spark, self._at = spark, at
        self.folder = at / "grows"
        self.folder.mkdir()
        self.settings = Settings(
            [str(self.folder)],
            at / "known",
            at / "alerts.jsonl",
            recent_s,
            once=True,
            batch_bytes=1,
        )

    def add(self, *files: Path) -> None:
        for file in files:
            (self.folder / file.name).hardlink_to(file)

    def run(self) -> AuditReport:
        return Follower(self._spark, self.settings).run(Signal())

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self._at / "alerts.jsonl").read_text().splitlines()]

    @property
    def told(self) -> Counter[tuple[Any, ...]]:
        """What is told and was not withdrawn, with how often."""
        found: Counter[tuple[Any, ...]] = Counter()
        for line in self.lines:
            n = line.pop("n") * (1 if line.pop("told") == "found" else -1)
            found[tuple(sorted(line.items()))] += n
        return +found


def findings(spark: SparkSession, path: Path) -> tuple[AuditReport, Counter[tuple[Any, ...]]]:
    """What the batch says of a path: its report, and what it finds that was due."""
    audited = audit(spark, str(path), keep=True)
    assert audited.tables is not None
    rows = (row.asDict() for row in audited.tables.findings.collect())
    due = [row for row in rows if row["judgement"] != Judgement.OPEN]
    known = ({name: value for name, value in row.items() if value is not None} for row in due)
    return audited.report, Counter(tuple(sorted(row.items())) for row in known)


@pytest.mark.parametrize("seed", [1])
def test_it_tells_what_the_batch_tells_whatever_the_order(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    files = cut(planted(PLANTED), tmp_path / "files", 4, chance)
    chance.shuffle(files)
    followed = Followed(spark, tmp_path, NEVER_MIND)
    followed.add(*files[:2])
    followed.run()
    followed.add(*files[2:])
    report = followed.run()

    batch, expected = findings(spark, followed.folder)
    assert report.checks == batch.checks
    assert report.coverage == batch.coverage
    assert followed.told == expected
    assert {dict(one)["check"] for one in expected} == {check.name for check in HISTORY_CHECKS}
