"""What is proved in processes side by side: in order, each by itself, and what is false is told."""

from __future__ import annotations

from dataclasses import replace

from mqprove.contracts import CONTRACTS, Outcome
from mqprove.contracts.confirming import Confirmation
from mqprove.inductive import Invariance
from mqprove.protocols import INVARIANCES
from mqprove.prover import Proof
from mqprove.side_by_side import come_of
from mqprove.theorems import THEOREMS


def invariance(name: str) -> Invariance:
    return next(theorem for theorem in INVARIANCES if theorem.name == name)


def test_what_comes_of_each_is_told_in_order_also_what_is_false() -> None:
    shared = replace(THEOREMS[0], unique=False)  # holds of unique ids alone
    restarting = replace(invariance("lock-one-belief"), bounds="HolderBounds", never=())
    contract = next(each for each in CONTRACTS if each.name == "slices-are-inside")

    no, yes, broken, confirmed = come_of([shared, THEOREMS[0], restarting, contract])

    assert isinstance(no, Proof)
    assert isinstance(yes, Proof)
    assert isinstance(broken, Proof)
    assert isinstance(confirmed, Confirmation)
    assert (no.theorem, yes.theorem, broken.theorem) == (shared, THEOREMS[0], restarting)
    assert "ids=['id0', 'id0'" in no.outcome
    assert not no.as_expected
    assert yes.outcome == "proved"
    assert broken.outcome.startswith("fails: ")
    assert not broken.as_expected
    assert (confirmed.contract, confirmed.outcome) == (contract, Outcome.CONFIRMED)
