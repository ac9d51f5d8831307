"""What is drawn is what the history holds, number by number; and the page in a browser."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from browsing import LOOKS, look, needs_browser, problems, served
from drawn import Drawn
from handmade import SECOND, Recorder
from pyspark.sql import SparkSession

from mqaudit import audit, plots
from mqaudit.page import page
from mqaudit.pictures import DIAGRAMS, SPANS, Anomalies, Band, Pictures, Queue, Span, pictures
from mqaudit.report import AuditReport
from mqrules import Event

CALM_S = 400  # until what has not settled is wrong
HOSTILE = "<b onclick=alert(1)>&\"'"


@dataclass(frozen=True)
class Told:
    """A history, and the events of it that are drawn."""

    report: AuditReport
    pictures: Pictures
    assigned: dict[tuple[str, int], Event]
    commits: list[Event]  # of queue 0
    again: list[Event]
    crash: Event

    def at(self, event: Event) -> float:
        return event.time_ns / SECOND - 1  # the first event is at 1 s of the clock

    def span(self, event: Event) -> float:
        """Where its span of time begins."""
        width = math.ceil(self.pictures.seconds * SECOND / SPANS) / SECOND
        return round(math.floor(self.at(event) / width) * width, 2)


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Two members that own a queue for good, with what comes of it; one dies."""
    r = Recorder()
    for client in ("first", "second"):
        r.member("join", client)
        r.member("subscribe", client, topic="T", tag="*")
    assigned = {}
    for client, queue in (("first", 0), ("second", 1), ("second", 0)):
        assigned[client, queue] = r.at("assign", client, queue)
        r.at("query_offset", client, queue, value=0)
    for queue in (0, 1):
        for offset in range(10):
            r.send(offset, queue, key=HOSTILE if (queue, offset) == (0, 2) else None)
    keys = [HOSTILE if offset == 2 else f"0-{offset}" for offset in range(5)]
    for offset in range(5):
        r.receive("first", offset, message_key=keys[offset])
    commits = [r.commit("first", 4)]
    again = [
        r.receive("second", offset, message_key=keys[offset], attempt=0) for offset in (1, 2, 3)
    ]
    again.append(r.receive("first", 4, message_key=keys[4], attempt=0))  # which had kept it
    r.now_s += 20
    commits.append(r.commit("second", 3))
    r.now_s += CALM_S
    crash = r.member("crash", "first")
    r.write("restart", peer="b")

    path = tmp_path_factory.mktemp("told")
    r.save(path / "run.jsonl")
    found = audit(spark, str(path), keep=True)
    assert found.tables is not None
    drawn = pictures(found.tables, found.report)
    return Told(found.report, drawn, assigned, commits, again, crash)


def test_owners_are_drawn_from_when_to_when(told: Told) -> None:
    drawn = Drawn(plots.owners(told.pictures).svg)
    bars = {title.partition(", from")[0]: ends for title, ends in drawn.bars().items()}
    begin = {who: told.at(event) for who, event in told.assigned.items()}
    died, end = told.at(told.crash), told.pictures.seconds
    assert bars == {
        "G: T b-0: first": (begin["first", 0], died),
        "G: T b-0: second": (begin["second", 0], end),
        "G: T b-1: second": (begin["second", 1], end),
        "G: T b-0: more than one owner": (begin["second", 0], died),
        f"first died, at {died:g} s": (died, died),
    }
    rows = {title: drawn.row_of(title) for title in drawn.bars() if title.startswith("G")}
    assert rows == {title: re.findall(r"T b-\d", title)[0] for title in rows}
    assert "first" in drawn.words
    assert "second" in drawn.words


def test_two_owners_of_a_queue_do_not_hide_each_other(told: Told) -> None:
    heights = {
        title: (min(ys), max(ys))
        for title, _, ys in Drawn(plots.owners(told.pictures).svg)._marks()
        if title.startswith("G: T b-0")
    }
    low, *more = sorted(heights.values())
    for above in more:
        assert low[1] <= above[0]
        low = above


def test_repeats_are_counted_by_cause_and_time(told: Told) -> None:
    drawn = Drawn(plots.repeats(told.pictures).svg)
    kept = "received again by a member that had kept the queue"
    window = "received again, as progress past it was not known"
    causes = [window, window, window, kept]
    counted = Counter((told.span(e), why) for e, why in zip(told.again, causes, strict=True))
    heights, bars = drawn.heights(), drawn.bars()
    found = {
        (bars[title][0], title.partition(": ")[2]): heights[title][1] - heights[title][0]
        for title in heights
    }
    assert found == counted
    for at in {at for at, _ in counted}:  # one upon the other
        stacked = sorted(heights[title] for title in heights if bars[title][0] == at)
        assert [bottom for bottom, _ in stacked] == [0, *(top for _, top in stacked[:-1])]
    words = " ".join(drawn.words.split())
    assert f"violated: {kept}" in words
    assert f"permitted: {window}" in words


def test_what_was_found_is_drawn_when_it_was(told: Told) -> None:
    drawn = Drawn(plots.anomalies(told.pictures).svg).dots()
    found = {
        (check.name, finding.why): finding.count
        for check in told.report.checks
        for finding in check.findings
        if finding.judgement in ("violated", "permitted")
    }
    counted: Counter[tuple[str, ...]] = Counter()
    for title in drawn:
        number, kind = int(title.split()[0]), tuple(title.split(": ", 2)[1:])
        counted[kind] += number
    assert counted == found
    (places,) = (at for title, at in drawn.items() if ": repeated: received again by" in title)
    assert [at for at, _ in places] == [told.span(told.again[-1])]


def test_backlog_and_progress_are_the_commits(told: Told) -> None:
    asked = [event for who, event in told.assigned.items() if who[1] == 0]
    expected = [(told.span(event), event.value or 0) for event in told.commits]
    begins = [told.span(event) for event in asked]
    progress = {
        title.partition(": ")[2].partition(":")[0]: dots
        for title, dots in Drawn(plots.commits(told.pictures).svg).lines().items()
    }
    assert progress["T b-0"][-2:] == expected
    assert {at for at, _ in progress["T b-0"][:-2]} <= set(begins)
    assert {offset for _, offset in progress["T b-0"][:-2]} == {0}
    backlog = {
        title.partition(": ")[2].partition(":")[0]: dots
        for title, dots in Drawn(plots.backlog(told.pictures).svg).lines().items()
    }
    assert backlog["T b-0"] == [(at, 10 - offset) for at, offset in expected]
    assert "T b-1" not in backlog, "nobody committed there after something was stored"


def test_what_is_left_out_is_said() -> None:
    queues = tuple(Queue("G", "T", "b", number) for number in range(plots.LINES + 3))
    many = Pictures(
        run="r", runs=1, seconds=100, queues=queues, queues_in_all=len(queues),
        bands=tuple(Band(queues[0], f"c{n}", n, n + 1) for n in range(12)),
        is_cut=True, crashes=(),
        progress=tuple(Span(queue, 1, 5, 5) for queue in queues),
        anomalies=tuple(
            Anomalies(1, "lost", "violated", f"why {n}", 1) for n in range(plots.KINDS + 2)
        ),
        around={},
    )  # fmt: skip
    notes = {plot.title: plot.note for plot in plots.plots(many)}
    assert notes["Backlog"] == "6 of 9 queues are drawn, those with the longest."
    assert notes["Progress"] == "6 of 9 queues are drawn, those that went back furthest."
    assert notes["What was found, and when"] == "8 of 10 kinds are drawn, the worst ones."
    assert "10 of 12 members are named." in notes["Who owned each queue"]
    assert "only the first ones are drawn" in notes["Who owned each queue"]
    few = replace(many, bands=many.bands[:3], progress=many.progress[:2], is_cut=False)
    assert {plot.note for plot in plots.plots(replace(few, anomalies=many.anomalies[:3]))} == {""}


def test_a_single_commit_can_be_seen() -> None:
    queue = Queue("G", "T", "b", 0)
    one = Pictures("r", 1, 100, (queue,), 1, (), False, (), (Span(queue, 7, 5, 2),), (), {})
    assert [*Drawn(plots.commits(one).svg).lines().values()] == [[(7, 5)]]


def test_groups_are_told_apart() -> None:
    queues = (Queue("G", "T", "b", 0), Queue("H", "T", "b", 0))
    bands = tuple(Band(queue, "a", 0, 9) for queue in queues)
    two = Pictures("r", 1, 9, queues, 2, bands, False, (), (), (), {})
    assert set(Drawn(plots.owners(two).svg).rows) == {"G: T b-0", "H: T b-0"}


# --- In a browser ---------------------------------------------------------------------------------

SMALLEST_PX = """
const seen = [...document.querySelectorAll("svg text")].filter(t => t.getClientRects().length);
return Math.min(...seen.map(text => {
  const svg = text.ownerSVGElement;
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return parseFloat(getComputedStyle(text).fontSize) * scale;
}));
"""
# Words whose colour is too near to the paper's: below 4.5 of contrast.
FAINT = """
const light = colour => {
  const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(c => {
    c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const paper = light(getComputedStyle(document.body).backgroundColor);
return [...document.querySelectorAll("svg text, p, summary, li")].filter(e => {
  const style = getComputedStyle(e);
  const ink = light(e.tagName == "text" ? style.fill : style.color);
  return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05) < 4.5;
}).map(e => e.textContent);
"""
IDS_TWICE = """
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
return ids.filter((id, at) => ids.indexOf(id) != at);
"""
UNNAMED = """
return [...document.querySelectorAll("svg")].filter(svg =>
  svg.getAttribute("role") != "img" || !(svg.getAttribute("aria-label") ||
  document.getElementById((svg.getAttribute("aria-labelledby") || "").split(" ")[0])?.textContent)
).length;
"""


@pytest.fixture(scope="module")
def folder(told: Told, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    text = page(told.report, told.pictures, "https://book.example/")
    (folder / "audit.html").write_text(text, encoding="utf-8")
    broken = text.replace("</h1>", '</h1><div style="width: 2000px">.</div>')
    (folder / "wide.html").write_text(broken, encoding="utf-8")
    broken = text.replace("</h1>", '</h1><img src="http://192.0.2.1/x.png">')
    (folder / "asks.html").write_text(broken, encoding="utf-8")
    broken = text.replace("</style>", "svg text { font-size: 5px } p { color: #ccc } </style>")
    twice = '<svg id="twice"><text>x</text></svg>' * 2
    (folder / "faint.html").write_text(broken.replace("</h1>", f"</h1>{twice}"), encoding="utf-8")
    return folder


@needs_browser
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_page_can_be_read(browser: Any, folder: Path, width: int, scheme: str) -> None:
    with served(folder) as site:
        assert problems(browser, site, "audit.html", [(width, scheme)]) == []
        browser.execute_script(
            "for (const one of document.querySelectorAll('details')) one.open = true"
        )
        assert browser.execute_script(SMALLEST_PX) >= 10
        assert browser.execute_script(FAINT) == []
        assert browser.execute_script(IDS_TWICE) == []
        assert browser.execute_script(UNNAMED) == 0
        dark = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (dark == "rgb(255, 255, 255)") == (scheme == "light")


@needs_browser
def test_a_page_that_is_wrong_is_told(browser: Any, folder: Path) -> None:
    with served(folder) as site:
        wide = problems(browser, site, "wide.html")
        assert len(wide) == len(LOOKS)
        assert all("px too wide" in one for one in wide)
        assert problems(browser, site, "asks.html")
        browser.get(f"{site}/faint.html")
        assert browser.execute_script(SMALLEST_PX) < 10
        assert browser.execute_script(FAINT)
        assert browser.execute_script(IDS_TWICE) == ["twice"]
        assert browser.execute_script(UNNAMED) == 2


@needs_browser
def test_a_finding_is_shown_with_its_events_and_its_incident(browser: Any, folder: Path) -> None:
    look(browser, 1400, "light")
    with served(folder) as site:
        browser.get(f"{site}/audit.html")
        cards = {
            card.find_element("tag name", "summary").text.partition("\n")[0]: card
            for card in browser.find_elements("css selector", "details.card")
        }
        card = cards["two owners: several owners long after the last change of the group"]
        card.find_element("tag name", "summary").click()
        diagram = card.find_element("css selector", "svg.sequence")
        steps = [text.text for text in diagram.find_elements("tag name", "text")]
        assert "owns queue 0" in " ".join(steps)
        assert {"first", "second"} <= set(steps)
        links = [a.get_attribute("href") for a in card.find_elements("tag name", "a")]
        assert links == [
            f"https://book.example/incidents/{page}.html"
            for page in ("same-client-id", "different-inputs")
        ]
        assert len(told_bold(card)) >= 1
    assert len(cards) <= DIAGRAMS


def told_bold(card: Any) -> list[Any]:
    """The steps of a diagram that the finding is about."""
    found = card.find_elements("css selector", "svg.sequence text[style*='--color-problematic']")
    return list(found)
