"""A behaviour as a scenario: data that can be stored, drawn, and taken to any broker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mqcheck.behaviours import simulate
from mqcheck.manifest import Model
from mqcheck.replay import World, at_beginning, replay
from mqcheck.tlc import Counterexample
from mqcheck.worlds import world_of
from mqrules import UserError
from mqrules.scenario import Scenario, Step
from mqrules.schema import encode

DEPTH = 30  # states of a random behaviour, at most


def scenario_of(model: Model, name: str, found: Counterexample) -> Scenario:
    """The counterexample to property `name` of a model, as the reference replays it.

    A step's parameters have the names that the replay gives them, and its state is what the
    reference's state changed to. Of a model that the reference cannot follow it is what TLC
    tells: a first step, `Init`, with the whole state, then steps without parameters.
    """
    world = world_of(model)
    title = f"{model.about.rstrip('.')}: a counterexample to {name}"
    module = world.module if world else model.module.stem
    steps = _replayed(world, found.steps) if world else _told(found.steps)
    return Scenario(model.name, title, module, model.breaks[name].rules, steps)


def behaviours_of(model: Model, count: int, seed: int) -> list[Scenario]:
    """Random behaviours of a model that the reference went through; the same for one seed.

    As `scenario_of`, but that the first step, `Init`, has the whole state. Raises ReplayError
    where the reference does not take a step, UserError for a model that cannot be replayed.
    """
    world = begin(model)
    title = f"{model.about.rstrip('.')}: a random behaviour"
    rules = tuple(sorted({rule for of in model.holds.values() for rule in of}))
    return [
        Scenario(
            f"{model.name}-{seed}-{number}",
            title,
            world.module,
            rules,
            (_initial(world, steps), *_replayed(world, steps)),
        )
        for number, steps in enumerate(simulate(model, count, DEPTH, seed))
    ]


def begin(model: Model) -> World:
    """The reference at the beginning of a model. Raises UserError where it has no such one."""
    world = world_of(model)
    if world is None:
        raise UserError(model.name, "cannot be replayed", "take a model of what the reference does")
    return world


def _initial(world: World, steps: Sequence[Step]) -> Step:
    state = at_beginning(world, steps[0].state).state()
    return Step("Init", state={name: plain(value) for name, value in state.items()})


def _replayed(world: World, steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(
        Step(
            step.action,
            dict(zip(world.actions[step.action], map(plain, step.parameters), strict=True)),
            {variable: plain(value) for variable, value in step.changed.items()},
        )
        for step in replay(world, steps)
    )


def _told(steps: Sequence[Step]) -> tuple[Step, ...]:
    told = []
    before: Mapping[str, object] = {}
    for step in steps:
        changed = {
            name: plain(value) for name, value in step.state.items() if before.get(name) != value
        }
        told.append(Step(step.action, state=changed))
        before = step.state
    return tuple(told)


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
