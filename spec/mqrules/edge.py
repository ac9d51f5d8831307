"""Edges: the values at which what a rule says changes, as data in `edges.toml`.

The suite's cases take the values that they try from here (`mqconform.case.at_edges`). A rule whose
sentence has a limit, and for which there is neither an edge nor a reason, is a gap.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from mqrules.errors import UserError
from mqrules.evidence import EvidenceKind
from mqrules.rule import Party, rules
from mqrules.schema import decode

FILE = "edges.toml"

# What makes a number one that limits: a comparison before it, a unit or a comparison after it.
# What is left are codes, offsets 0 and the like, which cases have one by one.
_COMPARED = (
    r"more than|less than|at most|at least|above|below|longer than|later than|nor than|exceeds?|"
    r"asks for|min\(n,|each|within|every"
)
_UNIT = r"s|ms|bytes|KiB|MiB|days|times|characters|or more|or fewer|or less|bits|rounds|minutes"
_LIMIT = re.compile(rf"\b(?:{_COMPARED}) ?[1-9][\d,]*\b|\b[1-9][\d,]*\)? (?:{_UNIT})\b")


@dataclass(frozen=True, slots=True)
class Edge:
    """One limit of a rule: what is measured, and the values that are tried."""

    rule: str
    of: str  # with its unit, as 'bytes of the body'
    inside: tuple[int, ...]  # up to the last value that is within the limit
    outside: tuple[int, ...]  # from the first one that is not


@dataclass(frozen=True, slots=True)
class Untried:
    """Rules whose limits are not tried by this table, and why."""

    rules: tuple[str, ...]
    why: str


@cache
def edges() -> dict[str, tuple[Edge, ...]]:
    """The edges of each rule that has some. Raises UserError where `edges.toml` is wrong."""
    found: dict[str, tuple[Edge, ...]] = {}
    for number, entry in enumerate(_table().get("edge", [])):
        edge = decode(Edge, entry, f"{FILE}: edge {number}")
        _check(edge)
        found[edge.rule] = (*found.get(edge.rule, ()), edge)
    return found


@cache
def untried() -> dict[str, str]:
    """Why the limits of some rules have no edge, by rule. Raises UserError."""
    found: dict[str, str] = {}
    for number, entry in enumerate(_table().get("untried", [])):
        group = decode(Untried, entry, f"{FILE}: untried {number}")
        for rule in group.rules:
            if rule not in rules() or rule in found or rule in edges():
                raise UserError(FILE, f"{rule} is no rule, or stands here twice", "take it out")
            found[rule] = group.why
    return found


def limits(text: str) -> list[str]:
    """The limits in a rule's sentence: `more than 4`, `16 bytes`."""
    return _LIMIT.findall(text)


def without_edges() -> Iterator[str]:
    """The rules that cases are to show, that have a limit, and of which nothing stands here."""
    for rule in rules().values():
        is_known = rule.id in edges() or rule.id in untried()
        if rule.party is Party.CLIENT:  # judged by scenarios, not by cases
            continue
        if EvidenceKind.CONFORMS in rule.needs and limits(rule.text) and not is_known:
            yield rule.id


def _check(edge: Edge) -> None:
    if edge.rule not in rules():
        raise UserError(FILE, f"{edge.rule} is no rule", "take it out")
    if not edge.inside or not edge.outside:
        raise UserError(FILE, f"{edge.rule}: an edge has values on both sides")
    inside, outside = sorted(edge.inside), sorted(edge.outside)
    if inside[-1] + 1 != outside[0] and outside[-1] + 1 != inside[0]:
        raise UserError(FILE, f"{edge.rule}: {edge.of}: the two sides do not meet at the edge")


@cache
def _table() -> dict[str, list[object]]:
    try:
        return tomllib.loads(files("mqrules").joinpath(FILE).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(FILE, f"not TOML: {error}") from None
