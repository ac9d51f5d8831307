"""Replay: a behaviour that TLC made drives the reference's core to the same states, step by step.

A world holds the core's states of all processes of a model, and what lies between them: the
network, the file, the environment. Each action of the module is a method that calls the
functions which the reference's broker and consumer call, and `state` says in the module's
terms what the world then is.

TLC names the action of a step and not its parameters. They are found by trying: the step is
replayed where some choice of them leads to the state that TLC prints.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

from mqcheck.source import snake_case
from mqrules.scenario import Step

ANY = ""  # the action of a step that is not named


class ReplayError(Exception):
    """The reference does not come to the state that TLC came to."""


class NotEnabled(Exception):  # noqa: N818 - not an error: one choice of parameters less
    """The action cannot be taken with these parameters."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One step that the reference took as the model did."""

    action: str
    parameters: tuple[object, ...]
    changed: Mapping[str, object]


class World(ABC):
    """The core's states of all processes of a model, and what lies between them."""

    module: ClassVar[str]
    """The TLA+ module that it is a world of."""

    actions: ClassVar[Mapping[str, tuple[str, ...]]]
    """Name of an action, in the module and, in snake case, here, to its parameters' domains."""

    not_compared: ClassVar[Mapping[str, str]] = {}
    """Variables of the module that `state` leaves out, and why; besides budgets and ghosts."""

    bounded: ClassVar[bool] = True
    """Whether it crashes, loses and persists only as often as its model does; else it has more
    steps."""

    @classmethod
    @abstractmethod
    def of(cls, constants: Mapping[str, Any]) -> World:
        """The world at the beginning of a model with these constants."""

    budgets: dict[str, int]
    """How often a model allows what is left of it, by its constant: MaxCrashes and the like."""

    def spend(self, budget: str) -> None:
        """One less of a budget: of the guard of an action that a model bounds."""
        left = self.budgets[budget]
        require(left > 0)
        self.budgets = {**self.budgets, budget: left - 1}

    def start_from(self, initial: Mapping[str, Any]) -> World:
        """This world in an initial state of its model."""
        return self

    @abstractmethod
    def state(self) -> dict[str, object]:
        """The module's variables, as TLC prints them, but for those that are not compared."""

    @abstractmethod
    def domain(self, name: str) -> Iterable[object]:
        """What a parameter may be."""


def replay(world: World, steps: Sequence[Step]) -> list[Replayed]:
    """Take the steps of a behaviour one by one; `steps[0]` is the initial state.

    Raises ReplayError that names the first step which the reference does not take so.
    """
    world = at_beginning(world, steps[0].state)
    done = []
    for number, step in enumerate(steps[1:], start=2):
        world, taken = take(world, step, f"step {number}")
        done.append(taken)
    return done


def depart(world: World, steps: Sequence[Step], action: str) -> int:
    """Take the steps of a defect's counterexample up to where the defect is, in this action.

    A defect that does something else is a step that the core's action does not take; one that adds
    an action, a step to where no action of the core leads; one that leaves something out ends, or
    goes round, where the core could go on with the action. Returns how many steps it took. Raises
    ReplayError where it departs elsewhere, or not at all.
    """
    world = at_beginning(world, steps[0].state)
    for number, step in enumerate(steps[1:], start=2):
        named = step if step.action in world.actions else replace(step, action=ANY)
        try:
            world, _ = take(world, named, f"step {number}, {step.action}")
        except ReplayError:
            if step.action != action:
                raise
            return number - 2
    if not _goes_on(world, action):
        raise ReplayError(f"the reference takes all steps, and no {action} then")
    return len(steps) - 1


def _goes_on(world: World, action: str) -> bool:
    """Whether an action changes something."""
    before, known = world.state(), [action] if action in world.actions else []
    return any(trial.state() != before for *_, trial in _possible(world, known))


def at_beginning(world: World, initial: Mapping[str, object]) -> World:
    """The world in an initial state of its model. Raises ReplayError where it is in another."""
    world = deepcopy(world).start_from(initial)
    for name, value in world.state().items():
        if value != initial[name]:
            raise ReplayError(f"Init: {name} is {value!r}, in the model {initial[name]!r}")
    return world


def take(world: World, step: Step, where: str) -> tuple[World, Replayed]:
    """The world after a step, and how the reference took it; `step.action` may be ANY, or that
    of a next-state relation, which TLC names where it cannot tell the action.

    Raises ReplayError where no choice of parameters leads it there.
    """
    named = ANY if step.action.endswith("Next") else step.action
    if named not in (*world.actions, ANY):
        raise ReplayError(f"{where}: the reference has no action {named}")
    before = world.state()
    for action, parameters, trial in _possible(world, [named] if named else world.actions):
        after = trial.state()
        if after.items() <= step.state.items():
            changed = {name: value for name, value in after.items() if before[name] != value}
            return trial, Replayed(action, parameters, changed)
    raise ReplayError(f"{where}: no {named or 'action'} leads the reference to {dict(step.state)}")


def take_no_other(world: World, states: Sequence[Mapping[str, object]], where: str) -> None:
    """Whatever the reference can do next leads it to one of these states.

    Raises ReplayError that names the first step which does not.
    """
    for action, parameters, trial in _possible(world, world.actions):
        after = trial.state()
        if not any(after.items() <= state.items() for state in states):
            raise ReplayError(f"{where}: only the reference has {action}{parameters}, to {after}")


def _possible(
    world: World, actions: Iterable[str]
) -> Iterator[tuple[str, tuple[object, ...], World]]:
    """The steps that the reference can take: action, parameters and the world after them."""
    for action in actions:
        domains = [list(world.domain(name)) for name in world.actions[action]]
        for parameters in product(*domains):
            trial = deepcopy(world)
            try:
                getattr(trial, snake_case(action))(*parameters)
            except NotEnabled:
                continue
            yield action, parameters, trial


def require(condition: bool) -> None:
    """The guard of an action."""
    if not condition:
        raise NotEnabled
