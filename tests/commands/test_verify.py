"""`mqspec verify` must say no: a stage that fails, a MUST without its evidence."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from mqrules import Evidence, Kind, Level, Rule, Verdict, rules, write_evidence
from mqspec import cli
from mqspec.commands import verify

# Stands in for mqspec: writes the evidence that was prepared for the stage, or fails. Its
# conform knows one target that does not answer.
STUB = """
import pathlib, shutil, sys
if sys.argv[-1] == "--list":
    sys.exit("mqspec: 127.0.0.1:1: no nameserver there" if sys.argv[2] == "127.0.0.1:1" else 0)
stage, evidence = sys.argv[1], pathlib.Path(sys.argv[-1])
prepared = pathlib.Path(__file__).with_name(stage + ".jsonl")
if not prepared.exists():
    sys.exit(f"{stage} broke down")
shutil.copy(prepared, evidence)
"""

STAGES = ("check", "prove", "conform", "audit", "paths")


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which every stage finds evidence that closes all rules between them."""
    stub = tmp_path / "stub.py"
    stub.write_text(STUB)
    monkeypatch.setattr(verify, "MQSPEC", (sys.executable, str(stub)))
    records = [
        Evidence(rule=rule.id, kind=kind, subject="prepared", verdict=_closing(rule))
        for rule in rules().values()
        for kind in rule.needs
    ]
    for number, name in enumerate(STAGES):
        write_evidence(tmp_path / f"{name}.jsonl", records[number :: len(STAGES)])
    return tmp_path


def _closing(rule: Rule) -> Verdict:
    return Verdict.REFUTED if rule.kind is Kind.IDEAL else Verdict.HELD


def run(stages: Path) -> int:
    return cli.main(["verify", "--output", str(stages / "out")])


def test_all_evidence_there_is_exit_0_and_four_reports(stages: Path) -> None:
    assert run(stages) == 0
    data = json.loads((stages / "out" / "report.json").read_text())
    assert data["failures"] == []
    assert [entry["rule"]["id"] for entry in data["rules"]] == list(rules())
    suite = ElementTree.parse(stages / "out" / "junit.xml").getroot()
    assert suite.get("failures") == "0"
    assert int(suite.get("tests", "0")) == sum(len(rule.needs) for rule in rules().values())


def test_the_page_is_one_file_that_asks_for_no_other(stages: Path) -> None:
    run(stages)
    page = (stages / "out" / "report.html").read_text()
    assert 'id="ALLOC-001"' in page
    assert "http" not in page
    assert "src=" not in page


def test_a_must_without_evidence_fails_and_is_named(
    stages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    must = next(rule for rule in rules().values() if rule.level is Level.MUST)
    for path in stages.glob("*.jsonl"):
        kept = [line for line in path.read_text().splitlines() if must.id not in line]
        path.write_text("".join(line + "\n" for line in kept))
    assert run(stages) == 1
    said = capsys.readouterr().out
    assert f"GAP {must.id}: not" in said
    assert "FAILED" not in said
    suite = ElementTree.parse(stages / "out" / "junit.xml").getroot()
    assert suite.get("failures") == str(len(must.needs))


def test_a_stage_that_breaks_down_fails_and_says_why(
    stages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (stages / "audit.jsonl").unlink()
    assert run(stages) == 1
    said = capsys.readouterr().out
    assert "FAILED audit ended with 1: audit broke down" in said
    assert "\naudit ended with 1: audit broke down" in said  # as it ends, once


def test_a_violation_is_no_gap(stages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = stages / "conform.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text(first.replace('"held"', '"violated"') + "".join(rest))
    assert run(stages) == 1
    said = capsys.readouterr().out
    assert f"FAILED {json.loads(first)['rule']}: " in said
    assert "GAP" not in said


def test_a_target_that_does_not_answer_is_one_line(
    stages: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(stages / "out")
    assert cli.main(["verify", "--target", "127.0.0.1:1", "--output", output]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "mqspec: --target: 127.0.0.1:1: no nameserver there\n")


def test_evidence_of_an_earlier_run_does_not_count(stages: Path) -> None:
    assert run(stages) == 0
    (stages / "prove.jsonl").unlink()
    assert run(stages) == 1


def test_the_summary_fits_a_screen_and_names_what_is_missing(
    stages: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (stages / "prove.jsonl").write_text("")
    assert run(stages) == 1
    lines = capsys.readouterr().out.partition("Evidence for")[2].splitlines()
    assert len(lines) <= 25
    assert all(len(line) <= 80 for line in lines[:18])  # what names a file is as long as its name
    gaps = [line for line in lines if line.startswith("GAP ")]
    assert len(gaps) == verify.FIRST
    assert any(line.startswith("and ") and line.endswith("more, by --all") for line in lines)
    assert any("mqspec explain" in line for line in lines)


def test_all_rules_are_shown_on_demand(stages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stages / "prove.jsonl").write_text("")
    assert cli.main(["verify", "--output", str(stages / "out"), "--all"]) == 1
    said = capsys.readouterr().out
    assert [rule for rule in rules() if rule not in said] == []
    assert "more, by --all" not in said
