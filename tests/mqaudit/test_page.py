"""The page of an audit: what is drawn of a history, and how much of a large one."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from handmade import Recorder
from pyspark.sql import SparkSession

from mqaudit import audit, plots
from mqaudit.page import diagram, page
from mqaudit.pictures import QUEUES, STEPS, Band, Happened, Pictures, Queue, bands, pictures
from mqaudit.report import AuditReport
from mqrules import EventKind
from mqrules.sequence import Row

Q = Queue("G", "T", "b", 0)


def audited(spark: SparkSession, path: Path, r: Recorder) -> tuple[AuditReport, Pictures]:
    r.save(path / "run.jsonl")
    found = audit(spark, str(path), keep=True)
    assert found.tables is not None
    return found.report, pictures(found.tables, found.report)


def test_two_owners_are_drawn_with_what_came_of_it(spark: SparkSession, tmp_path: Path) -> None:
    r = Recorder()
    r.send(0, key="<script>alert(1)</script>")
    r.own("first", 0)
    r.receive("first", 0, message_key="<script>alert(1)</script>")
    r.own("second", 0)
    r.receive("second", 0, message_key="<script>alert(1)</script>")
    r.member("crash", "first")
    report, drawn = audited(spark, tmp_path, r)

    assert drawn.bands == (Band(Q, "first", 2, 8), Band(Q, "second", 5, 8))
    assert plots.overlaps(drawn) == [(Q, 5, 8)]
    assert drawn.crashes == ((8, "first"),)
    (again,) = (steps for (check, _), steps in drawn.around.items() if check == "repeated")
    assert [step.kind for step in again if step.message] == ["send", "send", "receive", "receive"]
    assert [step.who for step in again if step.is_it] == ["second"]

    text = page(report, drawn)
    assert "<script>alert" not in text
    assert "Who owned each queue" in text
    assert not re.findall(r'(?:src|href)="(?!#|data:)', text), "it asks for nothing outside itself"
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(svg)
    assert "mqspec explain OFFSET-004" in text


def test_of_many_queues_some_are_drawn_and_it_is_said(spark: SparkSession, tmp_path: Path) -> None:
    r = Recorder()
    for queue in range(QUEUES + 16):
        r.own("a", 0, queue)
    r.send(0, QUEUES + 15)
    for client in ("a", "b") * 20:  # more repeats than a diagram has steps
        r.receive(client, 0, QUEUES + 15)
    report, drawn = audited(spark, tmp_path, r)

    assert len(drawn.queues) == QUEUES
    assert drawn.queues_in_all == QUEUES + 16
    assert drawn.queues[-1].queue_id == QUEUES + 15, "where something was found"
    assert max(map(len, drawn.around.values())) == STEPS
    assert f"Drawn are {QUEUES} of {QUEUES + 16} queues" in page(report, drawn)


def test_of_many_changes_the_first_are_drawn_and_no_more_is_claimed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqaudit.pictures.CHANGES", 3)
    r = Recorder()
    for _ in range(3):
        r.at("assign", "a")
        r.at("revoke", "a")
    report, drawn = audited(spark, tmp_path, r)
    assert drawn.is_cut
    assert drawn.seconds == 5
    assert drawn.bands == (Band(Q, "a", 0, 1), Band(Q, "a", 2, 2))
    assert "only the first ones are drawn" in page(report, drawn)


def test_a_clean_history_says_so(spark: SparkSession, tmp_path: Path) -> None:
    r = Recorder()
    r.send(0)
    r.own("a", 0)
    r.receive("a", 0)
    report, drawn = audited(spark, tmp_path, r)
    assert drawn.anomalies == ()
    assert "Nothing: every instance that could be judged held" in page(report, drawn)


def test_without_a_history_nothing_is_drawn() -> None:
    text = page(AuditReport("store", {"records": 3}, ()), None)
    assert "<svg" not in text
    assert "Nothing was left open" in text


CHANGES = [
    ("assign", "a", 1.0),
    ("assign", "a", 2.0),  # told twice: it is one
    ("revoke", "a", 3.0),
    ("revoke", "b", 3.5),  # it never owned it
    ("assign", "b", 4.0),
    ("crash", None, 5.0),  # of a broker: owners stay
    ("leave", "b", 6.0),
    ("assign", "c", 7.0),
]


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1, [Band(Q, "a", 1, 9)]),
        (4, [Band(Q, "a", 1, 3)]),
        (6, [Band(Q, "a", 1, 3), Band(Q, "b", 4, 9)]),
        (8, [Band(Q, "a", 1, 3), Band(Q, "b", 4, 6), Band(Q, "c", 7, 9)]),
    ],
)
def test_bands(number: int, expected: list[Band]) -> None:
    rows = [
        SimpleNamespace(
            kind=kind, client_id=client, at=at, consumer_group="G", topic="T", broker="b",
            queue_id=0,
        )
        for kind, client, at in CHANGES[:number]
    ]  # fmt: skip
    assert bands(rows, [Q], 9) == expected


def test_directions_of_a_diagram(spark: SparkSession, tmp_path: Path) -> None:
    r = Recorder()
    r.send(0)
    r.own("a", 0)
    r.receive("a", 0)
    r.at("ack", "a", queue_offset=0, message_key="0-0", outcome="failed")
    r.own("c", 0)
    r.receive("c", 0)
    _, drawn = audited(spark, tmp_path, r)
    (steps,) = (steps for (check, _), steps in drawn.around.items() if check == "repeated")
    rows: dict[Any, Row] = {row.label: row for row in diagram("again", steps).rows}
    assert (rows["sends 0-0"].lane, rows["sends 0-0"].to) == ("recorder", "b")
    assert (rows["gives 0-0, offset 0"].lane, rows["gives 0-0, offset 0"].to) == ("b", "c")
    assert rows["gives back 0-0"].to is None
    assert rows["gives 0-0, offset 0"].bad


def test_around_two_members_of_one_id_is_their_group(spark: SparkSession, tmp_path: Path) -> None:
    r = Recorder()
    r.member("join", "a")
    r.own("a", 0)
    r.member("join", "a #2")
    r.own("a #2", 0)
    r.commit("a", 0)
    r.member("join", "other", topic=None)
    report, drawn = audited(spark, tmp_path, r)
    (steps,) = (steps for (check, _), steps in drawn.around.items() if check == "equal client ids")
    assert [(step.kind, step.who) for step in steps] == [
        ("join", "a"), ("assign", "a"), ("join", "a #2"), ("assign", "a #2"), ("commit", "a"),
        ("join", "other"),
    ]  # fmt: skip
    assert [step.who for step in steps if step.is_it] == ["a #2"]
    assert "mqspec explain same-client-id" in page(report, drawn)


@pytest.mark.parametrize("kind", EventKind)
def test_each_kind_of_event_can_be_drawn(kind: EventKind) -> None:
    step = Happened(kind.value, "ok", "a", "b", 0, 7, "m", True)
    (row,) = diagram("one", [step]).rows
    assert "{" not in row.label
