"""What Spark does for an audit: three shuffles of data, nothing row by row, nothing collected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from handmade import Recorder
from pyspark.sql import DataFrame, SparkSession

from mqaudit import findings, history, stages
from mqaudit.history_checks import PLACE
from mqaudit.tables import Stages

MANY = 10**7  # events, as the plan is to see them


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> DataFrame:
    r = Recorder()
    r.own("a", 0)
    r.send(0)
    r.receive("a", 0)
    r.commit("a", 1)
    r.save(tmp_path / "run.jsonl")
    return history.read(spark, [str(tmp_path)], ["jsonl"])


def plan(frame: DataFrame) -> str:
    query = frame._jdf.queryExecution()
    return str(query.executedPlan().toString())


def shuffles(frame: DataFrame) -> list[str]:
    return re.findall(r"Exchange (?:hash|range)partitioning\(([^)#]*)", plan(frame))


def test_three_shuffles_by_group_by_queue_and_by_message(events: DataFrame) -> None:
    _, seats = history.survey(events, "here")
    assert shuffles(stages.groups(events, seats, 2)) == ["run"]
    assert sorted(shuffles(Stages.of(events, seats, MANY).instances)) == ["queue", "run"]


@pytest.mark.parametrize(
    "word", ["Cartesian", "NestedLoop", "BatchEvalPython", "ArrowEvalPython", "Window", "Sort"]
)
def test_nothing_is_done_row_by_row_or_with_all_pairs(events: DataFrame, word: str) -> None:
    _, seats = history.survey(events, "here")
    plans = plan(Stages.of(events, seats, MANY).instances) + plan(stages.groups(events, seats, 2))
    assert "MapInArrow" in plans
    assert word not in plans


def test_the_report_shuffles_counts_alone(events: DataFrame) -> None:
    """What reaches the last exchange, and the driver, was aggregated in each task before."""
    _, seats = history.survey(events, "here")
    counted = findings.counted(Stages.of(events, seats, MANY).instances, PLACE)
    lines = plan(counted).splitlines()
    (last,) = (n for n, line in enumerate(lines) if "Exchange hashpartitioning(check" in line)
    assert "HashAggregate" in lines[last + 1] or "SortAggregate" in lines[last + 1]
    assert "partial_" in lines[last + 1]
