"""`{telling} ID`: how to tell that an incident is one's own.

What people see, what mqadmin shows, and the lines of logs: from the tables that the symptoms, the
log lines and `mqspec explain` are made from.
"""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqdocs.markup import Cell, paragraph, table, told
from mqrules import Incident, incidents, log_lines, ways_to


class TellingDirective(SphinxDirective):
    """A table of where to look and what is there, and the lines of logs that lead there."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        name = self.arguments[0]
        if name not in incidents():
            raise self.error(f"{name} is no incident: {', '.join(incidents())} are")
        incident = incidents()[name]
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
