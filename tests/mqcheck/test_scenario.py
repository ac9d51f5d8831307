"""Counterexamples as data: what is written, and that what cannot be replayed is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqcheck.manifest import models
from mqcheck.scenario import behaviours_of, plain, scenario_of, write_scenario
from mqcheck.tlc import Counterexample
from mqcheck.values import FrozenDict, ModelValue
from mqcheck.worlds import world_of
from mqcheck.worlds.offset_commit import OffsetCommitWorld
from mqrules import Scenario, UserError
from mqrules.scenario import Step
from mqrules.schema import decode

MODEL = models()["MC_LostProgress"]
WORLD = world_of(MODEL)
assert isinstance(WORLD, OffsetCommitWorld)
BEFORE = WORLD.state()
WORLD.add_message_queue("m1", 0)
AFTER = WORLD.state()
FOUND = Counterexample((Step("Init", state=BEFORE), Step("AddMessageQueue", state=AFTER)))


def test_a_scenario_names_parameters_and_what_changed(tmp_path: Path) -> None:
    path = tmp_path / "new" / "scenario.json"
    write_scenario(path, scenario_of(MODEL, "NoRepeat", FOUND))
    read = decode(Scenario, json.loads(path.read_text()), "scenario")
    assert read.rules == MODEL.breaks["NoRepeat"].rules
    (step,) = read.steps
    assert (step.action, step.parameters) == ("AddMessageQueue", {"member": "m1", "queue": 0})
    table = {"m1": {"0": {"nextOffset": 0, "msgTreeMap": []}}, "m2": {"0": "None"}}
    assert step.state["processQueueTable"] == table
    assert "crashed" not in step.state


def test_of_a_model_of_another_protocol_it_is_what_tlc_tells() -> None:
    other = models()["MC_ReplicationFailOver"]
    names = FrozenDict({ModelValue("b1"): (), ModelValue("b2"): ()})
    states: list[dict[str, object]] = [{"log": names, "crashes": 0}, {"log": names, "crashes": 1}]
    found = Counterexample((Step("Init", state=states[0]), Step("Crash", state=states[1])))
    assert scenario_of(other, "ProgressIsKept", found).steps == (
        Step("Init", state={"log": {"b1": [], "b2": []}, "crashes": 0}),
        Step("Crash", state={"crashes": 1}),
    )


def test_the_reference_has_no_behaviours_of_another_protocol() -> None:
    with pytest.raises(UserError, match="MC_CleanHandover: cannot be replayed"):
        behaviours_of(models()["MC_CleanHandover"], 1, 0)


def test_values_become_what_json_has() -> None:
    value = FrozenDict({ModelValue("m1"): (frozenset({2, 1}), True, ModelValue("None"), "text")})
    assert plain(value) == {"m1": [[1, 2], True, "None", "text"]}
