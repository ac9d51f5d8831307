"""The prover: it proves what holds, and says no, with numbers, to what does not."""

from __future__ import annotations

from dataclasses import replace

import z3

from mqprove.group import Group
from mqprove.prover import prove
from mqprove.theorems import THEOREMS
from mqspec.core import allocation

DISJOINT = next(theorem for theorem in THEOREMS if theorem.name == "averagely-disjoint")


def test_averagely_is_disjoint_for_every_size() -> None:
    proof = prove(DISJOINT, allocation)
    assert proof.proved
    assert proof.paths == 6  # three ways through averagely, for each of two members


def test_without_unique_ids_there_is_a_counterexample() -> None:
    proof = prove(replace(DISJOINT, unique=False), allocation)
    assert not proof.proved
    assert proof.counterexample is not None
    assert "ids=" in proof.counterexample


def test_a_false_claim_is_refuted_with_numbers() -> None:
    def nobody_takes_more_than_three(group: Group) -> z3.BoolRef:
        return group.member("i").count <= 3

    proof = prove(replace(DISJOINT, claim=nobody_takes_more_than_three), allocation)
    assert not proof.proved
    assert proof.counterexample is not None
    assert "takes [" in proof.counterexample
