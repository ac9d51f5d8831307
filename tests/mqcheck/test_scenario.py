"""Counterexamples as data: what is written, and that what cannot be replayed is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqcheck.manifest import models
from mqcheck.scenario import plain, scenario_of, write_scenario
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


def test_a_model_of_another_protocol_is_refused() -> None:
    other = models()["MC_CleanHandover"]
    with pytest.raises(UserError, match="MC_CleanHandover: cannot be replayed"):
        scenario_of(other, "NoRepeat", FOUND)


def test_values_become_what_json_has() -> None:
    value = FrozenDict({ModelValue("m1"): (frozenset({2, 1}), True, ModelValue("None"), "text")})
    assert plain(value) == {"m1": [[1, 2], True, "None", "text"]}
