"""The rules as pages: `{rules} AREA ...` writes the rules of some areas, `{rule-areas}` the index,
and the role `{rule}` links to one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from mqdocs.givers import Giver, givers
from mqdocs.markup import (
    anchored,
    fields,
    linked,
    listed,
    page_link,
    paragraph,
    reference,
    references,
    table,
    text,
)
from mqdocs.twin import actions_of
from mqrules import Kind, Level, Rule, UserError, defects, edges, incidents, rules, untried
from mqrules.evidence import EvidenceKind

_log = logging.getLogger(__name__)


def area(rule: Rule) -> str:
    """The prefix of the rule's id."""
    return rule.id.partition("-")[0]


class RulesDirective(SphinxDirective):
    """All rules of the areas named: a table, then a section for each."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        wanted = self.arguments[0].split()
        chosen = [rule for rule in rules().values() if area(rule) in wanted]
        if missing := set(wanted) - {area(rule) for rule in chosen}:
            raise self.error(f"no rules of the area {', '.join(sorted(missing))}")
        rows = [
            ([reference("rule", rule.id, self.env.docname)], text(strength(rule)), text(rule.text))
            for rule in chosen
        ]
        return [table(["rule", "", "says"], rows, "rules"), *(self._section(r) for r in chosen)]

    def _section(self, rule: Rule) -> nodes.section:
        anchor = f"rule-{rule.id}"
        self.env.domains.standard_domain.note_object("rule", rule.id, anchor, self.state_machine)
        said = paragraph(*linked(rule.text, self.env.docname))
        said["classes"].append("rule-text")
        return anchored(rule.id, anchor, said, self._fields(rule))

    def _fields(self, rule: Rule) -> nodes.field_list:
        versions = f"since {rule.since}" + (f", until {rule.until}" if rule.until else "")
        pairs = [
            ("Kind", text(", ".join(dict.fromkeys((rule.kind.value, strength(rule)))))),
            ("Binds", text(f"{rule.party.value}, {versions}")),
            ("Source", linked(rule.source, self.env.docname)),
        ]
        if rule.assumption:
            pairs.append(("True when", linked(rule.assumption, self.env.docname)))
        pairs.append(("Needs", text(", ".join(kind.value for kind in rule.needs))))
        of_rule = givers().get(rule.id, ())
        for kind in EvidenceKind:
            of_kind = [giver for giver in of_rule if giver.kind is kind]
            if of_kind:
                pairs.append((kind.value.capitalize(), self._givers(of_kind)))
            elif kind in rule.needs:
                pairs.append((kind.value.capitalize(), [nodes.strong("", "by nothing yet")]))
        pairs += self._edges(rule)
        pairs += self._places(rule)
        if commands := list(again(rule, of_rule)):
            codes = (nodes.literal("", command) for command in commands)
            pairs.append(("Again", listed(codes, "; ")))
        return fields(pairs)

    def _edges(self, rule: Rule) -> Iterator[tuple[str, list[nodes.Node]]]:
        """At which values cases try the rule's limits, or why they do not."""
        for edge in edges().get(rule.id, ()):
            inside, outside = (
                ", ".join(f"{value:,}" for value in values)
                for values in (edge.inside, edge.outside)
            )
            yield "Edge", text(f"{edge.of}: within {inside}; beyond {outside}")
        if why := untried().get(rule.id):
            yield "Edge", text(f"not in the table. {why}")

    def _places(self, rule: Rule) -> Iterator[tuple[str, list[nodes.Node]]]:
        """Where else the rule is spoken of: actions with their code, incidents, and defects."""
        docname = self.env.docname
        if actions := actions_of().get(rule.id):
            links = [reference("tla", a, docname, a.replace("!", ": ")) for a in actions]
            yield "Actions", listed(links)
        if at_stake := [one for one in incidents().values() if rule.id in one.rules]:
            links = [page_link(f"incidents/{one.page}", docname, one.id) for one in at_stake]
            yield "Incidents", listed(links)
        if broken_by := [name for name, one in defects().items() if rule.id in one.breaks]:
            yield "Broken by", references("defect", broken_by, docname)

    def _givers(self, several: list[Giver]) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for giver in several:
            found += [nodes.Text("; ")] if found else []
            model, colon, name = giver.subject.partition(": ")
            if giver.kind is EvidenceKind.PROVED:
                found.append(reference("theorem", giver.subject, self.env.docname))
            elif giver.kind is EvidenceKind.CHECKED:
                found.append(reference("model", model, self.env.docname))
                found.append(nodes.Text(f"{colon}{name}"))
            else:
                found.append(nodes.literal("", giver.subject))
            found += [nodes.Text(f" ({giver.note})")] if giver.note else []
        return found


def again(rule: Rule, of_rule: Sequence[Giver]) -> Iterator[str]:
    """The commands that repeat the evidence for a rule, one for each kind that has one."""
    subjects: dict[EvidenceKind, list[str]] = {}
    for giver in of_rule:
        subjects.setdefault(giver.kind, []).append(giver.subject)
    if checked := subjects.get(EvidenceKind.CHECKED):
        models = dict.fromkeys(subject.partition(":")[0] for subject in checked)
        yield f"mqspec check {' '.join(models)}"
    for kind in (EvidenceKind.PROVED, EvidenceKind.CONFIRMED):
        for name in subjects.get(kind, ()):
            yield f"mqspec prove --theorem {name}"
    if EvidenceKind.CONFORMS in subjects:
        yield f"mqspec conform reference --rule {rule.id}"
    if EvidenceKind.SAMPLED in subjects:
        yield "mqspec paths"


class RuleAreasDirective(SphinxDirective):
    """How many rules each area has, by level."""

    levels: ClassVar = tuple(Level)

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        counts = Counter((area(rule), rule.level) for rule in rules().values())
        areas = dict.fromkeys(area(rule) for rule in rules().values())
        rows = [
            [text(name), *(text(counts[name, level] or "") for level in self.levels)]
            for name in areas
        ]
        total = [text(sum(counts[name, level] for name in areas)) for level in self.levels]
        heads = ["area", *("ideal" if level is Level.NONE else level.value for level in Level)]
        return [table(heads, [*rows, [text(f"{len(rules())} rules"), *total]])]


def strength(rule: Rule) -> str:
    """The level, or that the rule is an ideal."""
    return "ideal" if rule.kind is Kind.IDEAL else rule.level.value


def every_rule_has_a_page(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn of a rule that stands on no page: a reader could not find it."""
    objects = env.domains.standard_domain.objects
    for rule_id in rules():
        if ("rule", rule_id) not in objects:
            _log.warning("rule %s stands on no page: add its area to one", rule_id)


def read_rules(app: Sphinx) -> None:
    """Refuse wrong rules in one line, before anything is built."""
    try:
        rules()
        givers()
    except UserError as error:
        raise SystemExit(f"docs: {error}") from None
