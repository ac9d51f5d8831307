"""The variables of a TLA+ module: what each is, its name in Python, and where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mqcheck.source import blank_comments, snake_case
from mqcheck.twins import VARIABLES, read_twin
from mqdocs.tla import Module

_LINE: Final = re.compile(r"^ *(\w+)?,? *\\\* ?(.*)$")
_FRAME: Final = ("vars", "Init", "TypeOK")  # every variable stands there
_UNCHANGED: Final = re.compile(r"UNCHANGED\s*(<<.*?>>|\w+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable, and the definitions of its module that it stands in."""

    name: str
    what: str  # the comment beside its declaration; may be empty
    python: str  # its name in the core; empty where the header says that the core has none
    changed_by: tuple[str, ...]  # actions, and what they are made of
    read_by: tuple[str, ...]  # the same, where they leave it as it is
    properties: tuple[str, ...]  # what speaks of it, and is no part of a step


def variables(module: Module, text: str) -> list[Variable]:
    """The variables that a module declares, in its order."""
    twin = read_twin(module.name, text)
    said = _comments(text)
    bodies = {name: _body(part.source) for name, part in module.operators.items()}
    steps = _reached(bodies, (name for name in bodies if name.endswith("Next")))
    found = []
    for name in twin.variables:
        named = [one for one, body in bodies.items() if re.search(rf"\b{name}\b", body)]
        primed = [one for one in named if re.search(rf"\b{name}'", bodies[one])]
        changed = [one for one in primed if one in steps]
        found.append(
            Variable(
                name,
                said.get(name, ""),
                "" if name in twin.exempt or not twin.cores else snake_case(name),
                tuple(changed),
                tuple(one for one in named if one in steps and one not in changed),
                tuple(one for one in named if one not in steps and one not in _FRAME),
            )
        )
    return found


def used_by(found: Sequence[Variable], operator: str) -> tuple[list[str], list[str]]:
    """The variables that a definition changes, and those that it only reads."""
    changed = [one.name for one in found if operator in one.changed_by]
    return changed, [one.name for one in found if operator in one.read_by]


def _reached(bodies: Mapping[str, str], begin: Iterable[str]) -> set[str]:
    """The definitions that some are made of, themselves among them."""
    reached: set[str] = set()
    ahead = list(begin)
    while ahead:
        if (name := ahead.pop()) not in reached:
            reached.add(name)
            ahead += [word for word in re.findall(r"\w+", bodies[name]) if word in bodies]
    return reached


def _body(source: str) -> str:
    """A definition without comments, and without what it says to leave as it is."""
    return _UNCHANGED.sub("", blank_comments(source))


def _comments(text: str) -> dict[str, str]:
    declared = VARIABLES.search(text)
    found: dict[str, str] = {}
    name = ""
    for line in declared[1].splitlines() if declared else ():
        if match := _LINE.match(line):
            name = match[1] or name
            found[name] = f"{found[name]} {match[2]}" if name in found else match[2]
    return found
