"""A real run is told to have gone wrong where it has: by night it is judged by this."""

from __future__ import annotations

from dataclasses import replace

import pytest
from real_run import ONLY, SURELY, TELL_IT, UNTOLD, departures

from mqaudit.report import CheckReport, Finding, Judgement

MESSAGES = 10
HELD = CheckReport("lost", "", "OFFSET-001", None, MESSAGES, MESSAGES, ())


def report(name: str, judgement: Judgement, why: str = "why", scene: str = "Clean") -> CheckReport:
    found = Finding(judgement, why, "OFFSET-001", 1, {"topic": f"Of{scene}"}, {})
    return replace(HELD, name=name, held=0, findings=(found,))


@pytest.mark.parametrize("source", ONLY)
def test_a_clean_run_is_one(source: str) -> None:
    usual = [report(name, Judgement(judgement)) for judgement, name in ONLY[source]]
    usual.append(report("out of order", Judgement.UNDECIDABLE, f"{UNTOLD} the order"))
    assert not [*departures(source, [HELD, *usual], MESSAGES)]


@pytest.mark.parametrize("source", ONLY)
@pytest.mark.parametrize(
    ("name", "judgement"),
    [
        ("lost", Judgement.VIOLATED),
        ("lost", Judgement.UNDECIDABLE),
        ("repeated", Judgement.VIOLATED),
    ],
)
def test_what_did_not_happen_is_told(source: str, name: str, judgement: Judgement) -> None:
    (said,) = departures(source, [HELD, report(name, judgement)], MESSAGES)
    assert said == f"{source}: Clean: 1 {judgement} | {name}: why"


@pytest.mark.parametrize("source", TELL_IT)
def test_that_not_all_was_judged_is_told(source: str) -> None:
    (said,) = departures(source, [replace(HELD, held=MESSAGES - 1)], MESSAGES)
    assert said == f"{source}: lost: 9 held of 10"


def test_that_nothing_was_judged_is_told() -> None:
    assert [*departures("logs", [replace(HELD, examined=0)], MESSAGES)] == [
        "logs: nothing was judged"
    ]


def incidents(source: str) -> list[CheckReport]:
    """Reports in which all that must be told of incidents by a source is."""
    return [
        replace(
            HELD,
            name=check,
            findings=(
                Finding(Judgement(how), why, "", 1, {}, {}, examples=({"topic": f"Of{scene}"},)),
            ),
        )
        for scene, how, check, why in sorted(SURELY[source])
    ]


@pytest.mark.parametrize("source", SURELY)
def test_where_much_happens_nothing_else_is_to_be_told(source: str) -> None:
    left_open = [report("lost", how) for how in (Judgement.OPEN, Judgement.UNDECIDABLE)]
    told = [*incidents(source), *left_open]
    assert not [*departures(source, told, None)]
    for judgement in (Judgement.VIOLATED, Judgement.PERMITTED):
        (said,) = departures(source, [*told, report("lost", judgement, scene="Turn")], None)
        assert said == f"{source}: Turn: 1 {judgement} | lost: why"


@pytest.mark.parametrize("source", SURELY)
def test_what_is_violated_is_told_where_no_source_tells_all(source: str) -> None:
    wrong = report("lost", Judgement.VIOLATED, UNTOLD)
    (said,) = departures(source, [*incidents(source), wrong], None)
    assert said == f"{source}: Clean: 1 violated | lost: {UNTOLD}"


@pytest.mark.parametrize("source", SURELY)
def test_an_incident_that_is_not_told_is_missed(source: str) -> None:
    _, *rest = incidents(source)
    (said,) = departures(source, [HELD, *rest], None)
    missed = sorted(SURELY[source])[0]
    assert said == f"{source}: not told: {' | '.join(missed)}"
