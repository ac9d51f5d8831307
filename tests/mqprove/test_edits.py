"""Edits of allocation: a wrong one falls to a theorem, a harmless one is proved again.

They were written before anybody looked what the theorems say of them.
"""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from by_night import one_in

from mqprove.mutants import mutate
from mqprove.prover import prove
from mqprove.theorems import THEOREMS
from mqspec.core import allocation

EDITS = tomllib.loads(Path(__file__).with_name("edits.toml").read_text())["edit"]


def edited_by(edit: dict[str, Any]) -> ModuleType:
    return mutate("by hand", allocation, edit["old"], edit["new"]).module


def fallen(edit: dict[str, Any]) -> str:
    """The first theorem about the edit's strategy that does not come out as expected any more."""
    edited = edited_by(edit)
    about = (theorem for theorem in THEOREMS if theorem.strategy == edit["strategy"])
    proofs = (prove(theorem, edited) for theorem in about)
    return next((f"{p.theorem.name}: {p.outcome}" for p in proofs if not p.as_expected), "")


@pytest.mark.parametrize("edit", one_in(4, EDITS), ids=lambda edit: edit["name"])
def test_what_is_wrong_falls_and_nothing_else(edit: dict[str, Any]) -> None:
    found = fallen(edit)
    assert bool(found) == (edit["kind"] == "wrong"), found


def test_numbers_come_before_a_long_proof() -> None:
    """Of what is false here Z3 looked for a proof for minutes, whatever work it was given."""
    edit = next(edit for edit in EDITS if edit["name"] == "avg-next-default-wrong")
    (theorem,) = (each for each in THEOREMS if each.name == "averagely-moves-by-positions")
    assert prove(theorem, edited_by(edit)).outcome.startswith("fails: n=")


def test_there_are_both_kinds_and_each_is_an_edit() -> None:
    source = inspect.getsource(allocation)
    assert [edit["name"] for edit in EDITS if source.count(edit["old"]) != 1] == []
    kinds = [edit["kind"] for edit in EDITS]
    assert kinds.count("wrong") >= 20
    assert kinds.count("harmless") >= 10
