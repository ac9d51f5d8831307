"""Records decode from plain data, and bad data get one clear line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqrules import (
    Event,
    EventKind,
    Evidence,
    Outcome,
    UserError,
    read_evidence,
    rules,
    write_evidence,
)
from mqrules.schema import decode, encode, json_schema

GOOD = {"rule": "ALLOC-001", "kind": "checked", "subject": "MC", "verdict": "held"}


def test_evidence_survives_a_round_trip_through_a_file(tmp_path: Path) -> None:
    record = decode(Evidence, {**GOOD, "detail": {"distinct": 12}}, "here")
    write_evidence(tmp_path / "e.jsonl", [record, record])
    assert read_evidence(tmp_path / "e.jsonl") == [record, record]


def test_an_event_leaves_out_what_does_not_apply() -> None:
    event = Event(run="r", seq=0, process="p", kind=EventKind.SEND, outcome=Outcome.OK, time_ns=1)
    assert "group" not in encode(event)
    assert decode(Event, encode(event), "here") == event


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verdict": "fine"}, "here.verdict: 'fine' is not one of held"),
        ({"subject": 3}, "here.subject: string expected, not 3"),
        ({"colour": "red"}, "here: unknown field 'colour'"),
        ({"detail": {"x": [1]}}, "here.detail.x: string expected"),
    ],
)
def test_bad_data_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        decode(Evidence, {**GOOD, **change}, "here")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_field_is_named() -> None:
    with pytest.raises(UserError, match="field 'rule' is missing"):
        decode(Evidence, {k: v for k, v in GOOD.items() if k != "rule"}, "here")


def test_a_torn_evidence_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps(GOOD)[:20] + "\n")
    with pytest.raises(UserError, match=r"e\.jsonl:2: not JSON"):
        read_evidence(path)


def test_the_json_schema_lists_the_fields_and_what_is_required() -> None:
    schema = json_schema(Evidence)
    assert schema["required"] == ["rule", "kind", "subject", "verdict"]
    assert "proved" in schema["properties"]["kind"]["enum"]


def test_every_rule_is_complete_and_enough_of_each_area_is_there() -> None:
    areas = {rule_id.split("-")[0] for rule_id in rules()}
    assert areas >= {"ALLOC", "GROUP", "REBAL", "OFFSET", "RECOV"}
    assert len(rules()) >= 25
    for rule in rules().values():
        assert rule.text.endswith(".")
        assert rule.source
        assert rule.needs
