"""The tree of pages loses what the theme does not show, and nothing else."""

from docutils import nodes
from sphinx.addnodes import toctree

from mqdocs.navigation import titles


def entry(words: str, *below: nodes.Node) -> nodes.list_item:
    item = nodes.list_item("", nodes.paragraph("", words))
    if below:
        item += nodes.bullet_list("", *below)
    return item


def test_a_page_keeps_its_title_and_its_lists_of_pages() -> None:
    pages = toctree(entries=[(None, "other")])
    whole = nodes.bullet_list("", entry("Page", entry("Heading"), entry("Another", pages)))
    before = whole.pformat()
    light = titles(whole)
    assert light.pformat() == nodes.bullet_list("", entry("Page", pages.deepcopy())).pformat()
    assert whole.pformat() == before


def test_a_page_without_others_below_keeps_its_title_alone() -> None:
    whole = nodes.bullet_list("", entry("Page", entry("Heading", entry("Deeper"))))
    assert titles(whole).pformat() == nodes.bullet_list("", entry("Page")).pformat()
