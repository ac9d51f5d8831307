"""The models, the defects and the ideals as tables: `{models}`, `{defects}`, `{ideals}`, and the
numbers that models compute: `{figure}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from docutils import nodes
from sphinx.util.docutils import SphinxDirective, SphinxRole

from mqcheck.manifest import (
    Break,
    Killer,
    Model,
    OneStep,
    manifests,
    models,
    read_killers,
    read_larger,
    read_manifest,
    read_steps,
)
from mqdocs.graphs import drawn, is_drawn
from mqdocs.markup import (
    Cell,
    anchored,
    fields,
    linked,
    paragraph,
    reference,
    references,
    table,
    text,
)
from mqrules import Defect, Kind, Rule, defects, rules

_FIGURE = re.compile(r"(?P<model>\w+)\.(?P<constant>\w+)(?:\*(?P<factor>\d+))?")


class ModelsDirective(SphinxDirective):
    """Every model: what it is for, its bounds and size, what holds in it and what must not.

    With an argument, the models of one module only, each described on one page, and where each
    of their properties fails.
    """

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        if not self.arguments:
            return [self._summary()]
        wanted = self.arguments[0]
        manifest = manifests().get(wanted)
        if manifest is None:
            raise self.error(f"module {wanted} has no manifest")
        self.env.note_dependency(manifest)
        listed = read_manifest(manifest)
        sections = [_larger(wanted, listed, read_larger(manifest))]
        if steps := read_steps(manifest):
            sections.append(_steps(wanted, steps))
        sections += [self._section(model) for model in listed]
        if killers := read_killers(manifest):
            sections.append(self._killers(wanted, killers))
        return sections

    def _killers(self, protocol: str, killers: Mapping[str, Killer]) -> nodes.section:
        rows = (
            (
                [nodes.literal("", name)],
                [reference("model", killer.model, self.env.docname)],
                _changed(killer),
            )
            for name, killer in killers.items()
        )
        about = "What says something can fail: each property does, in a model or a mutant of one."
        heads = ["property", "fails in", "changed to"]
        body = (paragraph(nodes.Text(about)), table(heads, rows))
        return anchored("Where each property fails", f"killers-{protocol}", *body)

    def _summary(self) -> nodes.Node:
        rows = [
            (
                [reference("model", model.name, self.env.docname)],
                text(model.about),
                text(f"{model.counts.distinct:,}"),
                text(model.tier.value),
            )
            for model in models().values()
        ]
        return table(["model", "what for", "distinct states", "tier"], rows, "models")

    def _section(self, model: Model) -> nodes.section:
        anchor = f"model-{model.name}"
        standard = self.env.domains.standard_domain
        standard.note_object("model", model.name, anchor, self.state_machine)
        counts = model.counts
        bounds = ", ".join(f"{name} = {size}" for name, size in model.config.sizes.items() if size)
        size = (
            f"{counts.distinct:,} distinct of {counts.states:,} states, "
            f"depth {counts.depth}, tier {model.tier.value}"
        )
        size += f"; {model.measured}" if model.measured else ""
        pairs = [("Bounds", text(bounds)), ("Size", text(size))]
        if model.defect:
            pairs.append(("Defect", [reference("defect", model.defect, self.env.docname)]))
        rows = [(name, "holds", held) for name, held in model.holds.items()]
        rows += [(name, _violated(broken), broken.rules) for name, broken in model.breaks.items()]
        properties = table(
            ["property", "", "evidence for"],
            (
                ([nodes.literal("", name)], text(how), references("rule", of, self.env.docname))
                for name, how, of in rows
            ),
        )
        about = nodes.paragraph("", "", *linked(model.about.rstrip(".") + ".", self.env.docname))
        graph = [nodes.raw("", drawn(model), format="html")] if is_drawn(model) else []
        return anchored(model.name, anchor, about, fields(pairs), properties, *graph)


class DefectsDirective(SphinxDirective):
    """Every defect of the catalogue: what it breaks, and what shows and kills it."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        return [self._section(defect) for defect in defects().values()]

    def _section(self, defect: Defect) -> nodes.section:
        anchor = f"defect-{defect.id}"
        standard = self.env.domains.standard_domain
        standard.note_object("defect", defect.id, anchor, self.state_machine)
        docname = self.env.docname
        said = (
            ("Incident", defect.incident),
            ("Reports", ", ".join(issue + _read(issue, defect) for issue in defect.issues)),
            ("How", defect.mechanism),
            ("Fixed", defect.fixed),
        )
        pairs = [(name, linked(words, docname)) for name, words in said if words]
        pairs.append(("Breaks", references("rule", defect.breaks, docname)))
        if defect.model:
            pairs.append(("Shown by the model", [reference("model", defect.model, docname)]))
        for name, value in (("Patch", defect.patch), ("Detected by", defect.case)):
            if value:
                pairs.append((name, [nodes.literal("", value)]))
        about = nodes.paragraph("", "", *linked(f"{defect.title}.", docname))
        return anchored(defect.id, anchor, about, fields(pairs))


class IdealsDirective(SphinxDirective):
    """What was never promised: each ideal, what shows it, and under what it holds, checked."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # made from data that no page depends on
        heads = ["ideal", "shown by", "holds if", "checked in"]
        found = (rule for rule in rules().values() if rule.kind is Kind.IDEAL)
        return [table(heads, map(self._row, found), "ideals")]

    def _row(self, rule: Rule) -> list[Cell]:
        docname = self.env.docname
        shown = (m.name for m in models().values() if rule.id in m.broken)
        kept = (m.name for m in models().values() if rule.id in m.kept and not m.defect)
        return [
            [reference("rule", rule.id, docname), nodes.Text(f" {rule.text}")],
            references("model", shown, docname),
            text(rule.assumption),
            references("model", kept, docname),
        ]


class FigureRole(SphinxRole):
    """A number that a model computes: `MODEL.CONSTANT`, perhaps `*FACTOR` for its unit.

    It is read from the configuration, whose properties fail where it is another.
    """

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        found = _FIGURE.fullmatch(self.text)
        model = models().get(found["model"]) if found else None
        if not found or not model or found["constant"] not in model.config.sizes:
            problem = self.inliner.reporter.error(f"no figure {self.text}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, problem)], [problem]
        figure = model.config.sizes[found["constant"]] * int(found["factor"] or 1)
        return [nodes.Text(f"{figure:,}")], []


def _larger(protocol: str, listed: Sequence[Model], larger: Mapping[str, str]) -> nodes.section:
    """Of each bound the largest that a model has, and what a larger one could show."""
    rows = [
        (
            [nodes.literal("", name)],
            text(max(model.config.sizes.get(name) or 0 for model in listed)),
            text(words),
        )
        for name, words in larger.items()
    ]
    about = "What TLC finds within these bounds is all there is within them, and no more than that."
    heads = ["bound", "at most", "what a larger one could show"]
    title = "What larger bounds could show"
    return anchored(title, f"larger-{protocol}", paragraph(nodes.Text(about)), table(heads, rows))


def _steps(protocol: str, steps: Mapping[str, OneStep]) -> nodes.section:
    """Of each action what makes it one step in 5.3.3, or why it may be one here."""
    rows = [
        ([nodes.literal("", name)], text(step.code), text(step.held), text(step.several))
        for name, step in steps.items()
    ]
    about = "What of 5.3.3 is one step here, and what holds others off meanwhile."
    heads = ["action", "in 5.3.3", "one step by", "but"]
    title = "One step in the real one"
    return anchored(title, f"steps-{protocol}", paragraph(nodes.Text(about)), table(heads, rows))


def _changed(killer: Killer) -> Cell:
    if killer.edit:
        old, new = (nodes.literal("", words) for words in killer.edit)
        return [new, nodes.Text(" in place of "), old]
    return [nodes.literal("", killer.mutant)] if killer.mutant else text("as it stands")


def _violated(broken: Break) -> str:
    return f"violated, in {broken.depth} states" if broken.depth else "violated, for ever"


def _read(issue: str, defect: Defect) -> str:
    """How much of a report's thread was read, where it was not all of it."""
    if issue in defect.unread:
        return " (not read)"
    return " (read in part)" if issue in defect.excerpts else ""
