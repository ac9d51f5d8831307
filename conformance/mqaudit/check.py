"""What a check is: what is looked for, under which rule, and what each outcome means.

A check looks at instances of what a rule speaks of (a message, a commit, a stretch of
ownership), and gives each the place where it was recorded and one `outcome`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mqaudit.report import Judgement
from mqrules import incidents


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way in which an instance can turn out."""

    judgement: Judgement
    why: str
    # The rule that permits it, where it is not the check's ideal; or, of what is undecidable, the
    # only rule that it leaves open: its promise was kept then, or its ideal was not.
    rule: str | None = None
    # The incidents of the book, by page, that look like this; None: those with its rule at stake.
    known_as: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """The meaning of a check's outcomes.

    `promise` is the rule that a violated outcome breaks, `ideal` the rule that any anomaly
    refutes. `places` are the columns that name a place, in the order of first and last.
    `query` gives the instances of a check that is one query over views, named in braces: rows of
    `n` instances each.
    """

    name: str
    about: str
    promise: str
    places: tuple[str, ...]
    outcomes: Mapping[str, Outcome]
    ideal: str | None = None
    query: str = ""

    @property
    def can_violate(self) -> bool:
        """Whether an outcome breaks the promise: without one, the check is no evidence for it."""
        return any(one.judgement is Judgement.VIOLATED for one in self.outcomes.values())

    def rule_of(self, outcome: str) -> str:
        """The rule that an outcome breaks, that permits it, or that it leaves open."""
        told = self.outcomes[outcome]
        permits = self.ideal if told.judgement is Judgement.PERMITTED else None
        return told.rule or permits or self.promise

    def incidents_of(self, outcome: str) -> tuple[str, ...]:
        """The pages of the incidents that an anomaly is known as."""
        known_as = self.outcomes[outcome].known_as
        if known_as is not None:
            return known_as
        rule = self.rule_of(outcome)
        return tuple(one.page for one in incidents().values() if rule in one.rules)
