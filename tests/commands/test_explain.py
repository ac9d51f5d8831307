"""`mqspec explain`: a rule, an incident, a defect, a symptom, a line of a log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqrules import rules
from mqrules.schema import encode
from mqspec.cli import main


def explain(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    return " ".join(capsys.readouterr().out.split())


def report(path: Path, *evidence: dict[str, object]) -> Path:
    rule = encode(rules()["OFFSET-006"])
    path.write_text(json.dumps({"rules": [{"rule": rule, "evidence": evidence}]}))
    return path


def record(subject: str, verdict: str) -> dict[str, object]:
    return {"rule": "OFFSET-006", "kind": "checked", "subject": subject, "verdict": verdict}


def test_a_rule_with_its_evidence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = report(tmp_path / "r.json", record("MC_One: P", "held"), record("MC_Two: P", "violated"))
    said = explain(capsys, "offset-006", "--report", str(path))
    assert rules()["OFFSET-006"].text in said
    assert "checked by MC_One: P (held), MC_Two: P (violated)" in said


def test_a_rule_without_a_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = explain(capsys, "OFFSET-006", "--report", str(tmp_path / "none.json"))
    assert "run `mqspec verify`" in said


def test_a_file_that_is_no_report_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "r.json").write_text("[]")
    assert main(["explain", "OFFSET-006", "--report", str(tmp_path / "r.json")]) == 2
    said = capsys.readouterr().err
    assert "not a report" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("words", [("A",), ("same-client-id",), ("incident", "A")])
def test_an_incident(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    said = explain(capsys, *words)
    assert "Incident A: two members with one client id" in said
    assert "mqspec check MC_Rebalance__TwoMembersOneId" in said


def test_a_defect(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Defect SameClientId Two members of a group" in explain(capsys, "SameClientId")


def test_a_symptom_leads_to_incidents(capsys: pytest.CaptureFixture[str]) -> None:
    assert "incident F, progress lost at a rebalance" in explain(capsys, "twice")
    assert "incident Q, unread messages expire" in explain(capsys, "messages never came")


def test_a_line_of_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    said = explain(
        capsys, "2026-11-26 WARN doRebalance, g1 CONCURRENTLY t1, get consumer id list failed"
    )
    assert "written by the client, RebalanceImpl" in said
    assert "incidents D: when a rebalance happens" in said


def test_nothing_asked_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    said = explain(capsys)
    assert "T: a consumer that polls" in said
    assert "twice: Messages came twice" in said


def test_what_is_not_known_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "ALOC-001"]) == 2
    said = capsys.readouterr().err
    assert "did you mean ALLOC-001" in said
    assert said.count("\n") == 1
