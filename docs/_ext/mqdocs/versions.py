"""Which versions of the book there are: that of main at the root, each release's in a folder.

Two settings of the environment say where a book will stand: MQSPEC_BOOK_URL, the root, with a slash
at its end, and for a release MQSPEC_BOOK_VERSION, its tag. Without the first, a book is nowhere but
here: it has no map, and no links to other versions.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from mqdocs.markup import paragraph

PDF: Final = "mqspec.pdf"  # the whole book, beside its front page
_TAGS: Final = (
    *("git", "for-each-ref", "refs/tags/v*", "--sort=-version:refname"),
    "--format=%(refname:short) %(creatordate:short)",
)


def root(environment: Mapping[str, str] = os.environ) -> str:
    """Where the books are published; empty where they are not."""
    return environment.get("MQSPEC_BOOK_URL", "")


def own_address(environment: Mapping[str, str] = os.environ) -> str:
    """Where this version of the book is published; empty where it is not."""
    base, version = root(environment), environment.get("MQSPEC_BOOK_VERSION", "")
    return f"{base}{version}/" if base and version else base


def released(checkout: Path) -> list[tuple[str, str]]:
    """The tags of the releases with their days, newest first; none where there is no git."""
    try:
        told = subprocess.run(_TAGS, cwd=checkout, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return re.findall(r"^(v\d\S*) (\S+)$", told.stdout, re.MULTILINE)


class VersionsDirective(SphinxDirective):
    """A list of the versions, each linked where the books are published."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # tags are no file of the book
        releases = released(Path(self.env.srcdir))
        items = [
            _item("The newest, of main", root()),
            *(_item(f"{tag}, of {day}", root() and f"{root()}{tag}/") for tag, day in releases),
        ]
        if not releases:
            items.append(nodes.list_item("", paragraph(nodes.Text("Nothing is released yet."))))
        return [nodes.bullet_list("", *items)]


def _item(words: str, address: str) -> nodes.list_item:
    if not address:
        return nodes.list_item("", paragraph(nodes.Text(words)))
    whole = nodes.reference("", "as one PDF", refuri=f"{address}{PDF}")
    link = nodes.reference("", words, refuri=address)
    return nodes.list_item("", paragraph(link, nodes.Text(" ("), whole, nodes.Text(")")))
