"""A history while it grows: readable at any moment, and whole in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from mqaudit import audit
from mqrecord import journal
from mqrecord.journal import Journal, to_parquet
from mqrecord.names import Hashed, Patterns
from mqrules import UserError


def sent(n: int, **more: Any) -> dict[str, Any]:
    place = {"topic": "T", "broker": "b", "queue_id": 0, "queue_offset": n}
    return {"kind": "send", "outcome": "ok", "message_key": f"k{n}", **place, **more}


def kept(directory: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(directory.iterdir()) for row in pq.read_table(path).to_pylist()]


def test_lines_become_parquet_and_positions_go_on(tmp_path: Path) -> None:
    growing = Journal(tmp_path, "run", "recorder")
    for n in range(25):
        growing.add([sent(n)])
        if n % 10 == 9:
            to_parquet(growing.turn_over())
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".jsonl", ".parquet", ".parquet"]
    growing.close()
    rows = kept(tmp_path)
    assert [(row["seq"], row["queue_offset"]) for row in rows] == [(n, n) for n in range(25)]
    assert {row["run"] for row in rows} == {"run"}


def test_many_lines_are_due_and_none_never_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "ROLL_ROWS", 2)
    growing = Journal(tmp_path, "run", "recorder")
    due = []
    for n in range(3):
        due.append(growing.is_due)
        growing.add([sent(n)])
    monkeypatch.setattr(journal, "ROLL_S", -1.0)
    growing.turn_over()
    assert [*due, growing.is_due] == [False, False, True, False]
    growing.add([sent(3)])
    assert growing.is_due  # by its age


def test_a_run_in_which_nothing_happened_leaves_nothing(tmp_path: Path) -> None:
    Journal(tmp_path, "run", "recorder").close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_recorder_leaves_can_be_audited(spark: SparkSession, tmp_path: Path) -> None:
    growing = Journal(tmp_path, "run", "recorder")
    for n in range(15):
        growing.add([sent(n)])
        growing.flush()
        if n == 9:
            to_parquet(growing.turn_over())
    # Nobody closes it: as after SIGKILL, one file is Parquet, and one is lines.
    report = audit(spark, [str(tmp_path)]).report
    assert report.coverage["sent"] == 15

    # A kill between the end of the one and that of the other leaves events twice: that is said.
    (tmp_path / "again.jsonl").write_bytes(next(tmp_path.glob("*.jsonl")).read_bytes())
    with pytest.raises(UserError, match="stand there twice"):
        audit(spark, [str(tmp_path)])


def test_only_what_is_wanted_is_written(tmp_path: Path) -> None:
    wanted = Patterns(["order*"], ["G1"])
    rows = [
        {"kind": "join", "group": "G1"},
        {"kind": "join", "group": "G2"},
        {"kind": "receive", "group": "G1", "topic": "orders"},
        {"kind": "receive", "group": "G1", "topic": "%RETRY%G1"},
        {"kind": "receive", "group": "G1", "topic": "pay"},
        {"kind": "crash", "peer": "broker-a"},
    ]
    assert [wanted.keeps(row) for row in rows] == [True, False, True, True, False, True]


def test_hashed_names_say_nothing_and_stay_comparable() -> None:
    hashed = Hashed(b"salt")
    row = hashed.written(
        {"topic": "%RETRY%G", "group": "G", "client_id": "c", "peer": "c", "tag": "a || b"}
    )
    assert row["topic"] == "%RETRY%" + row["group"]
    assert row["peer"] == row["client_id"] != "c"
    assert row["tag"].split(" || ")[0] == hashed.written({"tag": "a"})["tag"]
    assert hashed.written({"tag": "*"}) == {"tag": "*"}
    assert hashed.written({"peer": "broker-a"}) == {"peer": "broker-a"}
    assert Hashed(b"other").written({"topic": "T"}) != hashed.written({"topic": "T"})
