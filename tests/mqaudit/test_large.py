"""What the benchmark says of the audit of large histories can turn out badly."""

from __future__ import annotations

import gc
from pathlib import Path

import histories
import pytest
import test_history_checks as made
from driver import held_bytes, watched
from handmade import Recorder
from large import found, handled
from pyspark.sql import SparkSession
from test_follow import planted

from mqaudit import audit

SHAPE = histories.Shape(messages=1_000, queues=4, members=2, round=500)
ROWS, ROW_BYTES = 200_000, 1_000


def at_rest(spark: SparkSession) -> int:
    """What is held once what earlier tests have left is cleaned up, which Spark does a while
    after nothing refers to it."""
    gc.collect()
    held, lower = held_bytes(spark), held_bytes(spark)
    while lower < held * 0.99:
        held, lower = lower, held_bytes(spark)
    return lower


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells it")
def test_data_that_is_brought_to_the_driver_is_seen(spark: SparkSession) -> None:
    rows = spark.range(ROWS).selectExpr("id", f"repeat('x', {ROW_BYTES}) AS text")
    before = at_rest(spark)
    with watched(spark) as held:
        rows.write.format("noop").mode("append").save()
    assert held.most < before + ROWS * ROW_BYTES / 2

    before = at_rest(spark)
    with watched(spark, every_s=0.05) as held:
        brought = rows.collect()
    assert held.most > before + len(brought) * ROW_BYTES / 2


def test_of_a_clean_history_nothing_is_found_and_of_another_one_something(
    spark: SparkSession, tmp_path: Path
) -> None:
    strange = {1: planted((made.lost,))}
    for strewn, expected in (({}, 0), (strange, len(made.lost(Recorder())))):
        history = tmp_path / f"{expected}.parquet"
        histories.write(history, SHAPE, strewn)
        report = audit(spark, str(history)).report
        assert found(report) == expected
        assert handled(report) >= SHAPE.messages


def test_messages_that_nobody_handled_are_missed(spark: SparkSession, tmp_path: Path) -> None:
    recorder = Recorder()
    recorder.own("a", 0)
    recorder.send(0)
    recorder.save(tmp_path / "run.jsonl")
    assert handled(audit(spark, str(tmp_path)).report) == 0
