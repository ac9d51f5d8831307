"""A core that has not a defect departs from what TLC finds in the defect's model, and where it is.

Here from one counterexample of each model; `mqspec check --tier full` takes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from graphs import counterexample, graph

from mqcheck.manifest import check_model, models
from mqcheck.replay import ReplayError, depart
from mqcheck.worlds import departing_world, world_of
from mqrules import UserError
from mqspec.core import pop_order

DEPARTING = [model.name for model in models().values() if model.departs]


@pytest.mark.parametrize("name", DEPARTING)
def test_the_core_departs_where_the_defect_is(name: str) -> None:
    model = models()[name]
    assert world_of(model) is None  # it does not take all that the model does
    departed, end = _depart(name, next(iter(model.breaks)))
    if departed:
        return

    # The core took all steps, and could take one more. There the defect has none of its action,
    # or it would be fairness alone that the model lacks, of which no world knows.
    drawn = graph(name)
    (last,) = (key for key, state in drawn.states.items() if state == end)
    assert not [
        edge
        for edge in drawn.edges
        if edge.source == last != edge.target and edge.action == model.departs
    ]


def _depart(name: str, broken: str, at: str = "") -> tuple[bool, Mapping[str, object]]:
    """Whether the core departed before the end of the counterexample, and the state there."""
    model, steps = counterexample(name, broken)
    world = departing_world(model)
    assert world is not None
    return depart(world, steps, at or model.departs) < len(steps) - 1, steps[-1].state


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
