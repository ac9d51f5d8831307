"""Plots as SVG elements, small enough to be read on a phone and side by side elsewhere.

Lines and words that are grey here take the colour of the page around them; what is coloured is told
apart on light and on dark. What stands for a number says it as the title of its element, which
browsers show and read out.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

from mqaudit.history_checks import REPEATED
from mqaudit.pictures import SPANS, Anomalies, Band, Pictures, Queue, Span

LINES: Final = 6  # queues of which progress is drawn
KINDS: Final = 8  # of anomalies

_WIDTH: Final = 4.2  # inches, and points: at least 10 px where that is 358 px wide
_POINTS: Final = 9
_SMALL: Final = 8.5
_ROW: Final = 0.2  # inches, of a queue and of a line of words
_LEGEND: Final = 46  # characters in a line of it
_COLOURS: Final = [f"C{number}" for number in range(10)]
_JUDGED: Final = {"violated": "#d01c1c", "permitted": "#c98500"}  # the worst first
_TWICE: Final = "#d01c1c"
_STYLE: Final[Any] = {
    "svg.fonttype": "none",  # words stay words, for who searches and who listens
    "svg.hashsalt": "mqspec",  # the same data give the same bytes
    "font.size": _POINTS,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_SVG: Final = "http://www.w3.org/2000/svg"

_Cause: TypeAlias = tuple[str, str, str]
"""Of an anomaly: its check, how it is judged, and why."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture: its title, what it needs to be read or leaves out, and its SVG element."""

    title: str
    note: str
    svg: str


def plots(pictures: Pictures) -> Iterator[Plot]:
    """Those for which there are data."""
    if pictures.bands:
        yield owners(pictures)
    if any(one.check == REPEATED.name for one in pictures.anomalies):
        yield repeats(pictures)
    if any(one.judgement in _JUDGED for one in pictures.anomalies):
        yield anomalies(pictures)
    if any(span.backlog is not None for span in pictures.progress):
        yield backlog(pictures)
    if pictures.progress:
        yield commits(pictures)


def owners(pictures: Pictures) -> Plot:
    """A row a queue, a bar while a member owned it; several at once share the row, red below."""
    owned = [queue for queue in pictures.queues if any(b.queue == queue for b in pictures.bands)]
    clients = list(dict.fromkeys(band.client for band in pictures.bands))
    shown = clients[: len(_COLOURS)]
    twice = overlaps(pictures)
    chart = _OfRun("owners", pictures, _ROW * (len(owned) + (len(shown) + 1) // 2))
    for row, queue in enumerate(reversed(owned)):
        bands = [band for band in pictures.bands if band.queue == queue]
        lanes = _lanes(bands)
        height = 0.6 / (max(lanes) + 1)
        for band, lane in zip(bands, lanes, strict=True):
            says = f"{queue.whole_name}: {band.client}, {_from_to(band.begin, band.end)}"
            colour = _COLOURS[clients.index(band.client) % len(_COLOURS)]
            chart.bar(band.begin, band.end, row + 0.35 - height * (lane + 1), height, colour, says)
        for of, begin, end in twice:
            if of == queue:
                says = f"{queue.whole_name}: more than one owner, {_from_to(begin, end)}"
                chart.bar(begin, end, row - 0.42, 0.12, _TWICE, says)
    for at, who in pictures.crashes:
        line = chart.axes.axvline(at, color="grey", linestyle=":", linewidth=0.8)
        chart.says(line, f"{who} died, {_at(at)}")

    names = [_name(pictures, queue) for queue in reversed(owned)]
    chart.axes.set_yticks(range(len(owned)), names, fontsize=_SMALL)
    chart.axes.set_ylim(-0.7, len(owned) - 0.3)
    chart.legend([(_COLOURS[number], _short(client)) for number, client in enumerate(shown)])
    return chart.plot(
        "Who owned each queue",
        "Red: more than one owner at once." if twice else "",
        "Dotted: something died." if pictures.crashes else "",
        "Of the changes of owners only the first ones are drawn." if pictures.is_cut else "",
        _left_out("members are named", len(shown), len(clients)),
    )


def overlaps(pictures: Pictures) -> list[tuple[Queue, float, float]]:
    """When two members owned a queue at once: from, to, in seconds."""
    found = []
    for queue in pictures.queues:
        until = 0.0
        for band in (band for band in pictures.bands if band.queue == queue):
            if band.begin < min(until, band.end):
                found.append((queue, band.begin, min(until, band.end)))
            until = max(until, band.end)
    return found


def repeats(pictures: Pictures) -> Plot:
    """What was received again over time, by cause: one cause upon the other."""
    causes = _by_cause([one for one in pictures.anomalies if one.check == REPEATED.name])
    words = [textwrap.fill(f"{judgement}: {why}", _LEGEND) for _, judgement, why in causes]
    chart = _OfRun("repeats", pictures, 1.6 + _ROW * sum(len(t.split("\n")) for t in words))
    height: dict[float, int] = {}
    for colour, found in zip(_COLOURS * len(causes), causes.values(), strict=False):
        for one in found:
            bottom = height.get(one.at, 0)
            height[one.at] = bottom + one.count
            says = f"{one.count} {one.judgement}, {_at(one.at)}: {one.why}"
            until = one.at + pictures.seconds / SPANS
            chart.bar(one.at, until, bottom, one.count, colour, says)
    chart.axes.set_ylabel("repeats")
    chart.axes.set_ylim(0, 1.05 * max(height.values()))
    chart.axes.yaxis.get_major_locator().set_params(integer=True)
    chart.legend([*zip(_COLOURS * len(words), words, strict=False)], columns=1)
    return chart.plot("Repeats by cause")


def anomalies(pictures: Pictures) -> Plot:
    """How many were found over time, a row a kind; the larger, the more of them."""
    causes = _by_cause([one for one in pictures.anomalies if one.judgement in _JUDGED])
    shown = [*causes][:KINDS]
    chart = _OfRun("anomalies", pictures, 2 * _ROW * len(shown))
    largest = max(one.count for cause in shown for one in causes[cause])
    for row, cause in enumerate(reversed(shown)):
        check, judgement, why = cause
        for one in causes[cause]:
            dot = chart.axes.scatter(
                [one.at], [row], s=[12 + 90 * (one.count / largest)], color=_JUDGED[judgement],
                alpha=0.75, linewidths=0,
            )  # fmt: skip
            chart.says(dot, f"{one.count} {judgement}, {_at(one.at)}: {check}: {why}")
        words = f"{check}, {judgement}: {sum(one.count for one in causes[cause])}"
        chart.axes.text(0, row + 0.28, words, fontsize=_SMALL)
    chart.axes.set_yticks([])
    chart.axes.set_ylim(-0.5, len(shown) - 0.3)
    chart.axes.spines["left"].set_visible(False)
    left_out = _left_out("kinds are drawn, the worst ones", len(shown), len(causes))
    return chart.plot("What was found, and when", left_out)


def backlog(pictures: Pictures) -> Plot:
    """What was left of the queues with the longest backlogs."""
    longest: dict[Queue, int] = {}
    for span in pictures.progress:
        if span.backlog is not None:
            longest[span.queue] = max(longest.get(span.queue, 0), span.backlog)
    queues = sorted(longest, key=lambda queue: (-longest[queue], queue))
    chart = _lines("backlog", pictures, queues[:LINES], "messages left", lambda one: one.backlog)
    left_out = _left_out("queues are drawn, those with the longest", LINES, len(queues))
    return chart.plot("Backlog", left_out)


def commits(pictures: Pictures) -> Plot:
    """How far the group was in its queues: those first in which it went back furthest."""
    back: dict[Queue, int] = {}
    latest: dict[Queue, int] = {}
    for span in pictures.progress:
        fall = latest.get(span.queue, span.offset) - span.offset
        back[span.queue] = max(back.get(span.queue, 0), fall)
        latest[span.queue] = span.offset
    queues = sorted(latest, key=lambda queue: (-back[queue], queue))
    chart = _lines("progress", pictures, queues[:LINES], "offset", lambda one: one.offset)
    left_out = _left_out("queues are drawn, those that went back furthest", LINES, len(queues))
    return chart.plot("Progress", left_out)


class Chart:
    """A plot. Its ids begin with its name, as a page holds several."""

    def __init__(self, name: str, height: float) -> None:
        """`height`: of what is drawn and of its legend, in inches."""
        self._name = name
        self._said: list[str] = []
        with mpl.rc_context(_STYLE):
            self._figure = Figure(figsize=(_WIDTH, 0.8 + height), layout="constrained")
            self.axes: Any = self._figure.add_subplot()

    def says(self, drawn: Any, words: str) -> None:
        """What one element stands for."""
        drawn.set_gid(f"said-{len(self._said)}")
        self._said.append(words)

    def legend(self, entries: Sequence[tuple[str, str]], columns: int = 2) -> None:
        """Below the axis: colours, and what they mean."""
        handles = [mpl.patches.Patch(color=colour, label=words) for colour, words in entries]
        self._figure.legend(
            handles=handles, loc="outside lower left", ncols=columns, frameon=False,
            fontsize=_SMALL, handlelength=1, labelcolor="grey",
        )  # fmt: skip

    def plot(self, title: str, *notes: str) -> Plot:
        self._grey()
        drawn = io.StringIO()
        with mpl.rc_context(_STYLE):
            self._figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
        ElementTree.register_namespace("", _SVG)
        ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
        svg = ElementTree.fromstring(drawn.getvalue())
        self._name_elements(svg, title)
        text = ElementTree.tostring(svg, encoding="unicode")
        text = re.sub(r'(id="|href="#|url\(#)', rf"\1{self._name}-", text)
        return Plot(title, " ".join(filter(None, notes)), text)

    def _name_elements(self, svg: ElementTree.Element, title: str) -> None:
        svg.set("role", "img")
        svg.set("aria-label", title)
        groups = {group.get("id"): group for group in svg.iter(f"{{{_SVG}}}g")}
        for number, words in enumerate(self._said):
            said = ElementTree.Element(f"{{{_SVG}}}title")
            said.text = words
            groups[f"said-{number}"].insert(0, said)

    def _grey(self) -> None:
        axes = self.axes
        for words in (axes.xaxis.label, axes.yaxis.label, *axes.texts):
            words.set_color("grey")
        axes.tick_params(colors="grey")
        for spine in axes.spines.values():
            spine.set_color("grey")


class _OfRun(Chart):
    """A plot over the seconds of a run."""

    def __init__(self, name: str, pictures: Pictures, height: float) -> None:
        super().__init__(name, height)
        self._least = pictures.seconds / 400  # seconds: what is shorter could not be seen
        self.axes.set_xlabel("seconds of the run")
        self.axes.set_xlim(0, max(pictures.seconds, 1e-3))

    def bar(
        self, begin: float, end: float, bottom: float, height: float, colour: str, says: str
    ) -> None:
        width = max(end - begin, self._least)
        (drawn,) = self.axes.bar(
            begin, height, width, bottom, align="edge", color=colour, linewidth=0
        )
        self.says(drawn, says)


def _lines(
    name: str,
    pictures: Pictures,
    queues: Sequence[Queue],
    label: str,
    value: Callable[[Span], int | None],
) -> _OfRun:
    chart = _OfRun(name, pictures, 1.6 + _ROW * ((len(queues) + 1) // 2))
    for colour, queue in zip(_COLOURS, queues, strict=False):
        spans = [span for span in pictures.progress if span.queue == queue]
        told = [(span.at, n) for span in spans if (n := value(span)) is not None]
        at, numbers = zip(*told, strict=True)
        (line,) = chart.axes.step(
            at, numbers, where="post", marker="o", markersize=2.5, linewidth=1.2, color=colour
        )
        says = f"{queue.whole_name}: {numbers[0]}, {_at(at[0])}, to {numbers[-1]}, {_at(at[-1])}"
        chart.says(line, f"{says}; at most {max(numbers)}")
    chart.axes.set_ylabel(label)
    chart.axes.set_ylim(0, max(1, chart.axes.get_ylim()[1]))
    chart.axes.yaxis.get_major_locator().set_params(integer=True)
    chart.legend([*zip(_COLOURS, (_name(pictures, queue) for queue in queues), strict=False)])
    return chart


def _lanes(bands: Sequence[Band]) -> list[int]:
    """Of bands in the order of their begin: in which lane each is, that none overlap there."""
    until: list[float] = []
    lanes = []
    for band in bands:
        lane = next((n for n, end in enumerate(until) if end <= band.begin), len(until))
        until[lane : lane + 1] = [band.end]
        lanes.append(lane)
    return lanes


def _by_cause(found: Sequence[Anomalies]) -> dict[_Cause, list[Anomalies]]:
    """The worst first, then those of which there are most."""
    causes: dict[_Cause, list[Anomalies]] = {}
    for one in found:
        causes.setdefault((one.check, one.judgement, one.why), []).append(one)

    def rank(cause: _Cause) -> tuple[int, int]:
        worse = [*_JUDGED, cause[1]]
        return worse.index(cause[1]), -sum(one.count for one in causes[cause])

    return {cause: causes[cause] for cause in sorted(causes, key=rank)}


def _left_out(what: str, drawn: int, there: int) -> str:
    return f"{drawn} of {there} {what}." if drawn < there else ""


def _at(seconds: float) -> str:
    return f"at {seconds:.6g} s"


def _from_to(begin: float, end: float) -> str:
    return f"from {begin:.6g} to {end:.6g} s"


def _name(pictures: Pictures, queue: Queue) -> str:
    """Of a queue, short; with its group where there are several."""
    groups = {one.group for one in pictures.queues}
    return _short(queue.whole_name if len(groups) > 1 else queue.name)


def _short(name: str, begin: int = 7, end: int = 12) -> str:
    """A long name without its middle: an id begins with its host and ends with its process."""
    return name if len(name) <= begin + end + 3 else f"{name[:begin]}...{name[-end:]}"
