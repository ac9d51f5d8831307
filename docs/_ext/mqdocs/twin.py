"""TLA+ modules as pages: `{tla-module} NAME` writes a module beside its Python twin.

Each action stands next to the function of the same name, so that a reader goes down both with
one finger; what has no twin follows in the module's full text. The role `{tla}` links to a
module or to one of its actions, as `OffsetCommit!Persist`.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import mqcheck.traces
import mqspec.core
from mqcheck.manifest import TLA
from mqcheck.source import blank_comments, snake_case
from mqcheck.twins import cores
from mqdocs.givers import given
from mqdocs.markup import (
    Cell,
    anchored,
    listed,
    page_link,
    paragraph,
    reference,
    references,
    rule_ids,
    table,
    text,
)
from mqdocs.tla import Module, Part, parse
from mqdocs.variables import Variable, used_by, variables
from mqrules import EvidenceKind

CORE = Path(mqspec.core.__file__).parent
TRACES = Path(mqcheck.traces.__file__).parent

_FRAME: Final = re.compile(r"\(\*{5,}\)")
_PADDED: Final = re.compile(r" {2,}\*\)$")


@dataclass(frozen=True, slots=True)
class Pair:
    """A definition of a module, and the function of the core that is the same in Python."""

    part: Part
    file: str  # the core's module
    line: int  # where the function begins in it
    source: str  # of the function


class ModuleDirective(SphinxDirective):
    """A module: its actions beside their twins, then the whole of it."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        path = TLA / f"{name}.tla"
        if not path.is_file():
            raise self.error(f"no module {name}: there are {', '.join(module_names())}")
        whole = path.read_text(encoding="utf-8")
        module = parse(whole)
        self.env.note_dependency(path)
        pairs = pairs_of(name)
        for pair in pairs:
            self.env.note_dependency(CORE / pair.file)
        paired = {twin.part.name for twin in pairs}
        found = variables(module, whole)
        full = anchored("The whole module", f"tla-{name}", self._code(whole, "tlaplus", lines=True))
        self._note(name, f"tla-{name}")
        for operator in module.operators:
            anchor = f"tla-{name}-{operator}" if operator in paired else f"tla-{name}"
            self._note(f"{name}!{operator}", anchor)
        return [
            *(self._pair(name, twin, found) for twin in pairs),
            anchored("Variables", f"variables-{name}", self._variables(name, found)),
            full,
        ]

    def _note(self, name: str, anchor: str) -> None:
        standard = self.env.domains.standard_domain
        standard.note_object("tla", name, anchor, self.state_machine)

    def _pair(self, module: str, twin: Pair, found: Sequence[Variable]) -> nodes.section:
        part, source = twin.part, twin.source
        sides = nodes.container(
            "",
            nodes.container("", self._code(unframed(part.source), "tlaplus")),
            nodes.container("", self._code(source, "python")),
            classes=["twin"],
        )
        named = rule_ids(part.source + source)
        links = references("rule", named, self.env.docname)
        where = f"{module}.tla, line {part.line}; {twin.file}, line {twin.line}"
        about = [nodes.Text("Rules: "), *links, nodes.Text(". ")] if links else []
        for word, names in zip(("Changes", "Reads"), used_by(found, part.name), strict=True):
            about += [nodes.Text(f"{word}: "), *_to_variables(module, names)] if names else []
        if proved := given(named, EvidenceKind.PROVED):
            links = references("theorem", proved, self.env.docname)
            about += [nodes.Text("Proved of them: "), *links, nodes.Text(". ")]
        if part.name in traced(module):
            to_traces = page_link("how-to/trace", self.env.docname, "Traces of real runs")
            about += [to_traces, nodes.Text(" have it. ")]
        about.append(nodes.emphasis("", where))
        return anchored(part.name, f"tla-{module}-{part.name}", paragraph(*about), sides)

    def _variables(self, module: str, found: Sequence[Variable]) -> nodes.container:
        heads = ["variable", "what it is", "in Python", "changed by", "read by", "properties"]
        return table(heads, (self._variable(module, one) for one in found), "variables")

    def _variable(self, module: str, one: Variable) -> list[Cell]:
        docname = self.env.docname
        named = (
            [reference("tla", f"{module}!{operator}", docname, operator) for operator in operators]
            for operators in (one.changed_by, one.read_by, one.properties)
        )
        return [
            [nodes.literal("", one.name, ids=[_anchor(module, one.name)])],
            text(one.what),
            [nodes.literal("", one.python)] if one.python else text("\N{EN DASH}"),
            *map(listed, named),
        ]

    def _code(self, source: str, language: str, *, lines: bool = False) -> nodes.literal_block:
        return nodes.literal_block(source, source, language=language, linenos=lines)


def traced(module: str) -> set[str]:
    """What the events of traces are taken for: the words of its TRACE module, if it has one."""
    path = TRACES / f"TRACE_{module}.tla"
    return set(re.findall(r"\w+", blank_comments(path.read_text()))) if path.is_file() else set()


def _anchor(module: str, variable: str) -> str:
    return f"variable-{module}-{variable}"


def _to_variables(module: str, names: Iterable[str]) -> list[nodes.Node]:
    """Links to rows of the table, and a full stop."""
    links = [
        nodes.reference("", "", nodes.literal("", name), refid=_anchor(module, name))
        for name in names
    ]
    return [*listed(links), nodes.Text(". ")]


def pairs_of(name: str) -> list[Pair]:
    """The definitions of a module that have a twin, by the core modules that its header names."""
    whole = (TLA / f"{name}.tla").read_text(encoding="utf-8")
    files = (CORE / f"{core}.py" for core in cores(name, whole))
    return [pair for file in files if file.is_file() for pair in twins(parse(whole), file)]


@cache
def actions_of() -> dict[str, tuple[str, ...]]:
    """By rule, the definitions with a twin that name it, in either language, as MODULE!NAME."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name in module_names():
        for pair in pairs_of(name):
            for rule in rule_ids(pair.part.source + pair.source):
                found[rule].append(f"{name}!{pair.part.name}")
    return {rule: tuple(dict.fromkeys(several)) for rule, several in found.items()}


def twins(module: Module, python: Path) -> list[Pair]:
    """The module's definitions that the Python module has a function of the same name for."""
    code = python.read_text(encoding="utf-8")
    lines = code.splitlines()
    functions = {
        node.name: ("\n".join(lines[node.lineno - 1 : node.end_lineno]), node.lineno)
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef)
    }
    found = ((part, functions.get(snake_case(name))) for name, part in module.operators.items())
    return [
        Pair(part, python.name, function[1], function[0]) for part, function in found if function
    ]


def unframed(source: str) -> str:
    """TLA+ without the stars around its comments, which no narrow column has room for."""
    lines = (line for line in source.splitlines() if not _FRAME.fullmatch(line))
    return "\n".join(_PADDED.sub(" *)", line) for line in lines)


def module_names() -> list[str]:
    """The modules of protocols, not those that only set up a model."""
    return sorted(path.stem for path in TLA.glob("*.tla"))
