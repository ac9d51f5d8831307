"""The lines of a trace, and who may write where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mqrules import UserError
from mqspec.core.lock import LockEntry
from mqspec.core.offset_commit import OffsetKey, UpdateConsumerOffset
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import MessageQueue
from mqspec.trace import Trace, plain

QUEUE = MessageQueue("T", "broker-a", 1)


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in file.read_text(encoding="utf-8").splitlines()]


def test_a_step_is_a_line_of_what_changes_and_what_is_sent(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace")
    changes = (Change("offset_table", OffsetKey("T", "G", 1), 7), Change("t", "k", REMOVED))
    trace.step("broker-a", "OffsetCommit", Step(changes, (UpdateConsumerOffset("G", QUEUE, 7),)))
    (row,) = rows(tmp_path / "trace")
    assert row["changes"] == [
        ["offset_table", {"topic": "T", "group": "G", "queue_id": 1}, 7],
        ["t", "k"],
    ]
    queue = {"topic": "T", "broker_name": "broker-a", "queue_id": 1}
    assert row["sends"] == [{"group": "G", "mq": queue, "commit_offset": 7}]


def test_a_step_that_does_nothing_is_not_written(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace")
    trace.step("broker-a", "OffsetCommit", Step(result=3))
    assert not rows(tmp_path / "trace")


def test_writers_of_one_file_number_their_own_lines(tmp_path: Path) -> None:
    one, two = Trace(tmp_path / "trace"), Trace(tmp_path / "trace")
    for trace in (one, two, one):
        trace.read("broker-a", "Group", "consumer_table", "G", ["m"])
    found = [(row["writer"], row["seq"]) for row in rows(tmp_path / "trace")]
    assert [seq for _, seq in found] == [0, 0, 1]
    assert found[0][0] == found[2][0] != found[1][0]


def test_keys_that_are_no_text_make_pairs() -> None:
    held = {QUEUE: LockEntry("m", 5)}
    assert plain(held) == [[plain(QUEUE), {"client_id": "m", "last_update_ms": 5}]]


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written"):
        Trace(tmp_path / "missing" / "trace")
