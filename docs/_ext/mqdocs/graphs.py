"""State graphs: a small model's states and steps as a picture, from TLC's own dump.

States stand in rows by the least number of steps to them; which stands beside which is igraph's
choice. A state's variables are its title, which a pointer shows, and stand below in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

import igraph

from mqcheck.behaviours import Edge, StateGraph, state_graph
from mqcheck.manifest import Model
from mqcheck.values import tla

STATES_MAX: Final = 40  # more, and nobody follows the lines
ROW, COLUMN, RADIUS, MARGIN = 70, 54, 13, 30  # pixels
ACTIONS: Final = ("#0b6e99", "#c0562f", "#3d8b40", "#8a4fbe", "#a8791d", "#4a5b6c", "#b0356f")

Places = Mapping[str, tuple[float, float]]  # of each state by its id, in pixels


def is_drawn(model: Model) -> bool:
    """Whether a model's graph is small enough, and the protocol as it is meant."""
    return 1 < model.counts.distinct <= STATES_MAX and not model.defect


def drawn(model: Model) -> str:
    """The picture as SVG, with its legend and the states in words."""
    graph = state_graph(model)
    depths, steps = depths_of(graph), steps_of(graph)
    names = sorted({step.action for step in steps})
    colours = {name: ACTIONS[number % len(ACTIONS)] for number, name in enumerate(names)}

    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(name)}</span>'
        for name, colour in colours.items()
    )
    listed = "".join(
        f"<li value={number}>{escape(_words(graph.states[state]))}"
        for number, state in enumerate(depths)
    )
    words = f"<details><summary>Its states in words</summary><ol>{listed}</ol></details>"
    picture = _svg(graph, depths, steps, colours)
    return f'<figure class="states"><div>{picture}</div><p>{legend}</p>{words}</figure>'


def depths_of(graph: StateGraph) -> dict[str, int]:
    """The least number of steps to each state, the nearest first."""
    found = dict.fromkeys(graph.initial, 0)
    waiting = [*found]
    for state in waiting:  # grows as we go
        for edge in graph.edges:
            if edge.source == state and edge.target not in found:
                found[edge.target] = found[state] + 1
                waiting.append(edge.target)
    return found


def steps_of(graph: StateGraph) -> list[Edge]:
    """The steps that change something."""
    return [edge for edge in graph.edges if edge.source != edge.target]


def _words(state: Mapping[str, Any]) -> str:
    return "\n".join(f"{name} = {tla(value)}" for name, value in state.items())


def _svg(
    graph: StateGraph,
    depths: Mapping[str, int],
    steps: Sequence[Edge],
    colours: Mapping[str, str],
) -> str:
    places = _places(depths, steps)
    width = max(x for x, _ in places.values()) + MARGIN
    height = max(y for _, y in places.values()) + MARGIN
    parts = [*_lines(steps, places, colours), *_circles(graph, places)]
    title = f"{len(depths)} states and {len(steps)} steps between them"
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _places(depths: Mapping[str, int], steps: Sequence[Edge]) -> Places:
    """Where each state stands: its row by its depth."""
    number = {state: n for n, state in enumerate(depths)}
    down = {(s.source, s.target) for s in steps if depths[s.source] < depths[s.target]}
    edges = sorted((number[source], number[target]) for source, target in down)
    rows = igraph.Graph(n=len(depths), edges=edges, directed=True)
    layout = rows.layout_sugiyama(layers=[*depths.values()], hgap=1, vgap=1)

    across = {state: layout[n][0] for state, n in number.items()}
    left = min(across.values())
    return {
        state: (MARGIN + (across[state] - left) * COLUMN, MARGIN + depth * ROW)
        for state, depth in depths.items()
    }


def _lines(steps: Sequence[Edge], places: Places, colours: Mapping[str, str]) -> Iterator[str]:
    between: dict[tuple[str, str], list[str]] = {}
    for step in steps:
        between.setdefault((step.source, step.target), []).append(step.action)

    for (source, target), actions in between.items():
        (x, y), (to_x, to_y) = places[source], places[target]
        # What goes on in its row or back bends aside, so that it is not taken for what goes down.
        bend = 0 if to_y > y else COLUMN * 0.7
        for number, action in enumerate(actions):
            aside = bend + number * 12
            middle = f"{(x + to_x) / 2 + aside:.0f} {(y + to_y) / 2 + (8 if to_y == y else 0):.0f}"
            yield (
                f'<path d="M{x:.0f} {y:.0f} Q{middle} {to_x:.0f} {to_y:.0f}" '
                f'stroke="{colours[action]}"><title>{escape(action)}</title></path>'
            )


def _circles(graph: StateGraph, places: Places) -> Iterator[str]:
    for number, (state, (x, y)) in enumerate(places.items()):
        kind = ' class="initial"' if state in graph.initial else ""
        yield (
            f"<g{kind}><title>{escape(_words(graph.states[state]))}</title>"
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{RADIUS}"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}">{number}</text></g>'
        )
