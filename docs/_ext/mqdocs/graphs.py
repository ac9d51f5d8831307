"""State graphs: a small model's states and steps as a picture, from TLC's own dump.

States stand in rows by the least number of steps to them; which stands beside which is igraph's
choice. A state's variables are its title, which a pointer shows, and stand below in words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

import igraph

from mqcheck.graph import StateGraph, state_graph
from mqcheck.manifest import Model
from mqcheck.values import tla

STATES_MAX: Final = 40  # more, and nobody follows the lines
ROW, COLUMN, RADIUS, MARGIN = 70, 54, 13, 30  # pixels
ACTIONS: Final = ("#0b6e99", "#c0562f", "#3d8b40", "#8a4fbe", "#a8791d", "#4a5b6c", "#b0356f")


def is_drawn(model: Model) -> bool:
    """Whether a model's graph is small enough, and the protocol as it is meant."""
    return 1 < model.counts.distinct <= STATES_MAX and not model.defect


def drawn(model: Model) -> str:
    """The picture as SVG, with its legend."""
    graph = state_graph(model)
    colours = {
        action: ACTIONS[number % len(ACTIONS)]
        for number, action in enumerate(sorted({action for _, _, action in graph.steps}))
    }
    legend = "".join(
        f'<span><i style="background:{colour}"></i>{escape(action)}</span>'
        for action, colour in colours.items()
    )
    listed = "".join(
        f"<li value={number}>{escape(_words(state))}" for number, state in enumerate(graph.states)
    )
    words = f"<details><summary>Its states in words</summary><ol>{listed}</ol></details>"
    picture = f"<div>{_svg(graph, colours)}</div><p>{legend}</p>{words}"
    return f'<figure class="states">{picture}</figure>'


def _words(state: Mapping[str, Any]) -> str:
    return "\n".join(f"{name} = {tla(value)}" for name, value in state.items())


def _svg(graph: StateGraph, colours: dict[str, str]) -> str:
    places = _places(graph)
    width = max(x for x, _ in places) + MARGIN
    height = max(y for _, y in places) + MARGIN
    parts = [*_steps(graph, places, colours), *_states(graph, places)]
    title = f"{len(graph.states)} states and {len(graph.steps)} steps between them"
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" role="img">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _places(graph: StateGraph) -> list[tuple[float, float]]:
    """Where each state stands: its row by its depth."""
    depths = graph.depths()
    down = [(a, b) for a, b, _ in graph.steps if depths[a] < depths[b]]
    drawn_graph = igraph.Graph(n=len(graph.states), edges=sorted(set(down)), directed=True)
    layout = drawn_graph.layout_sugiyama(layers=depths, hgap=1, vgap=1)
    across = [layout[state][0] for state in range(len(graph.states))]
    left = min(across)
    return [
        (MARGIN + (x - left) * COLUMN, MARGIN + depth * ROW)
        for x, depth in zip(across, depths, strict=True)
    ]


def _steps(
    graph: StateGraph, places: list[tuple[float, float]], colours: dict[str, str]
) -> Iterator[str]:
    between: dict[tuple[int, int], list[str]] = {}
    for before, after, action in graph.steps:
        between.setdefault((before, after), []).append(action)
    for (before, after), actions in between.items():
        (x, y), (to_x, to_y) = places[before], places[after]
        # What goes on in its row or back bends aside, so that it is not taken for what goes down.
        bend = 0 if to_y > y else COLUMN * 0.7
        for number, action in enumerate(actions):
            aside = bend + number * 12
            middle = f"{(x + to_x) / 2 + aside:.0f} {(y + to_y) / 2 + (8 if to_y == y else 0):.0f}"
            yield (
                f'<path d="M{x:.0f} {y:.0f} Q{middle} {to_x:.0f} {to_y:.0f}" '
                f'stroke="{colours[action]}"><title>{escape(action)}</title></path>'
            )


def _states(graph: StateGraph, places: list[tuple[float, float]]) -> Iterator[str]:
    for number, ((x, y), state) in enumerate(zip(places, graph.states, strict=True)):
        kind = ' class="initial"' if number < graph.initial else ""
        yield (
            f"<g{kind}><title>{escape(_words(state))}</title>"
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="{RADIUS}"/>'
            f'<text x="{x:.0f}" y="{y + 4:.0f}">{number}</text></g>'
        )
