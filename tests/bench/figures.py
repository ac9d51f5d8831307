"""What the benchmark says: figures, each with its bound."""

from __future__ import annotations

from typing import Any, NamedTuple


class Figure(NamedTuple):
    """One of them; `least` and `most` are its bounds, both included."""

    name: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def holds(self) -> bool:
        """Whether it is within its bounds."""
        enough = self.least is None or self.value >= self.least
        return enough and (self.most is None or self.value <= self.most)

    @property
    def line(self) -> str:
        """For people."""
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("at least", self.least), ("at most", self.most))
            if bound is not None
        ]
        verdict = "holds" if self.holds else "MISSED"
        return f"{self.name}: {self.value:.2f}, {' and '.join(bounds)}: {verdict}"

    @property
    def plain(self) -> dict[str, Any]:
        """For build/bench.json."""
        return {**self._asdict(), "holds": self.holds}


class Part(NamedTuple):
    """What a part of the benchmark found: its figures, and what they were computed from."""

    figures: tuple[Figure, ...]
    measured: dict[str, Any]
