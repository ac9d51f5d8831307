"""What the book keeps of runs on brokers, and says of them."""

from __future__ import annotations

from bs4 import BeautifulSoup
from built import DOCS, Book

from mqdocs.tested import Kept, kept, to_keep
from mqrules import rules

FRAME = {"sent": True, "text": "code 14", "hex": "00", "address": "127.0.0.1:1"}
REPORT = {
    "target": "mine:1.0",
    "counts": {"passed": 1, "failed": 1, "deviates": 1},
    "causes": [{"title": "no answer", "frames": [FRAME]}],
    "texts": {"LOCK-001": "What the rule says."},
    "cases": [
        {"name": "a", "rules": ["LOCK-001"], "status": "passed", "strength": "relied on",
         "why": "", "frames": [FRAME]},
        {"name": "b", "rules": ["LOCK-001", "LOCK-002"], "status": "failed",
         "strength": "apache", "why": "no answer", "frames": [FRAME]},
        {"name": "c", "rules": ["LOCK-003"], "status": "deviates", "strength": "apache",
         "why": "listed", "frames": [FRAME, FRAME, FRAME]},
    ],
}  # fmt: skip


def test_what_is_kept_is_verdicts_and_the_frames_of_departures() -> None:
    short = to_keep(REPORT)
    assert "texts" not in short
    assert [set(case) for case in short["cases"]] == [
        {"name", "rules", "status", "strength"},
        {"name", "rules", "status", "strength"},  # the rest is with its cause
        {"name", "rules", "status", "strength", "why", "frames"},
    ]
    shown = {"sent": True, "text": "code 14"}
    assert short["cases"][2]["frames"] == [shown, shown]
    assert short["causes"] == [{"title": "no answer", "frames": [shown]}]


def test_a_rule_is_kept_where_all_of_its_cases_passed() -> None:
    assert Kept("mine-1.0", to_keep(REPORT)).of_rules() == {
        "LOCK-001": {"passed", "failed"},
        "LOCK-002": {"failed"},
        "LOCK-003": {"deviates"},
    }


def words(text: str) -> str:
    """Text with single spaces: a page breaks its code at them."""
    return " ".join(text.split())


def test_every_kept_report_has_its_page_with_every_departure(book: Book) -> None:
    pages = book.pages()
    assert kept(DOCS)
    for one in kept(DOCS):
        page = words(BeautifulSoup(pages[f"tested/{one.name}.html"], "html.parser").get_text())
        assert f"judged by the rules of {one.report['keeps']}" in page
        for cause in one.report["causes"]:
            assert all(words(case) in page for case in cause["cases"])
        for case in one.report["cases"]:
            if case["status"] != "passed":
                assert words(case["name"]) in page, f"{one.name} hides {case['name']}"
        assert f'href="{one.name}.html"' in pages["tested/index.html"]
        assert f"cases passed by {one.broker}" in pages["index.html"]


def test_no_report_is_of_other_rules_than_there_are() -> None:
    """A rule that was renamed would vanish from the pages without a word."""
    unknown = {rule for one in kept(DOCS) for rule in one.of_rules()} - rules().keys()
    assert unknown == set()
