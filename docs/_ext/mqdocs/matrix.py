"""`{evidence-matrix}`: the report of `mqspec verify` as a table, where there is one."""

from __future__ import annotations

import json
from collections import Counter
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
_STANDINGS = ("closed", "gap", "violated")


class EvidenceMatrixDirective(SphinxDirective):
    """Rule by kind of evidence, an area after the other, with choices that the page's script reads.

    The strengths stay apart: nothing is added up over kinds. A cell leads to the rule, which names
    each model, theorem, case or check that gives it.
    """

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
        closed = sum(1 for row in found.rows if _standing(row) == "closed")
        about = f"Evidence for {target}: of {len(found.rows)} rules {closed} have all they need."
        areas: dict[str, list[Row]] = {}
        for row in found.rows:
            areas.setdefault(row.rule.id.partition("-")[0], []).append(row)
        body: list[nodes.Node] = [nodes.paragraph("", about), _choices(found, list(areas))]
        for area, rows in areas.items():
            body += self._area(area, rows)
        return body

    def _area(self, area: str, rows: list[Row]) -> list[nodes.Node]:
        counts = Counter(map(_standing, rows))
        said = ", ".join(f"{counts[s]} {s}" for s in _STANDINGS if counts[s])
        head = f'<details class="matrix-area" open><summary>{area}: {said}</summary>'
        kinds = [kind for kind in EvidenceKind if any(kind in (*r.cells, *r.gaps) for r in rows)]
        heads = ["rule", "level", *(kind.value for kind in kinds), "says"]
        lines = [self._row(row, kinds) for row in rows]
        return [
            nodes.raw("", head, format="html"),
            table(heads, lines, "matrix"),
            nodes.raw("", "</details>", format="html"),
        ]

    def _row(self, row: Row, kinds: list[EvidenceKind]) -> list[list[nodes.Node]]:
        rule = row.rule
        link = nodes.inline("", "", reference("rule", rule.id, self.env.docname))
        link["classes"] = ["about", *_classes(row)]
        marks = [self._mark(row, kind) for kind in kinds]
        return [[link], text(_strength(row)), *marks, text(rule.text)]

    def _mark(self, row: Row, kind: EvidenceKind) -> list[nodes.Node]:
        cell = row.cells.get(kind)
        if cell is None:
            return [nodes.inline("", "gap", classes=["gap"])] if kind in row.gaps else []
        link = reference("rule", row.rule.id, self.env.docname, _words(cell))
        return [nodes.inline("", "", link, classes=[cell.verdict.name.lower()])]


def _choices(found: Matrix, areas: list[str]) -> nodes.container:
    """What one may choose by, for the page's script: a name and its values."""
    strengths = dict.fromkeys(_strength(row) for row in found.rows)
    kinds = [kind.value for kind in EvidenceKind]
    choices = [("area", areas), ("level", [*strengths]), ("kind", kinds), ("standing", _STANDINGS)]
    script = f'<script type="application/json">{json.dumps(choices)}</script>'
    return nodes.container("", nodes.raw("", script, format="html"), classes=["matrix-filter"])


def _classes(row: Row) -> list[str]:
    """By what a rule is found: each choice's name and its value."""
    area = row.rule.id.partition("-")[0]
    kinds = [f"kind-{kind.value}" for kind in row.cells]
    return [f"area-{area}", f"level-{_strength(row)}", f"standing-{_standing(row)}", *kinds]


def _strength(row: Row) -> str:
    return "ideal" if row.rule.level.value == "none" else row.rule.level.value


def _standing(row: Row) -> str:
    if row.failed:
        return "violated"
    return "gap" if row.gaps else "closed"


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


def _words(cell: Cell) -> str:
    count = f" {len(cell.records)}" if len(cell.records) > 1 else ""
    return _MARKS.get(cell.verdict, cell.verdict.value) + count
