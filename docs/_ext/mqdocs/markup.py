"""Small builders of docutils nodes, shared by the directives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

from docutils import nodes
from sphinx.addnodes import pending_xref

Cell: TypeAlias = Sequence[nodes.Node] | nodes.paragraph

_Text = TypeVar("_Text", bound=nodes.TextElement)
_RULE_ID = re.compile(r"\b[A-Z]+-\d{3}\b")


def reference(kind: str, target: str, docname: str, text: str = "") -> pending_xref:
    """A link to an object of ours; one that is not there fails the build."""
    return pending_xref(
        "",
        nodes.literal("", text or target, classes=["xref", kind]),
        refdomain="std",
        reftype=kind,
        reftarget=target,
        refexplicit=bool(text),
        refwarn=True,
        refdoc=docname,
    )


def references(kind: str, targets: Iterable[str], docname: str) -> list[nodes.Node]:
    """Links to several objects, with commas between them."""
    return listed(reference(kind, target, docname) for target in targets)


def linked(text: str, docname: str) -> list[nodes.Node]:
    """Text, with every rule's id in it a link to the rule."""
    found: list[nodes.Node] = []
    end = 0
    for match in _RULE_ID.finditer(text):
        found.append(nodes.Text(text[end : match.start()]))
        found.append(reference("rule", match[0], docname))
        end = match.end()
    return [*found, nodes.Text(text[end:])]


def rule_ids(text: str) -> list[str]:
    """The rules that a text names, each once, in their order in the text."""
    return list(dict.fromkeys(_RULE_ID.findall(text)))


def page_link(page: str, docname: str, words: str, *, is_explicit: bool = True) -> pending_xref:
    """A link to a page; where the words are not explicit, by its title."""
    return pending_xref(
        "",
        nodes.inline("", words),
        refdomain="std",
        reftype="doc",
        reftarget=f"/{page}",
        refexplicit=is_explicit,
        refwarn=True,
        refdoc=docname,
    )


def listed(found: Iterable[nodes.Node], between: str = ", ") -> list[nodes.Node]:
    """Nodes with commas between them, or with something else."""
    return [node for each in found for node in (nodes.Text(between), each)][1:]


def paragraph(*children: nodes.Node) -> nodes.paragraph:
    """A paragraph of inline nodes."""
    return nodes.paragraph("", "", *children)


def told(words: str, lead: str = "", source: str = "") -> nodes.paragraph:
    """A paragraph of a table's words, which the page's catalogue may translate.

    What stands between backticks is code. A lead comes first, strong; a source last, slanted.
    """
    parts = words.split("`")
    children: list[nodes.Node] = [nodes.strong("", lead), nodes.Text(" ")] if lead else []
    children += [nodes.literal("", p) if i % 2 else nodes.Text(p) for i, p in enumerate(parts)]
    children += [nodes.Text(" "), nodes.emphasis("", f"({source})")] if source else []
    markdown = (f"**{lead}** " if lead else "") + words + (f" *({source})*" if source else "")
    return _translatable(paragraph(*children), markdown)


def _translatable(node: _Text, words: str) -> _Text:
    """The node, with what Sphinx looks up: its words in Markdown, and that they have a source."""
    node.rawsource, node.source, node.line = words, "a table", 0
    return node


def text(words: object) -> list[nodes.Node]:
    """A cell of plain text."""
    return [nodes.Text(str(words))]


def table(heads: Sequence[str], rows: Iterable[Sequence[Cell]], *classes: str) -> nodes.container:
    """A table in a box of its own, so that a wide one scrolls and the page does not."""
    group = nodes.tgroup(cols=len(heads))
    group += [nodes.colspec(colwidth=1) for _ in heads]
    group += nodes.thead("", _row([told(head) for head in heads]))
    group += nodes.tbody("", *(_row(row) for row in rows))
    return nodes.container("", nodes.table("", group, classes=[*classes]), classes=["wide"])


def _row(cells: Sequence[Cell]) -> nodes.row:
    paragraphs = (cell if isinstance(cell, nodes.paragraph) else paragraph(*cell) for cell in cells)
    return nodes.row("", *(nodes.entry("", made) for made in paragraphs))


def fields(pairs: Iterable[tuple[str, Sequence[nodes.Node]]]) -> nodes.field_list:
    """Names and values, one below the other."""
    return nodes.field_list(
        "",
        *(
            nodes.field("", nodes.field_name("", name), nodes.field_body("", paragraph(*value)))
            for name, value in pairs
        ),
        classes=["facts"],
    )


def anchored(title: str, anchor: str, *body: nodes.Node) -> nodes.section:
    """A section that others link to."""
    heading = _translatable(nodes.title("", title), title)
    return nodes.section("", heading, *body, ids=[anchor], names=[anchor])
