"""Exploration says no, and says it shortly; what it keeps can be played again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from patched import patch, reference

from mqconform.cluster import Cluster
from mqconform.explore import found as cases
from mqconform.explore.engine import Explored, Explorer
from mqconform.explore.possible import Answered, State, explained, settled
from mqconform.target import Target
from mqspec.core import offset_commit
from mqspec.core.step import Step

COMMIT = offset_commit.update_consumer_offset


@dataclass(frozen=True)
class Write:
    """Of a register whose write answers what it held before."""

    value: int
    place = ("register",)

    def allowed(self, state: int) -> list[tuple[int, int]]:
        return [(state, self.value)]


def explored(store: Path, area: str, seconds: float, seed: int = 1) -> Explored:
    with reference(store) as address:
        cluster = Cluster(address)
        cluster.wait(2)
        explorer = Explorer(Target("patched", "0", address), cluster, seed, "mq")
        return explorer.run([cases.area_of(area)], seconds)


def test_requests_side_by_side_are_explained_by_some_order() -> None:
    start = [State(0)]
    one, two = Write(1), Write(2)
    behind = explained(start, (), [Answered(one, 2), Answered(two, 0)])
    assert behind == [State(1)]
    assert not explained(start, (), [Answered(one, 2), Answered(two, 1)])


def test_a_one_way_request_arrives_at_any_time() -> None:
    late, seen = Write(1), Write(2)
    assert explained([State(0)], [late], [Answered(seen, 0)]) == [State(2, (late,))]
    assert explained([State(0)], [late], [Answered(seen, 1)]) == [State(2)]
    assert settled([State(2, (late,))]) == [State(1)]


def test_nothing_departs_in_the_reference(tmp_path: Path) -> None:
    found = explored(tmp_path, "offsets", 3)
    assert found.requests["offsets"] > 20
    assert not found.found


def test_a_wrong_broker_is_found_by_a_short_program_that_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def high_queues(state: Any, event: Any, **known: bool) -> Step:
        return COMMIT(state, replace(event, queue_id=event.queue_id % 8), **known)

    patch(monkeypatch, COMMIT, high_queues)
    (found,) = explored(tmp_path, "offsets", 60).found
    assert sum(map(len, found.program.rounds)) <= 8  # as far as a busy machine comes
    assert "Query(" in found.why
    assert "OFFSET-010" in found.rules
    kept = cases.keep(found, tmp_path / "found")
    names: dict[str, Any] = {}
    exec(compile(kept.read_text(), kept, "exec"), names)
    assert names["PROGRAM"] == found.program
