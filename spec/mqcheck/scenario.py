"""A counterexample as a scenario: data that can be stored, drawn, and taken to any broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mqcheck.manifest import Model
from mqcheck.replay import replay
from mqcheck.tlc import Counterexample
from mqcheck.worlds import world_of
from mqrules import UserError
from mqrules.scenario import Scenario, Step
from mqrules.schema import encode


def scenario_of(model: Model, name: str, found: Counterexample) -> Scenario:
    """The counterexample to property `name` of a model, as the reference replays it.

    A step's parameters have the names that the replay gives them, and its state is what the
    reference's state changed to. Raises UserError for a model that cannot be replayed.
    """
    world = world_of(model)
    if world is None:
        raise UserError(model.name, "cannot be replayed", "take a model of what the reference does")
    steps = (
        Step(
            step.action,
            dict(zip(world.actions[step.action], map(plain, step.parameters), strict=True)),
            {variable: plain(value) for variable, value in step.changed.items()},
        )
        for step in replay(world, found.steps)
    )
    title = f"{model.about}: a counterexample to {name}"
    rules = model.breaks[name].rules
    return Scenario(model.name, title, model.module.stem, rules, tuple(steps))


def write_scenario(path: Path, scenario: Scenario) -> None:
    """Write a scenario as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(encode(scenario), indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def plain(value: Any) -> Any:
    """A TLA+ value as JSON has them: a function as an object, a set as a sorted list."""
    match value:
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case frozenset():
            return sorted(map(plain, value), key=repr)
        case tuple():
            return [plain(item) for item in value]
        case bool() | int():
            return value
        case _:
            return str(value)
