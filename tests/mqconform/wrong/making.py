"""How a wrong broker is made: by a function that stands for one of the reference's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs
from patched import patch

from mqspec.core.step import Step


@dataclass(frozen=True)
class Wrong:
    """What is wrong, which area of exploration is to notice (or the cases, where none explores
    it), what it replaces and by what."""

    about: str
    area: str
    original: Any
    replacement: Any

    def apply(self, monkey: pytest.MonkeyPatch) -> None:
        path = self.original.__qualname__.split(".")
        if len(path) == 2:  # a method
            owner = getattr(sys.modules[self.original.__module__], path[0])
            monkey.setattr(owner, path[1], self.replacement)
        else:
            patch(monkey, self.original, self.replacement)


BROKERS: dict[str, Wrong] = {}
CASES = "cases"  # is no area


def wrong(area: str, original: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a broker of a function `(original, *arguments)`, under the function's name."""

    def listed(mistaken: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*args: Any, **known: Any) -> Any:
            return mistaken(original, *args, **known)

        name = mistaken.__name__.replace("_", "-")
        assert name not in BROKERS
        BROKERS[name] = Wrong((mistaken.__doc__ or "").strip(), area, original, replacement)
        return mistaken

    return listed


def keeping(step: Step, result: Any) -> Step:
    return structs.replace(step, result=result)
