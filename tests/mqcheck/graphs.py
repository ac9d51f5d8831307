"""State graphs of small models, each drawn once for all tests; and counterexamples."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from functools import cache

from mqcheck.behaviours import StateGraph, state_graph
from mqcheck.config import Config
from mqcheck.manifest import Model, models
from mqcheck.runner import plan, run_check
from mqrules.scenario import Step


@dataclass(frozen=True, slots=True)
class Smaller(Model):
    """A model with some of its numbers and truth values replaced."""

    constants: dict[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        found: Config = Model.config.fget(self)  # type: ignore[attr-defined]
        rest = found.rest
        for name, value in self.constants.items():
            rest, count = re.subn(rf"\b{name} = \w+", f"{name} = {value}", rest)
            assert count == 1, f"{self.name} has no {name}"
        return replace(found, rest=rest)


def smaller(name: str, **constants: int) -> Model:
    """The model of this name; where constants are given, with these."""
    model = models()[name]
    if not constants:
        return model
    given = {field.name: getattr(model, field.name) for field in fields(Model)}
    return Smaller(**given, constants={name: str(value) for name, value in constants.items()})


@cache
def graph(name: str, **constants: int) -> StateGraph:
    return state_graph(smaller(name, **constants))


def counterexample(model: str, name: str) -> tuple[Model, tuple[Step, ...]]:
    """The model, and its counterexample to a property that it breaks."""
    chosen = models()[model]
    check = next(c for c in plan(chosen) if name in c.properties)
    found = run_check(check).counterexample
    assert found is not None
    return chosen, found.steps
