"""`{tested}`: what the suite saw of brokers, from the reports of runs that docs/tested keeps.

Without an argument a line for each broker; with the name of a kept report that broker: how far it
keeps each area of the rules, then where it departs, each cause with its frames.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqdocs.markup import Cell, fields, listed, page_link, paragraph, references, table, text
from mqdocs.rules import area
from mqrules import rules

FOLDER: Final = "tested"
PROPER: Final = {"apache": "Apache", "reference": "Reference"}  # others as they write themselves
COLUMNS: Final = ("passed", "deviates", "failed", "blocked", "not claimed")  # as reports say it


@dataclass(frozen=True, slots=True)
class Kept:
    """The report of a run, by the name of its file and its page."""

    name: str
    report: Mapping[str, Any]

    @property
    def broker(self) -> str:
        name, _, version = str(self.report["target"]).partition(":")
        return f"{PROPER.get(name, name)} {version}"

    @property
    def day(self) -> str:
        return str(self.report["began"]).partition("T")[0]

    @property
    def counts(self) -> Counter[str]:
        return Counter(self.report["counts"])

    def of_rules(self) -> dict[str, set[str]]:
        """What became of the cases of each rule."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for case in self.report["cases"]:
            for rule in case["rules"]:
                found[rule].add(case["status"])
        return dict(found)


def kept(docs: Path) -> list[Kept]:
    """All kept reports, by name."""
    return [
        Kept(path.stem, json.loads(path.read_text(encoding="utf-8")))
        for path in sorted((docs / FOLDER).glob("*.json"))
    ]


def to_keep(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report without what the rules say anyway, and with as much of frames as a page shows."""
    cases = [
        {name: case[name] for name in ("name", "rules", "status", "strength")}
        | (
            {"why": case["why"], "frames": _shown(case["frames"][-2:])}
            if case["status"] == "deviates"
            else {}
        )
        for case in report["cases"]
    ]
    causes = [{**cause, "frames": _shown(cause["frames"])} for cause in report["causes"]]
    kept_as_it_is = {name: value for name, value in report.items() if name != "texts"}
    return {**kept_as_it_is, "cases": cases, "causes": causes}


def _shown(frames: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: frame[name] for name in ("sent", "text")} for frame in frames]


class TestedDirective(SphinxDirective):
    """The brokers that were tested, or one of them."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        reports = {one.name: one for one in kept(Path(self.env.srcdir))}
        if not self.arguments:
            heads = ["broker", "run on", *COLUMNS, "rules kept"]
            return [table(heads, map(self._row, reports.values()), "tested")]
        if (name := self.arguments[0]) not in reports:
            raise self.error(f"no report {FOLDER}/{name}.json: {', '.join(reports)} are there")
        one = reports[name]
        return [
            _summary(one),
            table(["area", "rules kept", "not kept, or not seen"], self._areas(one), "areas"),
            *_not_claimed(one),
            *self._departures(one),
        ]

    def _row(self, one: Kept) -> list[Cell]:
        found = one.of_rules()
        whole = sum(outcome == {"passed"} for outcome in found.values())
        return [
            [page_link(f"{FOLDER}/{one.name}", self.env.docname, one.broker)],
            text(one.day),
            *(text(one.counts[name] or "") for name in COLUMNS),
            text(f"{whole} of {len(found)}"),
        ]

    def _areas(self, one: Kept) -> Iterator[list[Cell]]:
        found = one.of_rules()
        for name in dict.fromkeys(area(rule) for rule in rules().values()):
            of_area = [rule for rule in found if rule.startswith(f"{name}-") and rule in rules()]
            if of_area:
                others = [rule for rule in of_area if found[rule] != {"passed"}]
                whole = f"{len(of_area) - len(others)} of {len(of_area)}"
                links = references("rule", sorted(others), self.env.docname)
                yield [text(name), text(whole), links]

    def _departures(self, one: Kept) -> Iterator[nodes.Node]:
        """Causes of failures, most cases first; then the deviations that are listed."""
        for cause in one.report["causes"]:
            relying = f", by {', '.join(cause['relied_on_by'])}" if cause["relied_on_by"] else ""
            facts = [
                ("Strength", text(cause["strength"] + relying)),
                ("Cases", _names(cause["cases"])),
                ("It blocks", _names(cause["blocks"])),
            ]
            yield from self._departure(cause["title"], cause["rules"], facts, cause["frames"])
        for case in one.report["cases"]:
            if case["status"] == "deviates":
                facts = [("Strength", text(case["strength"])), ("Cases", _names([case["name"]]))]
                yield from self._departure(case["why"], case["rules"], facts, case["frames"])

    def _departure(
        self,
        title: str,
        of: Sequence[str],
        facts: Sequence[tuple[str, Sequence[nodes.Node]]],
        frames: Sequence[Mapping[str, Any]],
    ) -> Iterator[nodes.Node]:
        known = [rule for rule in of if rule in rules()]
        links = references("rule", known, self.env.docname)
        yield nodes.rubric("", title[:1].upper() + title[1:])
        yield fields([("Rules", links), *((name, value) for name, value in facts if value)])
        lines = [f"{'->' if frame['sent'] else '<-'} {frame['text']}" for frame in frames]
        said = "\n".join(lines)
        yield nodes.literal_block(said, said, language="text")


def _names(cases: Sequence[str]) -> list[nodes.Node]:
    """Names of cases, as code: prose would make a dash of two hyphens."""
    return listed(nodes.literal("", case) for case in cases)


def _not_claimed(one: Kept) -> Iterator[nodes.Node]:
    names = [case["name"] for case in one.report["cases"] if case["status"] == "not claimed"]
    if names:
        yield paragraph(nodes.Text("What it does not claim to do, by case: "), *_names(names))


def _summary(one: Kept) -> nodes.paragraph:
    counts = ", ".join(f"{number} {name}" for name, number in one.counts.most_common())
    judged = f"{one.broker}, judged by the rules of {one.report['keeps']} on {one.day}"
    return paragraph(nodes.Text(f"{judged}, in {one.report['seconds']:.0f} s: {counts}."))
