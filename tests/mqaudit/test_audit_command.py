"""The command, and one clear line for whatever is no history and no store."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from handmade import Recorder, table
from pyspark.sql import SparkSession
from test_history_checks import CASES

from mqaudit import AuditReport, audit, command
from mqaudit.session import first_line
from mqrules import UserError, read_evidence


def recorded(*offsets: int) -> Recorder:
    """Two messages, committed past; those of the offsets were received."""
    r = Recorder()
    for offset in range(2):
        r.send(offset)
    r.own("a", 0)
    for offset in offsets:
        r.receive("a", offset)
    r.commit("a", 2)
    return r


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    return parser.parse_args(words)


@pytest.fixture
def shared_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's session is the tests', which it must not stop."""
    monkeypatch.setattr(spark, "stop", lambda: None)
    monkeypatch.setattr(command, "session", lambda master, *, little: spark)


@pytest.mark.usefixtures("shared_session")
@pytest.mark.parametrize(("offsets", "status"), [((0, 1), 0), ((1,), 1)])
def test_a_violated_must_is_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], offsets: tuple[int, ...], status: int
) -> None:
    history, evidence = tmp_path / "run.jsonl", tmp_path / "evidence.jsonl"
    recorded(*offsets).save(history)
    args = arguments(str(history), "--evidence", str(evidence), "--json", "--target", "apache")
    assert command.run(args) == status
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert report["coverage"]["sent"] == 2
    verdicts = {record.rule: record.verdict.value for record in read_evidence(evidence)}
    assert verdicts["OFFSET-001"] == ("violated" if status else "held")
    # Nothing was examined, so nothing is known.
    assert verdicts["PULL-001"] == ("undecidable" if status else "held")
    assert {record.target for record in read_evidence(evidence)} == {"apache"}


def test_a_commit_in_no_known_order_leaves_only_the_ideal_open(
    spark: SparkSession, tmp_path: Path
) -> None:
    first, second = Recorder(process="first"), Recorder(process="second")
    for recorder, value in ((first, 5), (second, 3)):
        recorder.own("a", value)
        recorder.commit("a", value)
        recorder.save(tmp_path / f"{recorder.process}.jsonl")
    verdicts = verdicts_of(audit(spark, str(tmp_path)).report, "went back")
    assert verdicts == {"OFFSET-003": "held", "OFFSET-008": "undecidable"}


def test_two_owners_refute_the_ideal_though_they_may_break_no_promise(
    spark: SparkSession, tmp_path: Path
) -> None:
    recorder = Recorder()
    for client in "ab":
        recorder.own(client, 0)
    recorder.now_s += 1000
    recorder.commit("a", 0)
    recorder.save(tmp_path / "run.jsonl")
    verdicts = verdicts_of(audit(spark, str(tmp_path)).report, "two owners")
    assert verdicts == {"REBAL-001": "undecidable", "REBAL-002": "refuted"}


def verdicts_of(report: AuditReport, name: str) -> dict[str, str]:
    (check,) = (check for check in report.checks if check.name == name)
    return {rule: verdict.value for rule, verdict in check.verdicts()}


@pytest.mark.usefixtures("shared_session")
def test_the_report_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(1).save(tmp_path / "run.jsonl")
    command.run(arguments(str(tmp_path), "--show", "1"))
    assert "VIOLATED OFFSET-001: committed past, and never handled" in capsys.readouterr().out


@pytest.mark.usefixtures("shared_session")
def test_without_details_it_fits_on_a_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever was found: here each case made by hand."""
    for number, case in enumerate(CASES.values()):
        recorder = Recorder(run=str(number))
        case(recorder)
        recorder.save(tmp_path / f"{number}.jsonl")
    assert command.run(arguments(str(tmp_path))) == 1
    lines = capsys.readouterr().out.splitlines()
    assert 20 < len(lines) <= 30
    assert "violated OFFSET-001: committed past, and never handled" in "\n".join(lines)
    assert lines[-3].endswith("kinds of findings more")


def test_evidence_that_cannot_be_written_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(1).save(tmp_path / "run.jsonl")
    monkeypatch.delattr(command, "session")
    with pytest.raises(IsADirectoryError):
        command.run(arguments(str(tmp_path), "--evidence", str(tmp_path)))


def columns(**changed: Any) -> dict[str, Any]:
    (event, *_) = recorded().events
    return asdict(event) | changed


def parquet(path: Path, without: str = "", **changed: pa.Array) -> None:
    columns = table(recorded().events[:1])
    for name, values in changed.items():
        columns = columns.set_column(columns.column_names.index(name), name, values)
    pq.write_table(columns.drop_columns([without] if without else []), path)


def lines(path: Path, *rows: object) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def torn(path: Path) -> None:
    parquet(path)
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("name", "write", "what"),
    [
        ("notes.txt", lambda path: path.touch(), "neither a history nor a store"),
        ("a.parquet", torn, "Spark cannot read it"),
        ("a.parquet", lambda path: parquet(path, without="cause"), "no column 'cause'"),
        (
            "a.parquet",
            lambda path: parquet(path, seq=pa.array(["0"])),
            "column 'seq' is of type string",
        ),
        ("a.jsonl", lambda path: path.write_text("{nonsense\n"), "no event: {nonsense"),
        ("a.jsonl", lambda path: path.write_text("\0" * 999 + "\n"), f"no event: {'?' * 200}"),
        ("a.jsonl", lambda path: lines(path, columns(seq="0")), 'no event: {"run"'),
        ("a.jsonl", lambda path: lines(path, columns(run=None)), "a row without 'run'"),
        ("a.jsonl", lambda path: lines(path, columns(kind="sing")), "kind of a row: sing"),
        ("a.jsonl", lambda path: lines(path, columns(), columns()), "stand there twice"),
        ("a.jsonl", lambda path: lines(path, columns(kind="commit")), "commit without 'group'"),
        ("a.parquet", lambda path: pq.write_table(table([]), path), "no events"),
    ],
)
def test_what_is_no_history_is_said_in_one_line(
    spark: SparkSession, tmp_path: Path, name: str, write: Any, what: str
) -> None:
    write(tmp_path / name)
    with pytest.raises(UserError) as caught:
        audit(spark, str(tmp_path))
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


def test_of_files_of_mixed_schemas_the_one_that_lacks_a_column_is_noticed(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark takes the schema of one file, and gives nothing for what another lacks."""
    for name, without in (("1", []), ("2", ["client_id"])):
        events = [replace(event, run=name) for event in recorded(0, 1).events]
        pq.write_table(table(events).drop_columns(without), tmp_path / f"{name}.parquet")
    with pytest.raises(UserError, match="client_id"):
        audit(spark, str(tmp_path))


def test_what_a_worker_raised_is_said_and_not_that_one_did() -> None:
    raised = RuntimeError(
        "An exception was thrown from the Python worker:\nTraceback\nOSError: no room"
    )
    assert first_line(raised) == "OSError: no room"


def test_a_path_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such path"):
        audit(spark, str(tmp_path / "nowhere"))


@pytest.mark.usefixtures("shared_session")
def test_a_page_is_written(tmp_path: Path) -> None:
    history, drawn = tmp_path / "run.jsonl", tmp_path / "audit.html"
    recorded(1).save(history)
    assert command.run(arguments(str(history), "--html", str(drawn))) == 1
    assert "committed past, and never handled" in drawn.read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_told_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(OSError, match="taken"):
        command.run(arguments("run.jsonl", "--html", str(tmp_path / "taken" / "audit.html")))
