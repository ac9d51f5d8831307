"""The matrix must say no: gaps, failures, seeded defects that nothing noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqrules import Evidence, EvidenceKind, Kind, Level, Party, Rule, Verdict
from mqrules.matrix import matrix

CHECKED, PROVED = EvidenceKind.CHECKED, EvidenceKind.PROVED
RULE = Rule(
    id="ALLOC-001",
    text="Slices are disjoint.",
    kind=Kind.PROMISE,
    level=Level.MUST,
    party=Party.CLIENT,
    since="3.0.0",
    source="scenario A",
    needs=(CHECKED, PROVED),
)
IDEAL = replace(RULE, kind=Kind.IDEAL, level=Level.NONE, needs=(CHECKED,), assumption="x")
HELD = Evidence(rule="ALLOC-001", kind=CHECKED, subject="MC", verdict=Verdict.HELD)
BOTH = [HELD, replace(HELD, kind=PROVED)]


def failures(*records: Evidence, rule: Rule = RULE) -> list[str]:
    found = matrix({rule.id: rule}, records)
    return [*found.violations(), *found.gaps()]


def test_a_must_with_all_it_needs_passes() -> None:
    assert failures(*BOTH) == []


def test_a_must_without_a_kind_that_it_needs_is_a_gap_that_fails() -> None:
    assert failures(HELD) == ["ALLOC-001: not proved, and a MUST"]
    assert failures(HELD, rule=replace(RULE, level=Level.SHOULD)) == []


@pytest.mark.parametrize(
    "verdict",
    [Verdict.NOT_RUN, Verdict.NOT_CLAIMED, Verdict.BLOCKED, Verdict.UNDECIDABLE, Verdict.REFUTED],
)
def test_nothing_but_held_closes_a_must(verdict: Verdict) -> None:
    assert failures(*BOTH, replace(HELD, verdict=verdict)) == ["ALLOC-001: not checked, and a MUST"]


def test_one_violation_outweighs_any_number_of_passes() -> None:
    bad = replace(HELD, verdict=Verdict.VIOLATED, detail={"problem": "n=7, c=3"})
    assert failures(*BOTH, bad, HELD) == ["ALLOC-001: checked, MC: n=7, c=3"]


def test_an_ideal_is_closed_by_its_counterexample() -> None:
    found = matrix({IDEAL.id: IDEAL}, [HELD, replace(HELD, verdict=Verdict.REFUTED)])
    assert found.rows[0].gaps == ()


@pytest.mark.parametrize("records", [[], [HELD]])
def test_an_ideal_without_a_counterexample_is_a_gap(records: list[Evidence]) -> None:
    assert matrix({IDEAL.id: IDEAL}, records).rows[0].gaps == (CHECKED,)


def test_a_seeded_defect_counts_for_no_rule_and_must_be_noticed() -> None:
    kill = replace(HELD, defect="SameClientId", verdict=Verdict.REFUTED)
    assert failures(*BOTH, kill) == []
    assert failures(kill, replace(kill, kind=PROVED)) == [
        "ALLOC-001: not checked, proved, and a MUST"
    ]
    missed = replace(kill, verdict=Verdict.VIOLATED)
    assert failures(*BOTH, missed) == ["ALLOC-001: the defect SameClientId, MC: it was not noticed"]
