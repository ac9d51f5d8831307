"""`{theorems}`: each theorem in words, what it takes as given, and the function that says it."""

from __future__ import annotations

import inspect

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqdocs.markup import anchored, fields, paragraph, references, text
from mqprove.prover import Theorem
from mqprove.theorems import THEOREMS


class TheoremsDirective(SphinxDirective):
    """The theorems, in their order."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from code that no page depends on
        return [self._section(theorem) for theorem in THEOREMS]

    def _section(self, theorem: Theorem) -> nodes.section:
        source = inspect.getsource(theorem.claim)
        anchor = f"theorem-{theorem.name}"
        standard = self.env.domains.standard_domain
        standard.note_object("theorem", theorem.name, anchor, self.state_machine)
        outcome = "is proved" if theorem.holds else "fails, as it should, with a counterexample"
        pairs = [
            ("Evidence for", references("rule", theorem.rules, self.env.docname)),
            ("Strategy", [nodes.literal("", theorem.strategy)]),
            ("Client ids", text("differ" if theorem.unique else "may be equal")),
            ("Lists", text("may be empty" if theorem.empty else "are not empty")),
            ("Outcome", text(outcome)),
            ("Again", [nodes.literal("", f"mqspec prove --theorem {theorem.name}")]),
        ]
        return anchored(
            theorem.name,
            anchor,
            paragraph(nodes.Text(theorem.statement)),
            fields(pairs),
            nodes.literal_block(source, source, language="python"),
        )
