"""Every link of the built pages leads somewhere: to a file that is there, to an anchor in it.

    python docs/_ext/mqdocs/links.py build/docs

Sphinx checks the references that it resolves itself; what stands in raw HTML, in a picture or
behind a directive of ours it takes as it comes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LINKS: Final = {"a": "href", "img": "src", "link": "href", "script": "src", "use": "href"}


class Page(HTMLParser):
    """What a page links to, and what may be linked to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = {"", "top"}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {name for name in (found.get("id"), found.get("name")) if name}
        if link := found.get(LINKS.get(tag, "")):
            self.links.add(link)


def broken(site: Path) -> Iterator[str]:
    """What leads nowhere, as `page: link`."""
    root = site.resolve()
    read = cache(Page)
    for path in sorted(root.rglob("*.html")):
        for link in sorted(read(path).links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if (
                not target.is_relative_to(root)
                or not target.is_file()
                or (
                    target.suffix == ".html" and unquote(parts.fragment) not in read(target).anchors
                )
            ):
                yield f"{path.relative_to(root)}: {link}"


def main(arguments: Sequence[str]) -> int:
    """Exit codes: 0 all lead somewhere, 1 one does not, 2 there are no pages."""
    site = Path(*arguments)
    if not any(site.rglob("*.html")):
        print(f"{site}: no pages; run: python3 run.py docs", file=sys.stderr)
        return 2
    found = list(broken(site))
    for each in found:
        print(f"leads nowhere: {each}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
