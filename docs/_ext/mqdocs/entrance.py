"""Where readers come in: `{incidents}`, `{symptoms}`, `{log-lines}` and `{at-a-glance}`.

All of it is made from the tables beside the rules, and from the reports of tested brokers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.util.docutils import SphinxDirective

from mqcheck.manifest import models
from mqdocs.markup import (
    Cell,
    anchored,
    listed,
    page_link,
    paragraph,
    references,
    table,
    told,
)
from mqdocs.tested import kept
from mqprove.theorems import THEOREMS
from mqrules import Incident, Kind, LogLine, Symptom, defects, incidents, log_lines, rules, symptoms

BY = ("client", "broker", "nameserver")


class IncidentsDirective(SphinxDirective):
    """All incidents: what is seen, what it is, what is at stake, and what shows it."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        heads = ["incident", "what is seen", "what it is", "rules", "shown by"]
        return [table(heads, map(self._row, incidents().values()), "incidents")]

    def _row(self, incident: Incident) -> list[Cell]:
        docname = self.env.docname
        shown = references("defect", incident.defects, docname)
        if incident.models and incident.defects:
            shown.insert(0, nodes.Text(", "))
        return [
            [page_of(incident, docname)],
            told(incident.seen),
            told(incident.kind),
            references("rule", incident.rules, docname),
            [*references("model", incident.models, docname), *shown],
        ]


class SymptomsDirective(SphinxDirective):
    """Each symptom: what to look at, then its cases in the order in which to try them."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        return [self._section(symptom) for symptom in symptoms()]

    def _section(self, symptom: Symptom) -> nodes.section:
        rows = (
            (
                told(f"{case.when[0].upper()}{case.when[1:]}."),
                [page_of(incidents()[case.incident], self.env.docname)],
            )
            for case in symptom.case
        )
        look = told(symptom.look, lead="Look first:")
        cases = table(["if", "then read"], rows, "cases")
        return anchored(symptom.title, f"symptom-{symptom.id}", look, cases)


class LogLinesDirective(SphinxDirective):
    """Each known line: what it means, what to do, and where to read on.

    A line carries its pieces, by which the page's script recognises one that is pasted.
    """

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        numbered = list(enumerate(log_lines()))
        # The page's script puts a box there.
        sections: list[nodes.Node] = [nodes.container("", classes=["log-finder"])]
        for by in BY:
            lines = [self._line(number, line) for number, line in numbered if line.by == by]
            sections.append(anchored(f"Written by the {by}", f"log-{by}", *lines))
        return sections

    def _line(self, number: int, line: LogLine) -> nodes.container:
        docname = self.env.docname
        links = [page_of(incidents()[i], docname) for i in line.incidents]
        read = listed(links)
        read += [nodes.Text("; ")] if links and line.rules else []
        read += references("rule", line.rules, docname)
        pieces = json.dumps(line.pieces, ensure_ascii=False)
        body = [
            nodes.raw(
                "", f'<script type="application/json">{_safe(pieces)}</script>', format="html"
            ),
            nodes.literal_block(line.text, line.text, language="text"),
            told(line.means, source=f"{line.level} of {line.source}"),
            told(line.act, lead="Act?"),
        ]
        if read:
            body.append(paragraph(nodes.Text("→ "), *read))
        return nodes.container("", *body, classes=["log-line"], ids=[f"log-line-{number}"])


COUNTED_ON: Final = {
    "rules": "rules/index",
    "ideals": "ideals",
    "models": "specs/index",
    "states": "specs/index",
    "theorems": "theorems",
    "cases": "tested/index",
    "incidents": "incidents/index",
    "defects": "defects",
    "lines": "log-lines",
}
"""By a word of a figure, the page that has what it counts."""


class GlanceDirective(SphinxDirective):
    """The figures of the front page, each from what it counts."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        found = figures(Path(self.env.srcdir))
        items = [
            nodes.container(
                "",
                paragraph(self._linked(number, words)),
                told(words),
                classes=["figure"],
            )
            for number, words in found
        ]
        return [nodes.container("", *items, classes=["glance"])]

    def _linked(self, number: str, words: str) -> nodes.Node:
        """The number, as a link to the page that has what it counts."""
        page = next(page for word, page in COUNTED_ON.items() if word in words)
        return nodes.strong("", "", page_link(page, self.env.docname, number))


def figures(docs: Path) -> list[tuple[str, str]]:
    """Numbers and what they count; of brokers, as the reports say that docs/tested keeps."""
    all_rules = rules().values()
    states = sum(model.counts.distinct for model in models().values())
    counted = [
        (len(all_rules), "rules, each a sentence that a stranger can test"),
        (
            sum(rule.kind is Kind.IDEAL for rule in all_rules),
            "of them ideals: believed by many, never promised",
        ),
        (len(models()), "models that TLC checks"),
        (states, "distinct states in them"),
        (len(THEOREMS), "theorems about the code that runs"),
        (len(incidents()), "incidents from production, explained"),
        (
            sum("seen in Apache" in d.incident for d in defects().values()),
            "defects seen in Apache 5.3.3",
        ),
        (len(log_lines()), "lines of logs, explained"),
    ]
    tested = [
        (f"{one.counts['passed']} of {one.counts.total()}", f"cases passed by {one.broker}")
        for one in kept(docs)
    ]
    return [*((f"{number:,}", words) for number, words in counted), *tested]


def page_of(incident: Incident, docname: str) -> pending_xref:
    """A link to an incident's page, by its title; one that is not there fails the build."""
    return page_link(f"incidents/{incident.page}", docname, incident.title, is_explicit=False)


def _safe(json_text: str) -> str:
    """JSON that may stand within a script element."""
    return json_text.replace("<", "\\u003c")
