"""Behaviours of a model, made by TLC, for the reference's core to go through.

A counterexample shows one way. Here the core takes every step of a small model's state graph,
and random behaviours of a large one; the state is compared after each step. What the core
went through can be taken to any broker, as scenarios.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mqcheck.jvm import QUICK, run_tlc_in_jvm
from mqcheck.manifest import Model, library
from mqcheck.replay import ANY, World, at_beginning, take, take_no_other
from mqcheck.tlc import Exit
from mqcheck.values import parse_state
from mqcheck.watch import LIMIT, bound_module
from mqrules import UserError
from mqrules.scenario import Step

_NODE = re.compile(
    r'^(?P<id>-?\d+) \[label="(?P<state>(?:[^"\\]|\\.)*)"(?P<initial>,style = filled)?'
)
_EDGE = re.compile(r'^(?P<source>-?\d+) -> (?P<target>-?\d+) \[label="(?P<action>\w+)"')
_ESCAPED = re.compile(r"\\(.)")
_STATE = re.compile(r"^STATE_\d+ ==\s*\n(?P<state>(?:/\\ .*\n|[^S=-].*\n)+)", re.MULTILINE)


class Edge(NamedTuple):
    """One step of a state graph."""

    source: str
    action: str
    target: str


class StateGraph(NamedTuple):
    """All states of a model, by an id, and all steps between them."""

    initial: tuple[str, ...]
    states: Mapping[str, Mapping[str, object]]
    edges: tuple[Edge, ...]
    is_whole: bool = True  # False: TLC stopped at the most states that it was to find


def state_graph(model: Model, most: int = 0) -> StateGraph:
    """The state graph of a model, as TLC draws it; of its first `most` states where that is
    given. Raises UserError where TLC fails."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "graph.dot")
        is_whole = _run(model, "-dump", "dot,actionlabels", str(file), most=most)
        drawn = parse_graph(file.read_text(encoding="utf-8"), model.name)
        return drawn._replace(is_whole=is_whole)


def parse_graph(text: str, where: str) -> StateGraph:
    """Read TLC's drawing. Raises UserError where it has no initial state."""
    states: dict[str, Mapping[str, object]] = {}
    edges: dict[Edge, None] = {}
    initial = []
    for line in text.splitlines():
        if edge := _EDGE.match(line):
            edges[Edge(edge["source"], edge["action"], edge["target"])] = None
        elif node := _NODE.match(line):
            label = _ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], node["state"])
            states[node["id"]] = parse_state(label)
            initial += [node["id"]] if node["initial"] else []
    if not initial:
        raise UserError(where, "no initial state", "take a model that has one")
    return StateGraph(tuple(initial), states, tuple(edges))


def take_every_edge(world: World, graph: StateGraph, *, and_no_other: bool = False) -> int:
    """Have the core take every step of a graph, each from a world that came to its source; and,
    of a world that keeps to the model's budgets, no step that the graph does not have.

    Returns how many it took. Raises ReplayError that names the first one that it does not
    take so, or takes besides.
    """
    worlds = {state: at_beginning(world, graph.states[state]) for state in graph.initial}
    following: dict[str, list[Edge]] = {state: [] for state in graph.states}
    for edge in graph.edges:
        following[edge.source].append(edge)
    reached, taken = [*graph.initial], 0
    for source in reached:  # grows as we go
        where = f"in {dict(graph.states[source])}"
        for edge in following[source]:
            step = Step(edge.action, state=graph.states[edge.target])
            came_to, _ = take(worlds[source], step, where)
            taken += 1
            if edge.target not in worlds:
                worlds[edge.target] = came_to
                reached.append(edge.target)
        if and_no_other:
            targets = (graph.states[edge.target] for edge in following[source])
            take_no_other(worlds[source], (graph.states[source], *targets), where)
    return taken


def simulate(model: Model, count: int, depth: int, seed: int) -> list[tuple[Step, ...]]:
    """Random behaviours of a model, of at most `depth` states each; the same for the same seed.

    TLC does not name their actions, which are ANY, but for `Init`.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "behaviour")
        options = ("-depth", str(depth), "-seed", str(seed))
        _run(model, "-simulate", f"file={files},num={count}", *options)
        found = sorted(files.parent.iterdir(), key=lambda path: int(path.name.rpartition("_")[2]))
        return [tuple(_behaviour(path.read_text(encoding="utf-8"))) for path in found]


def _behaviour(text: str) -> Iterator[Step]:
    before: Mapping[str, object] | None = None
    for found in _STATE.finditer(text):
        state = parse_state(found["state"])
        if state != before:  # steps that change nothing are left out
            yield Step("Init" if before is None else ANY, state=state)
        before = state


def _run(model: Model, *options: str, most: int = 0) -> bool:
    """Whether TLC came to the end; else it found more states than `most`, where that is given."""
    config = model.config.text(frozenset())  # all states, whatever they break
    extension = bound_module(model.module.stem, most) if most else ""
    config += f"INVARIANT {LIMIT}\n" if most else ""
    code, output = run_tlc_in_jvm(model.module, extension, config, library(), options, QUICK)
    if code and not (most and code == Exit.SAFETY):
        raise UserError(model.name, f"TLC failed ({code}): {output[-300:]}", "run `mqspec check`")
    return not code
