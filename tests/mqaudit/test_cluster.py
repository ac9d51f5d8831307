"""The how-to of clusters, on a standalone one: both of its commands say what is said here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from by_night import BY_NIGHT
from cluster import ROOT, Cluster, cluster
from handmade import table
from pyspark.sql import SparkSession
from test_follow import planted
from test_planted import PLANTED

from mqaudit import audit
from mqrules.schema import encode

PAGE = ROOT / "docs" / "how-to" / "cluster.md"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def of_the_page(word: str, running: Cluster, path: str) -> str:
    """The page's command of a program, for this cluster and a path."""
    (line,) = (
        line.removeprefix("$ ")
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("$ ") and line.split()[1].endswith(word)
    )
    here = {
        "spark://host:7077": running.master,
        "/opt/mqspec": str(running.environment),
        "/data/runs": path,
    }
    for there, name in here.items():
        assert there in line
        line = line.replace(there, name)
    return line


def script(folder: Path) -> None:
    """The page's script of spark-submit."""
    (text,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "submit.py").write_text(text, encoding="utf-8")


def test_workers_have_the_wheel_and_nothing_else_of_ours(running: Cluster, tmp_path: Path) -> None:
    names = "mqaudit, mqrules, mqspec"
    command = f'python -c "import {names}, sys; print({names}, *sys.path, sep=chr(10))"'
    done = running.run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"from '{running.environment}") == 3
    assert str(ROOT / "conformance") not in done.stdout
    assert str(ROOT / "spec") not in done.stdout


def wrong(folder: Path) -> Path:
    """A history with an anomaly of each check, in two files."""
    events = planted(PLANTED)
    history, half = folder / "history", len(events) // 2
    history.mkdir()
    for number, part in enumerate((events[:half], events[half:])):
        pq.write_table(table(part), history / f"{number}.parquet")
    return history


@pytest.mark.parametrize("word", ["mqspec", pytest.param("spark-submit", marks=BY_NIGHT)])
def test_what_is_wrong_is_told_as_it_is_here(
    running: Cluster, spark: SparkSession, tmp_path: Path, word: str
) -> None:
    """The exit code is that of a violated MUST, each check has found something, and both workers
    had executors."""
    script(tmp_path)
    path = str(wrong(tmp_path))
    done = running.run(of_the_page(word, running, f"{path} --json"), tmp_path)
    assert done.returncode == 1, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert all(check["findings"] for check in report["checks"])
    assert report == json.loads(json.dumps(encode(audit(spark, path).report)))
    assert all([*place.glob("app-*/*/stderr")] for place in running.work)


def test_a_path_that_only_the_driver_sees_is_said_in_one_line(
    running: Cluster, tmp_path: Path
) -> None:
    """Below /proc/self each process has its own working directory: only the driver's has it."""
    wrong(tmp_path)
    path = "/proc/self/cwd/history"
    done = running.run(of_the_page("mqspec", running, path), tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"{path}: a worker does not see {path}/" in done.stderr
    assert "put it where all machines see it" in done.stderr
