"""What a case says about itself, and what can become of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import pytest

from mqconform.causes import Departure
from mqconform.transcript import Exchange
from mqrules import Evidence, EvidenceKind, Level, Party, UserError, Verdict, edges, rules

F = TypeVar("F", bound=Callable[..., None])


class Capability(StrEnum):
    """What only some targets can do."""

    RESTART = "restart"  # it can be stopped, killed and started
    STORE = "store"  # its files can be reached
    BROKERS = "brokers"  # it has two brokers or more
    TLS = "tls"  # it speaks TLS
    USERS = "users"  # it has a broker that lets only users in
    TOPICS = "topics-by-use"  # a topic comes to be by being sent to
    GROUPS = "groups-by-use"  # a group comes to be by being used
    EXCLUSIVE = "exclusive"  # nobody else uses it: it may be set otherwise, cleaned and restarted


class Status(StrEnum):
    """What became of a case. Only `passed` is a pass."""

    PASSED = "passed"
    FAILED = "failed"
    DEVIATES = "deviates"  # failed, as a listed deviation of the target says
    NOT_CLAIMED = "not claimed"  # needs a capability that the target does not claim
    BLOCKED = "blocked"  # what it needs first did not work, or the target went away under it
    NOT_RUN = "not run"


_VERDICTS = {
    Status.PASSED: Verdict.HELD,
    Status.FAILED: Verdict.VIOLATED,
    Status.DEVIATES: Verdict.DEVIATES,
    Status.NOT_CLAIMED: Verdict.NOT_CLAIMED,
    Status.BLOCKED: Verdict.BLOCKED,
    Status.NOT_RUN: Verdict.NOT_RUN,
}


@dataclass(frozen=True, slots=True)
class Case:
    """The rules that a case is for, the party that it tests, and what it needs."""

    rules: tuple[str, ...]
    party: Party
    claims: frozenset[Capability] = frozenset()
    after: str | None = None  # the case without which this one says nothing

    @property
    def is_must(self) -> bool:
        return any(rules()[rule].level is Level.MUST for rule in self.rules)


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one case."""

    name: str
    case: Case
    status: Status
    seconds: float = 0.0
    why: str = ""  # one line: what failed, is missing or blocks
    frames: str = ""  # the last frames, as text
    exchanges: tuple[Exchange, ...] = ()  # the same, as they went
    departure: Departure | None = None  # where it failed or was blocked on its way
    letters: tuple[str, ...] = ()  # in what the target is not the same to the letter

    @property
    def is_detail(self) -> bool:
        """Whether it failed at something beside what its rules are relied on for."""
        return self.departure is not None and self.departure.is_detail

    def evidence(self, target: str) -> list[Evidence]:
        """A record for each rule of the case."""
        detail = {"why": self.why} if self.why else {}
        if self.departure:
            detail["strength"] = self.departure.strength
        if self.letters:
            detail["not identical"] = ", ".join(self.letters)
        verdict = _VERDICTS[self.status]
        return [
            Evidence(rule, EvidenceKind.CONFORMS, self.name, verdict, target, detail=detail)
            for rule in self.case.rules
        ]


def case(
    *rule_ids: str, party: str, claims: str = "", after: str | None = None
) -> Callable[[F], F]:
    """Mark a test function as a conformance case.

    `claims` names capabilities, separated by spaces; `after` names another case. Raises
    UserError for a rule that does not exist or that binds another party.
    """
    found = Case(
        rule_ids, Party(party), frozenset(Capability(word) for word in claims.split()), after
    )
    for rule_id in rule_ids:
        if rule_id not in rules():
            raise UserError(rule_id, "a case names a rule that does not exist")
        if rules()[rule_id].party is not found.party:
            raise UserError(rule_id, f"binds the {rules()[rule_id].party}, not the {party}")
    return pytest.mark.case(found)


def at_edges(rule: str, of: str) -> Callable[[F], F]:
    """Runs a case with each value that is tried of a limit, as its argument `value`, and with
    `fits`: whether the value is within it. Raises UserError where the rule has no such edge."""
    edge = next((one for one in edges().get(rule, ()) if one.of == of), None)
    if not edge:
        raise UserError(rule, f"a case names an edge that it does not have: {of}")
    tried = [(value, True) for value in edge.inside] + [(value, False) for value in edge.outside]
    values = pytest.mark.parametrize(("value", "fits"), tried, ids=[str(v) for v, _ in tried])

    def mark(function: F) -> F:
        marked: F = pytest.mark.edge(edge)(values(function))
        return marked

    return mark
