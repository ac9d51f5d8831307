"""`mqspec audit --follow` as a command: killed, started again, and what it says in numbers."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession
from test_follow import cut, findings, planted, told
from test_planted import PLANTED

from mqaudit.gauges import Gauges
from mqaudit.report import AuditReport, CheckReport, Finding, Judgement
from mqaudit.versions import Version
from mqrules import UserError
from mqrules.schema import encode

LATEST_S = 1800
LOOK_S = 0.05


@contextmanager
def following(*words: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """The command while the block runs; nothing of it runs on, neither its Java."""
    command = [sys.executable, "-m", "mqspec.cli", "audit", "--follow", *words]
    process = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def kill_when(process: subprocess.Popen[str], happens: Callable[[], object]) -> None:
    """kill -9 of the command alone, once something has happened."""
    wait_until(process, happens)
    process.kill()
    process.wait()


def wait_until(process: subprocess.Popen[str], happens: Callable[[], object]) -> None:
    for _ in range(int(LATEST_S / LOOK_S)):
        if happens():
            return
        with suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"it ended by itself, with {process.wait(LOOK_S)}")
    raise AssertionError("it never happened")


def numbers(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Metrics by their names and the values of their labels."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_killed_twice_it_has_told_what_the_batch_tells(spark: SparkSession, tmp_path: Path) -> None:
    """Once in its first batch, once in its second; then it is let to go to the end."""
    files = cut(planted(PLANTED), tmp_path / "files", 3, random.Random(4))
    folder, state = tmp_path / "grows", tmp_path / "known" / "state"
    folder.mkdir()
    words = [str(folder), "--recent", "1000000000", "--every", "0.2", "--json"]
    words += ["--checkpoint", "known", "--alerts", "alerts.jsonl", "--metrics", "audit.prom"]

    def add(file: Path) -> None:
        (folder / file.name).hardlink_to(file)

    add(files[0])
    with following(*words, cwd=tmp_path) as process:
        kill_when(process, lambda: [*state.glob("000000-*/fresh/_SUCCESS")])
    assert not (state / "current.json").exists()

    with following(*words, cwd=tmp_path) as process:
        wait_until(process, (state / "current.json").exists)
        add(files[1])
        kill_when(process, lambda: [*state.glob("000001-*/fresh/_SUCCESS")])
    assert json.loads((state / "current.json").read_text())["batch"] == 0

    add(files[2])
    with following(*words, "--once", cwd=tmp_path) as process:
        said, _ = process.communicate(timeout=LATEST_S)
    assert process.returncode == 1

    batch, expected = findings(spark, folder)
    lines = (tmp_path / "alerts.jsonl").read_text(encoding="utf-8").splitlines()
    assert told(map(json.loads, lines)) == expected
    assert max(Counter(lines).values()) == 1
    assert json.loads(said)["checks"] == json.loads(json.dumps(encode(batch)))["checks"]

    of_metrics = numbers((tmp_path / "audit.prom").read_text(encoding="utf-8"))
    for check in batch.checks:
        assert of_metrics["mqspec_audit_examined", (check.name,)] == check.examined
        for one in check.findings:
            labels = (check.name, one.judgement.value, one.rule, one.why)
            assert of_metrics["mqspec_audit_instances", labels] == one.count
    assert of_metrics["mqspec_audit_unread", ("late",)] == 0


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def test_metrics_over_http_are_those_of_the_last_batch() -> None:
    """What is withdrawn is gone, and what came late, or again, is counted."""
    port = free_port()
    gauges = Gauges(str(port))
    coverage = {"events": 9, "sent": 3, "received": 2, "commits": 1}
    lost = Finding(Judgement.VIOLATED, "it is gone", "OFFSET-001", 4, {}, {})
    for found in ((lost,), ()):
        check = CheckReport("lost", "what is lost", "OFFSET-001", None, 5, 1, found)
        gauges.show(Version(rows=7, again=2, late=10), AuditReport("x", coverage, (check,)))
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            said = numbers(answer.read().decode())
        labels = ("lost", "violated", "OFFSET-001", "it is gone")
        assert said.get(("mqspec_audit_instances", labels)) == (4 if found else None)
    assert said["mqspec_audit_seen", ("events",)] == 9
    assert said["mqspec_audit_state_rows", ()] == 7
    assert said["mqspec_audit_unread", ("again",)] == 2
    assert said["mqspec_audit_unread", ("late",)] == 10
    assert said["mqspec_audit_batches_total", ()] == 2

    with pytest.raises(UserError, match=f"--metrics {port}: cannot listen"):
        Gauges(str(port))
