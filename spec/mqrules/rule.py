"""Rules: every normative statement, as data, an area a file in `rules/`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files

from mqrules.errors import UserError
from mqrules.evidence import EvidenceKind
from mqrules.schema import decode

_ID = re.compile(r"[A-Z]+-\d{3}")


class Kind(StrEnum):
    """What sort of statement a rule is."""

    PROMISE = "promise"  # what users are told to rely on
    COMPATIBILITY = "compatibility"  # what Apache does, and others must match
    IDEAL = "ideal"  # often believed, never promised: a counterexample is expected


class Level(StrEnum):
    """RFC 2119 levels. An ideal has none: `none`."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    MAY = "MAY"
    NONE = "none"


class Party(StrEnum):
    """Who is bound by a rule. A run credits only rules of the party under test."""

    BROKER = "broker"
    NAMESERVER = "nameserver"
    CLIENT = "client"
    STORE = "store"
    SYSTEM = "system"


class Strength(StrEnum):
    """How strong an expectation is; its source supports no more. Never merged in a report."""

    RELIED_ON = "relied on"  # somebody breaks without it
    APACHE = "apache"  # what 5.3.3 does, and others should match
    IDENTICAL = "identical"  # to the letter: wording, nulls, the order of keys


@dataclass(frozen=True, slots=True)
class Reliance:
    """Who relies on some rules, and in what they break where these do not hold."""

    rules: tuple[str, ...]
    by: tuple[str, ...]  # java, go, cpp, node, mqadmin, broker, users
    how: str  # with the place in the source of who relies, where there is one


@dataclass(frozen=True, slots=True)
class Rule:
    """One normative statement."""

    id: str  # ALLOC-001: the area's prefix and three digits, never used twice
    text: str  # one sentence that a stranger could test
    kind: Kind
    level: Level
    party: Party
    since: str  # the first version of RocketMQ for which it holds
    source: str  # seed scenario, file of the real system, or observation with its frames
    needs: tuple[EvidenceKind, ...]  # the kinds of evidence that close it
    until: str | None = None  # the last version for which it holds
    assumption: str | None = None  # of an ideal: the weakest assumption that makes it true

    def holds_in(self, version: str) -> bool:
        """Whether the rule is one of a version of RocketMQ, such as 4.9.7."""
        since = version_key(self.since) <= version_key(version)
        return since and (self.until is None or version_key(version) <= version_key(self.until))


def version_key(version: str) -> tuple[int, ...]:
    """What versions are ordered by."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


@cache
def rules() -> dict[str, Rule]:
    """All rules by id, in the order of their files. Raises UserError where one is wrong."""
    found: dict[str, Rule] = {}
    for path in sorted(files("mqrules").joinpath("rules").iterdir(), key=lambda p: p.name):
        if not path.name.endswith(".toml"):
            continue
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise UserError(path.name, f"not TOML: {error}") from None
        for entry in table.get("rule", []):
            rule = decode(Rule, entry, f"{path.name}: {entry.get('id', 'a rule without id')}")
            _check(rule, path.name)
            if rule.id in found:
                raise UserError(path.name, f"{rule.id} is used twice", "take the next free number")
            found[rule.id] = rule
    return found


@cache
def reliances() -> dict[str, tuple[Reliance, ...]]:
    """Who relies on each rule, by its id. Raises UserError where `strengths.toml` is wrong."""
    name = "strengths.toml"
    try:
        table = tomllib.loads(files("mqrules").joinpath(name).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise UserError(name, f"not TOML: {error}") from None
    found: dict[str, tuple[Reliance, ...]] = {}
    for number, entry in enumerate(table.get("relied_on", [])):
        reliance = decode(Reliance, entry, f"{name}[{number}]")
        for rule in reliance.rules:
            if rule not in rules():
                raise UserError(name, f"{rule} is no rule", "take it out")
            found[rule] = (*found.get(rule, ()), reliance)
    return found


def strength(rule: str) -> Strength:
    """The strength of a rule: relied on where somebody is named who does, else Apache's."""
    return Strength.RELIED_ON if rule in reliances() else Strength.APACHE


def _check(rule: Rule, where: str) -> None:
    if not _ID.fullmatch(rule.id):
        raise UserError(where, f"{rule.id!r} is not an id", "write it like ALLOC-001")
    if (rule.kind is Kind.IDEAL) != (rule.level is Level.NONE):
        raise UserError(where, f"{rule.id}: an ideal, and only an ideal, has level none")
    if rule.kind is Kind.IDEAL and not rule.assumption:
        raise UserError(where, f"{rule.id}: an ideal names the assumption that makes it true")
    if rule.level is Level.MUST and set(rule.needs) <= {EvidenceKind.SAMPLED}:
        raise UserError(where, f"{rule.id}: sampled evidence alone never closes a MUST")
