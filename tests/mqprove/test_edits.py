"""Edits of allocation: a wrong one falls to a theorem, a harmless one is proved again.

They were written before anybody looked what the theorems say of them.
"""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mqprove.mutants import mutate
from mqprove.prover import prove
from mqprove.theorems import THEOREMS
from mqspec.core import allocation

EDITS = tomllib.loads(Path(__file__).with_name("edits.toml").read_text())["edit"]


def fallen(edit: dict[str, Any]) -> str:
    """The first theorem about the edit's strategy that does not come out as expected any more."""
    edited = mutate("by hand", allocation, edit["old"], edit["new"]).module
    about = (theorem for theorem in THEOREMS if theorem.strategy == edit["strategy"])
    proofs = (prove(theorem, edited) for theorem in about)
    return next((f"{p.theorem.name}: {p.outcome}" for p in proofs if not p.as_expected), "")


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit["name"])
def test_what_is_wrong_falls_and_nothing_else(edit: dict[str, Any]) -> None:
    found = fallen(edit)
    assert bool(found) == (edit["kind"] == "wrong"), found


def test_there_are_both_kinds_and_each_is_an_edit() -> None:
    source = inspect.getsource(allocation)
    assert [edit["name"] for edit in EDITS if source.count(edit["old"]) != 1] == []
    kinds = [edit["kind"] for edit in EDITS]
    assert kinds.count("wrong") >= 20
    assert kinds.count("harmless") >= 10
