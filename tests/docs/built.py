"""The book as it was built, for the tests that look at it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
URL = "https://example.org/book/"  # where it is said to be published
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
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "--no-color", "-b", builder]
    done = subprocess.run(
        [*command, "-D", f"language={language}", str(source), str(target)],
        capture_output=True,
        text=True,
        env=os.environ | {"MQSPEC_BOOK_URL": URL},
        timeout=900,  # some 90 s alone; tests run side by side
    )
    return done.stderr or (f"ended with {done.returncode}" if done.returncode else "")


def twins(pages: Mapping[str, str]) -> dict[str, str]:
    """What each page links to as itself in the other language, as it is written."""
    link = re.compile(r'<a class="twin-language" href="([^"]+)"')
    return {name: found[1] for name, text in pages.items() if (found := link.search(text))}
