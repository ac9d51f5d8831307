"""The prover: it proves what holds, and says no, with numbers, to what does not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import z3

from mqprove import command
from mqprove.contracts import CONTRACTS, Confirmation, Outcome
from mqprove.contracts.contract import Contract
from mqprove.given_group import GivenGroup
from mqprove.group import Group
from mqprove.mutants import mutate
from mqprove.prover import Claimed, Proof, Theorem, prove
from mqprove.side_by_side import Claim
from mqprove.theorems import THEOREMS
from mqrules import EvidenceKind, Kind, Verdict, read_evidence, rules
from mqspec.cli import main
from mqspec.core import allocation

DISJOINT = next(theorem for theorem in THEOREMS if theorem.name == "averagely-disjoint")


@pytest.mark.parametrize("theorem", THEOREMS, ids=lambda theorem: theorem.name)
def test_every_theorem_comes_out_as_expected(theorem: Theorem) -> None:
    proof = prove(theorem, allocation)
    assert proof.as_expected, proof.outcome
    assert proof.paths > 0


def test_averagely_is_run_along_each_of_its_paths() -> None:
    assert prove(DISJOINT, allocation).paths == 6  # three ways, for each of two members


def test_without_unique_ids_the_counterexample_is_real() -> None:
    counterexample = prove(replace(DISJOINT, unique=False), allocation).counterexample
    assert counterexample is not None
    assert "ids=['id0', 'id0'" in counterexample


def test_a_false_claim_is_refuted_with_numbers() -> None:
    def nobody_takes_more_than_three(group: Group) -> z3.BoolRef:
        return group.member("i").count <= 3

    proof = prove(replace(DISJOINT, claim=nobody_takes_more_than_three), allocation)
    assert not proof.proved
    assert proof.counterexample is not None
    assert proof.counterexample.startswith("n=4 c=1 i=0: member i=0 takes [0, 1, 2, 3]")


def test_code_that_raises_is_refuted_but_never_as_expected() -> None:
    raising = mutate("by hand", allocation, "return current_cid in cid_all", "return 1 // 0")
    stranger = next(t for t in THEOREMS if t.name == "stranger-takes-nothing")
    found = prove(stranger, raising.module).counterexample
    assert found is not None
    assert "raises ZeroDivisionError" in found
    assert prove(replace(stranger, holds=False), raising.module).counterexample is None


def test_a_claim_about_nobody_is_refuted() -> None:
    def the_next_takes_something(group: Group) -> z3.BoolRef:
        return group.member_at(group.number("i", group.members) + 1).count >= 0

    proof = prove(replace(DISJOINT, claim=the_next_takes_something), allocation)
    assert not proof.proved
    assert proof.counterexample is not None
    # Which of the small groups Z3 finds first depends on what it was asked before.
    found = re.fullmatch(r"n=\d+ c=(\d+) i=(\d+): nobody is at (\d+)", proof.counterexample)
    assert found is not None, proof.counterexample
    members, last, nobody = map(int, found.groups())
    assert members == nobody == last + 1


def test_a_claim_that_raises_is_no_refutation() -> None:
    def broken(group: Group) -> z3.BoolRef:
        if isinstance(group, GivenGroup):
            raise KeyError("a mistake in the claim")
        return group.member("i").count <= 3

    with pytest.raises(KeyError, match="a mistake"):
        prove(replace(DISJOINT, claim=broken, holds=False), allocation)


def test_a_claim_about_nothing_is_refused() -> None:
    def of_a_number_below_none(group: Group) -> z3.BoolRef:
        return group.number("k", below=z3.IntVal(0)) == 7

    with pytest.raises(AssertionError, match="contradict"):
        prove(replace(DISJOINT, claim=of_a_number_below_none), allocation)


def test_the_checks_before_a_strategy_are_proved_too() -> None:
    """Breaking `allocate` itself, around the arithmetic, is noticed."""
    unchecked = mutate("by hand", allocation, "return current_cid in cid_all", "return True")
    stranger = next(t for t in THEOREMS if t.name == "stranger-takes-nothing")
    assert not prove(stranger, unchecked.module).proved


def expected_of(theorem: Claimed) -> Proof:
    """What comes of a theorem, as other tests show of each."""
    shown = None if theorem.holds else "n=1 c=2"
    return Proof(theorem, theorem.holds, shown, "", goals=1, paths=1, seconds=0.0)


def all_expected(claims: Iterable[Claim]) -> Iterator[Proof | Confirmation]:
    """What comes of each, as other tests show."""
    for claim in claims:
        if isinstance(claim, Contract):
            outcome = Outcome.NOTHING_FOUND if claim.is_searched else Outcome.CONFIRMED
            yield Confirmation(claim, outcome, "", 0.0)
        else:
            yield expected_of(claim)


def test_evidence_names_rules_that_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "come_of", all_expected)
    path = tmp_path / "evidence.jsonl"
    assert main(["prove", "--evidence", str(path)]) == 0
    records = read_evidence(path)
    confirmed = {record.rule for record in records if record.kind is EvidenceKind.CONFIRMED}
    assert confirmed == {rule for each in CONTRACTS if not each.is_searched for rule in each.rules}
    proved = [record for record in records if record.kind is EvidenceKind.PROVED]
    held = {record.rule for record in proved if record.verdict is Verdict.HELD}
    refuted = {record.rule for record in proved if record.verdict is Verdict.REFUTED}
    assert refuted == {"ALLOC-010", "ALLOC-014", "ALLOC-022"}
    needing = {rule.id for rule in rules().values() if EvidenceKind.PROVED in rule.needs}
    # An ideal that is proved under its assumption needs the counterexample without it.
    ideals = {rule for rule in held if rules()[rule].kind is Kind.IDEAL} - refuted
    assert ideals == {"LOCK-009", "LOG-031", "REBAL-003", "REBAL-010", "RETRY-013"}
    assert held - ideals | refuted == needing


def test_what_does_not_come_out_is_evidence_against_its_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fallen(claims: Iterable[Theorem]) -> Iterator[Proof]:
        for claim in claims:
            yield replace(expected_of(claim), proved=False, counterexample="n=1 c=2")

    monkeypatch.setattr(command, "come_of", fallen)
    path = tmp_path / "evidence.jsonl"
    assert main(["prove", "--theorem", DISJOINT.name, "--evidence", str(path)]) == 1
    said = {(record.rule, record.verdict) for record in read_evidence(path)}
    assert said == {(rule, Verdict.VIOLATED) for rule in DISJOINT.rules}


def test_an_unknown_theorem_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--theorem", "nonsense"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
