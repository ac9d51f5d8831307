"""`mqspec paths` counts what it compared, and says no where the paths differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqrules import Evidence, EvidenceKind, Verdict, read_evidence
from mqspec import cli
from mqspec.broker.fast import usual_sends
from mqspec.broker.fast.usual_sends import UsualSends

RULE = "SEND-039"


def run(tmp_path: Path) -> tuple[int, Evidence]:
    file = tmp_path / "evidence.jsonl"
    code = cli.main(["paths", "--seed", "3", "--rounds", "1", "--evidence", str(file)])
    (record,) = read_evidence(file)
    assert (record.rule, record.kind, record.target) == (RULE, EvidenceKind.SAMPLED, "mqspec")
    return code, record


def test_what_was_compared_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, record = run(tmp_path)
    assert (code, record.verdict) == (0, Verdict.HELD)
    detail = record.detail
    assert (detail["seed"], detail["rounds"]) == (3, 1)
    assert int(detail["requests"]) > 1_000
    assert int(detail["messages the fast way"]) > 100
    assert int(detail["files"]) > 10
    said = capsys.readouterr().out
    assert said.startswith("ok the fast path equals the plain path: 1 rounds, ")
    assert f"{detail['requests']} requests" in said


def test_a_path_that_differs_is_told_with_its_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(usual_sends, "is_plain", lambda _: True)
    code, record = run(tmp_path)
    assert (code, record.verdict) == (1, Verdict.VIOLATED)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == record.detail["problem"]
    assert first.startswith("seed 3, request ")
    assert last == f"FAILED {first}"


def test_an_answer_that_never_comes_is_a_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqspec.paths.compare.DEADLINE_S", 0.2)
    monkeypatch.setattr("mqspec.broker.fast.sends.answer_usual", lambda *_: None)
    code, record = run(tmp_path)
    assert (code, record.verdict) == (1, Verdict.VIOLATED)
    assert "with the fast path no answer" in str(record.detail["problem"])


def test_nothing_that_goes_the_fast_way_is_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(UsualSends, "learn", lambda *_: None)
    code, record = run(tmp_path)
    assert (code, record.verdict) == (1, Verdict.VIOLATED)
    assert capsys.readouterr().out == "FAILED no message went the fast way\n"


def test_no_rounds_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["paths", "--rounds", "0"]) == 2
    assert capsys.readouterr().err.startswith("mqspec: --rounds: 0 rounds")
