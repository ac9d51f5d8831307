"""The states of a small model, and the steps between them, as TLC dumps them.

Facts: `-dump dot,actionlabels` of TLC 2.18 writes a node a state, named by its fingerprint, an
initial one filled, and an edge a step, labelled with its action.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from mqcheck.jvm import QUICK, run_tlc_in_jvm
from mqcheck.manifest import Model, library
from mqcheck.tlc import refuse_failure
from mqcheck.values import parse_state

_NODE: Final = re.compile(r'^(-?\d+) \[label="((?:[^"\\]|\\.)*)"(,style = filled)?', re.MULTILINE)
_EDGE: Final = re.compile(r'^(-?\d+) -> (-?\d+) \[label="(\w*)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StateGraph:
    """States by number, from 0, the initial ones first; steps as (state, state, action)."""

    states: Sequence[Mapping[str, Any]]
    initial: int  # how many are
    steps: Sequence[tuple[int, int, str]]  # without those that change nothing

    def depths(self) -> list[int]:
        """Of each state the least number of steps to it."""
        found = dict.fromkeys(range(self.initial), 0)
        waiting = list(found)
        for state in waiting:
            for before, after, _ in self.steps:
                if before == state and after not in found:
                    found[after] = found[state] + 1
                    waiting.append(after)
        return [found[state] for state in range(len(self.states))]


def state_graph(model: Model) -> StateGraph:
    """Every state of a model and every step. Raises UserError where TLC fails."""
    config = model.config.text(frozenset())
    with TemporaryDirectory() as folder:
        dump = Path(folder) / "graph.dot"
        options = ("-dump", "dot,actionlabels", str(dump))
        code, output = run_tlc_in_jvm(model.module, "", config, library(), options, QUICK)
        refuse_failure(output, code, model.name, model.module, library())
        return parse_dot(dump.read_text(encoding="utf-8"))


def parse_dot(text: str) -> StateGraph:
    """Read what TLC dumped."""
    labels: dict[str, str] = {}
    filled: list[str] = []
    for name, label, is_initial in _NODE.findall(text):
        labels.setdefault(name, label)  # a state may be named again
        filled += [name] if is_initial and name not in filled else []
    names = [*filled, *(name for name in labels if name not in filled)]
    number = {name: place for place, name in enumerate(names)}
    steps = {
        (number[before], number[after], action)
        for before, after, action in _EDGE.findall(text)
        if before != after
    }
    states = [parse_state(_plain(labels[name])) for name in names]
    return StateGraph(states, len(filled), sorted(steps))


def _plain(label: str) -> str:
    return re.sub(r"\\(.)", lambda found: {"n": "\n"}.get(found[1], found[1]), label)
