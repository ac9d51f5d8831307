"""TLA+ modules as pages: `{tla-module} NAME` writes a module beside its Python twin.

Each action stands next to the function of the same name, so that a reader goes down both with
one finger; what has no twin follows in the module's full text. The role `{tla}` links to a
module or to one of its actions, as `OffsetCommit!Persist`.
"""

from __future__ import annotations

import ast
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

import mqspec.core
from mqcheck.manifest import TLA
from mqcheck.source import snake_case
from mqcheck.twins import cores
from mqdocs.markup import anchored, paragraph, references, rule_ids
from mqdocs.tla import Module, Part, parse

CORE = Path(mqspec.core.__file__).parent


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
        pairs: list[tuple[Part, str]] = []
        for twin in (CORE / f"{core}.py" for core in cores(name, whole)):
            if twin.is_file():
                self.env.note_dependency(twin)
                pairs += twins(module, twin.read_text(encoding="utf-8"))
        paired = {part.name for part, _ in pairs}
        full = anchored("The whole module", f"tla-{name}", self._code(whole, "tlaplus", lines=True))
        self._note(name, f"tla-{name}")
        for operator in module.operators:
            anchor = f"tla-{name}-{operator}" if operator in paired else f"tla-{name}"
            self._note(f"{name}!{operator}", anchor)
        return [*(self._pair(name, part, source) for part, source in pairs), full]

    def _note(self, name: str, anchor: str) -> None:
        standard = self.env.domains.standard_domain
        standard.note_object("tla", name, anchor, self.state_machine)

    def _pair(self, module: str, part: Part, source: str) -> nodes.section:
        sides = nodes.container(
            "",
            nodes.container("", self._code(part.source, "tlaplus")),
            nodes.container("", self._code(source, "python")),
            classes=["twin"],
        )
        named = rule_ids(part.source + source)
        links = references("rule", named, self.env.docname)
        about = [paragraph(nodes.Text("Rules: "), *links)] if links else []
        return anchored(part.name, f"tla-{module}-{part.name}", *about, sides)

    def _code(self, source: str, language: str, *, lines: bool = False) -> nodes.literal_block:
        return nodes.literal_block(source, source, language=language, linenos=lines)


def twins(module: Module, python: str) -> list[tuple[Part, str]]:
    """The module's definitions that the Python module has a function of the same name for."""
    functions = {
        node.name: ast.get_source_segment(python, node)
        for node in ast.parse(python).body
        if isinstance(node, ast.FunctionDef)
    }
    found = ((part, functions.get(snake_case(name))) for name, part in module.operators.items())
    return [(part, source) for part, source in found if source]


def module_names() -> list[str]:
    """The modules of protocols, not those that only set up a model."""
    return sorted(path.stem for path in TLA.glob("*.tla"))
