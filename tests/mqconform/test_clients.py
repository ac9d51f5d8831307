"""Clients under test: the reference's own keeps the rules, and wrong ones are caught by theirs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mqspec.cli import main

PROGRAM = Path(__file__).parent / "wrong" / "client.py"
CLIENT = f"{sys.executable} {PROGRAM} {{nameserver}} {{topic}} {{group}} {{mode}}"
Verdicts = dict[tuple[str, str], str]  # by scenario and rule


@pytest.fixture
def verdicts(tmp_path: Path) -> Callable[..., tuple[int, Verdicts]]:
    """The exit code and the verdicts of a run, with some arguments."""

    def run(client: str, *words: str) -> tuple[int, Verdicts]:
        report = tmp_path / "report.json"
        code = main(["conform", "--client", client, "--json", str(report), *words])
        cases = json.loads(report.read_text(encoding="utf-8"))["cases"]
        return code, {(case["name"], *case["rules"]): case["status"] for case in cases}

    return run


def test_two_members_share_the_queues(verdicts: Callable[..., tuple[int, Verdicts]]) -> None:
    code, found = verdicts(CLIENT, "-k", "two_members_share")
    assert code == 0
    assert {verdict for (name, _), verdict in found.items() if "share" in name} == {"passed"}


def test_an_overlap_is_caught(verdicts: Callable[..., tuple[int, Verdicts]]) -> None:
    code, found = verdicts(f"{CLIENT} one-queue-more", "-k", "two_members_share")
    assert code == 1
    assert found["two_members_share_eight_queues", "ALLOC-001"] == "failed"
    assert found["two_members_share_eight_queues", "ALLOC-002"] == "passed"


@pytest.mark.parametrize(
    ("client", "says"),
    [
        ("no-such-program {nameserver} {topic} {group}", "cannot be started: No such file"),
        ("false {nameserver} {topic} {group}", "ended by itself: exit code 1"),
        ("true {nameserver}", "has no {topic} and no {group}"),
        ("it's {nameserver}", "is no command"),
    ],
)
def test_what_is_no_client_is_told_in_one_line(
    client: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conform", "--client", client]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_a_program_that_never_comes_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqconform.clients.play.COME_S", 1.0)
    client = (
        f"{sys.executable} -c 'import signal; signal.pause()' {{nameserver}} {{topic}} {{group}}"
    )
    assert main(["conform", "--client", client]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "connects to nobody within 1 s" in line
