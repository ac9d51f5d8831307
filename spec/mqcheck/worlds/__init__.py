"""The worlds: the reference's core as the modules of TLA+ see it, one world a module.

A model says in its manifest which of them replays it, or why none does: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mqcheck.manifest import Model
from mqcheck.replay import World
from mqcheck.values import parse_value
from mqrules import UserError

_CONSTANT = re.compile(r'(\w+)\s*(?:=|<-)\s*(\{[^}]*\}|"[^"]*"|\w+)')


def constants_of(model: Model) -> dict[str, Any]:
    """The constants that a model's configuration gives, as values."""
    return {name: parse_value(value) for name, value in _CONSTANT.findall(model.config.rest)}


def world_of(model: Model, constants: Mapping[str, Any] | None = None) -> World | None:
    """The reference at the beginning of a model, or of one with other constants; None where it
    does not take the model's steps, as the manifest says.

    Raises UserError where the manifest names no world, or the world cannot take the constants.
    """
    return None if model.departs else _begin(model, constants)


def departing_world(model: Model) -> World | None:
    """The same of a model of a defect that the core has not; None of any other. It takes the
    steps of a counterexample until it departs."""
    return _begin(model, None) if model.departs else None


def _begin(model: Model, constants: Mapping[str, Any] | None) -> World | None:
    if not model.world:
        return None
    given = constants_of(model) if constants is None else constants
    try:
        world = _load(model).of(given)
    except KeyError as error:
        what = f"its world {model.world} needs the constant {error.args[0]}"
        raise UserError(model.name, what, "name the world of its module") from None
    world.budgets = {name: value for name, value in given.items() if name.startswith("Max")}
    return world


def _load(model: Model) -> type[World]:
    """The world that a model names. Most runs need none: they are imported when they are asked
    for."""
    name = f"{__name__}.{model.world}"
    if find_spec(name) is None:
        known = "see the modules of mqcheck.worlds"
        raise UserError(model.name, f"there is no world {model.world!r}", known)
    found = [
        value
        for value in vars(import_module(name)).values()
        if isinstance(value, type) and issubclass(value, World) and value.__module__ == name
    ]
    if len(found) != 1:
        raise UserError(model.name, f"{model.world!r} is no world", "name the world of its module")
    return found[0]
