"""Behaviours that TLC makes drive the core: every step of small graphs, random ones of large."""

from __future__ import annotations

import argparse

import pytest
from graphs import graph

from mqcheck import command
from mqcheck.behaviours import parse_graph, simulate, take_every_edge
from mqcheck.manifest import models
from mqcheck.replay import ReplayError, replay
from mqcheck.scenario import begin
from mqrules import UserError
from mqspec.core import group, offset_commit
from mqspec.core.step import Step

LARGE = ["MC_OffsetCommit", "MC_Crashes", "MC_Rebalance", "MC_Notices"]


@pytest.mark.parametrize("name", LARGE)
def test_the_core_takes_random_behaviours_of_a_large_model(name: str) -> None:
    model = models()[name]
    behaviours = simulate(model, count=10, depth=25, seed=7)
    assert len(behaviours) == 10
    for steps in behaviours:
        taken = replay(begin(model), steps)
        assert len(taken) == len(steps) - 1
        assert all(step.action for step in taken)


def test_no_behaviours_at_all_are_refused() -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    with pytest.raises(UserError, match="ask for one or more"):
        command.run(parser.parse_args(["MC_Rebalance", "--simulate", "0"]))


def test_simulation_is_the_same_for_the_same_seed() -> None:
    model = models()["MC_Rebalance"]
    assert simulate(model, 3, 10, seed=1) == simulate(model, 3, 10, seed=1)
    assert simulate(model, 3, 10, seed=1) != simulate(model, 3, 10, seed=2)


def test_a_core_that_forgets_to_remove_a_member_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model = models()["MC_Rebalance__MixedStrategies"]
    monkeypatch.setattr(group, "close_channel", lambda *_: Step())
    with pytest.raises(ReplayError, match="no CloseChannel leads the reference"):
        take_every_edge(begin(model), graph(model.name))


def test_a_core_that_commits_the_largest_offset_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def commits_largest(state: offset_commit.ConsumerState, event: offset_commit.Consumed) -> Step:
        held = state.process_queue_table[event.mq]
        return offset_commit.update_offset(state, event.mq, held.next_offset, increase_only=True)

    model = models()["MC_LostProgress"]
    monkeypatch.setattr(offset_commit, "process_consume_result", commits_largest)
    with pytest.raises(ReplayError):
        take_every_edge(begin(model), graph(model.name))


def test_a_graph_without_a_beginning_is_refused() -> None:
    with pytest.raises(UserError, match="no initial state"):
        parse_graph('1 [label="/\\\\ x = 0"]\n', "M")


def test_a_graph_may_have_several_beginnings() -> None:
    text = '1 [label="/\\\\ x = 0",style = filled]\n2 [label="/\\\\ x = 1",style = filled]\n'
    assert parse_graph(text, "M").initial == ("1", "2")
