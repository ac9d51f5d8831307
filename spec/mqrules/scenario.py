"""Scenarios: steps and checks as data, so that an incident can travel to any broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a TLA+ module, with its parameters and the state that it leads to."""

    action: str  # the action's name in the module
    parameters: Mapping[str, object] = field(default_factory=dict)
    state: Mapping[str, object] = field(default_factory=dict)  # the variables that changed


@dataclass(frozen=True, slots=True)
class Scenario:
    """A behaviour and what it shows."""

    id: str  # of an incident: its letter; else the model's name
    title: str
    module: str  # the TLA+ module whose actions the steps name
    rules: tuple[str, ...]  # the rules that it is for
    steps: tuple[Step, ...]
    checks: tuple[str, ...] = ()  # what is true at the end, for a reader
