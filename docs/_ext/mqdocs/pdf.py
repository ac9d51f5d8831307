"""The built pages as one PDF: in the order of the book, with contents, page numbers and links.

    python docs/_ext/mqdocs/pdf.py build/docs/mqspec.pdf build/docs/zh/mqspec.pdf

Chromium prints each page by itself, because all of them as one page did not end in five minutes; it
is told from which number to count. Its links to other pages are addresses of files; they are put in
anew, as places in the whole. Needs Debian's packages chromium and chromium-driver; the book in
Chinese also needs fonts-noto-cjk.
"""

from __future__ import annotations

import base64
import io
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urlsplit

from bs4 import BeautifulSoup
from pypdf import PageObject, PdfReader, PdfWriter
from pypdf.annotations import Link
from pypdf.constants import PageLabelStyle
from pypdf.generic import Fit
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

sys.path.insert(0, str(Path(__file__).parents[1]))  # where it is run as a program

from mqdocs.links import Page

BROWSERS: Final = ("chromium", "google-chrome")
_QUIET: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")

# Before a page is printed: its number, what is folded is opened, and a link to each of its places
# that another page links to, as Chromium keeps no others.
_PREPARE: Final = """
const [first, anchors] = arguments;
const style = document.createElement("style");
style.textContent = `:root { counter-reset: page ${first - 1} }`;
document.head.append(style);
for (const each of document.querySelectorAll("details")) each.open = true;
const hidden = document.createElement("div");
hidden.style = "position: absolute; top: 0; left: 0; font-size: 1px; opacity: 0";
for (const anchor of anchors) {
  const link = document.createElement("a");
  link.href = "#" + encodeURIComponent(anchor);
  link.textContent = ".";
  hidden.append(link);
}
document.body.append(hidden);
"""
_CONTENTS: Final = """<!doctype html><html lang="{language}"><meta charset="utf-8">
<title>{title}</title>
<style>
@page {{ size: A4; margin: 20mm 18mm; @bottom-right {{ content: counter(page, lower-roman);
  font: 8pt sans-serif; }} }}
body {{ font: 10pt sans-serif; }} h1 {{ font-size: 26pt; margin: 0 0 8mm; }}
h2 {{ font-size: 11pt; margin: 5mm 0 1mm; break-after: avoid; }}
p {{ margin: 0; display: flex; gap: 1em; justify-content: space-between; line-height: 1.5; }}
a {{ color: inherit; text-decoration: none; }}
</style><body><h1>{title}</h1>{lines}</body></html>"""


@dataclass(frozen=True, slots=True)
class Chapter:
    """A page of the book: its file, its title, and the part that it begins (else empty)."""

    path: Path
    title: str
    depth: int
    part: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere in the PDF: a page, counted from 0, and how far up it, in points."""

    page: int
    top: float


@dataclass(frozen=True, slots=True)
class Linked:
    """A link as Chromium printed it: the page it is on, its rectangle, and its address."""

    page: int
    rectangle: tuple[float, float, float, float]
    address: str


def chapters(site: Path) -> Iterator[Chapter]:
    """The pages that the navigation names, in its order, the front page first.

    Raises FileNotFoundError where nothing is built.
    """
    front = (site / "index.html").resolve()
    page = BeautifulSoup(front.read_text(encoding="utf-8"), "html.parser")
    yield Chapter(front, page.title.get_text().strip() if page.title else front.name, 0)
    part = ""
    for each in page.select(".sidebar-tree .caption-text, .sidebar-tree a.reference.internal"):
        if each.name != "a":
            part = each.get_text()
            continue
        target, anchor = urldefrag(str(each["href"]))
        if not anchor:
            depth = len(each.find_parents("ul")) - 1
            yield Chapter((site / unquote(target)).resolve(), each.get_text(), depth, part)
            part = ""


def asked_for(book: Sequence[Chapter]) -> dict[Path, set[str]]:
    """The places in each page that some page of the book links to."""
    pages: defaultdict[Path, set[str]] = defaultdict(set)
    for chapter in book:
        for link in Page(chapter.path).links:
            parts = urlsplit(link)
            if parts.fragment and not (parts.scheme or parts.netloc):
                target = (chapter.path.parent / unquote(parts.path)).resolve()
                pages[target if parts.path else chapter.path].add(unquote(parts.fragment))
    return pages


class Printed:
    """Pages that were printed, one file after the other, without their links: those are kept
    beside them, with where everything is."""

    def __init__(self) -> None:
        self.writer = PdfWriter()
        self.places: dict[tuple[Path, str], Place] = {}  # by file and anchor; empty: its beginning
        self.links: list[Linked] = []

    def add(self, path: Path, printed: PdfReader) -> None:
        """Add what was printed of a file."""
        first = len(self.writer.pages)
        self.places[path, ""] = Place(first, printed.pages[0].mediabox.top)
        for name, found in printed.named_destinations.items():
            number = printed.get_destination_page_number(found)
            if number is not None:
                place = Place(first + number, float(found.top or 0))
                self.places[path, unquote(name.removeprefix("/"))] = place

        for number, page in enumerate(printed.pages, first):
            self.links.extend(_links(page, number, path))
            page.pop("/Annots", None)
            self.writer.add_page(page)

    def insert(self, front: Printed) -> None:
        """Put other pages before these."""
        shift = len(front.writer.pages)
        for page in reversed(front.writer.pages):
            self.writer.insert_page(page, 0)
        moved = {where: Place(one.page + shift, one.top) for where, one in self.places.items()}
        self.places = {**front.places, **moved}
        later = [Linked(one.page + shift, one.rectangle, one.address) for one in self.links]
        self.links = [*front.links, *later]


def book_of(site: Path, browser: Any) -> PdfWriter:
    """The whole book, contents first."""
    book = list(chapters(site))
    anchors = asked_for(book)
    body, contents = Printed(), Printed()
    for chapter in book:
        number = len(body.writer.pages) + 1
        body.add(chapter.path, _print(browser, chapter.path, number, anchors.get(chapter.path, ())))

    path = site.resolve() / "_contents.html"
    path.write_text(_contents(book, body.places), encoding="utf-8")
    try:
        contents.add(path, _print(browser, path, 1, ()))
    finally:
        path.unlink()
    body.insert(contents)

    writer, shift = body.writer, len(contents.writer.pages)
    for link in body.links:
        _put(writer, link, body.places)
    _outline(writer, book, body.places)
    writer.set_page_label(0, shift - 1, style=PageLabelStyle.LOWERCASE_ROMAN)
    writer.set_page_label(shift, len(writer.pages) - 1, style=PageLabelStyle.DECIMAL)
    writer.add_metadata({"/Title": book[0].title})
    writer.compress_identical_objects()  # each page brought its own fonts
    return writer


def _print(browser: Any, path: Path, number: int, anchors: Iterable[str]) -> PdfReader:
    """A file as PDF, its pages counted from a number on, with these places in it."""
    browser.get(path.as_uri())
    browser.execute_script(_PREPARE, number, sorted(anchors))
    printed = browser.execute_cdp_cmd(
        "Page.printToPDF",
        {"printBackground": True, "preferCSSPageSize": True, "generateTaggedPDF": False},
    )
    return PdfReader(io.BytesIO(base64.b64decode(printed["data"])))


def _links(page: PageObject, number: int, path: Path) -> Iterator[Linked]:
    for each in page.get("/Annots", ()):
        found = each.get_object()
        address = found.get("/A", {}).get("/URI")
        if address is None and "/Dest" in found:
            address = f"{path.as_uri()}#{str(found['/Dest']).removeprefix('/')}"
        if address:
            left, bottom, right, top = map(float, found["/Rect"])
            yield Linked(number, (left, bottom, right, top), str(address))


def _put(writer: PdfWriter, link: Linked, places: Mapping[tuple[Path, str], Place]) -> None:
    """Put a link in: to its place, to the beginning of its page, or to the outside.

    Of a file that is not in the book, as of a stylesheet, nothing is put in.
    """
    parts = urlsplit(link.address)
    if parts.scheme != "file":
        writer.add_annotation(link.page, Link(rect=link.rectangle, url=link.address))
        return
    path = Path(unquote(parts.path))
    place = places.get((path, unquote(parts.fragment))) or places.get((path, ""))
    if place:
        fit = Fit.xyz(left=0, top=place.top)
        target = Link(rect=link.rectangle, target_page_index=place.page, fit=fit)
        writer.add_annotation(link.page, target)


def _outline(
    writer: PdfWriter, book: Sequence[Chapter], places: Mapping[tuple[Path, str], Place]
) -> None:
    above: list[Any] = []
    part = None
    for chapter in book:
        page = places[chapter.path, ""].page
        if chapter.part:
            part = writer.add_outline_item(title=chapter.part, page_number=page)
        del above[chapter.depth :]
        parent = above[-1] if above else part
        above.append(writer.add_outline_item(title=chapter.title, page_number=page, parent=parent))


def _contents(book: Sequence[Chapter], places: Mapping[tuple[Path, str], Place]) -> str:
    lines = []
    for chapter in book:
        if chapter.part:
            lines.append(f"<h2>{escape(chapter.part)}</h2>")
        number = places[chapter.path, ""].page + 1
        lines.append(
            f'<p style="padding-left: {chapter.depth * 1.5}em"><a href="{chapter.path.as_uri()}">'
            f"{escape(chapter.title)}</a><span>{number}</span></p>"
        )
    front = BeautifulSoup(book[0].path.read_text(encoding="utf-8"), "html.parser")
    language = str(front.html.get("lang", "en")) if front.html else "en"
    return _CONTENTS.format(language=language, title=escape(book[0].title), lines="".join(lines))


def _found() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def _browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = _found() or ""
    for argument in _QUIET:
        options.add_argument(argument)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    started = webdriver.Chrome(options=options, service=service)
    try:
        yield started
    finally:
        started.quit()


def main(arguments: Sequence[str]) -> int:
    """Exit codes: 0 written, 1 the browser failed, 2 there is no book or no browser."""
    files = [Path(argument) for argument in arguments]
    if empty := [file for file in files if not (file.parent / "index.html").is_file()]:
        print(f"{empty[0].parent}: no pages; run: python3 run.py docs", file=sys.stderr)
        return 2
    if not (_found() and shutil.which("chromedriver")):
        what = "no browser to print with; install Debian's packages chromium and chromium-driver"
        print(what, file=sys.stderr)
        return 2
    try:
        with _browser() as browser:
            for file in files:
                writer = book_of(file.parent, browser)
                writer.write(file)
                print(f"{file}: {len(writer.pages)} pages", flush=True)
    except WebDriverException as error:
        print(f"the browser failed: {error.msg}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
