"""A counterexample for the terminal: what changed at each step, and who took it.

The lifelines are the processes of the model: the values by which most of its variables are
indexed, members say; what is not indexed by them is one lifeline more, `shared`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mqcheck.values import FrozenDict, ModelValue, tla
from mqrules.scenario import Step

SHARED = "shared"
_LEAST_WIDTH = 6


@dataclass(frozen=True, slots=True)
class Change:
    """A part of a variable that a step changed: `offsetTable[m1][0]` has the path (m1, 0)."""

    variable: str
    path: tuple[object, ...]
    before: object
    after: object

    def __str__(self) -> str:
        # A key that is a plain string is the field of a record.
        keys = (f".{key}" if type(key) is str else f"[{tla(key)}]" for key in self.path)
        where = self.variable + "".join(keys)
        if isinstance(self.before, frozenset) and isinstance(self.after, frozenset):
            parts = [("added", self.after - self.before), ("gone", self.before - self.after)]
            return f"{where}: " + ", ".join(f"{word} {tla(part)}" for word, part in parts if part)
        return f"{where}: {tla(self.before)} -> {tla(self.after)}"


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """What differs between two states, as deep as functions of the same domain go."""
    return [
        change
        for name, value in after.items()
        for change in _differences(name, (), before.get(name), value)
    ]


def _differences(
    variable: str, path: tuple[object, ...], before: object, after: object
) -> Iterator[Change]:
    if before == after:
        return
    match before, after:
        case FrozenDict(), FrozenDict() if set(before) == set(after):
            for key in after:
                yield from _differences(variable, (*path, key), before[key], after[key])
        case tuple(), tuple() if len(before) == len(after):
            for place, (was, now) in enumerate(zip(before, after, strict=True), start=1):
                yield from _differences(variable, (*path, place), was, now)
        case _:
            yield Change(variable, path, before, after)


def draw(steps: Sequence[Step], loop: int | None = None) -> list[str]:
    """A sequence diagram: a line for each step, a column for each lifeline.

    Who takes the step has a filled mark, whoever else is changed by it an open one. Steps may
    have parameters; where they have none, the first whose part changes is taken to act.
    """
    lanes = [*_processes(steps), SHARED]
    width = max(_LEAST_WIDTH, *(len(lane) + 2 for lane in lanes))
    margin = len(str(len(steps))) + 2
    lines = [" " * margin + "".join(lane.center(width) for lane in lanes).rstrip()]
    for number, step in enumerate(steps, start=1):
        touched = [] if number == 1 else _touched(steps[number - 2], step, lanes)
        acting = ", ".join(tla(value) for value in step.parameters.values())
        label = f"{step.action}({acting})" if acting else step.action
        lines.append(f"{number:>{margin - 2}}  {_row(touched, len(lanes), width)}  {label}")
    if loop is not None:
        lines.append(" " * margin + f"and again from {loop + 1}")
    return lines


def _processes(steps: Sequence[Step]) -> list[str]:
    """The model values that index the most variables."""
    domains = Counter(
        frozenset(value)
        for value in steps[0].state.values()
        if isinstance(value, FrozenDict) and all(isinstance(key, ModelValue) for key in value)
    )
    return sorted(domains.most_common(1)[0][0]) if domains else []


def _touched(before: Step, step: Step, lanes: Sequence[str]) -> list[int]:
    """The lanes of a step: first of who takes it, then of all that it changes."""
    owners = [
        lanes.index(change.path[0]) if change.path and change.path[0] in lanes else len(lanes) - 1
        for change in changes(before.state, step.state)
    ]
    named = [lanes.index(value) for value in step.parameters.values() if value in lanes]
    return list(dict.fromkeys([*named[:1], *sorted(owners)]))


def _row(touched: Sequence[int], lanes: int, width: int) -> str:
    marks = ["│"] * lanes
    for lane in touched:
        marks[lane] = "○"
    if touched:
        marks[touched[0]] = "●"
    row = ""
    for lane, mark in enumerate(marks):
        crossed = bool(touched) and min(touched) < lane < max(touched)
        left = "─" if touched and min(touched) < lane <= max(touched) else " "
        right = "─" if touched and min(touched) <= lane < max(touched) else " "
        half = (width - 1) // 2
        row += left * half + ("┼" if crossed and mark == "│" else mark) + right * (width - 1 - half)
    return row
