"""The PDF of the book: everything in it, in order, numbered, and its links lead where they say."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from browsing import needs_browser
from built import DOCS
from pypdf import PdfReader
from pypdf.generic import Destination

from mqdocs import pdf

PAGE = """<!doctype html><html lang="en"><head><title>A book</title>
<link rel="stylesheet" href="{up}mqspec.css">
<style>@page {{ size: A4; @bottom-right {{ content: "page " counter(page); }} }}</style></head>
<body>
<div class="sidebar-tree"><p class="caption"><span class="caption-text">Begin</span></p>
<ul><li><a class="reference internal" href="{up}first.html">First &amp; more</a><ul>
<li><a class="reference internal" href="{up}deep/under.html">Under it</a></li></ul></li></ul>
<p class="caption"><span class="caption-text">End</span></p>
<ul><li><a class="reference internal" href="{up}last.html">The last</a></li></ul></div>
<a class="skip-to-content">Press here</a>{body}<footer>Made by</footer></body></html>"""
LONG = "<p style='break-before: page' id='two'>The second page of it.</p>"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Four pages of a book, and one that no navigation names."""
    (tmp_path / "deep").mkdir()
    shutil.copy(DOCS / "_static" / "mqspec.css", tmp_path)
    bodies = {
        "index.html": "<p>The front. <a href='last.html#end'>To the end</a></p>",
        "first.html": f"<p>One. <a href='#two'>Over</a></p>{LONG}",
        "deep/under.html": "<details><summary>Folded</summary>What was folded.</details>"
        "<a href='../first.html#two'>Back</a> <a href='https://example.org/'>Away</a>"
        "<a href='../alone.html'>Alone</a>",
        "last.html": "<p>Last.</p><p style='break-before: page' id='end'>The end.</p>",
        "alone.html": "<p>Alone.</p>",
    }
    for name, body in bodies.items():
        up = "../" * name.count("/")
        (tmp_path / name).write_text(PAGE.format(up=up, body=body), encoding="utf-8")
    return tmp_path


def test_chapters_are_what_the_navigation_names_in_its_order(site: Path) -> None:
    found = [(c.path.name, c.title, c.depth, c.part) for c in pdf.chapters(site)]
    assert found == [
        ("index.html", "A book", 0, ""),
        ("first.html", "First & more", 0, "Begin"),
        ("under.html", "Under it", 1, ""),
        ("last.html", "The last", 0, "End"),
    ]


@pytest.fixture
def printed(site: Path, browser: Any) -> PdfReader:
    pdf.book_of(site, browser).write(site / "book.pdf")
    return PdfReader(site / "book.pdf")


@needs_browser
def test_every_page_is_there_in_order_with_its_number(printed: PdfReader) -> None:
    texts = [re.sub(r"\s+", " ", page.extract_text()) for page in printed.pages]
    assert printed.page_labels == ["i", "1", "2", "3", "4", "5", "6"]
    assert re.search(r"First & more 2 .*Under it 4 .*The last 5", texts[0])
    kept = ("The front", "One.", "The second page", "What was folded", "Last.", "The end.")
    for number, (text, words) in enumerate(zip(texts[1:], kept, strict=True), 1):
        assert words in text
        assert f"page {number}" in text
        assert "Press here" not in text  # paper cannot be pressed
        assert "Made by" not in text


@needs_browser
def test_links_lead_to_their_place_in_the_whole(printed: PdfReader) -> None:
    """Those to what is not in the book are left out; those to the outside stay."""
    inside, outside = set(), set()
    for number, page in enumerate(printed.pages):
        for each in page.get("/Annots", ()):
            link = each.get_object()
            if "/Dest" in link:
                target = printed.get_page_number(link["/Dest"][0].get_object())
                inside.add((number, target))
            else:
                outside.add((number, link["/A"]["/URI"]))
    assert {(1, 6), (2, 3), (4, 3)} <= inside  # over a page: to the end, and back
    assert {(0, 2), (0, 4), (0, 5)} <= inside  # the contents
    assert outside == {(4, "https://example.org/")}


@needs_browser
def test_the_outline_has_parts_and_what_is_below_a_page(printed: PdfReader) -> None:
    def told(entries: list[Any]) -> list[Any]:
        named = [told(x) if isinstance(x, list) else x for x in entries]
        return [
            (x.title, printed.get_destination_page_number(x)) if isinstance(x, Destination) else x
            for x in named
        ]

    assert told(printed.outline) == [
        ("A book", 1),
        ("Begin", 2),
        [("First & more", 2), [("Under it", 4)]],
        ("End", 5),
        [("The last", 5)],
    ]


def test_where_nothing_is_built_one_line_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pdf.main([str(tmp_path / "book.pdf")]) == 2
    assert capsys.readouterr().err == f"{tmp_path}: no pages; run: python3 run.py docs\n"


def test_without_a_browser_one_line_says_what_to_install(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert pdf.main([str(site / "book.pdf")]) == 2
    assert "install Debian's packages chromium" in capsys.readouterr().err
