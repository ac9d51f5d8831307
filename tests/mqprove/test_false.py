"""What is false is not proved: of each program some theorem fails, and such a one is not proved.

They stand in a strategy of which the theorems hold, so that what fails is the program's own. Of the
first 75, each written before it was tried, twenty-one were proved what is false of them.
"""

from __future__ import annotations

import inspect
import tomllib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest
from by_night import one_in

from mqprove.mutants import mutate
from mqprove.prover import Theorem, prove, tried
from mqprove.theorems import CIRCLE, THEOREMS
from mqspec.core import allocation

PROGRAMS: Final = tomllib.loads(Path(__file__).with_name("false.toml").read_text())["programs"]
ABOUT: Final = [theorem for theorem in THEOREMS if theorem.strategy == CIRCLE and theorem.holds]
WHOLE: Final = inspect.getsource(allocation.averagely_by_circle)
HEAD: Final = "STATE: list[str] = []\nCOUNT = 0\n\n\n" + WHOLE[: WHOLE.index("    return ")]
KNOWN: Final = "index, n, c = cid_all.index(current_cid), len(mq_all), len(cid_all)\n"


def with_body(body: str) -> ModuleType:
    """The module of allocation, its `averagely_by_circle` with another body."""
    lines = "".join(f"    {line}\n" for line in (KNOWN + body).strip().splitlines())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        return mutate("by hand", allocation, WHOLE, HEAD + lines).module


def failing(body: str) -> list[Theorem]:
    """The theorems that fail of a program, on ordinary lists."""
    return [theorem for theorem in ABOUT if tried(theorem, with_body(body))]


@pytest.mark.parametrize("name", one_in(2, PROGRAMS))
def test_what_is_false_is_not_proved(name: str) -> None:
    found = failing(PROGRAMS[name])
    assert found
    proved = [t.name for t in found if prove(t, with_body(PROGRAMS[name])).proved]
    assert proved == []
