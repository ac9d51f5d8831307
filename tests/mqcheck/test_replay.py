"""Counterexamples drive the core; a core that decides otherwise is found out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from graphs import counterexample

from mqcheck.manifest import Model, models
from mqcheck.replay import Replayed, ReplayError, replay
from mqcheck.scenario import begin
from mqcheck.worlds import world_of
from mqcheck.worlds.offset_commit import OffsetCommitWorld
from mqcheck.worlds.rebalance import RebalanceWorld
from mqcheck.worlds.replayed import REPLAYED
from mqrules.scenario import Step
from mqspec.core import group, offset_commit, rebalance
from mqspec.core.allocation import AVG
from mqspec.core.step import Change
from mqspec.core.step import Step as CoreStep


@pytest.fixture(scope="module")
def incident_f() -> tuple[Model, tuple[Step, ...]]:
    """A queue goes to another member, and a message is consumed twice."""
    return counterexample("MC_LostProgress", "NoRepeat")


@pytest.fixture(scope="module")
def incident_a() -> tuple[Model, tuple[Step, ...]]:
    """Two members of one id, and a queue that nobody ever owns."""
    return counterexample("MC_Rebalance__TwoMembersOneId", "Converges")


def test_incident_f_replays_to_the_same_states(
    incident_f: tuple[Model, tuple[Step, ...]],
) -> None:
    model, steps = incident_f
    done = replay(begin(model), steps)
    assert [step.action for step in done] == [step.action for step in steps[1:]]
    removed, orphan = step_of(done, "RemoveUnnecessaryMessageQueue"), step_of(done, "FinishOrphan")
    started = [step.parameters[0] for step in done if step.action == "AddMessageQueue"]
    assert started[0] == removed.parameters[0] == orphan.parameters[0] != started[1]


def test_incident_a_replays_to_a_queue_that_nobody_owns(
    incident_a: tuple[Model, tuple[Step, ...]],
) -> None:
    model, steps = incident_a
    done = replay(begin(model), steps)
    assert len(done) == len(steps) - 1
    owned = steps[-1].state["processQueueTable"]
    assert isinstance(owned, Mapping)
    assert set(owned.values()) == {frozenset({0, 1})}


def step_of(done: list[Replayed], action: str) -> Replayed:
    return next(step for step in done if step.action == action)


def test_a_state_that_the_core_does_not_come_to_is_named(
    incident_f: tuple[Model, tuple[Step, ...]],
) -> None:
    model, steps = incident_f
    forged = replace(steps[2], state={**steps[2].state, "crashed": frozenset({"m2"})})
    with pytest.raises(ReplayError, match="step 3: no PullMessage"):
        replay(begin(model), (*steps[:2], forged, *steps[3:]))


def test_an_action_that_the_reference_lacks_is_named(
    incident_f: tuple[Model, tuple[Step, ...]],
) -> None:
    model, steps = incident_f
    with pytest.raises(ReplayError, match="no action Expire"):
        replay(begin(model), (steps[0], replace(steps[1], action="Expire")))


def test_where_tlc_names_the_next_state_relation_the_action_is_found(
    incident_f: tuple[Model, tuple[Step, ...]],
) -> None:
    model, steps = incident_f
    unnamed = [replace(step, action="FencedNext") for step in steps[1:]]
    done = replay(begin(model), (steps[0], *unnamed))
    assert [step.action for step in done] == [step.action for step in steps[1:]]


def test_another_beginning_is_named(incident_f: tuple[Model, tuple[Step, ...]]) -> None:
    _, steps = incident_f
    first = group.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    other = OffsetCommitWorld(["m1", "m2"], [0], 2, sent_before=1, policy=first)
    with pytest.raises(ReplayError, match="Init: maxOffset"):
        replay(other, steps)


def _forgets_the_change(state: object, *args: object, **kwargs: object) -> CoreStep:
    return CoreStep(result=rebalance.Rebalanced(balanced=True))


def _commits_all_that_was_pulled(
    state: offset_commit.ConsumerState, event: offset_commit.Consumed
) -> CoreStep:
    return CoreStep((Change("offset_store", event.mq, 2),), result=True)


@pytest.mark.parametrize(
    ("module", "name", "broken", "incident"),
    [
        (offset_commit, "process_consume_result", _commits_all_that_was_pulled, "incident_f"),
        (offset_commit, "pull_message", _forgets_the_change, "incident_f"),
        (rebalance, "rebalance_by_topic", _forgets_the_change, "incident_f"),
        (rebalance, "rebalance_by_topic", _forgets_the_change, "incident_a"),
        (group, "register_consumer", _forgets_the_change, "incident_a"),
        (rebalance, "do_rebalance", _forgets_the_change, "incident_a"),
    ],
)
def test_a_core_that_decides_otherwise_is_found_out(
    module: object,
    name: str,
    broken: Callable[..., CoreStep],
    incident: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, steps = request.getfixturevalue(incident)
    monkeypatch.setattr(module, name, broken)
    with pytest.raises(ReplayError):
        replay(begin(model), steps)


def test_models_of_a_protocol_that_apache_does_not_have_are_not_replayed() -> None:
    assert world_of(models()["MC_WaitForRelease"]) is None
    assert world_of(models()["MC_CleanHandover"]) is None
    assert world_of(models()["MC_Replication"]) is None


def test_the_actions_together_call_all_that_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()
    for function in REPLAYED:
        module = sys.modules[function.__module__]

        def spy(*args: object, _of: Callable[..., object] = function, **kwargs: object) -> object:
            called.add(_of.__name__)
            return _of(*args, **kwargs)

        monkeypatch.setattr(module, function.__name__, spy)
    # Functions that call one another imported it by name.
    monkeypatch.setattr(
        rebalance,
        "remove_unnecessary_message_queue",
        offset_commit.remove_unnecessary_message_queue,
    )
    _take_every_action()
    assert called == {function.__name__ for function in REPLAYED}


def _take_every_action() -> None:
    first = group.ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    offsets = OffsetCommitWorld(["m1"], [0], 1, sent_before=1, policy=first)
    offsets.add_message_queue("m1", 0)
    offsets.pull_message("m1", 0)
    offsets.process_consume_result("m1", 0, 0)
    offsets.persist_all("m1")
    offsets.update_consumer_offset(("m1", 0, 1))
    offsets.persist()
    offsets.load()
    offsets.remove_unnecessary_message_queue("m1", 0)
    members = RebalanceWorld(
        ["b1"],
        {"m1": 1, "m2": 2},
        ["m1"],
        {"m1": [0], "m2": [0]},
        {"m1": AVG, "m2": AVG},
        notices=True,
    )
    members.budgets = {"MaxPerturbations": 4}
    members.join("m2")
    members.register_consumer("m2", "b1")
    members.notify_consumer_ids_changed("m1")
    members.do_rebalance("m1", "b1")
    members.rebalance_by_topic("m1")
    members.close_channel("m2", "b1")
    members.register_consumer("m2", "b1")
    members.crash("m2")
    members.scan_not_active_channel("m2", "b1")
    members.leave("m1")
    members.unregister_consumer("m1", "b1")
