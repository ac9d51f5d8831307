"""State graphs are drawn of what TLC dumps, and of nothing else."""

from __future__ import annotations

import re

import pytest

from mqcheck.behaviours import Edge, StateGraph, state_graph
from mqcheck.manifest import Model, models
from mqdocs.graphs import depths_of, drawn, is_drawn, steps_of

SMALL = [model for model in models().values() if is_drawn(model)]
STATES: dict[str, dict[str, object]] = {"7": {"x": 1}, "9": {"x": 2}, "8": {"x": 3}}
EDGES = (Edge("7", "Go", "9"), Edge("9", "Stay", "9"), Edge("9", "Back", "7"), Edge("9", "Go", "8"))


def test_a_state_stands_as_deep_as_its_shortest_way() -> None:
    graph = StateGraph(("7",), STATES, EDGES)
    assert list(depths_of(graph).items()) == [("7", 0), ("9", 1), ("8", 2)]
    shorter = graph._replace(edges=(*EDGES, Edge("7", "Skip", "8")))
    assert depths_of(shorter)["8"] == 1


def test_what_changes_nothing_is_no_step() -> None:
    assert [s.action for s in steps_of(StateGraph(("7",), STATES, EDGES))] == ["Go", "Back", "Go"]


@pytest.mark.parametrize("model", SMALL, ids=lambda model: model.name)
def test_it_has_the_states_that_the_manifest_counts(model: Model) -> None:
    graph = state_graph(model)
    assert max(depths_of(graph).values()) + 1 == model.counts.depth
    picture = drawn(model)
    assert len(re.findall("<circle", picture)) == model.counts.distinct
    assert len(re.findall("<path", picture)) == len(steps_of(graph))


def test_there_are_some() -> None:
    assert len(SMALL) >= 5
