"""The core walks at random where TLC cannot search: more members, queues, messages and crashes.

Each step of the core must be a step of its module, and each state that it comes to must keep what
the module promises. Hypothesis draws the steps, and shortens a walk that falls.
"""

from __future__ import annotations

import sys
from collections import Counter
from importlib import import_module

import pytest
from edited import edited
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from walking import WALKS, Walk, Walker, walk_of

from mqcheck.manifest import models

STEPS = 40
MANY = 40  # walks, after which most actions have been taken
ENOUGH = 30  # to come by what is wrong

_OURS = ("mqspec.core.", "mqcheck.worlds.")


def take_walks(walk: Walk, number: int, *phases: Phase) -> Counter[str]:
    """Walk so often; what was taken how often. Raises what a walk that falls raises."""
    taken: Counter[str] = Counter()
    walker = type(walk.model.name, (Walker,), {"walk": walk, "taken": taken})
    run_state_machine_as_test(
        walker,
        settings=settings(
            max_examples=number,
            stateful_step_count=STEPS,
            phases=phases or tuple(Phase),
            deadline=None,
            database=None,
            derandomize=number < MANY,  # by night each time others
            suppress_health_check=list(HealthCheck),
        ),
    )
    return taken


@pytest.mark.parametrize("name", WALKS)
def test_the_core_keeps_to_its_module(name: str, pytestconfig: pytest.Config) -> None:
    number = pytestconfig.getoption("--walks")
    walk = walk_of(name)
    taken = take_walks(walk, number)
    assert taken.total() >= number
    if number >= MANY:
        world, _ = walk.begin()
        assert 2 * len(taken) >= len(world.actions)


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_falls_where_the_code_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edit = WALKS[name]
    module = import_module(f"mqspec.core.{edit['module']}")
    wrong = edited(module, edit["right"], edit["wrong"])
    right = dict(vars(module))
    for where in [each for name, each in sys.modules.items() if name.startswith(_OURS)]:
        for word, value in list(vars(where).items()):
            if callable(value) and right.get(word) is value:
                monkeypatch.setattr(where, word, vars(wrong)[word])

    with pytest.raises(AssertionError):
        take_walks(walk_of(name), ENOUGH, Phase.generate)


def test_every_world_has_a_walk() -> None:
    walked = {models()[name].world for name in WALKS}
    worlds = {model.world for model in models().values() if model.world}
    assert worlds - walked == {
        "lock_drift",  # how far clocks come apart is not the world's to bound
        "release",  # has no constants but the figures of 5.3.3
        "recovery",  # what a crash takes is found by trying, of more ways than can be tried
        "pop_order_moved",  # has the steps of its own only
    }
