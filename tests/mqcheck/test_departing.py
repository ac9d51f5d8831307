"""A core that has not a defect departs from what TLC finds in the defect's model, and where it is.

Here from one counterexample of each model; `mqspec check --tier full` takes them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from graphs import counterexample, graph

from mqcheck.behaviours import take_every_edge
from mqcheck.manifest import check_model, models
from mqcheck.replay import ReplayError, depart
from mqcheck.worlds import departing_world, world_of
from mqrules import UserError
from mqspec.core import pop_order

DEPARTING = [model.name for model in models().values() if model.departs]


# These leave something out: the core takes all of their steps, and then one more.
LEFT_OUT = {
    "MC_PopPolling__NobodyForgets",
    "MC_Publish__NoLastResort",
    "MC_Subscription__HeartbeatsOnlyOnChange",
    "MC_TopicRoute__RoutesOnce",
    "MC_TransactionSeeded__RoundsThrow",
}


@pytest.mark.parametrize("name", DEPARTING)
def test_the_core_departs_where_the_defect_is(name: str) -> None:
    assert world_of(models()[name]) is None  # it does not take all that the model does
    has_taken_all = _depart(name, next(iter(models()[name].breaks)))
    assert has_taken_all is (name in LEFT_OUT)


@pytest.mark.parametrize("name", sorted(LEFT_OUT))
def test_what_a_defect_leaves_out_the_core_alone_has(name: str) -> None:
    """Or it would be fairness alone that the model lacks, of which no world knows."""
    model = models()[name]
    world = departing_world(model)
    assert world is not None
    with pytest.raises(ReplayError, match=f"only the reference has {model.departs}"):
        take_every_edge(world, graph(name), and_no_other=True)


def _depart(name: str, broken: str, at: str = "") -> bool:
    """Whether the core took all steps before it departed."""
    model, steps = counterexample(name, broken)
    world = departing_world(model)
    assert world is not None
    return depart(world, steps, at or model.departs) == len(steps) - 1


@pytest.mark.parametrize(
    ("name", "broken", "module", "function", "defect", "says"),
    [
        (
            "MC_PopOrder__NotBlocked",
            "OneBatchAtATime",
            pop_order,
            "is_blocked",
            lambda *_: False,
            "the reference takes all steps, and no Pop then",
        ),
    ],
)
def test_a_core_that_has_the_defect_departs_nowhere(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    broken: str,
    module: ModuleType,
    function: str,
    defect: Callable[..., object],
    says: str,
) -> None:
    monkeypatch.setattr(module, function, defect)
    with pytest.raises(ReplayError, match=says):
        _depart(name, broken)


def test_to_depart_elsewhere_is_refused() -> None:
    with pytest.raises(ReplayError, match="step 6, Tick: no Tick leads the reference to"):
        _depart("MC_Lock__BelievesTooLong", "OneBelief", at="Asked")


@pytest.mark.parametrize("change", [{"world": "", "not_replayed": "because"}, {"breaks": {}}])
def test_a_model_departs_from_something(change: dict[str, Any]) -> None:
    model = models()["MC_Lock__BelievesTooLong"]
    check_model(model, model.config, "Lock.toml")
    with pytest.raises(UserError, match="`departs`, and nothing to depart from"):
        check_model(replace(model, **change), model.config, "Lock.toml")
