"""Sequence diagrams as SVG: lanes from left to right, time downwards, one row a step.

The drawing takes the colour of the text around it, so that it reads on light and on dark, and
carries its steps as a description for those who do not see it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import atan2, degrees
from unicodedata import east_asian_width

_LANE, _MARGIN, _HEAD, _LINE = 220, 44, 46, 16  # widths and heights, in px
_GAP = 22  # between the rows' texts
_WRAP = 32  # characters that a lane's width holds
_BAD = "var(--color-problematic, #b30000)"
_PAPER = "var(--color-background-primary, #ffffff)"


@dataclass(frozen=True, slots=True)
class Row:
    """A step: something that happens at a lane, or a message from it to another.

    `arrives` is the row at which the message arrives, later than its own where others come
    between; None of one that never does.
    """

    lane: str
    label: str
    to: str | None = None
    arrives: int | None = None
    bad: bool = False  # what the diagram is drawn for


@dataclass(frozen=True, slots=True)
class Diagram:
    """Lanes by id with their titles, in order, and the rows."""

    title: str
    lanes: dict[str, str]
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if missing := {row.lane, row.to or row.lane} - self.lanes.keys():
                raise ValueError(f"row {number + 1}: no lane {missing.pop()!r}")
            if row.arrives is not None and not number <= row.arrives < len(self.rows):
                raise ValueError(f"row {number + 1} arrives at row {row.arrives + 1}")

    def described(self) -> list[str]:
        """The rows in words."""
        return [f"{n}. {self._place(row)}: {row.label}" for n, row in enumerate(self.rows, start=1)]

    def _place(self, row: Row) -> str:
        if row.to is None:
            return self.lanes[row.lane]
        lost = ", never arrives" if row.arrives is None else ""
        return f"{self.lanes[row.lane]} to {self.lanes[row.to]}{lost}"


def draw(diagram: Diagram) -> str:
    """The SVG element. Its ids are made from the title, so a page may hold several."""
    tops, height = _tops(diagram.rows)
    middles = {lane: _MARGIN + _LANE * i + _LANE // 2 for i, lane in enumerate(diagram.lanes)}
    width = _MARGIN + _LANE * len(diagram.lanes)
    name = "sequence-" + "".join(c if c.isalnum() else "-" for c in diagram.title.lower())
    parts = [
        f'<svg class="sequence" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" style="max-width: {width}px" role="img" '
        f'aria-labelledby="{name}-title {name}-desc" fill="currentColor" '
        'font-family="var(--font-stack, sans-serif)" font-size="13">',
        f'<title id="{name}-title">{escape(diagram.title)}</title>',
        f'<desc id="{name}-desc">{escape(" ".join(diagram.described()))}</desc>',
        *_lanes(diagram.lanes, middles, height),
    ]
    # All lines before all words, so that the words' halo keeps them readable. Both are grouped by
    # step, so that the page's script can show one step after the other.
    for number, row in enumerate(diagram.rows):
        drawn = (
            _message(row, tops[number], tops, middles)
            if row.to
            else _mark(row, tops[number], middles)
        )
        parts += _step(number, drawn)
    for number, row in enumerate(diagram.rows):
        count = f'<text x="8" y="{tops[number] + 4}" opacity="0.6">{number + 1}</text>'
        parts += _step(number, [count, *_words(row, tops[number], middles)])
    return "\n".join([*parts, "</svg>"])


def _step(number: int, drawn: Iterable[str]) -> Iterator[str]:
    """What is drawn of one step, as a group that says which."""
    yield f'<g data-step="{number + 1}">'
    yield from drawn
    yield "</g>"


def _tops(rows: Sequence[Row]) -> tuple[list[int], int]:
    """Where each row's line or mark is, and the height of all."""
    tops, y = [], _HEAD
    for row in rows:
        lines = len(_wrapped(row))
        # A message's words stand above its line, a mark's beside it.
        y += _LINE * lines + _GAP if row.to else _LINE * max(lines - 1, 0) // 2 + _GAP
        tops.append(y)
        y += 0 if row.to else _LINE * max(lines - 1, 0) // 2
    return tops, y + _GAP + _LINE


def _wrapped(row: Row) -> list[str]:
    # A Chinese character is as wide as two letters.
    wide = any(east_asian_width(character) == "W" for character in row.label)
    return textwrap.wrap(row.label, _WRAP // 2 if wide else _WRAP) or [""]


def _lanes(lanes: dict[str, str], middles: dict[str, int], height: int) -> Iterator[str]:
    for lane, title in lanes.items():
        x = middles[lane]
        yield (
            f'<line x1="{x}" y1="{_HEAD - 10}" x2="{x}" y2="{height - 6}" stroke="currentColor" '
            'opacity="0.35" stroke-dasharray="3 4"/>'
        )
        yield f'<text x="{x}" y="22" text-anchor="middle" font-weight="600">{escape(title)}</text>'


def _mark(row: Row, y: int, middles: dict[str, int]) -> Iterator[str]:
    yield f'<circle cx="{middles[row.lane]}" cy="{y}" r="4.5"{_tone(row)}/>'


def _message(row: Row, y1: int, tops: Sequence[int], middles: dict[str, int]) -> Iterator[str]:
    x1, x2 = middles[row.lane], middles[row.to or row.lane]
    y2 = y1 if row.arrives is None else tops[row.arrives]
    if row.arrives is None:
        x2 = x1 + (x2 - x1) * 2 // 3
    paint = _BAD if row.bad else "currentColor"
    yield (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" '
        f'style="stroke: {paint}" stroke-width="1.5"/>'
    )
    if row.arrives is None:
        cross = f"M{x2 - 5} {y2 - 5} l10 10 m0 -10 l-10 10"
        yield f'<path d="{cross}" style="stroke: {paint}" stroke-width="2" fill="none"/>'
    else:
        angle = round(degrees(atan2(y2 - y1, x2 - x1)))
        head = f'd="M{x2} {y2} l-10 -4.5 v9 Z" transform="rotate({angle} {x2} {y2})"'
        yield f"<path {head}{_tone(row)}/>"


def _words(row: Row, y: int, middles: dict[str, int]) -> Iterator[str]:
    """Above a message's line, near its sender; beside a mark, where the picture has room."""
    lines, x = _wrapped(row), middles[row.lane]
    if row.to:
        forward = 1 if middles[row.to] > x else -1
        anchor, x, first = "middle", x + forward * _LANE // 2, y - 7 - _LINE * (len(lines) - 1)
    else:
        last = len(middles) > 1 and x == max(middles.values())
        anchor, x = ("end", x - 11) if last else ("start", x + 11)
        first = y + 4 - _LINE * (len(lines) - 1) // 2
    fill = f"; fill: {_BAD}" if row.bad else ""
    yield (
        f'<text text-anchor="{anchor}" paint-order="stroke" stroke-width="5" '
        f'stroke-linejoin="round" style="stroke: {_PAPER}{fill}">'
    )
    for index, line in enumerate(lines):
        yield f'<tspan x="{x}" y="{first + _LINE * index}">{escape(line)}</tspan>'
    yield "</text>"


def _tone(row: Row) -> str:
    return f' style="fill: {_BAD}"' if row.bad else ""
