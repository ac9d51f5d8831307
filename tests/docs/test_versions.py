"""Which versions the book lists, and where each is said to stand."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from built import DOCS, URL, Book

from mqdocs.versions import own_address, released, root

AT = {"MQSPEC_BOOK_URL": URL}
ON = {"GIT_COMMITTER_DATE": "2026-11-01T12:00:00Z", "GIT_AUTHOR_DATE": "2026-11-01T12:00:00Z"}


def git(checkout: Path, *arguments: str) -> None:
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *arguments]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)


def test_releases_are_the_tags_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ON.items():
        monkeypatch.setenv(name, value)
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "One")
    for tag in ("v0.9.0", "v0.10.0", "vague", "before-the-change"):
        git(tmp_path, "tag", tag)
    assert released(tmp_path) == [("v0.10.0", "2026-11-01"), ("v0.9.0", "2026-11-01")]


def test_where_there_is_no_git_nothing_is_released(tmp_path: Path) -> None:
    assert released(tmp_path) == []
    assert released(tmp_path / "missing") == []


def test_a_release_stands_in_a_folder_of_its_own() -> None:
    assert own_address(AT) == root(AT) == URL
    assert own_address(AT | {"MQSPEC_BOOK_VERSION": "v0.9.0"}) == f"{URL}v0.9.0/"
    assert own_address(AT | {"MQSPEC_BOOK_VERSION": ""}) == URL  # main, as the workflow says it
    assert own_address({"MQSPEC_BOOK_VERSION": "v0.9.0"}) == own_address({}) == ""


def test_the_book_lists_its_versions_and_every_page_leads_there(book: Book) -> None:
    pages = book.pages()
    listed = pages["versions.html"]
    for tag in ("", *(f"{tag}/" for tag, _ in released(DOCS))):
        assert f'href="{URL}{tag}"' in listed
        assert f'href="{URL}{tag}mqspec.pdf"' in listed
    assert "<h3>Unreleased<" in listed  # the changes
    assert '<a href="../versions.html">All versions</a>' in pages["rules/pop.html"]
    assert '<a href="versions.html">所有版本</a>' in pages["zh/index.html"]
