"""Behaviours that TLC made of the specifications, taken to a broker step by step."""

from __future__ import annotations

import pytest

from mqconform.case import case
from mqconform.players import play, scenarios
from mqconform.scene import Scene

SCENARIOS = scenarios()


def of(module: str) -> list[str]:
    """The scenarios of a module, by their ids."""
    return [name for name, scenario in SCENARIOS.items() if scenario.module == module]


@case(
    "OFFSET-010",
    "OFFSET-011",
    "OFFSET-051",
    party="broker",
    after="test_a_committed_offset_is_kept_as_it_is[1-0]",
)
@pytest.mark.parametrize("name", of("OffsetCommit"))
def test_commits_are_those_of_the_specification(scene: Scene, name: str) -> None:
    play(scene, SCENARIOS[name])


@case(
    "GROUP-001",
    "GROUP-055",
    party="broker",
    claims="brokers",
    after="test_a_heartbeat_makes_a_member",
)
@pytest.mark.parametrize("name", of("Rebalance"))
def test_members_are_those_of_the_specification(scene: Scene, name: str) -> None:
    play(scene, SCENARIOS[name])
