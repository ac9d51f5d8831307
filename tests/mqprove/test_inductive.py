"""Theorems about protocols: what is wrong falls with a step, and the steps are the model's."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from by_night import BY_NIGHT, one_in

from mqcheck.behaviours import StateGraph, state_graph
from mqcheck.manifest import TLA, Model, models
from mqcheck.mutation import Mutation
from mqcheck.variant import variant_of
from mqprove.inductive import Invariance, Protocol, prove_invariance
from mqprove.protocol_mutants import judge_step, steps_mutants
from mqprove.protocols import INVARIANCES
from mqprove.tied import differences
from mqprove.tla_module import Module
from mqprove.tla_values import Element, Number, SetOf
from mqrules import rules

EDITS = tomllib.loads(Path(__file__).with_name("protocol_edits.toml").read_text(encoding="utf-8"))
PROTOCOLS = {theorem.protocol.of: theorem.protocol for theorem in INVARIANCES}
TIED = {
    "MC_Lock": "Lock",
    "MC_ForcedUnlock": "Lock",
    "MC_CrashesAtWork": "OffsetCommit",
    "MC_CleanHandover": "OffsetCommit",
    "MC_LongPolling": "LongPolling",
    "MC_Transaction__NotesFailedCommits": "Transaction",
    "MC_TransactionEndsFirst": "Transaction",
    "MC_RetryMembers": "Retry",
    "MC_Log__OffsetBeforeChecks": "Log",
    "MC_LogTransientStorePool": "Log",
    "MC_GroupNotices": "Group",
    "MC_RebalancedSince": "Rebalance",
}
"""Small models whose every transition is compared, and whose they are."""
SMALLER: dict[str, dict[str, int | str]] = {
    "MC_LogTransientStorePool": {"MaxMessages": 2},
    "MC_RebalancedSince": {"MaxPerturbations": 1, "Timer": "FALSE", "Notices": '"lossy"'},
}
"""Constants of those that are not small by themselves, or have no notices."""


Tied = tuple[Protocol, Model, StateGraph]


def about(edit: dict[str, str]) -> str:
    return edit["about"]


def edited(edit: dict[str, str], folder: Path) -> Module:
    """The invariants, over the module with the edit."""
    name, text = edit["module"], (TLA / f"{edit['module']}.tla").read_text(encoding="utf-8")
    assert text.count(edit["old"]) == 1
    (folder / f"{name}.tla").write_text(text.replace(edit["old"], edit["new"]), encoding="utf-8")
    return PROTOCOLS[name].read(folder)


def theorems_of(module: str) -> Iterator[Invariance]:
    return (theorem for theorem in INVARIANCES if theorem.protocol.of == module)


@pytest.mark.parametrize("theorem", INVARIANCES, ids=lambda theorem: theorem.name)
def test_it_is_proved_for_any_number_of_members(theorem: Invariance) -> None:
    assert set(theorem.rules) <= rules().keys()
    proof = prove_invariance(theorem)
    assert (proof.outcome, proof.as_expected) == ("proved", True)


@pytest.mark.parametrize("edit", one_in(4, EDITS["wrong"]), ids=about)
def test_a_wrong_edit_falls_with_a_step(edit: dict[str, str], tmp_path: Path) -> None:
    module = edited(edit, tmp_path)
    (theorem,) = (each for each in INVARIANCES if each.name == edit["theorem"])
    proof = prove_invariance(theorem, module)
    assert not proof.proved
    assert proof.counterexample
    assert " falls: " in proof.counterexample
    assert f" {edit.get('falls', 'by')} " in proof.counterexample


@pytest.mark.parametrize("edit", one_in(3, EDITS["harmless"]), ids=about)
def test_of_a_harmless_edit_all_stays_proved(edit: dict[str, str], tmp_path: Path) -> None:
    module = edited(edit, tmp_path)
    proofs = [prove_invariance(theorem, module) for theorem in theorems_of(edit["module"])]
    assert [proof.theorem.name for proof in proofs if not proof.proved] == []


def test_what_a_theorem_rests_on_is_shown_by_another() -> None:
    resting = [theorem for theorem in INVARIANCES if theorem.rests_on]
    assert resting
    for theorem in resting:
        shown = {
            each.invariant
            for each in theorems_of(theorem.protocol.of)
            if (each.bounds, each.never, each.rests_on) == (theorem.bounds, theorem.never, ())
        }
        assert set(theorem.rests_on) <= shown


def named(name: str) -> Invariance:
    return next(theorem for theorem in INVARIANCES if theorem.name == name)


@pytest.mark.parametrize(
    "false",
    [
        # Each without something that it rests on.
        replace(named("lock-one-listener"), bounds="BeliefBounds"),
        replace(named("lock-one-listener"), invariant="BeliefInductive"),
        replace(named("lock-one-belief"), bounds="HolderBounds"),  # brokers start again
        replace(named("offset-nothing-skipped"), bounds="OwnBounds"),  # groups begin at the end
        replace(named("offset-nothing-skipped"), invariant="OwnInductive"),
        # And what the modules say to show that models are not empty, or call an ideal.
        replace(named("offset-committed-is-consumed"), claim="NeverAllCommitted"),
        replace(named("offset-committed-is-consumed"), claim="NeverTwoOwners"),
        replace(named("offset-committed-is-consumed"), claim="NoRepeat"),
        replace(named("offset-committed-is-consumed"), claim="StoredNeverGoesBack"),
        replace(named("polling-arrivals-wake"), claim="NoLostWakeUp"),
        replace(named("polling-client-still-waits"), bounds="Bounds"),
        replace(named("retry-in-one-place"), bounds="Bounds", never=()),  # answers are lost
        replace(named("retry-nothing-lost"), bounds=""),  # groups without retry queues
        replace(named("group-leaving-is-told"), bounds=""),  # nobody is told anything
        replace(named("rebalance-nothing-moves"), invariant="OnlyTheRunningRebalance"),
        # Members wait for each other.
        pytest.param(replace(named("rebalance-nothing-moves"), bounds=""), marks=BY_NIGHT),
        pytest.param(
            replace(named("rebalance-nothing-moves"), claim="ExclusiveOwner"), marks=BY_NIGHT
        ),
        replace(named("rebalance-owned-once-at-most"), bounds="Bounds", lemma=""),
    ],
    ids=lambda false: f"{false.name} {false.bounds} {false.invariant} {false.claim}",
)
def test_what_is_false_is_not_proved(false: Invariance) -> None:
    proof = prove_invariance(false)
    assert not proof.proved
    assert proof.counterexample


READING = Protocol(
    module="Reading",
    of="Reading",
    sets=("Members",),
    tokens=("None",),
    constants={"Limit": Number()},
    variables={"count": Number(), "held": SetOf(Element("Members"))},
)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Protocol:
    monkeypatch.setattr("mqprove.inductive.FOLDER", Path(__file__).parent / "modules")
    return READING


def of_reading(claim: str, **given: Any) -> Invariance:
    return Invariance(claim, (), "", READING, claim, **given)


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        ("NoSubset", "not read: a quantifier over sets or functions"),
        ("NoFunction", "not read: a quantifier over sets or functions"),
        ("FirstIsChosen", "neither"),
        ("LeastOfOthers", "neither"),
        ("OtherIsBelow", "not read: line 70: an INSTANCE with other names"),
        ("InsideIsBelow", "fails: "),
        ("ByNone", "fails: "),
        ("ProductGrows", "fails: "),
        ("QuotientIsLess", "fails: "),
        ("AllHold", "fails: "),
        ("OneMoreIsMore", "fails: "),
        ("AllOrNone", "fails: "),
        ("RoundedUp", "fails: "),
        ("OneHolder", "fails: "),
        ("SomeoneHolds", "fails: "),
        ("NumbersEnd", "fails: "),
        ("NeverTaken", "fails: "),
    ],
)
def test_the_reading_proves_nothing_false(claim: str, outcome: str) -> None:
    proof = prove_invariance(of_reading(claim))
    assert not proof.proved
    assert proof.outcome.startswith(outcome)


@pytest.mark.usefixtures("reading")
@pytest.mark.parametrize(
    ("theorem", "outcome"),
    [
        (of_reading("Natural", invariant="Below", bounds="Open"), "proved"),
        (of_reading("InsideIsNatural", invariant="Below", bounds="Open"), "proved"),
        (of_reading("ProductIsNatural", bounds="Open"), "proved"),
        (of_reading("QuotientIsNatural", bounds="Open"), "proved"),
        (of_reading("RemainderIsLess", bounds="Open"), "proved"),
        (of_reading("SizesAreOrdered", bounds="Open"), "proved"),
        (of_reading("WithinMembers", bounds="Open"), "proved"),
        (
            of_reading("AlwaysBelow", invariant="Below", bounds="Contradiction"),
            "says nothing: no state fulfils what is assumed",
        ),
        (
            of_reading("NeverTaken", invariant="Below", bounds="Closed"),
            "says nothing: Take is never taken",
        ),
        (
            of_reading("NeverTaken", invariant="Below", bounds="Closed", never=("Take", "Give")),
            "says nothing: there is no action Give",
        ),
        (
            of_reading("Natural", invariant="Below", bounds="Closed", never=("Take",)),
            "proved",
        ),
        (
            of_reading("Natural", invariant="Below", bounds="Open", never=("Take",)),
            "fails: it is never taken falls: ",
        ),
        (
            of_reading("Natural", invariant="Below", bounds="Negative"),
            "not read: ",
        ),
        (
            of_reading("Natural", invariant="Natural", bounds="Barred"),
            "says nothing: nothing begins",
        ),
    ],
    ids=lambda value: (
        value if isinstance(value, str) else f"{value.claim} {value.bounds} {' '.join(value.never)}"
    ),
)
def test_a_theorem_that_says_nothing_is_not_proved(theorem: Invariance, outcome: str) -> None:
    proof = prove_invariance(theorem)
    assert proof.proved is (outcome == "proved")
    assert proof.outcome.startswith(outcome)


@pytest.fixture(scope="module")
def graphs() -> dict[str, Tied]:
    found: dict[str, Tied] = {}
    for name, of in TIED.items():
        model = variant_of(models()[name], SMALLER.get(name, {}))
        found[name] = (PROTOCOLS[of], model, state_graph(model))
    return found


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=BY_NIGHT)])
@pytest.mark.parametrize("name", TIED)
def test_the_steps_are_those_of_the_model(name: str, every: int, graphs: dict[str, Tied]) -> None:
    protocol, model, graph = graphs[name]
    assert len(graph.edges) > 250
    assert list(differences(protocol, model, graph, every=every)) == []


def test_a_kill_is_a_step_of_the_model_where_the_model_permits_it() -> None:
    """Its action constraint has no kill while an end is not written: no other step differs."""
    model = models()["MC_TransactionEndsFirstKilled"]
    graph = state_graph(model)
    assert any(edge.action == "Kill" for edge in graph.edges)
    found = list(differences(PROTOCOLS["Transaction"], model, graph, every=4))
    assert found
    assert all(each.startswith("only read: ") and " Kill {" in each for each in found)


@pytest.mark.parametrize(
    ("name", "number"),
    [("MC_Lock", 0), ("MC_Lock", 5), ("MC_CrashesAtWork", 10), ("MC_LongPolling", 18)],
)
def test_a_module_that_is_changed_alone_has_other_steps(
    name: str,
    number: int,
    graphs: dict[str, Tied],
    tmp_path: Path,
) -> None:
    protocol, model, graph = graphs[name]
    edit: dict[str, Any] = EDITS["wrong"][number]
    assert edit["module"] == protocol.of
    found = next(differences(protocol, model, graph, edited(edit, tmp_path)), "")
    assert found.startswith(("only read", "only in the graph", "the beginning"))


@pytest.mark.parametrize(
    ("edit", "fate"),
    [
        (EDITS["wrong"][0], "killed"),
        (EDITS["harmless"][0], "harmless"),
        ({"old": "Spec == Init", "new": "Spec == Ini"}, "refused"),
    ],
    ids=["killed", "harmless", "refused"],
)
def test_a_mutant_of_a_step_is_judged(edit: dict[str, str], fate: str) -> None:
    text = (TLA / "Lock.tla").read_text(encoding="utf-8")
    mutation = Mutation("Lock", "", 1, text, text.replace(edit["old"], edit["new"]))
    found = judge_step(PROTOCOLS["Lock"], mutation)
    what = {"killed": found.killed_by, "harmless": found.harmless, "refused": found.refused}
    assert [name for name, is_so in what.items() if is_so] == [fate]
    assert not found.survived


def test_each_place_of_the_steps_is_mutated() -> None:
    named = {mutation.definition for mutation in steps_mutants(PROTOCOLS["Lock"])}
    assert {"TryLockBatch", "UnlockBatch", "Tick", "Crash", "Restart", "Holds"} <= named
    assert not {"OneListener", "Fairness", "TypeOK"} & named
