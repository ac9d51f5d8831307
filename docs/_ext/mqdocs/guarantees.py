"""What a group is not promised, as one table: `{guarantees}`.

Each row is an ideal of the module System that a model violates and another keeps: its cause as
the module says it, its rule with the assumption under which it holds, and those models.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqcheck.manifest import TLA, Model, manifests, read_manifest
from mqdocs.markup import Cell, reference, references, table, told
from mqdocs.tla import Module, Part, parse
from mqrules import rules

MODULE = "System"

_PROSE = re.compile(r"^\(\*+ ?(.*?) *\*+\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ideal:
    """One row: an invariant, its rule, and the models that break it and that keep it."""

    part: Part
    rule: str
    shown: tuple[str, ...]
    gone: tuple[str, ...]


class GuaranteesDirective(SphinxDirective):
    """The ideals of the module System, in its order."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        module = parse((TLA / f"{MODULE}.tla").read_text(encoding="utf-8"))
        found = ideals(module, read_manifest(manifests()[MODULE]))
        heads = ["ideal", "broken when", "shown by", "holds if", "checked in"]
        return [table(heads, map(self._row, found), "guarantees")]

    def _row(self, ideal: Ideal) -> list[Cell]:
        docname = self.env.docname
        return [
            [reference("rule", ideal.rule, docname), nodes.Text(f" {ideal.part.name}")],
            told(prose(ideal.part)),
            references("model", ideal.shown, docname),
            told(rules()[ideal.rule].assumption or ""),
            references("model", ideal.gone, docname),
        ]


def ideals(module: Module, models: Sequence[Model]) -> list[Ideal]:
    """The invariants of which some model refutes a rule that is an ideal."""
    found = []
    for name, part in module.operators.items():
        broken = {
            model.name: model.breaks[name].rules
            for model in models
            if name in model.breaks and model.breaks[name].rules and not model.defect
        }
        if broken:
            rule = next(iter(broken.values()))[0]
            gone = tuple(model.name for model in models if rule in model.holds.get(name, ()))
            found.append(Ideal(part, rule, tuple(broken), gone))
    return found


def prose(part: Part) -> str:
    """The comment in a box that stands before a definition, as one line."""
    return " ".join(" ".join(_PROSE.findall(part.source)).replace("*", " ").split())
