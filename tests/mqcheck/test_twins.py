"""Each module has the names of its core, and a name that is missing is found."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec

import pytest

from mqcheck.manifest import TLA, manifests, models, read_steps
from mqcheck.source import snake_case
from mqcheck.twins import Twin, cores, read_twin, twins


@pytest.mark.parametrize("twin", twins(), ids=lambda twin: twin.name)
def test_every_variable_and_action_is_in_the_core_or_accounted_for(twin: Twin) -> None:
    assert twin.unmatched() == []


def group() -> Twin:
    return read_twin("Group", (TLA / "Group.tla").read_text(encoding="utf-8"))


def test_what_a_module_is_read_as() -> None:
    twin = group()
    assert twin.variables == ("consumerTable", "notices", "status", "perturbations")
    assert {"RegisterConsumer", "ScanNotActiveChannel", "Join"} <= set(twin.actions)
    assert "GroupTypeOK" not in twin.actions
    assert {"notices", "LoseNotice"} <= twin.exempt
    assert "RegisterConsumer" not in twin.exempt


def test_a_module_may_be_the_twin_of_two() -> None:
    header = "---- MODULE OneTwo ----\n(* {}  *)\n"
    both = header.format("Twin of mqspec/core/one.py and *)\n(* mqspec/core/two.py.  Not of three.")
    assert cores("OneTwo", both) == ("one", "two")
    assert cores("OneTwo", header.format("Twin of nothing.")) == ("one_two",)


def test_what_stands_alone_has_no_core_module() -> None:
    alone = {twin.name for twin in twins() if not twin.cores}
    assert alone <= {"Broadcasting", "ConfigFile", "Delivery", "RaftLog", "Replication"}
    assert not [name for name in alone if find_spec(f"mqspec.core.{snake_case(name)}")]


def test_a_name_that_neither_the_core_nor_the_header_has_is_found() -> None:
    twin = group()
    assert replace(twin, variables=("consumersTable",)).unmatched() == ["consumersTable"]
    assert replace(twin, actions=("ExpireChannel",)).unmatched() == ["ExpireChannel"]
    assert set(replace(twin, exempt=frozenset()).unmatched()) == {
        "notices",
        "status",
        "perturbations",
        "Join",
        "Leave",
        "Crash",
        "LoseNotice",
    }


def test_a_module_builds_on_others() -> None:
    rebalance = next(twin for twin in twins() if twin.name == "Rebalance")
    assert "Group" in rebalance.builds_on
    assert {"consumerTable", "processQueueTable"} <= set(rebalance.variables)
    assert {"Leave", "RegisterConsumer", "DoRebalance"} <= set(rebalance.actions)
    assert replace(rebalance, builds_on=()).unmatched() != []


@pytest.mark.parametrize("text", ["", "---- MODULE A ----\n(* a *)\nVARIABLES a\n\nNext == TRUE\n"])
def test_a_module_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no header|no action"):
        read_twin("A", text)


def test_a_comment_of_several_lines_ends_no_variables() -> None:
    system = next(twin for twin in twins() if twin.name == "System")
    assert system.variables[-5:] == ("epoch", "begun", "consumed", "lost", "gap")


CHOOSES = """
---- MODULE A ----
(* a *)
VARIABLES a

Take(n) ==
    a' = n
Takes == \\E n \\in 1..2 : Take(n)
Grow == a' = a + 1
Past(n) == n > a /\\ Grow
Next == Takes \\/ \\E n \\in 1..2 : Past(n)
"""


def test_what_only_says_which_there_are_is_no_action_and_what_calls_one_is() -> None:
    assert read_twin("A", CHOOSES).actions == ("Take", "Past")


STEPS = {name: read_steps(path) for name, path in manifests().items()}


def test_what_makes_an_action_one_step_is_told_of_every_action_of_every_module() -> None:
    assert len(twins()) == 28
    for twin in twins():
        assert STEPS[twin.name].keys() == set(twin.actions), twin.name


def test_models_that_have_an_action_in_several_steps_are_there() -> None:
    words = " ".join(step.several for steps in STEPS.values() for step in steps.values())
    assert set(re.findall(r"\bMC_\w+", words)) <= models().keys()
