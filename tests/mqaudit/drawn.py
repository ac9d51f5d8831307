"""What a plot shows, read from its SVG: by its marks and the ticks of its axes alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree

_SVG = "{http://www.w3.org/2000/svg}"


class Drawn:
    """The marks of a plot in the numbers of its axes, by their titles."""

    def __init__(self, svg: str) -> None:
        self._root = ElementTree.fromstring(svg)
        self.x = self._scale("x")
        self.rows = dict(self._ticks("y"))  # what stands at which height, where it is words

    def bars(self) -> dict[str, tuple[float, float]]:
        """From where to where, along the axis."""
        return {title: (self.x(min(xs)), self.x(max(xs))) for title, xs, _ in self._marks()}

    def heights(self) -> dict[str, tuple[float, float]]:
        """From the bottom to the top of bars, in numbers of the vertical axis."""
        y = self._scale("y")
        return {title: (y(max(ys)), y(min(ys))) for title, _, ys in self._marks()}

    def row_of(self, title: str) -> str:
        """The words beside which a mark is."""
        (ys,) = (ys for said, _, ys in self._marks() if said == title)
        middle = (min(ys) + max(ys)) / 2
        return min(self.rows, key=lambda words: abs(self.rows[words] - middle))

    def dots(self) -> dict[str, list[tuple[float, float]]]:
        """The places of dots, along the axis and in px from the top."""
        return {
            title: [(self.x(x), y) for x, y in self._used(group)] for title, group in self._said()
        }

    def lines(self) -> dict[str, list[tuple[float, float]]]:
        """The dots of lines, in the numbers of both axes."""
        y = self._scale("y")
        return {
            title: [(self.x(at), y(n)) for at, n in self._used(group)]
            for title, group in self._said()
        }

    @property
    def words(self) -> str:
        return " ".join("".join(text.itertext()) for text in self._root.iter(f"{_SVG}text"))

    def _said(self) -> Iterator[tuple[str, ElementTree.Element]]:
        for group in self._root.iter(f"{_SVG}g"):
            title = group.find(f"{_SVG}title")
            if title is not None:
                yield title.text or "", group

    def _marks(self) -> Iterator[tuple[str, list[float], list[float]]]:
        for title, group in self._said():
            (path,) = group.iter(f"{_SVG}path")
            numbers = [float(n) for n in re.findall(r"-?[\d.]+", path.get("d", ""))]
            yield title, numbers[::2], numbers[1::2]

    def _used(self, group: ElementTree.Element) -> list[tuple[float, float]]:
        return [_place(use) for use in group.iter(f"{_SVG}use")]

    def _ticks(self, axis: str) -> Iterator[tuple[str, float]]:
        """The words of each tick, and where it is, in px."""
        for group in self._root.iter(f"{_SVG}g"):
            if re.fullmatch(rf"\w+-{axis}tick_\d+", group.get("id", "")):
                (use,) = group.iter(f"{_SVG}use")
                (text,) = group.iter(f"{_SVG}text")
                yield "".join(text.itertext()).strip(), _place(use)[axis == "y"]

    def _scale(self, axis: str) -> Callable[[float], float]:
        ticks = [*self._ticks(axis)]
        if not all(re.fullmatch(r"[\d.]+", words) for words, _ in ticks):
            return _no_numbers
        (low, at), (high, until) = ((float(words), place) for words, place in (ticks[0], ticks[-1]))
        return lambda px: round(low + (px - at) * (high - low) / (until - at), 2)


def _no_numbers(px: float) -> float:
    raise ValueError("the axis has no numbers")


def _place(use: Any) -> tuple[float, float]:
    return float(use.get("x")), float(use.get("y"))
