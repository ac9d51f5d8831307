"""The runner must say no: every way in which a model and its manifest can disagree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mqcheck import manifest, runner
from mqcheck.config import read_config
from mqcheck.manifest import (
    Break,
    Counts,
    Model,
    Tier,
    check_actions,
    check_larger,
    check_model,
    check_ruled,
)
from mqcheck.runner import (
    Batch,
    Check,
    Result,
    batches,
    compare,
    plan,
    run_batch,
    run_batches,
    run_check,
)
from mqcheck.tlc import Exit
from mqrules import Kind, Level, UserError, Verdict, rules

MODULE = """
---- MODULE Counter ----
EXTENDS Naturals
CONSTANTS Limit, Names
VARIABLES count, last
Init == count = 0 /\\ last \\in Names
Increment(name) == count < Limit /\\ count' = count + 1 /\\ last' = name
Next == \\E name \\in Names : Increment(name)
Spec == Init /\\ [][Next]_<<count, last>> /\\ WF_<<count, last>>(Next)
InRange == count \\in 0..Limit
Below == count < 3
Full == <>(count = Limit)
Never == []<>(count = 0)
====
"""
CONFIG = """
\\* A comment that names INVARIANT Below.
CONSTANTS Limit = 4
  Names = {n1, n2}
SPECIFICATION Spec
INVARIANTS InRange Below
PROPERTIES Full
  Never
"""
IDEAL = "IDEAL-001"
MODEL = Model(
    name="MC_Counter",
    about="Counts.",
    tier=Tier.QUICK,
    least={"Limit": 4, "Names": 2},
    counts=Counts(distinct=10, states=18, depth=5),
    holds={"InRange": ("ALLOC-001",), "Full": ()},
    breaks={"Below": Break((IDEAL,), depth=4), "Never": Break(())},
    not_replayed="the core does not count",
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "MC_Counter.cfg").write_text(CONFIG)
    (tmp_path / "Counter.tla").write_text(MODULE)
    monkeypatch.setattr(manifest, "MODELS", tmp_path)
    monkeypatch.setattr(manifest, "TLA", tmp_path)
    promise = rules()["ALLOC-001"]
    ideal = replace(promise, id=IDEAL, kind=Kind.IDEAL, level=Level.NONE, assumption="none")
    monkeypatch.setattr(manifest, "rules", lambda: {"ALLOC-001": promise, IDEAL: ideal})


def problems(model: Model) -> dict[str, str]:
    results = [run_check(check) for check in plan(model)]
    return {",".join(sorted(r.check.properties)): r.problem for r in results}


def test_a_model_that_is_as_the_manifest_says_passes_in_one_run_a_question() -> None:
    assert problems(MODEL) == {"InRange": "", "Full": "", "Never": "", "Below": ""}


def many(model: Model, tmp_path: Path) -> Model:
    """A model with more to break: in the first state, and two in one state."""
    breaks = {"NotNone": Break((), 1), "NotTwo": Break((), 3), "NotTwoNorThree": Break((), 3)}
    text = "new == 1\nmqcheck == 2\nNotNone == count # 0\nNotTwo == count # 2\n"
    text += "NotTwoNorThree == count < 2\nFull =="
    (tmp_path / "Counter.tla").write_text(MODULE.replace("Full ==", text))
    names = "InRange " + " ".join(breaks)
    (tmp_path / "MC_Counter.cfg").write_text(CONFIG.replace("InRange", names))
    return replace(model, breaks={**model.breaks, **breaks})


def test_one_run_says_what_a_run_for_each_check_says(tmp_path: Path) -> None:
    model = many(MODEL, tmp_path)
    together, alone = batches(model)
    assert (len(together.checks), len(alone.checks)) == (6, 1)
    for result in [*run_batch(together), *run_batch(alone)]:
        said = run_check(result.check)
        assert (result.problem, said.problem) == ("", "")
        assert result.run.exit == said.run.exit
        assert result.check.exit is Exit.LIVENESS or result.counterexample == said.counterexample
        assert not result.check.counts or result.run.taken == said.run.taken


def test_what_one_run_finds_wrong_is_told_of_each_check_alone(tmp_path: Path) -> None:
    model = many(MODEL, tmp_path)
    wrong = replace(
        model,
        holds={"NotTwo": (), "Full": (), "Never": ()},
        breaks={"InRange": Break((), 1), "NotNone": Break((), 1), "Below": Break((), 3)},
    )
    (batch,) = batches(wrong)
    assert {r.check.properties: r.problem for r in run_batch(batch)} == {
        frozenset({"NotTwo"}): "NotTwo should hold, TLC says safety",
        frozenset({"Full"}): "",
        frozenset({"Never"}): "Never should hold, TLC says liveness",
        frozenset({"InRange"}): "InRange should be violated, it holds",
        frozenset({"NotNone"}): "",
        frozenset({"Below"}): "Below: counterexample of 4 states, the manifest says 3",
    }


def test_a_model_that_tlc_cannot_extend_is_asked_alone(tmp_path: Path) -> None:
    text = MODULE.replace("InRange ==", "Print(x) == x\nInRange ==")  # a name of the module TLC
    (tmp_path / "Counter.tla").write_text(text)
    (together, _) = batches(MODEL)
    assert [result.problem for result in run_batch(together)] == ["", "", ""]


def test_evidence_carries_rule_bounds_and_counts() -> None:
    result = run_check(next(plan(MODEL)))
    (record,) = result.evidence()
    assert (record.rule, record.verdict) == ("ALLOC-001", Verdict.HELD)
    assert record.detail["distinct"] == 10
    assert record.detail["bounds"] == "Limit=4, Names=2"


def test_every_disagreement_is_noticed() -> None:
    wrong = replace(
        MODEL,
        counts=Counts(distinct=10, states=18, depth=6),
        holds={"Below": ("ALLOC-001",), "Never": ()},
        breaks={"InRange": Break((IDEAL,), depth=1), "Full": Break(())},
    )
    assert problems(wrong) == {
        "Below": "Below should hold, TLC says safety",
        "Never": "Never should hold, TLC says liveness",
        "InRange": "InRange should be violated, it holds",
        "Full": "Full should be violated, it holds",
    }


def test_other_counts_or_another_depth_are_noticed() -> None:
    first, *_, last = plan(MODEL)
    counted, broken = run_check(first), run_check(last)
    other = replace(first, counts=Counts(distinct=11, states=18, depth=5))
    assert compare(other, counted.run) == (
        "InRange: found 10 distinct of 18 states, depth 5, "
        "the manifest says 11 distinct of 18 states, depth 5"
    )
    assert compare(replace(last, depth=5), broken.run) == (
        "Below: counterexample of 4 states, the manifest says 5"
    )


def test_progress_is_told_of_each_and_results_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    (first, *_) = plan(MODEL)
    result = run_check(first)
    larger = replace(first, model=replace(MODEL, counts=Counts(99, 99, 9)))
    asked = [Batch((first,)), Batch((larger,))]

    def answer(batch: Batch, _: object) -> list[Result]:
        return [replace(result, check=batch.checks[0])]

    monkeypatch.setattr(runner, "run_batch", answer)
    ended: list[Batch] = []
    told: list[Check] = []
    results = run_batches(asked, 1, None, ended.append, lambda of: told.extend(r.check for r in of))
    assert sorted(batch.states for batch in ended) == [18, 99]
    assert told == [first, larger]
    assert [result.check for result in results] == told


def test_an_action_that_is_never_taken_is_noticed(tmp_path: Path) -> None:
    idle = "Reset == count > 9 /\\ count' = 0 /\\ UNCHANGED last\nNext == Reset \\/ "
    (tmp_path / "Counter.tla").write_text(MODULE.replace("Next == ", idle))
    (check, *_) = plan(MODEL)
    assert run_check(check).problem == "never taken: Reset"
    listed = replace(check, model=replace(MODEL, untaken=("Reset",)))
    assert run_check(listed).problem == ""
    wrong = replace(check, model=replace(MODEL, untaken=("Increment", "Reset")))
    assert run_check(wrong).problem == "taken after all: Increment"


def test_a_run_that_tells_of_no_action_is_noticed() -> None:
    result = run_check(next(plan(MODEL)))
    assert result.run.taken.keys() == {"Increment"}
    assert compare(result.check, replace(result.run, taken={})) == "TLC tells of no action"


def test_an_action_that_no_model_takes_is_refused() -> None:
    idle = replace(MODEL, untaken=("Increment", "Reset"))
    check_actions([idle, MODEL], "Counter.toml")
    for models in ([idle], [idle, replace(MODEL, untaken=("Reset",))]):
        with pytest.raises(UserError, match=r"no model takes (Increment, )?Reset"):
            check_actions(models, "Counter.toml")


def test_a_problem_makes_the_evidence_a_violation() -> None:
    result = replace(run_check(next(plan(MODEL))), problem="other counts")
    (record,) = result.evidence()
    assert (record.verdict, record.detail["problem"]) == (Verdict.VIOLATED, "other counts")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"holds": {"InRange": ()}}, "manifest and configuration differ on Full"),
        ({"least": {"Names": 3}}, "Names is 2, at least 3"),
        ({"holds": {"InRange": ("ALLOC-999",), "Full": ()}}, "no rule ALLOC-999"),
        (
            {"breaks": {"Below": Break(("ALLOC-001",), depth=4), "Never": Break(())}},
            "ALLOC-001 is no ideal",
        ),
        ({"breaks": {"Below": Break((IDEAL,)), "Never": Break(())}}, "a depth goes with"),
        ({"name": "MC_Counter__NoSuchDefect"}, "no defect NoSuchDefect"),
        ({"tier": Tier.DEEP}, "`measured` goes with tier deep, only"),
        ({"measured": "at noon"}, "`measured` goes with tier deep, only"),
    ],
)
def test_an_entry_that_disagrees_with_its_configuration_or_the_rules_is_refused(
    change: dict[str, object], message: str
) -> None:
    config = MODEL.config
    with pytest.raises(UserError, match=message):
        check_model(replace(MODEL, **change), config, "Counter.toml")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "booked"),
    [
        ({"holds": {"CounterTypeOK": ("ALLOC-001",)}, "breaks": {}}, "ALLOC-001"),
        ({"holds": {}, "breaks": {"CounterTypeOK": Break((IDEAL,), depth=1)}}, "IDEAL-001"),
    ],
)
def test_a_rule_that_is_booked_on_types_is_refused(change: dict[str, object], booked: str) -> None:
    config = replace(MODEL.config, invariants=("CounterTypeOK",), temporal=())
    says = f"CounterTypeOK says what variables may be, not {booked}"
    with pytest.raises(UserError, match=says):
        check_model(replace(MODEL, **change), config, "Counter.toml")  # type: ignore[arg-type]
    check_model(replace(MODEL, holds={"CounterTypeOK": ()}, breaks={}), config, "Counter.toml")


def test_symmetry_is_refused_beside_a_temporal_property(tmp_path: Path) -> None:
    path = tmp_path / "MC_Counter.cfg"
    path.write_text(CONFIG + "SYMMETRY Permutations\n")
    with pytest.raises(UserError, match="unsound"):
        read_config(path)


def test_a_broken_model_gets_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "Counter.tla").write_text(MODULE.replace("Init ==", "Init = ="))
    with pytest.raises(UserError, match="Was expecting") as caught:
        run_check(next(plan(MODEL)))
    assert "\n" not in str(caught.value)


def test_of_each_bound_it_is_said_what_a_larger_one_could_show() -> None:
    counting = replace(MODEL, least={"Most": 3})
    told = {"Most": "A counter beyond 3."}
    check_larger([counting], told, "Counter.toml")
    with pytest.raises(UserError, match="nothing says what a larger Most could show"):
        check_larger([counting], {}, "Counter.toml")
    with pytest.raises(UserError, match="no model has Queues in least"):
        check_larger([counting], told | {"Queues": "Nothing."}, "Counter.toml")


def test_each_property_names_a_rule_or_says_why_it_names_none() -> None:
    holds = {"TypeOK": (), "Lemma": (), "Promise": ("LOG-001",)}
    one = replace(MODEL, holds=holds, breaks={"Witness": Break(rules=())})
    told = {"Lemma": "a step of the argument for LOG-001"}
    check_ruled([one], told, "Counter.toml")
    with pytest.raises(UserError, match="Lemma names no rule"):
        check_ruled([one], {}, "Counter.toml")
    for odd in ("Promise", "TypeOK", "Witness", "Absent"):
        with pytest.raises(UserError, match=f"{odd} names a rule, or holds nowhere"):
            check_ruled([one], {**told, odd: "Nothing."}, "Counter.toml")
    elsewhere = replace(MODEL, holds={"Lemma": ("LOG-001",)}, breaks={})
    check_ruled([one, elsewhere], {}, "Counter.toml")
