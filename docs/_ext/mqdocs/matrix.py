"""`{evidence-matrix}`: the report of `mqspec verify` as a table, where there is one."""

from __future__ import annotations

import json
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqdocs.markup import reference, table, text
from mqrules import EvidenceKind, UserError, Verdict, rules
from mqrules.evidence import Evidence
from mqrules.matrix import Cell, Matrix, Row, matrix
from mqrules.schema import decode

NO_REPORT = "There is no report in this checkout. Run `mqspec verify`, then build the pages again."

_MARKS = {Verdict.HELD: "✓", Verdict.REFUTED: "✗ found"}


class EvidenceMatrixDirective(SphinxDirective):
    """Rule by kind of evidence. The strengths stay apart: nothing is added up over kinds."""

    def run(self) -> list[nodes.Node]:
        path = Path(self.env.srcdir) / self.config.mqspec_report
        if not path.exists():
            # Built again as soon as there is a report.
            self.env.note_reread()
            return [nodes.note("", nodes.paragraph("", NO_REPORT))]
        self.env.note_dependency(path)
        try:
            target, found = read_report(path)
        except UserError as error:
            raise self.error(str(error)) from None
        closed = sum(1 for row in found.rows if not row.gaps and not row.failed)
        about = f"Evidence for {target}: of {len(found.rows)} rules {closed} have all they need."
        heads = ["rule", "level", *(kind.value for kind in EvidenceKind)]
        rows = [self._row(row) for row in found.rows]
        return [nodes.paragraph("", about), table(heads, rows, "matrix")]

    def _row(self, row: Row) -> list[list[nodes.Node]]:
        level = "ideal" if row.rule.level.value == "none" else row.rule.level.value
        link = reference("rule", row.rule.id, self.env.docname)
        return [[link], text(level), *(_mark(row, kind) for kind in EvidenceKind)]


def read_report(path: Path) -> tuple[str, Matrix]:
    """What was verified, and its matrix. Raises UserError where the file is no report.

    The matrix is merged anew with the rules of this checkout, so that a rule that is younger
    than the report shows as a gap.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = [entry for rule in data["rules"] for entry in rule["evidence"]]
        target = str(data["target"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(str(path), f"not a report: {error}", "run `mqspec verify`") from None
    records = [decode(Evidence, entry, str(path)) for entry in [*entries, *data["kills"]]]
    return target, matrix(rules(), (r for r in records if r.rule in rules()))


def _mark(row: Row, kind: EvidenceKind) -> list[nodes.Node]:
    cell = row.cells.get(kind)
    if cell is None:
        return [nodes.inline("", "gap", classes=["gap"])] if kind in row.gaps else []
    return [nodes.inline("", _words(cell), classes=[cell.verdict.name.lower()])]


def _words(cell: Cell) -> str:
    count = f" {len(cell.records)}" if len(cell.records) > 1 else ""
    return _MARKS.get(cell.verdict, cell.verdict.value) + count
