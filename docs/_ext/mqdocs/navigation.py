"""The tree of pages beside each page, made of titles alone: that halves the time of a build.

The theme asks for titles, and Sphinx first copies, for each page, every heading and function of
every other one. Here it is given tables of contents that have nothing else to copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from docutils import nodes
from sphinx.addnodes import toctree as toctree_node
from sphinx.application import Sphinx


class Navigation:
    """The titles of all pages, found when the first page is written."""

    EARLY = 400  # before the theme's own handler, which is at 500

    def __init__(self) -> None:
        self._titles: dict[str, nodes.bullet_list] = {}

    def lighten(self, app: Sphinx, _: str, __: str, context: dict[str, Any], ___: object) -> None:
        """Wrap the function with which the theme asks for the tree."""
        ask: Callable[..., str] = context["toctree"]

        def titles_only(**options: Any) -> str:
            if not options.get("titles_only"):
                return ask(**options)
            whole = app.env.tocs
            self._titles = self._titles or {name: titles(toc) for name, toc in whole.items()}
            app.env.tocs = self._titles
            try:
                return ask(**options)
            finally:
                app.env.tocs = whole

        context["toctree"] = titles_only


def titles(toc: nodes.bullet_list) -> nodes.bullet_list:
    """A page's table of contents, without anything but its title and the lists of other pages."""
    light = toc.copy()
    for entry in toc:
        below = [tree.deepcopy() for tree in entry.findall(toctree_node)]
        kept = entry.copy()
        kept += entry[0].deepcopy()
        if below:
            kept += nodes.bullet_list("", *below)
        light += kept
    return light
