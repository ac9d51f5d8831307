"""What the book says of wrong brokers and mutants is what was recorded of those that there are."""

from __future__ import annotations

from bs4 import BeautifulSoup
from built import DOCS, Book
from wrong_brokers import BROKERS

from mqdocs.killed import kept, told_of_brokers, told_of_mutants

NOTICED = {"name": "a", "cases": {"test_a": ["LOCK-001"]}, "explored": None, "seconds": 60}
EXPLORED = {"name": "b", "cases": {}, "explored": {"requests": 9, "why": "no order"}, "seconds": 60}
SURVIVED: dict[str, object] = {"name": "c", "cases": {}, "explored": None, "seconds": 45}


def test_each_wrong_broker_was_judged() -> None:
    assert {one["name"] for one in kept(DOCS, "brokers")["brokers"]} == BROKERS.keys()


def test_who_survives_is_named() -> None:
    found = {"brokers": [NOTICED, EXPLORED, SURVIVED]}
    assert told_of_brokers(found).astext() == (
        "Of 3 wrong brokers 1 are noticed by cases, 1 more by exploration only,"
        " in at most 60 s each, and 1 by nothing: c."
    )


def test_equivalent_mutants_are_no_survivors_and_no_kills() -> None:
    fates = [
        ("cases: x::test_a", ""),
        ("exploration: kv: no", ""),
        ("", "nobody sees it"),
        ("", ""),
    ]
    mutants = [{"killed_by": by, "why": why} for by, why in fates]
    assert told_of_mutants({"seed": 1, "seconds": 60, "mutants": mutants}).astext() == (
        "Of 4 mutants of seed 1 2 are killed: 1 by cases, 1 by exploration, in 60 s at most."
        " 1 are equivalent, which leaves 67% of 3."
    )


def test_the_page_has_each_of_them(book: Book) -> None:
    page = BeautifulSoup(book.pages()["tested/wrong-brokers.html"], "html.parser")
    rows = [row.get_text() for row in page.select("table.killed tbody tr")]
    brokers, mutants = kept(DOCS, "brokers")["brokers"], kept(DOCS, "mutants")["mutants"]
    assert len(rows) == len(brokers) + len(mutants)
    for one in brokers:
        assert any(one["name"] in row for row in rows), one["name"]
