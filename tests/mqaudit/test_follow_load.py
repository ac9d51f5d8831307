"""What following beside a load is held against says no."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from follow_load import anomalies, differences, once_drained
from test_planted import PLANTED

ONE = {"check": "lost", "run": PLANTED[0].__name__}
FOUND = Counter(tuple(sorted({"check": "lost", "run": case.__name__}.items())) for case in PLANTED)


def lines(*whats: dict[str, str]) -> list[str]:
    return [json.dumps({"told": "found", "n": 1, **what}) for what in whats]


ALL = lines(*map(dict, FOUND))


def test_what_is_told_and_found_is_no_difference() -> None:
    assert [*differences(ALL, FOUND)] == []


def test_each_difference_is_said() -> None:
    (missing,) = differences(ALL[1:], FOUND)
    assert missing.startswith("found, and not told")
    strange, again = differences([*ALL, ALL[0]], FOUND)
    assert strange.startswith("told, and not found")
    assert again.startswith("told 2 times")
    left = FOUND - Counter([tuple(sorted(ONE.items()))])
    assert [*differences(ALL[1:], left)] == [f"planted, and not found: {ONE['run']}"]


def test_each_anomaly_is_a_recorder_whole_or_in_two(tmp_path: Path) -> None:
    recorders = anomalies(tmp_path, random.Random(1))
    assert {len(files) for files in recorders} == {1, 2}
    for case, files in zip(PLANTED, recorders, strict=True):
        events = [row for file in files for row in pq.read_table(file).to_pylist()]
        assert {row["run"] for row in events} == {case.__name__}
        assert [row["seq"] for row in events] == list(range(len(events)))


def program(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_follower_that_drains_is_waited_for() -> None:
    with program("print('all')") as follower:
        assert once_drained(follower, lambda: "some") == "all\n"


def test_a_follower_that_never_drains_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with program("import time; time.sleep(600)") as follower:
        with pytest.raises(TimeoutError, match="1 of 2"):
            once_drained(follower, lambda: "1 of 2", most_s=0.1)
        follower.kill()
    assert "1 of 2" in capsys.readouterr().out
