"""`{theorems}` and `{invariances}`: each theorem in words, what it takes as given, and what says
it; `{contracts}`: what CrossHair says of the core."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqcheck.manifest import library
from mqcheck.mutants import definitions
from mqcheck.source import blank_comments
from mqdocs.markup import anchored, fields, paragraph, references, table, text
from mqprove.contracts import AREAS, CONTRACTS, Contract
from mqprove.inductive import Invariance, Protocol
from mqprove.protocols import INVARIANCES
from mqprove.prover import Claimed, Theorem
from mqprove.theorems import THEOREMS


class TheoremsDirective(SphinxDirective):
    """The theorems, in their order."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from code that no page depends on
        return [self._theorem(theorem) for theorem in THEOREMS]

    def _theorem(self, theorem: Theorem) -> nodes.section:
        fails = "fails, as it should, with a counterexample"
        facts = [
            ("Strategy", [nodes.literal("", theorem.strategy)]),
            ("Client ids", text("differ" if theorem.unique else "may be equal")),
            ("Lists", text("may be empty" if theorem.empty else "are not empty")),
            ("Outcome", text("is proved" if theorem.holds else fails)),
        ]
        return _section(self, theorem, facts, inspect.getsource(theorem.claim), "python")


class InvariancesDirective(SphinxDirective):
    """The theorems about protocols, each protocol with its invariants."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from code that no page depends on
        protocols = {theorem.protocol.module: theorem.protocol for theorem in INVARIANCES}
        return [self._protocol(protocol) for protocol in protocols.values()]

    def _protocol(self, protocol: Protocol) -> nodes.section:
        source = protocol.path.read_text(encoding="utf-8")
        of_it = [theorem for theorem in INVARIANCES if theorem.protocol.module == protocol.module]
        return anchored(
            protocol.of,
            f"invariants-{protocol.of}",
            nodes.literal_block(source, source, language="tlaplus"),
            *(self._theorem(theorem) for theorem in of_it),
        )

    def _theorem(self, theorem: Invariance) -> nodes.section:
        known = [*theorem.rests_on, *([theorem.invariant] if theorem.invariant else [])]
        facts = [
            ("Given", text(theorem.bounds or "nothing")),
            ("Follows from", text(", ".join(known) or "any state")),
            ("Outcome", text("is proved")),
        ]
        return _section(self, theorem, facts, definition(theorem), "tlaplus")


class ContractsDirective(SphinxDirective):
    """CrossHair's contracts, area by area."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from code that no page depends on
        return [self._area(area) for area in AREAS]

    def _area(self, area: ModuleType) -> nodes.section:
        name = area.__name__.rpartition(".")[2]
        of_it = [each for each in CONTRACTS if each.said.__module__ == area.__name__]
        return anchored(
            name.capitalize(),
            f"contracts-{name}",
            paragraph(*text(" ".join((area.__doc__ or "").split()))),
            table(("Says", "Evidence for", "CrossHair"), map(self._row, of_it)),
        )

    def _row(self, contract: Contract) -> tuple[list[nodes.Node], ...]:
        outcome = "searched" if contract.is_searched else "confirmed"
        rules = references("rule", contract.rules, self.env.docname)
        return text(contract.statement), rules, text(outcome)


def _section(
    directive: SphinxDirective,
    theorem: Claimed,
    facts: Iterable[tuple[str, list[nodes.Node]]],
    claim: str,
    language: str,
) -> nodes.section:
    """A theorem, which others link to: in words, with its facts, and as what says it."""
    env, anchor = directive.env, f"theorem-{theorem.name}"
    standard = env.domains.standard_domain
    standard.note_object("theorem", theorem.name, anchor, directive.state_machine)
    pairs = [
        ("Evidence for", references("rule", theorem.rules, env.docname)),
        *facts,
        ("Again", [nodes.literal("", f"mqspec prove --theorem {theorem.name}")]),
    ]
    return anchored(
        theorem.name,
        anchor,
        paragraph(nodes.Text(theorem.statement)),
        fields(pairs),
        nodes.literal_block(claim, claim, language=language),
    )


def sources(theorem: Invariance) -> list[Path]:
    """The modules that a theorem's claim may stand in: the protocol's, what the module of
    invariants extends besides, and that module itself."""
    path = theorem.protocol.path
    extended = re.findall(r"^EXTENDS (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    names = [theorem.protocol.of, *(name.strip() for each in extended for name in each.split(","))]
    beside = [folder / f"{name}.tla" for name in names for folder in library()]
    return [*(each for each in beside if each.exists()), path]


def definition(theorem: Invariance) -> str:
    """What a theorem claims, as it stands in the protocol's module or beside the invariants."""
    found: dict[str, str] = {}
    for path in sources(theorem):
        code = path.read_text(encoding="utf-8")
        found |= {each: code[a:b] for each, a, b in definitions(blank_comments(code))}
    body = found[theorem.claim].partition("\n(*")[0].partition("\n---")[0].partition("\n===")[0]
    return f"{theorem.claim} ==\n    {body.strip()}"
