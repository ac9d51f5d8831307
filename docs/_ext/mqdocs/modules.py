"""Pages of modules that nobody has to remember, so that no module is without one.

`{other-modules} PACKAGE ...` documents each module that its page has no section of: pages of the
reference say in their own order what a reader should meet first, and what is left follows here.
`{module-map} PACKAGE ...` says of each module what it is for: the tools have no interface but
their commands.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from mqdocs.markup import linked, paragraph, rule_ids
from mqrules import rules

_OF_ITS_OWN = re.compile(r"automodule:: ([\w.]+)")
_CODE = re.compile(r"`([^`]+)`")
# Cases are functions of pytest: `mqspec conform --list` has each with its rules.
_NO_PAGES = re.compile(r"__main__$|^mqconform\.cases\.")


class OtherModulesDirective(SphinxDirective):
    """Sections, in the order of the names, each with what the module documents."""

    required_arguments = 1
    optional_arguments = 99

    def run(self) -> list[nodes.Node]:
        page = Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8")
        named = set(_OF_ITS_OWN.findall(page))
        found = [name for package in self.arguments for name in module_names(package)]
        return [self._section(name) for name in found if name not in named]

    def _section(self, name: str) -> nodes.section:
        title = name.partition(".")[2] or name
        section = nodes.section("", nodes.title("", title), ids=[nodes.make_id(title)], names=[])
        # What a package passes on from its modules is documented where it is defined.
        lines = ["```{eval-rst}", f".. automodule:: {name}", "   :ignore-module-all:", "```"]
        self.state.nested_parse(StringList(lines, source=self.env.docname), 0, section)
        return section


class ModuleMapDirective(SphinxDirective):
    """A section a module with its docstring. Nothing is imported but the packages."""

    required_arguments = 1
    optional_arguments = 99

    def run(self) -> list[nodes.Node]:
        return [
            nodes.section(
                "",
                nodes.title("", name),
                *_prose(_docstring(name), self.env.docname),
                ids=[f"module-{name}"],
                names=[],
            )
            for package in self.arguments
            for name in module_names(package)
        ]


def module_names(package: str) -> Iterator[str]:
    """A package or a module, and all that is in it, but what has no page by its nature."""
    yield package
    spec = find_spec(package)
    assert spec, f"no module {package}"
    for module in walk_packages(spec.submodule_search_locations or (), f"{package}."):
        if not _NO_PAGES.search(module.name):
            yield module.name


def _docstring(name: str) -> str:
    spec = find_spec(name)
    assert spec
    assert spec.origin
    return ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""


def _prose(docstring: str, docname: str) -> Iterator[nodes.Node]:
    """Paragraphs, with what is indented as it stands, code in backticks, and links to rules."""
    for block in docstring.split("\n\n"):
        if block.startswith(" "):
            yield nodes.literal_block(block, block, language="none")
            continue
        parts: list[nodes.Node] = []
        for number, text in enumerate(_CODE.split(block)):
            if number % 2:
                parts.append(nodes.literal("", text))
            elif set(rule_ids(text)) <= rules().keys():  # SHA-256 is none
                parts += linked(text, docname)
            else:
                parts.append(nodes.Text(text))
        yield paragraph(*parts)
