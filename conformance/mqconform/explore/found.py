"""What was found, as a case that repeats it: ready to be kept in `cases/found/`."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from mqconform.explore.engine import Found
from mqconform.explore.player import Area, DepartureError, Program, play
from mqconform.scene import Scene
from mqrules import rules

_CASE: Final = '''\
"""Found by exploration of {area}, seed {seed}."""

from mqconform.case import case
from mqconform.explore.areas.{area} import {names}
from mqconform.explore.found import replay
from mqconform.explore.player import Program
from mqconform.scene import Scene

PROGRAM = {program}


@case({rules}, party="{party}")
def test_found_{area}_{seed}(scene: Scene) -> None:
    replay(scene, AREA, PROGRAM)
'''


def replay(scene: Scene, area: Area, program: Program[Any]) -> None:
    """Play a program again, as a case. Raises DepartureError, which is an AssertionError."""
    play(area, program, scene)


def area_of(name: str) -> Area:
    found: Area = _module(name).AREA
    return found


def case_text(found: Found) -> str:
    """The text of a module with the case."""
    classes = set(re.findall(r"\b([A-Z]\w*)\(", literal(found.program))) - {"Program"}
    return _CASE.format(
        area=found.area,
        seed=found.seed,
        names=", ".join(sorted({"AREA", *classes}, key=lambda name: (not name.isupper(), name))),
        program=literal(found.program),
        party=rules()[found.rules[0]].party,
        rules=", ".join(f'"{rule}"' for rule in found.rules),
    )


def keep(found: Found, directory: Path) -> Path:
    """Write the case; where it stands."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"test_{found.area}_{found.seed}.py"
    path.write_text(case_text(found), encoding="utf-8")
    return path


def literal(program: Program[Any]) -> str:
    """A program as Python, a round a line."""
    rounds = "".join(
        f"        ({', '.join(map(_literal, round_))},),\n" for round_ in program.rounds
    )
    return f"Program(\n    setting={program.setting!r},\n    rounds=(\n{rounds}    ),\n)"


def _literal(op: Any) -> str:
    """An operation without the fields that have their defaults."""
    told = (
        f"{field.name}={getattr(op, field.name)!r}"
        for field in dataclasses.fields(op)
        if field.default != getattr(op, field.name)
    )
    return f"{type(op).__name__}({', '.join(told)})"


def _module(name: str) -> ModuleType:
    return import_module(f"mqconform.explore.areas.{name}")


__all__ = ["DepartureError", "area_of", "case_text", "keep", "literal", "replay"]
