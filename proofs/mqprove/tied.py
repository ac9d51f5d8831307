"""Whether the steps that theorems are about are those of a small model, as TLC finds them.

Of each state of the model's graph all ways of all actions are computed by the same reading of the
module: each of them is a step of the graph, and each step of the graph is one of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import z3

from mqcheck.behaviours import StateGraph
from mqcheck.manifest import Model
from mqcheck.values import FrozenDict, parse_value
from mqprove.inductive import Protocol, Steps
from mqprove.symbolic import NotUnderstoodError
from mqprove.tla_meaning import NEXT, Place, Way
from mqprove.tla_module import Module
from mqprove.tla_told import given, told
from mqprove.tla_values import World

_CONSTANT = re.compile(r"(\w+)\s*=\s*(\{[^}]*\}|\"[^\"]*\"|-?\w+)")
_DEFINED = re.compile(r"(\w+)\s*<-\s*(\w+)")


def constants_of(model: Model) -> dict[str, Any]:
    """What a model's configuration says of its constants."""
    return {name: parse_value(text) for name, text in _CONSTANT.findall(model.config.rest)}


def _small(protocol: Protocol, model: Model, module: Module | None) -> Steps:
    """The reading over what the model says: constants, and definitions that stand for some."""
    constants = constants_of(model)
    numbers = [value for value in constants.values() if type(value) is int]
    world = World(
        {name: sorted(constants[name], key=str) for name in protocol.sets},
        range(max(numbers) + 2),
    )
    steps = Steps(protocol, module, world)
    known = steps.meaning.constants
    for name in protocol.constants.keys() & constants.keys():
        known[name] = given(constants[name], protocol.constants[name], world)
    for name, defined in _DEFINED.findall(model.config.rest):
        known[name] = steps.meaning.value(steps.module.named(defined).body, Place({}))
    return steps


def differences(
    protocol: Protocol,
    model: Model,
    graph: StateGraph,
    module: Module | None = None,
    *,
    every: int = 1,
) -> Iterator[str]:
    """The steps that only the graph has, and those that only the reading has, from each state, or
    from one state in so many."""
    steps = _small(protocol, model, module)
    world = steps.world
    is_named = not all(edge.action.endswith(NEXT) for edge in graph.edges)
    found = {ways_told(steps, steps.beginnings())}
    if found != {frozenset(("Init", _plain(graph.states[key])) for key in graph.initial)}:
        yield "the beginning"
    following: dict[str, set[tuple[str, FrozenDict]]] = {key: set() for key in graph.states}
    for edge in graph.edges:
        action = edge.action if is_named else ""
        following[edge.source].add((action, _plain(graph.states[edge.target])))
    for key, state in islice(graph.states.items(), 0, None, every):
        before = {
            name: given(state[name], shape, world) for name, shape in protocol.variables.items()
        }
        read = ways_told(steps, steps.ways_from(before), is_named=is_named)
        for action, after in read - following[key]:
            yield f"only read: {dict(state)} {action} {dict(after)}"
        for action, after in following[key] - read:
            yield f"only in the graph: {dict(state)} {action} {dict(after)}"


def ways_told(
    steps: Steps, ways: Iterable[Way], *, is_named: bool = True
) -> frozenset[tuple[str, FrozenDict]]:
    """What can be done, and the state after it. TLC gives no names where all is in conjunction."""
    return frozenset(
        (
            way.action if is_named else "",
            FrozenDict(
                {
                    name: _normal(told(way.after[name], shape, steps.world, z3.simplify))
                    for name, shape in steps.protocol.variables.items()
                }
            ),
        )
        for way in ways
        if _holds(way.conditions)
    )


def _holds(conditions: Iterable[z3.BoolRef]) -> bool:
    for condition in conditions:
        known = z3.simplify(condition)
        if not (z3.is_true(known) or z3.is_false(known)):
            raise NotUnderstoodError(f"{known} where all is known")
        if z3.is_false(known):
            return False
    return True


def _plain(state: Mapping[str, Any]) -> FrozenDict:
    return FrozenDict({name: _normal(value) for name, value in state.items()})


def _normal(value: Any) -> Any:
    """A function on 1..n, which TLC tells as a tuple, as any other."""
    match value:
        case FrozenDict():
            return FrozenDict({key: _normal(one) for key, one in value.items()})
        case tuple():
            return FrozenDict({number: _normal(one) for number, one in enumerate(value, 1)})
        case frozenset():
            return frozenset(map(_normal, value))
        case _:
            return value
