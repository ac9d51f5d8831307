"""What a run found, for a reader: failures with their frames, and a table by rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from rich.box import SIMPLE
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mqconform.case import Result, Status
from mqrules import Deviation, Level, rules

_STYLES: Final = {
    Status.PASSED: "green",
    Status.FAILED: "bold red",
    Status.DEVIATES: "yellow",
    Status.NOT_CLAIMED: "dim",
    Status.BLOCKED: "red",
    Status.NOT_RUN: "dim",
}
_TESTED: Final = {Status.PASSED, Status.FAILED, Status.DEVIATES}


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
    console.print(f"{words}; {len(tested)} rules; {seconds:.1f} s", highlight=False)
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
