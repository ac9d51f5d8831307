"""What a run found, for a reader: failures with their frames, and a table by rule."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mqconform.case import Result, Status
from mqconform.catalogue import declared
from mqconform.causes import Cause, causes, strongest
from mqconform.page import page
from mqconform.transcript import render, shown
from mqrules import Deviation, Level, reliances, rules
from mqrules.report import REPORT_SCHEMA, CaseShown, CauseShown, Report
from mqrules.schema import encode

_STYLES: Final = {
    Status.PASSED: "green",
    Status.FAILED: "bold red",
    Status.DEVIATES: "yellow",
    Status.NOT_CLAIMED: "dim",
    Status.BLOCKED: "red",
    Status.NOT_RUN: "dim",
}
_TESTED: Final = {Status.PASSED, Status.FAILED, Status.DEVIATES}


def causes_of(results: Iterable[Result]) -> list[Cause]:
    """What stands behind the failures, that of most cases first."""
    found = list(results)
    departed = [
        (result.name, result.departure, result.status is Status.FAILED)
        for result in found
        if result.departure
    ]
    waiting = [
        (result.name, result.case.after or "")
        for result in found
        if result.status is Status.BLOCKED and not result.departure
    ]
    return causes(departed, waiting)


def show_causes(console: Console, found: Sequence[Cause]) -> None:
    """Each cause with what it fails and blocks, and its frames."""
    for number, cause in enumerate(found, 1):
        counts = [f"{len(cause.cases)} failed"] if cause.cases else []
        counts += [f"{len(cause.blocks)} blocked"] if cause.blocks else []
        console.rule(f"cause {number} of {len(found)}: {', '.join(counts)}", style="red")
        console.print(cause.title, markup=False, highlight=False, soft_wrap=True)
        relied = sorted({who for rule in cause.rules for who in relying(rule)})
        told = f"{cause.strength}" + (f", by {', '.join(relied)}" if relied else "")
        console.print(f"strength: {told}", markup=False, highlight=False)
        if cause.rules:
            console.print(f"rules: {' '.join(sorted(cause.rules))}", highlight=False)
        for what, names in (("cases", cause.cases), ("blocks", cause.blocks)):
            if names:
                text = f"{what}: {', '.join(name.removeprefix('test_') for name in names)}"
                console.print(text, markup=False, highlight=False, soft_wrap=True)
        console.print(
            f"\n{render(cause.first.exchanges)}\n", markup=False, highlight=False, soft_wrap=True
        )
        _explain(console, sorted(cause.rules))


def relying(rule: str) -> list[str]:
    """Who relies on a rule."""
    return [who for reliance in reliances().get(rule, ()) for who in reliance.by]


def show_failures(console: Console, results: Iterable[Result], frames: bool) -> None:
    """Each failure with what was expected and the frames; `frames`: deviations as well."""
    shown = {Status.FAILED, Status.DEVIATES} if frames else {Status.FAILED}
    for result in results:
        if result.status in shown:
            console.rule(f"[{_STYLES[result.status]}]{result.name}")
            for rule in result.case.rules:
                console.print(f"{rule}: {rules()[rule].text}", markup=False, soft_wrap=True)
            text = f"\n{result.why}\n\n{result.frames}\n"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
            _explain(console, result.case.rules)


def _explain(console: Console, rules_: Iterable[str]) -> None:
    """The commands that tell more of some rules."""
    for rule in rules_:
        console.print(f"more: mqspec explain {rule}", style="dim", highlight=False)


def show_table(console: Console, target: str, results: Sequence[Result]) -> None:
    """One row a case, by rule."""
    table = Table("rule", "level", "party", "case", "verdict", title=target, box=SIMPLE)
    rows = [(rule, result) for result in results for rule in result.case.rules]
    for rule, result in sorted(rows, key=lambda row: (row[0], row[1].name)):
        why = f" {result.why}" if result.status in (Status.NOT_CLAIMED, Status.BLOCKED) else ""
        verdict = f"[{_STYLES[result.status]}]{result.status}[/]{escape(why)}"
        level = rules()[rule].level
        name = escape(result.name.removeprefix("test_"))
        table.add_row(rule, level, result.case.party, name, verdict)
    console.print(table)


def show_summary(
    console: Console, results: Sequence[Result], stale: Sequence[Deviation], seconds: float
) -> None:
    """The counts of every status, and what makes the run fail."""
    counts = Counter(result.status for result in results)
    words = ", ".join(f"{counts[status]} {status}" for status in Status if counts[status])
    tested = {rule for r in results if r.status in _TESTED for rule in r.case.rules}
    rules = f"{len(tested)} rule{'s' * (len(tested) != 1)}"
    console.print(f"{words}; {rules}; {seconds:.1f} s", highlight=False)
    for deviation in stale:
        text = f"stale deviation: {deviation.case} passes; take it off the list"
        console.print(text, style="bold red", markup=False)


def is_failure(results: Iterable[Result], stale: Sequence[Deviation]) -> bool:
    """Whether a MUST case failed or was blocked, or a deviation is stale."""
    bad = {Status.FAILED, Status.BLOCKED}
    return bool(stale) or any(r.status in bad and r.case.is_must for r in results)


def list_cases(console: Console, results: Iterable[Result]) -> None:
    """Every case with its rules, party and needs: plain columns when piped."""
    table = Table("case", "rules", "level", "party", "needs", box=None)
    for result in results:
        case = result.case
        level = Level.MUST if case.is_must else rules()[case.rules[0]].level
        claims = " ".join(sorted(case.claims))
        table.add_row(escape(result.name), " ".join(case.rules), level, case.party, claims)
    console.print(table)


def write(told: Report, as_json: Path | None, as_page: Path | None) -> None:
    """Write a report to the files that are given."""
    if as_json:
        as_json.write_text(json.dumps(encode(told), indent=1) + "\n", encoding="utf-8")
    if as_page:
        as_page.write_text(page(told), encoding="utf-8")


def as_data(
    results: Sequence[Result],
    *,
    target: str,
    keeps: str,
    run: str,
    began: str,
    seconds: float,
    stale: Sequence[Deviation],
    left: Sequence[str],
) -> Report:
    """The report as other programs read it; of what was not run, nothing."""
    ran = [result for result in results if result.status is not Status.NOT_RUN]
    found = causes_of(results)
    number = {name: n for n, cause in enumerate(found, 1) for name in cause.cases + cause.blocks}
    return Report(
        REPORT_SCHEMA,
        target,
        keeps,
        run,
        began,
        round(seconds, 1),
        int(is_failure(results, stale)),
        dict(Counter(str(result.status) for result in results)),
        tuple(map(_cause_shown, found)),
        tuple(_case_shown(result, number.get(result.name)) for result in ran),
        tuple(deviation.case for deviation in stale),
        tuple(left),
        {rule: rules()[rule].text for result in ran for rule in result.case.rules},
    )


def _cause_shown(cause: Cause) -> CauseShown:
    return CauseShown(
        cause.title,
        cause.first.request,
        cause.first.step,
        cause.strength,
        tuple(sorted({who for rule in cause.rules for who in relying(rule)})),
        tuple(sorted(cause.rules)),
        tuple(cause.cases),
        tuple(cause.blocks),
        tuple(map(shown, cause.first.exchanges)),
    )


def _case_shown(result: Result, cause: int | None) -> CaseShown:
    level = Level.MUST if result.case.is_must else rules()[result.case.rules[0]].level
    return CaseShown(
        result.name,
        result.case.rules,
        level,
        strongest(result.case.rules),
        result.case.party,
        result.status,
        round(result.seconds, 2),
        result.why,
        cause,
        result.letters,
        tuple(sorted(declared().get(result.name, ()))),
        () if result.status is Status.PASSED else tuple(map(shown, result.exchanges)),
    )
