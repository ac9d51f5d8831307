"""`{telling} ID`: how to tell that an incident is one's own; `{at-stake} ID`: what speaks of it.

What people see, what mqadmin shows, and the lines of logs: from the tables that the symptoms, the
log lines and `mqspec explain` are made from. What is at stake: from the rules of the incident, and
from what gives evidence for them.
"""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqdocs.givers import given
from mqdocs.markup import Cell, listed, paragraph, references, table, told
from mqrules import EvidenceKind, Incident, incidents, log_lines, ways_to


class TellingDirective(SphinxDirective):
    """A table of where to look and what is there, and the lines of logs that lead there."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        incident = _named(self)
        told_by = table(["look at", "it may be this one where"], self._rows(incident), "telling")
        return [told_by, *self._lines(incident)]

    def _rows(self, incident: Incident) -> Iterator[tuple[Cell, Cell]]:
        for symptom, case in ways_to(incident.id):
            yield told(symptom.title), told(f"{case.when[0].upper()}{case.when[1:]}.")
        yield [nodes.literal("", "mqadmin")], told(incident.mqadmin)

    def _lines(self, incident: Incident) -> Iterator[nodes.Node]:
        """A link to each line, by the number that the page of log lines gives it."""
        items = [
            nodes.list_item("", paragraph(self._line(number, line.text)))
            for number, line in enumerate(log_lines())
            if incident.id in line.incidents
        ]
        if items:
            yield told("In the logs:")
            yield nodes.bullet_list("", *items)

    def _line(self, number: int, text: str) -> nodes.Node:
        page = self.env.app.builder.get_relative_uri(self.env.docname, "log-lines")
        code = nodes.literal("", text)
        return nodes.reference("", "", code, refuri=f"{page}#log-line-{number}", internal=True)


class AtStakeDirective(SphinxDirective):
    """The rules of an incident, and the models, proofs and cases of it and of them."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        rows = self._rows(_named(self))
        return [table(["what speaks of it", "which"], rows, "telling")]

    def _rows(self, incident: Incident) -> Iterator[tuple[Cell, Cell]]:
        docname = self.env.docname
        own = (("Models", "model", incident.models), ("Defects", "defect", incident.defects))
        yield told("Rules"), references("rule", incident.rules, docname)
        for words, kind, names in own:
            if names:
                yield told(words), references(kind, names, docname)
        if proved := given(incident.rules, EvidenceKind.PROVED):
            yield told("Theorems"), references("theorem", proved, docname)
        if cases := given(incident.rules, EvidenceKind.CONFORMS):
            tested = [r for r in incident.rules if given([r], EvidenceKind.CONFORMS)]
            commands = (f"mqspec conform HOST:PORT --rule {rule}" for rule in tested)
            codes = listed((nodes.literal("", command) for command in commands), "; ")
            yield told("Cases"), [nodes.Text(f"{len(cases)}: "), *codes]


def _named(directive: SphinxDirective) -> Incident:
    """The incident that a directive's argument names."""
    directive.env.note_reread()  # made from data that no page depends on
    name = directive.arguments[0]
    if name not in incidents():
        raise directive.error(f"{name} is no incident: {', '.join(incidents())} are")
    return incidents()[name]
