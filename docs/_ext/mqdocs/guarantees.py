"""What a group is not promised, as one table: `{guarantees}`.

Each row is an ideal that a model of System violates and another keeps: its cause as the module
says it, its rule with the assumption under which it holds, and those models.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqcheck.manifest import MODELS, TLA, read_manifest
from mqdocs.markup import Cell, joined, reference, table, text
from mqdocs.tla import Part, parse
from mqrules import rules

MODULE = "System"

_PROSE = re.compile(r"^\(\*+ ?(.*?) *\*\)$", re.MULTILINE)


class GuaranteesDirective(SphinxDirective):
    """The ideals of the module System, in its order."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        module = parse((TLA / f"{MODULE}.tla").read_text(encoding="utf-8"))
        found = read_manifest(MODELS / f"{MODULE}.toml")
        rows = []
        for name, part in module.operators.items():
            broken = {m.name: m.breaks[name].rules for m in found if name in m.breaks}
            shown = [model for model, ideals in broken.items() if ideals]
            gone = [model.name for model in found if model.holds.get(name)]
            if shown:
                rule = broken[shown[0]][0]
                rows.append(self._row(name, part, rule, shown, gone))
        return [table(["ideal", "broken when", "shown by", "holds if", "checked in"], rows)]

    def _row(
        self, name: str, part: Part, rule: str, shown: Iterable[str], gone: Iterable[str]
    ) -> list[Cell]:
        ideal = [reference("rule", rule, self.env.docname), nodes.Text(f" {name}")]
        assumption = rules()[rule].assumption or ""
        return [ideal, text(prose(part)), self._models(shown), text(assumption), self._models(gone)]

    def _models(self, names: Iterable[str]) -> list[nodes.Node]:
        return joined(reference("model", name, self.env.docname) for name in names)


def prose(part: Part) -> str:
    """The comment that stands before a definition, as one line."""
    lines = (line.strip("*") for line in _PROSE.findall(part.source))
    return " ".join(" ".join(lines).split())
