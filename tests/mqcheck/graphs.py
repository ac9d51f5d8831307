"""State graphs of small models, each drawn once for all tests."""

from __future__ import annotations

from functools import cache

from mqcheck.behaviours import StateGraph, state_graph
from mqcheck.manifest import models


@cache
def graph(name: str) -> StateGraph:
    return state_graph(models()[name])
