"""The extensions of the book, which are no part of the distribution, and the book, built once."""

from __future__ import annotations

import fcntl
import json
import sys

import pytest
from browsing import browser
from built import DOCS, LANGUAGES, Book, build

__all__ = ["browser"]

sys.path.insert(0, str(DOCS / "_ext"))


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Book:
    """The book, which the first process that wants it builds for all of them."""
    base = tmp_path_factory.getbasetemp()
    shared = base if worker_id == "master" else base.parent
    said = shared / "book.json"
    with (shared / "book.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            told = {
                language: build(DOCS, shared / "book" / folder, language)
                for language, folder in LANGUAGES.items()
            }
            said.write_text(json.dumps(told), encoding="utf-8")
    return Book(shared / "book", json.loads(said.read_text(encoding="utf-8")))
