"""The theorems kill every mutant that cosmic-ray makes of averagely, with numbers."""

from __future__ import annotations

import inspect

import pytest

from mqprove.mutants import Mutant, judge, mutants, mutate
from mqprove.theorems import AVG, THEOREMS
from mqspec.core import allocation

ABOUT_AVERAGELY = [t for t in THEOREMS if t.strategy == AVG and t.holds and not t.empty]
MUTANTS = list(mutants(allocation, allocation.average_slice, allocation.averagely))
SOURCE = inspect.getsource(allocation.average_slice)


def test_the_tool_mutates_every_operator_and_number() -> None:
    lines = SOURCE.splitlines()
    changed = {made.name.partition(": ")[2] for made in MUTANTS}
    assert len(MUTANTS) >= 70
    for line in (line.strip() for line in lines if any(sign in line for sign in "%*+/<")):
        head = line.split()[0]
        assert any(text.startswith(head) for text in changed), line


@pytest.mark.parametrize("made", MUTANTS, ids=lambda made: made.name)
def test_every_mutant_is_killed_with_numbers_or_equivalent(made: Mutant) -> None:
    fate = judge(made, allocation, ABOUT_AVERAGELY)
    assert not fate.survived
    assert fate.equivalent or "n=" in fate.killed_by


def test_a_weak_theorem_lets_a_mutant_live() -> None:
    balanced = [t for t in ABOUT_AVERAGELY if t.name == "averagely-balanced"]
    shifted = mutate("by hand", allocation, "share * index + min", "share * index - min")
    fate = judge(shifted, allocation, balanced)
    assert fate.survived


def test_an_equivalent_mutant_is_proved_so() -> None:
    same = mutate("by hand", allocation, "min(index, remainder)", "min(remainder, index)")
    assert judge(same, allocation, ABOUT_AVERAGELY).equivalent


def test_a_mutant_that_loops_is_no_kill() -> None:
    loop = "    while share > 0:\n        share = share - 1\n    start = share"
    endless = mutate("by hand", allocation, "    start = share", loop)
    assert judge(endless, allocation, ABOUT_AVERAGELY).survived
