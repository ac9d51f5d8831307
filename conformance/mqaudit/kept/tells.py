"""What each kind of source can tell, and what each check needs to be told.

A check decides only on what some source tells: where none does, what it found is undecidable,
and says which kind of source would tell it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from mqaudit import history_checks as checks
from mqaudit.check import Check
from mqaudit.report import CheckReport, Finding, Judgement


class Told(StrEnum):
    """What a source can tell, in words that end 'no source tells ...'."""

    STORED = "what is stored where"
    TRIES = "each try to send"
    DELAYS = "when delayed messages were sent and came"
    ENDS = "how transactions ended"
    ALL_ENDS = "how every transaction ended"
    GIVEN = "what was given to listeners"
    ALL_GIVEN = "all that was given to listeners"
    ORDER = "in which order listeners got it"
    OWNERS = "who owned which queue"
    COMMITS = "what was committed"
    ALL_COMMITS = "each commit"
    MEMBERS = "who joined and left"
    CUT_OFF = "who was cut off"
    SUBSCRIPTIONS = "who subscribed to what"
    VIEWS = "which members each member was told"
    LOCKS = "who locked what"


class Source(StrEnum):
    """A kind of source."""

    STORE = "store"
    TRACE = "message trace"
    CLIENT_LOG = "client log"
    BROKER_LOG = "broker log"


# Traces are sent without waiting: what they say is so, what they do not say may be so. Listeners
# of several threads trace what they get as each of them begins, in no order of the queue. They
# tell of sends that were answered only. A client's log has what it commits by itself, but not what
# its pulls commit on the way.
TELLS: Final[Mapping[Source, frozenset[Told]]] = {
    Source.STORE: frozenset({Told.STORED}),
    Source.TRACE: frozenset({Told.GIVEN, Told.ENDS}),
    Source.CLIENT_LOG: frozenset({Told.OWNERS, Told.COMMITS, Told.MEMBERS}),
    Source.BROKER_LOG: frozenset({Told.CUT_OFF, Told.SUBSCRIPTIONS}),
}


@dataclass(frozen=True, slots=True)
class Needs:
    """What a check needs: for any outcome, and for some of them besides."""

    always: frozenset[Told]
    besides: Mapping[str, frozenset[Told]] = field(default_factory=dict)
    # Why an outcome that is open in a history breaks the promise, where what is needed is told.
    decides: Mapping[str, str] = field(default_factory=dict)
    # The only rule that an anomaly leaves open, where it is one whatever the rest would tell.
    leaves: str | None = None

    def missing(self, outcome: str, told: frozenset[Told]) -> list[Told]:
        """What an outcome needs and nobody tells."""
        needed = self.always | self.besides.get(outcome, frozenset())
        return [one for one in Told if one in needed - told]


def _needs(
    *always: Told,
    leaves: str | None = None,
    decides: Mapping[str, str] | None = None,
    **besides: tuple[Told, ...],
) -> Needs:
    named = {name.replace("_", " "): frozenset(told) for name, told in besides.items()}
    return Needs(frozenset(always), named, decides or {}, leaves)


_SUBSCRIBED: Final = (Told.SUBSCRIPTIONS,)
NEEDS: Final[Mapping[str, Needs]] = {
    checks.LOST.name: _needs(
        Told.STORED, Told.GIVEN, lost=(Told.ALL_GIVEN, *_SUBSCRIBED), unwanted=_SUBSCRIBED,
        mixed=_SUBSCRIBED, before=(Told.OWNERS,),
    ),
    checks.REPEATED.name: _needs(
        Told.STORED, Told.GIVEN, again=(Told.OWNERS,), stale=(Told.OWNERS,), below=(Told.OWNERS,),
        window=(Told.OWNERS, Told.ALL_COMMITS), stored_again=(Told.TRIES,),
        leaves=checks.REPEATED.promise,
    ),
    checks.OUT_OF_ORDER.name: _needs(Told.STORED, Told.GIVEN, Told.ORDER),
    checks.NEVER_DELIVERED.name: _needs(
        Told.STORED, Told.GIVEN, Told.COMMITS, unfinished=(Told.ALL_GIVEN,),
        skipped=(Told.ALL_GIVEN, *_SUBSCRIBED), beyond=(Told.ALL_GIVEN, *_SUBSCRIBED),
    ),
    checks.WENT_BACK.name: _needs(Told.OWNERS, Told.COMMITS),
    checks.TWO_OWNERS.name: _needs(Told.OWNERS, settled=(Told.CUT_OFF,), passing=(Told.CUT_OFF,)),
    checks.NO_OWNER.name: _needs(Told.OWNERS, settled=(Told.CUT_OFF,)),
    checks.EQUAL_IDS.name: _needs(Told.MEMBERS),
    checks.VIEWS.name: _needs(Told.VIEWS),
    checks.TAKEN_AWAY.name: _needs(Told.OWNERS, Told.COMMITS),
    checks.UNSUBSCRIBED.name: _needs(Told.STORED, Told.GIVEN, Told.SUBSCRIPTIONS),
    checks.LOCKED_TWICE.name: _needs(Told.LOCKS),
    checks.LOCK_KEPT.name: _needs(Told.LOCKS),
    checks.GIVEN_TWICE.name: _needs(Told.STORED),
    checks.LEFT_OUT.name: _needs(
        Told.STORED, decides={"unseen": "no message has the offsets before it: all are here"},
    ),
    checks.BEFORE_SENT.name: _needs(Told.TRIES, Told.GIVEN),
    checks.REFUSED.name: _needs(Told.TRIES, Told.GIVEN),
    checks.ROLLED_BACK.name: _needs(Told.ENDS, Told.GIVEN, rolled_back=(Told.ALL_ENDS,)),
    checks.DELAYED.name: _needs(Told.DELAYS),
}  # fmt: skip


def told_by(sources: Iterable[Source]) -> frozenset[Told]:
    """What some sources tell together."""
    return frozenset().union(*(TELLS[source] for source in sources))


def judged_by(check: Check, sources: Iterable[Source], told: frozenset[Told]) -> tuple[str, ...]:
    """The sources that tell what a check needs; none where nobody tells all of it."""
    needed = NEEDS[check.name].always
    if not needed <= told:
        return ()
    return tuple(source.value for source in sources if needed & TELLS[source])


def limited(
    check: Check, report: CheckReport, sources: Iterable[Source], told: frozenset[Told]
) -> CheckReport:
    """The report of a check, as far as sources tell."""
    needs, by = NEEDS[check.name], judged_by(check, sources, told)
    if lacking := needs.missing("", told):
        return replace(report, held=0, findings=(*_undecided(check, report, lacking),), sources=by)
    outcomes = {outcome.why: name for name, outcome in check.outcomes.items()}
    findings = []
    for one in report.findings:
        lacking = needs.missing(outcomes[one.why], told)
        if why := needs.decides.get(outcomes[one.why]):
            one = replace(
                one, judgement=Judgement.VIOLATED, why=why, rule=check.promise, leaves_open=()
            )
        findings.append(_limited(check, needs, one, lacking) if lacking else one)
    return replace(report, findings=tuple(findings), sources=by)


def _undecided(check: Check, report: CheckReport, lacking: list[Told]) -> Iterator[Finding]:
    """All instances of a check as one finding, if there are any."""
    if report.examined:
        place = report.findings[0].first if report.findings else {}
        yield Finding(
            judgement=Judgement.UNDECIDABLE,
            why=_nobody(lacking),
            rule=check.promise,
            count=report.examined,
            first=place,
            last=report.findings[-1].last if report.findings else {},
            leaves_open=tuple(filter(None, (check.promise, check.ideal))),
        )


def _limited(check: Check, needs: Needs, found: Finding, lacking: list[Told]) -> Finding:
    if found.judgement is Judgement.UNDECIDABLE:
        return found
    left = (needs.leaves,) if needs.leaves else (check.promise, check.ideal)
    return replace(
        found,
        judgement=Judgement.UNDECIDABLE,
        why=f"{found.why}; {_nobody(lacking)}",
        rule=left[0] or check.promise,
        leaves_open=tuple(filter(None, left)),
    )


def _nobody(lacking: list[Told]) -> str:
    """That nobody tells something, and who would."""
    would = {source.value for source, told in TELLS.items() if told & {*lacking}}
    who = f" (a {' or a '.join(sorted(would))} would)" if would else ""
    return f"no source here tells {' or '.join(lacking)}{who}"
