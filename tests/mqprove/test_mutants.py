"""The theorems kill every mutant of the strategies, or it is listed."""

from __future__ import annotations

import inspect

import pytest
from by_night import BY_NIGHT, one_in

from mqprove.group import CONFIG, CONSISTENT_HASH, MACHINE_ROOM, NEARBY
from mqprove.mutants import LISTED, Mutant, about, judge, mutants, mutate, of_strategy
from mqprove.theorems import AVG, CIRCLE
from mqspec.core import allocation

MUTANTS = [
    (strategy, made) for strategy in (AVG, CIRCLE) for made in of_strategy(allocation, strategy)
]
SOURCE = inspect.getsource(allocation.average_slice)


def test_the_tool_mutates_every_operator_and_number() -> None:
    lines = SOURCE.splitlines()
    changed = {made.name.partition(": ")[2] for _, made in MUTANTS}
    assert len(MUTANTS) >= 80
    for line in (line.strip() for line in lines if any(sign in line for sign in "%*+/<")):
        head = line.split()[0]
        assert any(text.startswith(head) for text in changed), line


@pytest.mark.parametrize("mutant", one_in(2, MUTANTS), ids=lambda mutant: mutant[1].name)
def test_every_mutant_is_killed_with_numbers_or_equivalent(mutant: tuple[str, Mutant]) -> None:
    strategy, made = mutant
    fate = judge(made, allocation, about(strategy))
    assert not fate.survived
    assert fate.equivalent or "n=" in fate.killed_by


@pytest.mark.parametrize(
    ("strategy", "least"),
    [
        pytest.param(MACHINE_ROOM, 40, marks=BY_NIGHT),
        (NEARBY, 20),
        (CONFIG, 1),
        pytest.param(CONSISTENT_HASH, 40, marks=BY_NIGHT),
    ],
)
def test_a_mutant_of_a_drawn_strategy_is_killed_with_numbers_or_listed(
    strategy: str, least: int
) -> None:
    fates = [judge(made, allocation, about(strategy)) for made in of_strategy(allocation, strategy)]
    assert len(fates) >= least
    assert [fate.mutant.name for fate in fates if fate.survived] == []
    assert not any(fate.equivalent for fate in fates)
    assert all("n=" in fate.killed_by for fate in fates if fate.killed_by)


def test_each_bound_of_a_slice_is_moved_and_left_out() -> None:
    made = [mutant.name.partition(": ")[2] for mutant in of_strategy(allocation, CIRCLE)]
    own = "cid_all.index(current_cid)"
    assert made == [
        f"return mq_all[{slice_of}]"
        for slice_of in (
            " :: len(cid_all)",
            f"{own} + 1 :: len(cid_all)",
            f"{own} - 1 :: len(cid_all)",
            f"{own} :: ",
            f"{own} :: len(cid_all) + 1",
            f"{own} :: len(cid_all) - 1",
        )
    ]


def test_the_list_names_mutants_that_there_are() -> None:
    strategies = (NEARBY, CONSISTENT_HASH)
    made = {mutant.name for each in strategies for mutant in of_strategy(allocation, each)}
    assert set(LISTED) <= made


def test_a_mutant_of_the_ring_that_nobody_listed_survives() -> None:
    unseen = mutate("by hand", allocation, "first + virtual_nodes)", "first + virtual_nodes + 0)")
    assert judge(unseen, allocation, about(CONSISTENT_HASH)).survived


def test_what_differs_in_an_annotation_alone_is_no_mutant() -> None:
    assert "->" in inspect.getsource(allocation._room)
    made = mutants(allocation, allocation._room)
    assert not [mutant.name for mutant in made if "def " in mutant.name]


def test_a_weak_theorem_lets_a_mutant_live() -> None:
    balanced = [t for t in about(AVG) if t.name == "averagely-balanced"]
    shifted = mutate("by hand", allocation, "share * index + min", "share * index - min")
    fate = judge(shifted, allocation, balanced)
    assert fate.survived


def test_an_equivalent_mutant_is_proved_so() -> None:
    same = mutate("by hand", allocation, "min(index, remainder)", "min(remainder, index)")
    assert judge(same, allocation, about(AVG)).equivalent


def test_a_mutant_that_loops_is_no_kill() -> None:
    loop = "    spare = share\n    while spare > 0:\n        spare = spare - 1\n    start = share"
    harmless = mutate("by hand", allocation, "    start = share", loop)
    assert judge(harmless, allocation, about(AVG)).survived


def test_a_mutant_that_loops_to_something_wrong_is_killed_with_numbers() -> None:
    loop = "    while share > 0:\n        share = share - 1\n    start = share"
    wrong = mutate("by hand", allocation, "    start = share", loop)
    assert " takes " in judge(wrong, allocation, about(AVG)).killed_by
