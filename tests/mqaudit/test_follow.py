"""Following tells what the batch tells: in any order of files, over any cuts, after any kill."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from threading import Event as Signal
from typing import Any

import histories
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import test_history_checks as made
from handmade import Recorder, table
from pyspark.sql import SparkSession
from test_planted import PLANTED, plant, renamed

from mqaudit import AuditReport, alerts, audit, follow
from mqaudit.follow import LIMITS, Follower, Settings
from mqaudit.history_checks import HISTORY_CHECKS
from mqaudit.report import Judgement
from mqaudit.versions import Versions
from mqrules import Event, UserError

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
    return slices(table(events), into, parts, chance)


def slices(history: pa.Table, into: Path, parts: int, chance: random.Random) -> list[Path]:
    places = sorted(chance.sample(range(1, len(history)), parts - 1))
    return _write(history, into, places)


def cut_at(events: list[Event], into: Path, places: list[int]) -> list[Path]:
    return _write(table(events), into, places)


def _write(history: pa.Table, into: Path, places: list[int]) -> list[Path]:
    into.mkdir()
    files = []
    ends = zip([0, *places], [*places, len(history)], strict=True)
    for number, (first, behind) in enumerate(ends):
        files.append(into / f"{number:03}.parquet")
        pq.write_table(history.slice(first, behind - first), files[-1])
    return files


class Killed(Exception):  # noqa: N818  (no error of the follower's)
    """Stands for a kill: nothing of the follower runs on after it."""


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

    def follower(self) -> Follower:
        return Follower(self._spark, self.settings)

    def run(self, killed_in: str = "", after: int = 0) -> AuditReport:
        """To the end of what is there; or until a step of a kind was done so often."""
        with pytest.MonkeyPatch.context() as patch:
            if killed_in:
                of, name = _STEPS[killed_in]
                patch.setattr(of, name, _killed(getattr(of, name), after))
            return self.follower().run(Signal())

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self._at / "alerts.jsonl").read_text().splitlines()]

    @property
    def told(self) -> Counter[tuple[Any, ...]]:
        return told(self.lines)


def told(lines: Iterable[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """What lines of alerts tell and do not withdraw, with how often."""
    found: Counter[tuple[Any, ...]] = Counter()
    for line in lines:
        n = line.pop("n") * (1 if line.pop("told") == "found" else -1)
        found[tuple(sorted(line.items()))] += n
    return +found


_STEPS: dict[str, tuple[Any, str]] = {
    "keep": (follow._Step, "_keep"),  # the tables of a version
    "tell": (alerts, "lines"),
    "commit": (Versions, "commit"),
    "deliver": (alerts, "deliver"),  # the version is known, and its alerts are half there
}


def _killed(step: Callable[..., Any], after: int) -> Callable[..., Any]:
    left = [after]

    def done(*args: Any, **kwargs: Any) -> Any:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return step(*args, **kwargs)

    return done


def findings(spark: SparkSession, path: Path) -> tuple[AuditReport, Counter[tuple[Any, ...]]]:
    """What the batch says of a path: its report, and what it finds that was due."""
    audited = audit(spark, str(path), keep=True)
    assert audited.tables is not None
    rows = (row.asDict() for row in audited.tables.findings.collect())
    due = [row for row in rows if row["judgement"] != Judgement.OPEN]
    known = ({name: value for name, value in row.items() if value is not None} for row in due)
    return audited.report, Counter(tuple(sorted(row.items())) for row in known)


def test_it_tells_what_the_batch_tells_whatever_the_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = random.Random(1)
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


def test_killed_at_any_step_it_tells_what_the_batch_tells_with_little_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each anomaly twice in clean traffic, which leaves; each start but the last is killed."""
    monkeypatch.setattr(follow, "_FEW_ROWS", 500)
    shape = histories.Shape(messages=1000, queues=4, members=2, round=500)
    whole = tmp_path / "history.parquet"
    plant(whole, shape, (0, 2))
    history = pq.read_table(whole)
    chance = random.Random(2)
    followed = Followed(spark, tmp_path, 60)
    followed.add(*slices(history, tmp_path / "files", 3, chance))

    for step in ("keep", "tell", "commit", "deliver"):
        with pytest.raises(Killed):
            followed.run(killed_in=step, after=chance.randrange(3))
    follower = followed.follower()
    report = follower.run(Signal())

    batch, expected = findings(spark, followed.folder)
    assert follower.version.rows < len(history) / 3
    assert followed.told == expected
    assert report.checks == batch.checks
    assert report.coverage == batch.coverage
    found = Counter(json.dumps(line) for line in followed.lines)
    assert max(found.values()) == 1


def test_started_again_it_reads_what_is_new_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A day's new files cost a day: of the older ones nothing is left that could be read."""
    whole, files = (
        tmp_path / "whole",
        cut(planted(PLANTED), tmp_path / "files", 2, random.Random(5)),
    )
    whole.mkdir()
    for file in files:
        (whole / file.name).write_bytes(file.read_bytes())
    followed = Followed(spark, tmp_path, NEVER_MIND)
    followed.add(files[0])
    followed.run()
    files[0].write_bytes(b"gone")
    followed.add(files[1])
    report = followed.run()

    batch, expected = findings(spark, whole)
    assert report.checks == batch.checks
    assert followed.told == expected


def test_a_row_that_comes_twice_is_judged_once_and_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = planted((made.lost,))
    followed = Followed(spark, tmp_path, NEVER_MIND)
    files = cut(events, tmp_path / "files", 2, random.Random(3))
    pq.write_table(table([*events, *events[:3]]), tmp_path / "files" / "all.parquet")
    followed.add(*files)
    before = followed.run()
    followed.add(tmp_path / "files" / "all.parquet")
    follower = followed.follower()
    assert follower.run(Signal()).checks == before.checks
    assert follower.version.again == len(events) + 3


def test_what_comes_after_its_gap_was_given_up_is_left_out_and_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_FEW_ROWS", 0)
    recorder = Recorder()
    recorder.own("a", 0)
    for offset in range(40):
        recorder.send(offset)
        recorder.receive("a", offset)
        recorder.commit("a", offset + 1)
    files = cut_at(recorder.events, tmp_path / "files", [20, 30])
    followed = Followed(spark, tmp_path, 20)
    followed.add(files[0], files[2])
    followed.run()
    followed.add(files[1])
    follower = followed.follower()
    follower.run(Signal())
    assert follower.version.late == 10


def test_a_finding_that_is_explained_later_is_withdrawn(
    spark: SparkSession, tmp_path: Path
) -> None:
    recorder = Recorder()
    recorder.own("a", 0)
    recorder.send(0)
    recorder.commit("a", 1)
    recorder.receive("a", 0)
    files = cut_at(recorder.events, tmp_path / "files", [5])
    followed = Followed(spark, tmp_path, NEVER_MIND)
    followed.add(files[0])
    followed.run()
    (lost,) = [line for line in followed.lines if line["check"] == "lost"]
    assert lost["told"] == "found"
    followed.add(files[1])
    followed.run()
    told = [line["told"] for line in followed.lines if line["check"] == "lost"]
    assert told == ["found", "withdrawn"]


def test_what_is_no_event_is_said_and_not_judged(spark: SparkSession, tmp_path: Path) -> None:
    followed = Followed(spark, tmp_path, NEVER_MIND)
    (followed.folder / "h.jsonl").write_text('{"run": "r"\n')
    followed.settings = replace(followed.settings, lines=True)
    with pytest.raises(UserError, match="not a history: no event"):
        followed.run()


def test_two_do_not_follow_with_one_checkpoint(tmp_path: Path) -> None:
    with Versions(tmp_path), pytest.raises(UserError, match="another follower"):
        Versions(tmp_path)


def test_the_limits_name_checks() -> None:
    names = {name for key in LIMITS if key != "all" for name in key.split("; ")}
    assert names <= {check.name for check in HISTORY_CHECKS}
