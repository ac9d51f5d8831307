"""State graphs of small models, each drawn once for all tests; and counterexamples."""

from __future__ import annotations

from functools import cache

from mqcheck.behaviours import StateGraph, state_graph
from mqcheck.manifest import Model, models
from mqcheck.runner import plan, run_check
from mqcheck.variant import variant_of
from mqrules.scenario import Step


def smaller(name: str, **constants: int) -> Model:
    """The model of this name; where constants are given, with these."""
    model = models()[name]
    return variant_of(model, constants) if constants else model


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
