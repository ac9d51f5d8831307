"""Incidents: accounts from production, each with what the rules and models say of it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from mqrules.schema import decode


@dataclass(frozen=True, slots=True)
class Incident:
    """One account. What happens, and what to do, is told on its page of the book."""

    id: str  # a letter, with a prime where an account has two sides
    page: str  # its name in docs/incidents, without the suffix
    title: str
    seen: str  # what its users see, in one sentence
    mqadmin: str  # what Apache's tool shows where it is this one
    kind: str  # a promise kept or broken, a repeat that is permitted, never promised, a quantity
    rules: tuple[str, ...]  # those at stake
    models: tuple[str, ...] = ()  # those that show it without any defect
    defects: tuple[str, ...] = ()  # those of the catalogue that show it


@cache
def incidents() -> dict[str, Incident]:
    """All incidents by id, in their order. Raises UserError where the table is wrong."""
    path = files("mqrules").joinpath("incidents.toml")
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["incident"]
    found = [decode(Incident, entry, f"incidents.toml[{i}]") for i, entry in enumerate(entries)]
    return {incident.id: incident for incident in found}
