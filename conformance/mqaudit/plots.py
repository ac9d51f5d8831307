"""Plots as SVG elements, small enough to be read on a phone and side by side elsewhere.

Lines and words that are grey here take the colour of the page around them, see `page.svg`; what
is coloured is told apart on light and on dark, and by more than its colour where it matters.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

import matplotlib as mpl
from matplotlib.figure import Figure

from mqaudit.pictures import Anomalies, Pictures, Queue

_WIDTH: Final = 4.4  # inches; words of 8 points are legible where this is 390 px wide
_ROW: Final = 0.17  # of a queue
_CLIENTS: Final = [f"C{number}" for number in range(10)]
_TWICE: Final = "#d01c1c"
_STYLE: Final[Any] = {
    "svg.fonttype": "none",  # words stay words, for who searches and who listens
    "svg.hashsalt": "mqspec",  # the same data give the same bytes
    "font.size": 8,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
}
_JUDGED: Final = {"violated": "#d01c1c", "permitted": "#c98500"}


def owners(pictures: Pictures) -> str:
    """A row a queue, a bar while a member owned it; red below where two did at once."""
    rows = {queue: number for number, queue in enumerate(reversed(pictures.queues))}
    clients = list(dict.fromkeys(band.client for band in pictures.bands))
    colours = {client: _CLIENTS[n % len(_CLIENTS)] for n, client in enumerate(clients)}
    figure, axes = _axes(1.1 + _ROW * len(rows))
    for band in pictures.bands:
        place = (band.begin, max(band.end - band.begin, pictures.seconds / 400))
        axes.broken_barh([place], (rows[band.queue] - 0.35, 0.5), color=colours[band.client])
    for queue, begin, end in overlaps(pictures):
        width = max(end - begin, pictures.seconds / 400)
        axes.broken_barh([(begin, width)], (rows[queue] - 0.48, 0.13), color=_TWICE)
    for at, _ in pictures.crashes:
        axes.axvline(at, color="grey", linestyle=":", linewidth=0.8)
    axes.set_yticks(list(rows.values()), [queue.name for queue in rows], fontsize=6)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlim(0, max(pictures.seconds, 1e-3))
    shown = clients[: len(_CLIENTS)]
    handles = [mpl.patches.Patch(color=colours[client], label=_short(client)) for client in shown]
    _legend(axes, handles)
    return _svg(figure, axes)


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


def backlog(pictures: Pictures, most: int = 6) -> str:
    """What was left of the queues with the longest backlogs."""
    longest: dict[Queue, int] = {}
    for span in pictures.progress:
        longest[span.queue] = max(longest.get(span.queue, 0), span.backlog or 0)
    queues = sorted(longest, key=lambda queue: (-longest[queue], queue))[:most]
    return _lines(pictures, queues, "messages left", lambda span: span.backlog)


def commits(pictures: Pictures, most: int = 6) -> str:
    """How far the group was in its queues: those first in which it went back furthest."""
    back = dict.fromkeys(pictures.queues, 0)
    latest: dict[Queue, int] = {}
    for span in pictures.progress:
        fall = latest.get(span.queue, span.offset) - span.offset
        back[span.queue] = max(back[span.queue], fall)
        latest[span.queue] = span.offset
    queues = sorted(latest, key=lambda queue: (-back[queue], queue))[:most]
    return _lines(pictures, queues, "offset", lambda span: span.offset)


def anomalies(found: Sequence[Anomalies], seconds: float, most: int = 8) -> str:
    """How many were found over time, a row a kind; the larger, the more of them."""
    kinds: dict[tuple[str, str, str], int] = {}
    for one in found:
        kind = (one.check, one.judgement, one.why)
        kinds[kind] = kinds.get(kind, 0) + one.count
    shown = sorted(kinds, key=lambda kind: (kind[1] != "violated", -kinds[kind]))[:most]
    figure, axes = _axes(0.7 + 0.36 * len(shown))
    largest = max((one.count for one in found), default=1)
    for row, kind in enumerate(reversed(shown)):
        spans = [one for one in found if (one.check, one.judgement, one.why) == kind]
        sizes = [12 + 90 * (one.count / largest) for one in spans]
        axes.scatter(
            [one.at for one in spans], [row] * len(spans), s=sizes, color=_JUDGED[kind[1]],
            alpha=0.75, linewidths=0,
        )  # fmt: skip
        check, judgement, _ = kind
        axes.text(0, row + 0.28, f"{check}, {judgement}: {kinds[kind]}", fontsize=7, color="grey")
    axes.set_yticks([])
    axes.set_ylim(-0.5, len(shown) - 0.3)
    axes.set_xlim(0, max(seconds, 1e-3))
    axes.spines["left"].set_visible(False)
    return _svg(figure, axes)


def _lines(pictures: Pictures, queues: Sequence[Queue], label: str, value: Any) -> str:
    figure, axes = _axes(2.4)
    for queue in queues:
        spans = [span for span in pictures.progress if span.queue == queue]
        told = [(span.at, value(span)) for span in spans if value(span) is not None]
        axes.step([at for at, _ in told], [n for _, n in told], where="post", label=queue.name)
    axes.set_ylabel(label)
    axes.set_xlim(0, max(pictures.seconds, 1e-3))
    axes.set_ylim(bottom=0)
    if queues:
        _legend(axes, axes.get_legend_handles_labels()[0])
    return _svg(figure, axes)


def _axes(height: float) -> tuple[Figure, Any]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
    axes.set_xlabel("seconds of the run")
    return figure, axes


def _legend(axes: Any, handles: Sequence[Any]) -> None:
    """Below the axis and its label, however high the plot is."""
    below = -0.67 / axes.figure.get_figheight()
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0, below), ncols=2, frameon=False,
        fontsize=6, handlelength=1,
    )  # fmt: skip


def _svg(figure: Figure, axes: Any) -> str:
    for words in (axes.xaxis.label, axes.yaxis.label, *axes.texts):
        words.set_color("grey")
    axes.tick_params(colors="grey")
    for spine in axes.spines.values():
        spine.set_color("grey")
    if legend := axes.get_legend():
        for words in legend.get_texts():
            words.set_color("grey")
    drawn = io.StringIO()
    with mpl.rc_context(_STYLE):
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    text = drawn.getvalue()
    return text[text.index("<svg") :]


def _short(client: str, most: int = 24) -> str:
    """A client id without what is the same in all of them: its address and process come first."""
    return client if len(client) <= most else "..." + client[-most:]
