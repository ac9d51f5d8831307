"""Every named repeat and gap of System has a rule, is shown, and is gone under its assumption."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqcheck.manifest import TLA, manifests, read_manifest
from mqdocs.guarantees import ideals, prose
from mqdocs.tla import parse
from mqrules import Kind, rules

TEXT = (TLA / "System.tla").read_text(encoding="utf-8")
FOUND = read_manifest(manifests()["System"])


def causes(name: str) -> list[str]:
    """The strings of a set that the module defines."""
    members = re.search(rf"^{name} == \{{(.*?)\}}", TEXT, re.MULTILINE | re.DOTALL)
    assert members, name
    return re.findall(r'"(\w+)"', members[1])


CAUSES = [*causes("RepeatCauses"), *causes("GapCauses")]


@pytest.mark.parametrize("cause", CAUSES)
def test_each_cause_has_an_ideal_that_one_model_breaks_and_another_keeps(cause: str) -> None:
    (row,) = [row for row in ideals(parse(TEXT), FOUND) if f'"{cause}"' in row.part.source]
    rule = rules()[row.rule]
    assert rule.kind is Kind.IDEAL
    assert rule.assumption
    assert row.shown
    assert row.gone
    assert prose(row.part)


def test_only_what_breaks_a_rule_is_a_row() -> None:
    names = [row.part.name for row in ideals(parse(TEXT), FOUND)]
    assert len(names) == len(CAUSES) + 1  # and NoRepeat, which is any of them
    assert ideals(parse(TEXT), []) == []


def test_the_prose_of_a_definition_is_one_line() -> None:
    box = "(*****)\n(* Two *)\n(* lines. *)\n(*****)\nA == 1"
    part = parse(f"---- MODULE M ----\n{box}\n====").operators["A"]
    assert prose(part) == "Two lines."


def test_the_page_says_what_the_module_does_not() -> None:
    page = (Path(__file__).parents[2] / "docs/guarantees.md").read_text(encoding="utf-8")
    assert "```{guarantees}" in page
    assert not [row.rule for row in ideals(parse(TEXT), FOUND) if row.rule in page]
