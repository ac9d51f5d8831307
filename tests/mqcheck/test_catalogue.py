"""The catalogue of defects: every entry is shown, and public reports of every area are in it."""

from __future__ import annotations

import re

import pytest

from mqcheck.manifest import Model, models
from mqrules import Defect, Kind, Rule, defects, rules

# The areas of the public reports, each by the rules that it is about.
AREAS = {
    "allocation": {"ALLOC"},
    "group, membership, routes": {"GROUP", "NAMESRV"},
    "rebalance": {"REBAL"},
    "subscription and filtering": {"SUBS"},
    "offset commit, start, reset": {"OFFSET"},
    "publishing": {"SEND"},
    "log and recovery": {"LOG", "RECOV"},
    "orderly locks": {"LOCK"},
    "retry and dead letters": {"RETRY"},
    "delay and timer": {"DELAY", "TIMER"},
    "transactions": {"TX"},
    "POP": {"POP"},
    "long polling": {"PULL"},
    "replication": {"REPL"},
    "wire": {"WIRE"},
}
REPORT = re.compile(r"[\w.-]+/[\w.-]+#[1-9]\d*")

SEEDED = [model for model in models().values() if model.defect]
IDEALS = [rule for rule in rules().values() if rule.kind is Kind.IDEAL]


def reported() -> list[Defect]:
    """The defects of which there are public reports and a model."""
    return [defect for defect in defects().values() if defect.issues and defect.model]


@pytest.mark.parametrize("defect", defects().values(), ids=lambda defect: defect.id)
def test_a_defect_is_shown_by_what_it_names(defect: Defect) -> None:
    assert defect.model or defect.patch or defect.case
    assert defect.incident or defect.issues
    assert set(defect.breaks) <= rules().keys()
    assert {*defect.excerpts, *defect.unread} <= {*defect.issues}
    assert not {*defect.excerpts} & {*defect.unread}
    if defect.model:
        assert set(defect.breaks) <= models()[defect.model].broken


@pytest.mark.parametrize("model", SEEDED, ids=lambda model: model.name)
def test_a_seeded_model_is_the_one_of_its_defect(model: Model) -> None:
    assert defects()[str(model.defect)].model == model.name


def test_thirty_public_reports_and_more_are_seeded_each_in_one_place() -> None:
    issues = [issue for defect in reported() for issue in defect.issues]
    assert all(REPORT.fullmatch(issue) for issue in issues)
    assert len(issues) == len(set(issues))
    assert len(reported()) >= 30


@pytest.mark.parametrize("area", AREAS)
def test_each_area_of_public_reports_has_a_seeded_model(area: str) -> None:
    prefixes = {rule.partition("-")[0] for defect in reported() for rule in defect.breaks}
    assert prefixes & AREAS[area]


@pytest.mark.parametrize("ideal", IDEALS, ids=lambda rule: rule.id)
def test_an_ideal_is_refuted_by_a_model_and_holds_in_another(ideal: Rule) -> None:
    assert any(ideal.id in model.broken for model in models().values())
    kept = (model for model in models().values() if ideal.id in model.kept)
    assert any(not model.defect for model in kept) or "none is known" in str(ideal.assumption)
