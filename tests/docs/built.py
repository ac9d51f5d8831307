"""The book as it was built, for the tests that look at it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urlsplit

DOCS = Path(__file__).parents[2] / "docs"
LANGUAGES = {"en": ".", "zh_CN": "zh"}  # where each book stands in the built one


@dataclass(frozen=True)
class Book:
    """The book in both languages, and what was said against it while it was built."""

    folder: Path
    said: Mapping[str, str]  # by language; nothing where all is well

    def pages(self) -> dict[str, str]:
        """Every page, by its path from the front page."""
        return {
            str(path.relative_to(self.folder)): path.read_text(encoding="utf-8")
            for path in sorted(self.folder.rglob("*.html"))
        }


def build(source: Path, target: Path, language: str, builder: str = "html") -> str:
    """Build a book in a language, as run.py does; gives what Sphinx says against it."""
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", builder]
    done = subprocess.run(
        [*command, "-D", f"language={language}", str(source), str(target)],
        capture_output=True,
        text=True,
        timeout=900,  # some 90 s alone; tests run side by side
    )
    return done.stderr or (f"ended with {done.returncode}" if done.returncode else "")


class _Page(HTMLParser):
    """The links of a page, and what can be linked to in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and tag != "use" and value:
                self.links.add(value)
            elif name == "id" and value:
                self.anchors.add(value)


def dead_links(pages: Mapping[str, str], others: frozenset[str] = frozenset()) -> Iterator[str]:
    """The links within the book that lead nowhere; `others` are the files that are no pages."""
    parsed = {name: _Page(text) for name, text in pages.items()}
    for name, page in parsed.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = normpath(join(dirname(name), unquote(parts.path))) if parts.path else name
            if path in parsed:
                found = unquote(parts.fragment) in parsed[path].anchors
            else:
                found = path in others
            if not found:
                yield f"{name}: {link}"


def twins(pages: Mapping[str, str]) -> dict[str, str]:
    """What each page links to as itself in the other language, as it is written."""
    link = re.compile(r'<a class="twin-language" href="([^"]+)"')
    return {name: found[1] for name, text in pages.items() if (found := link.search(text))}
