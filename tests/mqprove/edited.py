"""Modules with an edit in them, to see that something refuses it."""

from __future__ import annotations

import inspect
from types import ModuleType


def edited(module: ModuleType, right: str, wrong: str) -> ModuleType:
    """The module with other functions: its classes are the same, so that its states are."""
    source = inspect.getsource(module)
    assert source.count(right) == 1, f"{module.__name__} has {source.count(right)} times {right}"
    made = ModuleType(module.__name__)
    made.__dict__.update(vars(module))
    exec(compile(source.replace(right, wrong), module.__name__, "exec"), made.__dict__)
    classes = {name: each for name, each in vars(module).items() if isinstance(each, type)}
    made.__dict__.update(classes)
    return made
