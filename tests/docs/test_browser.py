"""The pages in a browser: nothing sideways, nothing from outside, and the script does its work.

Needs Debian's packages chromium and chromium-driver; where they are missing this is skipped, and
says so.
"""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from browsing import needs_browser, outside, problems, served
from built import DOCS, Book

from mqdocs.explored import EVENTS, answered, asked_of
from mqdocs.explorer import FIELDS, FIRST
from mqrules import UserError, incidents, log_lines, symptoms
from mqspec.commands.plan import as_json, plan

ui = pytest.importorskip("selenium.webdriver.support.ui", reason="needs the extra dev")
pytestmark = needs_browser


@pytest.fixture(scope="module")
def site(book: Book) -> Iterator[str]:
    with served(book.folder) as site:
        yield site


def worth_seeing(book: Book) -> list[str]:
    """All pages but the Chinese ones that have no Chinese in them."""
    catalogues = DOCS / "locale" / "zh_CN" / "LC_MESSAGES"
    translated = {
        f"zh/{path.relative_to(catalogues).with_suffix('')}.html"
        for path in catalogues.rglob("*.po")
    }
    wanted = {"zh/search.html", "zh/genindex.html", *translated}
    return [page for page in book.pages() if not page.startswith("zh/") or page in wanted]


def test_no_page_sticks_out_or_asks_elsewhere(browser: Any, site: str, book: Book) -> None:
    each_once = [(1400, "light"), (390, "dark")]  # how wide, and in which colours
    assert not [
        said for page in worth_seeing(book) for said in problems(browser, site, page, each_once)
    ]


def test_a_request_outside_is_told() -> None:
    asked = '{"method":"Network.requestWillBeSent","request":{"url":"http://example.org/x"}}'
    assert outside(asked, "http://127.0.0.1:1")
    assert not outside(asked, "http://example.org")


def test_a_pasted_line_finds_its_own(browser: Any, site: str) -> None:
    wanted = next(line for line in log_lines() if "span too long" in line.text)
    browser.get(f"{site}/log-lines.html")
    box = browser.find_element("css selector", ".log-finder input")
    box.send_keys("2026-11-26 10:11:12 WARN t - " + wanted.text.replace("{}", "7"))
    shown = [e for e in browser.find_elements("css selector", ".log-line") if e.is_displayed()]
    assert [e.find_element("tag name", "pre").text for e in shown] == [wanted.text]
    box.clear()
    box.send_keys("no such words")
    said = browser.find_element("css selector", ".log-finder p").text
    assert said == "No known line has that."


def test_a_diagram_is_stepped_through(browser: Any, site: str) -> None:
    browser.get(f"{site}/index.html")
    first, _, following, everything = browser.find_elements("css selector", ".stepper button")
    said = browser.find_element("css selector", ".stepper span")
    first.click()
    assert said.text == "1 of 10"
    following.click()
    assert said.text == "2 of 10"
    faint = browser.find_elements("css selector", "svg.sequence g[style*='opacity']")
    assert {int(g.get_attribute("data-step")) for g in faint} == set(range(3, 11))
    everything.click()
    assert browser.find_elements("css selector", "svg.sequence g[style*='opacity']") == []


def random_forms(number: int) -> list[dict[str, str]]:
    """What people may type into the explorer, some of it wrong."""
    draw = random.Random(200)
    names = ["a", "b", "Z", "10.0.0.7@1#2", "10.0.0.10@1#2", "\u00e9", "r1@x", "r2@y", "r1@z"]
    return [
        {
            "strategy": draw.choice([str(value) for value in FIELDS[0][2]]),
            "queues": draw.choice(["", "1", "3", "8", "24", "x"]),
            "topics": draw.choice(["", "", "T:3", "T:6 U:5", "T:8 T:8"]),
            "brokers": draw.choice(["broker-a", "b,a", "r1@a,r2@b", "r1@a,a"]),
            "members": draw.choice(["1", "2", "5", "17", ",".join(draw.sample(names, 3))]),
            "event": draw.choice([*EVENTS]),
            "who": draw.choice(["1", "2", "3", "new", "", "9"]),
            "rooms": draw.choice(["", "r1", "r1,r2"]),
        }
        for _ in range(number)
    ]


def test_the_explorer_answers_as_the_command_does(browser: Any, site: str) -> None:
    browser.get(f"{site}/explorer.html")
    # What the book was built with is what the command gives.
    assert answered(FIRST).split("</code>")[0].endswith("--queues 24 --members 4 --leave 2")
    ui.Select(browser.find_element("name", "event")).select_by_visible_text("a release")
    shown = browser.find_element("css selector", ".explored")
    ui.WebDriverWait(browser, 60).until(lambda _: "80 changes of an owner" in shown.text)

    forms = random_forms(200)
    script = "return [mqspecTry(arguments[0]), mqspecAnswered(arguments[0])]"
    kinds = set()
    for form in forms:
        planned, drawing = browser.execute_script(script, json.dumps(form))
        try:
            expected = json.dumps(as_json(plan(asked_of(form))))
        except UserError as error:
            expected = str(error)
        kinds.add(expected[:1] == "{")
        assert planned == expected, form
        assert drawing == answered(form), form
    assert kinds == {True, False}, "some inputs are wrong, and some are not"


def finds(browser: Any, site: str, folder: str, words: str, page: str) -> None:
    """Search, and wait until the page is among what is found."""
    browser.get(f"{site}/{folder}search.html?q={quote(words)}")
    ui.WebDriverWait(browser, 20).until(
        lambda b: page in b.find_element("id", "search-results").get_attribute("innerHTML"),
        f"{words} does not find {page}",
    )


@pytest.mark.parametrize("incident", incidents().values(), ids=lambda incident: incident.page)
def test_search_finds_an_incident_by_its_title(browser: Any, site: str, incident: Any) -> None:
    finds(browser, site, "", incident.title, f"incidents/{incident.page}.html")


@pytest.mark.parametrize("incident", incidents().values(), ids=lambda incident: incident.page)
def test_search_finds_an_incident_by_how_it_begins(
    browser: Any, site: str, book: Book, incident: Any
) -> None:
    """Its first words are what is seen of it."""
    page = f"incidents/{incident.page}.html"
    seen = re.search(r"</h1>\s*<p>(.*?)[.,;:(]", book.pages()[page], re.DOTALL)
    assert seen
    finds(browser, site, "", html.unescape(re.sub("<.*?>", "", seen[1])), page)


@pytest.mark.parametrize("symptom", symptoms(), ids=lambda symptom: symptom.id)
def test_search_finds_a_symptom_by_its_words(browser: Any, site: str, symptom: Any) -> None:
    finds(browser, site, "", symptom.title, "symptoms.html")


@pytest.mark.parametrize("incident", incidents().values(), ids=lambda incident: incident.page)
def test_search_finds_an_incident_by_what_it_says_in_chinese(
    browser: Any, site: str, book: Book, incident: Any
) -> None:
    page = f"incidents/{incident.page}.html"
    text = book.pages()[f"zh/{page}"]
    title = re.search(r"<h1>[A-Z]'?\. (.*?)<a", text)
    symptom = re.search(r"</h1>\s*<p>.*?([\u3400-\u9fff]{4,})", text, re.DOTALL)
    assert title
    assert symptom
    for words in (title[1], symptom[1], symptom[1][1:4]):
        finds(browser, site, "zh/", words, page)


def test_search_in_chinese_does_not_find_what_no_page_says(browser: Any, site: str) -> None:
    browser.get(f"{site}/zh/search.html?q={quote('队列息消')}")
    ui.WebDriverWait(browser, 20).until(
        lambda b: b.find_element("css selector", "#search-results .search-summary").text
    )
    assert browser.find_elements("css selector", "#search-results li") == []


def test_the_script_speaks_chinese(browser: Any, site: str) -> None:
    browser.get(f"{site}/zh/log-lines.html")
    box = browser.find_element("css selector", ".log-finder input")
    box.send_keys("no such words")
    said = browser.find_element("css selector", ".log-finder p").text
    assert said == "没有已知的日志包含这段文字。"
