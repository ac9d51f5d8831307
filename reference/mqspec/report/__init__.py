"""The evidence matrix, rendered: terminal, JSON, JUnit XML and one self-contained page."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path

from jinja2 import Environment
from rich import box
from rich.table import Table

from mqrules.evidence import EvidenceKind, Verdict
from mqrules.matrix import Matrix, Row
from mqrules.rule import Kind
from mqrules.schema import SCHEMA_VERSION, encode

# How a verdict is shown: in the terminal, and as a class of the page.
_SHOWN = {
    Verdict.HELD: ("[green]✓[/]", "held"),
    Verdict.REFUTED: ("[green]cex[/]", "refuted"),
    Verdict.DEVIATES: ("[yellow]dev[/]", "deviates"),
    Verdict.UNDECIDABLE: ("[yellow]open[/]", "open"),
    Verdict.NOT_CLAIMED: ("[yellow]n/c[/]", "open"),
    Verdict.BLOCKED: ("[yellow]blocked[/]", "open"),
    Verdict.NOT_RUN: ("[yellow]not run[/]", "open"),
    Verdict.VIOLATED: ("[bold red]✗[/]", "violated"),
}
LEGEND = (
    "✓ held, ✗ violated, gap: needed and not there, cex: an ideal's expected counterexample, "
    "dev: deviates as listed, open: undecidable, n/c: not claimed; and how many records"
)
_ROOM_FOR_TEXT = 120  # columns


@dataclass(frozen=True, slots=True)
class Report:
    """What `mqspec verify` found: the matrix, and which stages failed to end well."""

    target: str
    seconds: float
    matrix: Matrix
    stage_failures: tuple[str, ...] = ()

    def failures(self) -> list[str]:
        """One line for each thing that fails the build."""
        return [*self.stage_failures, *self.matrix.violations(), *self.matrix.gaps()]

    def write(self, folder: Path) -> None:
        """Write report.json, junit.xml and report.html into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_as_data(self), indent=1, ensure_ascii=False)
        (folder / "report.json").write_text(text, encoding="utf-8")
        _junit(self).write(folder / "junit.xml", encoding="utf-8", xml_declaration=True)
        (folder / "report.html").write_text(_html(self), encoding="utf-8")


def summary(report: Report) -> Table:
    """How each area stands: its rules, those with all they need, and those without.

    Areas go down two columns, so that all of them are in view at once.
    """
    table = Table(
        title=f"Evidence for {report.target}",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    heads = ("area", "rules", "closed", "gap", "violated")
    for name in (*heads, "", *heads):
        table.add_column(name, justify="left" if name in ("area", "") else "right", no_wrap=True)
    areas: dict[str, Counter[str]] = {}
    for row in report.matrix.rows:
        areas.setdefault(row.rule.id.partition("-")[0], Counter()).update((_standing(row),))
    cells = [_area(name, counts) for name, counts in areas.items()]
    half = (len(cells) + 1) // 2
    empty = ("",) * len(heads)
    for left, right in zip_longest(cells[:half], cells[half:], fillvalue=empty):
        table.add_row(*left, "", *right)
    return table


def _area(name: str, counts: Counter[str]) -> tuple[str, ...]:
    gaps, violated = counts["open"], counts["violated"]
    return (
        f"[bold red]{name}[/]" if violated else name,
        str(counts.total()),
        f"[green]{counts['closed']}[/]",
        f"[yellow]{gaps}[/]" if gaps else "",
        f"[bold red]{violated}[/]" if violated else "",
    )


def kinds(report: Report) -> str:
    """How many rules have evidence of each kind. Kinds are of different strengths: no sum."""
    counts = Counter(kind.value for row in report.matrix.rows for kind in row.cells)
    return ", ".join(f"{counts[kind.value]} {kind.value}" for kind in EvidenceKind)


def terminal(report: Report, width: int) -> Table:
    """The matrix as a table for `width` columns: a rule a row, a kind of evidence a column."""
    table = Table(
        title=f"Evidence for {report.target}",
        caption=LEGEND,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in ("rule", "level", *EvidenceKind):
        table.add_column(str(name), no_wrap=True)
    if width >= _ROOM_FOR_TEXT:
        table.add_column("says", overflow="ellipsis", no_wrap=True, ratio=1)
    for row in report.matrix.rows:
        rule = row.rule
        rule_id = f"[bold red]{rule.id}[/]" if row.fails_build else rule.id
        level = "ideal" if rule.kind is Kind.IDEAL else rule.level.value
        cells = [rule_id, level, *(_mark(row, kind) for kind in EvidenceKind), rule.text]
        table.add_row(*cells[: len(table.columns)])
    return table


def _mark(row: Row, kind: EvidenceKind) -> str:
    if cell := row.cells.get(kind):
        return f"{_SHOWN[cell.verdict][0]} {len(cell.records)}"
    return "[red]gap[/]" if kind in row.gaps else ""


def _as_data(report: Report) -> dict[str, object]:
    return {
        "schema": SCHEMA_VERSION,
        "target": report.target,
        "seconds": round(report.seconds, 1),
        "failures": report.failures(),
        "rules": [
            {
                "rule": encode(row.rule),
                "gaps": [kind.value for kind in row.gaps],
                "failed": row.failed,
                "evidence": [encode(r) for cell in row.cells.values() for r in cell.records],
            }
            for row in report.matrix.rows
        ],
        "kills": [encode(kill) for kill in report.matrix.kills],
    }


def _junit(report: Report) -> ElementTree.ElementTree[ElementTree.Element]:
    """A test case for each rule and kind; what is neither held nor failed is skipped."""
    suite = ElementTree.Element("testsuite", name=f"mqspec verify {report.target}")
    counts: Counter[str] = Counter()
    for row in report.matrix.rows:
        for kind in sorted(row.cells.keys() | set(row.gaps)):
            case = ElementTree.SubElement(suite, "testcase", classname=row.rule.id, name=kind.value)
            counts["tests"] += 1
            cell = row.cells.get(kind)
            if kind not in row.gaps and not (cell and cell.verdict is Verdict.VIOLATED):
                continue
            verdict = cell.verdict.value if cell else "no evidence"
            outcome = "failure" if row.fails_build else "skipped"
            counts["failures" if row.fails_build else "skipped"] += 1
            ElementTree.SubElement(case, outcome, message=f"{verdict}: {row.rule.text}")
    for line in report.stage_failures:
        case = ElementTree.SubElement(suite, "testcase", classname="verify", name=line)
        counts.update(tests=1, failures=1)
        ElementTree.SubElement(case, "failure", message=line)
    for name in ("tests", "failures", "skipped"):
        suite.set(name, str(counts[name]))
    return ElementTree.ElementTree(suite)


def _html(report: Report) -> str:
    source = files("mqspec.report").joinpath("report.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(source)
    return template.render(
        report=report,
        kinds=list(EvidenceKind),
        css={verdict: css for verdict, (_, css) in _SHOWN.items()},
        totals=Counter(_standing(row) for row in report.matrix.rows),
    )


def _standing(row: Row) -> str:
    if row.failed:
        return "violated"
    return "open" if row.gaps else "closed"
