"""State graphs are drawn of what TLC dumps, and of nothing else."""

from __future__ import annotations

import re

import pytest

from mqcheck.graph import parse_dot, state_graph
from mqcheck.manifest import Model, models
from mqdocs.graphs import drawn, is_drawn

SMALL = [model for model in models().values() if is_drawn(model)]

DOT = r"""strict digraph DiskGraph {
-7 [label="/\\ x = 1\n/\\ name = \"a\"",style = filled]
-7 -> 12 [label="Go",color="black"];
12 [label="/\\ x = 2\n/\\ name = \"b\""];
12 -> 12 [label="Stay",color="black"];
12 -> -7 [label="Back",color="black"];
}"""


def test_a_dump_is_read() -> None:
    graph = parse_dot(DOT)
    assert graph.states == [{"x": 1, "name": "a"}, {"x": 2, "name": "b"}]
    assert graph.initial == 1
    assert graph.steps == [(0, 1, "Go"), (1, 0, "Back")]
    assert graph.depths() == [0, 1]


def test_a_state_that_no_step_leads_to_is_no_graph_of_tlc() -> None:
    with pytest.raises(KeyError):
        parse_dot(DOT.replace("-7 -> 12", "-7 -> -7")).depths()


@pytest.mark.parametrize("model", SMALL, ids=lambda model: model.name)
def test_it_has_the_states_that_the_manifest_counts(model: Model) -> None:
    graph = state_graph(model)
    assert len(graph.states) == model.counts.distinct
    assert max(graph.depths()) + 1 == model.counts.depth
    picture = drawn(model)
    assert len(re.findall("<circle", picture)) == len(graph.states)
    assert len(re.findall("<path", picture)) == len(graph.steps)


def test_there_are_some() -> None:
    assert len(SMALL) >= 5
