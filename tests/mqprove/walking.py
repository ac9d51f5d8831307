"""Walks of the core through a model's world, with constants that TLC could not search."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from concrete import Concrete, Sought, State
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mqcheck.manifest import Model, library, models
from mqcheck.replay import NotEnabled, World
from mqcheck.source import snake_case
from mqcheck.values import parse_value, tla
from mqcheck.worlds import constants_of, world_of
from mqprove.tla_module import STATE, Expression, Module, read

_Each = TypeVar("_Each")
_EXTENDS = re.compile(r"^EXTENDS +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Walk:
    """A model's world, with other constants, and its module, which judges it."""

    model: Model
    changed: Mapping[str, Any]

    @cached_property
    def constants(self) -> dict[str, Any]:
        return constants_of(self.model) | dict(self.changed)

    @cached_property
    def judge(self) -> Concrete:
        module = self.model.module
        return Concrete(read(module), self.constants, extended(module))

    @cached_property
    def spec(self) -> tuple[Expression, Expression]:
        """How the model begins, and its next-state relation."""
        named = re.search(r"SPECIFICATION\s+(\w+)", self.model.config.rest)
        assert named
        return _beginning_and_next(self.judge.module, self.judge.named(named[1]).body)

    @cached_property
    def invariants(self) -> tuple[str, ...]:
        return tuple(each for each in self.model.config.invariants if each in self.model.holds)

    def begin(self) -> tuple[World, State]:
        """The world, and the module's state that it is in: with ghosts, and all that it counts."""
        world = world_of(self.model, self.constants)
        assert world
        state = next(self.judge.initial(self.spec[0], world.state()), None)
        assert state, "the core begins where the module does not"
        return world, state

    def follow(self, action: str, before: State, world: World) -> State | None:
        """The module's state after a step of the world; None where the module has no such step."""
        sought = Sought(world.state(), but=world.actions.keys() - {action})
        return next(self.judge.following(self.spec[1], before, sought), None)


def extended(path: Path) -> set[str]:
    """The names of a module and of those that it extends."""
    found, left = set(), [path]
    while left:
        module = left.pop()
        found.add(module.stem)
        for name in _EXTENDS.findall(module.read_text(encoding="utf-8")):
            files = (
                folder / f"{each.strip()}.tla" for each in name.split(",") for folder in library()
            )
            left += [file for file in files if file.exists() and file.stem not in found]
    return found


def _beginning_and_next(module: Module, spec: Expression) -> tuple[Expression, Expression]:
    """Init and Next of Init /\\ [][Next]_vars and whatever follows, or of a name for that."""
    if spec.kind == "operator":
        return _beginning_and_next(module, module.definitions[spec.name].body)
    first, second = spec.operands[:2]
    if second.name == "[]" and first.level == STATE:
        return first, second.operands[0].operands[0]
    return _beginning_and_next(module, first)


WALKS = tomllib.loads(Path(__file__).with_name("walks.toml").read_text(encoding="utf-8"))


def walk_of(model: str) -> Walk:
    """The walk through a model's world with the constants of walks.toml."""
    changed = {name: parse_value(str(value)) for name, value in WALKS[model]["constants"].items()}
    return Walk(models()[model], changed)


def _from(first: int, several: Sequence[_Each]) -> Iterator[_Each]:
    """All of them, from one on and round."""
    yield from several[first:]
    yield from several[:first]


class Walker(RuleBasedStateMachine):
    """The core takes whatever step it can; whatever state that leads to is judged."""

    walk: Walk
    taken: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.world, self.state = self.walk.begin()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """An action with some parameters; where it cannot be taken, the next one that can."""
        actions = sorted(self.world.actions)
        for action in _from(data.draw(st.integers(0, len(actions) - 1), "action"), actions):
            domains = (sorted(self.world.domain(n), key=tla) for n in self.world.actions[action])
            choices = list(product(*domains))
            first = data.draw(st.integers(0, max(0, len(choices) - 1)), action)
            if any(self._takes(action, each) for each in _from(first, choices)):
                return

    def _takes(self, action: str, parameters: tuple[Any, ...]) -> bool:
        """Take a step, if the core can and if it does anything."""
        world = deepcopy(self.world)
        try:
            getattr(world, snake_case(action))(*parameters)
        except NotEnabled:
            return False

        state = self.walk.follow(action, self.state, world)
        if state is None and world.state() == self.world.state():
            return False  # nothing was done
        assert state, f"the module has no {action}{parameters}"

        self.world, self.state = world, state
        self.taken[action] += 1
        return True

    @invariant()
    def every_invariant_holds(self) -> None:
        for name in self.walk.invariants:
            assert self.walk.judge.holds(name, self.state), name
