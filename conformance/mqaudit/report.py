"""What an audit found, as data: for people, for tools, and as evidence for rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from mqrules import Evidence, EvidenceKind, Verdict

Place: TypeAlias = Mapping[str, str | int]


class Judgement(StrEnum):
    """What an outcome says of a rule."""

    HELD = "held"
    PERMITTED = "permitted"  # an anomaly, and the rules permit it
    VIOLATED = "violated"
    UNDECIDABLE = "undecidable"  # the data do not tell
    OPEN = "open"  # nothing was due yet when the recording ended


@dataclass(frozen=True, slots=True)
class Finding:
    """The instances that turned out in one way that is not simply `held`."""

    judgement: Judgement
    why: str
    rule: str  # the rule that permits it, or that it breaks or leaves open
    count: int
    first: Place
    last: Place
    leaves_open: tuple[str, ...] = ()  # rules of which it does not tell
    examples: tuple[Place, ...] = ()
    incidents: tuple[str, ...] = ()  # of the book, by page, that look like this


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What one check found. `examined` counts all instances, `held` those without a finding."""

    name: str
    about: str
    promise: str
    ideal: str | None
    examined: int
    held: int
    findings: tuple[Finding, ...]
    can_violate: bool = True  # an outcome of it breaks its promise
    sources: tuple[str, ...] = ()  # of what a cluster keeps, the kinds that decide it

    def count(self, *judgements: Judgement) -> int:
        """How many instances were judged so."""
        return sum(f.count for f in self.findings if f.judgement in judgements)

    def verdicts(self) -> Iterator[tuple[str, Verdict]]:
        """Each rule of the check and what the data say of it.

        What was never examined, or not wholly decided, is undecidable: never held. What leaves
        only the ideal open is no breach of the promise, and what leaves only the promise open is
        an anomaly all the same. Where nothing would break the promise, nothing is said of it, nor
        is the ideal held.
        """
        anomalies = self.count(Judgement.PERMITTED, Judgement.VIOLATED)
        if not self.can_violate:
            if self.ideal:
                yield self.ideal, Verdict.REFUTED if anomalies else Verdict.UNDECIDABLE
            return
        violated = self.count(Judgement.VIOLATED) > 0
        yield self.promise, Verdict.VIOLATED if violated else self._kept(self.promise)
        if self.ideal:
            told = any(f.leaves_open == (self.promise,) for f in self.findings)
            yield self.ideal, Verdict.REFUTED if anomalies or told else self._kept(self.ideal)

    def _kept(self, rule: str) -> Verdict:
        """What is said of a rule that nothing was found to break."""
        left_open = any(rule in f.leaves_open for f in self.findings)
        seen = self.held + sum(f.count for f in self.findings if f.judgement != Judgement.OPEN)
        return Verdict.HELD if seen and not left_open else Verdict.UNDECIDABLE


@dataclass(frozen=True, slots=True)
class Unread:
    """What is there in a source and cannot be used: how often, and the first place."""

    source: str
    why: str
    count: int
    first: Place


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found at one place. `coverage` counts what was read."""

    subject: str  # the history or store, as it was named
    coverage: Mapping[str, int]
    checks: tuple[CheckReport, ...]
    target: str = "mqspec"  # the system that was recorded
    unread: tuple[Unread, ...] = ()

    @property
    def violated(self) -> tuple[Finding, ...]:
        """The findings that no rule permits."""
        return tuple(
            f for c in self.checks for f in c.findings if f.judgement == Judgement.VIOLATED
        )

    def evidence(self) -> list[Evidence]:
        """A record for each check and rule, with its coverage."""
        return [
            Evidence(
                rule=rule,
                kind=EvidenceKind.AUDITED,
                subject=f"{self.subject}: {check.name}",
                verdict=verdict,
                target=self.target,
                detail={
                    **self.coverage,
                    "examined": check.examined,
                    **{
                        judgement.value: count
                        for judgement in Judgement
                        if (count := check.count(judgement))
                    },
                },
            )
            for check in self.checks
            for rule, verdict in check.verdicts()
        ]
