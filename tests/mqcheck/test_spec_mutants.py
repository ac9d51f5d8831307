"""Mutants of modules, and an invariant that cannot fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mqcheck import manifest, mutants
from mqcheck.manifest import TLA, Break, Counts, Killer, Model, Tier
from mqcheck.mutants import judge
from mqrules import UserError

MODULE = """\
---- MODULE Well ----
EXTENDS Naturals, FiniteSets
VARIABLES water, buckets, most  \\* /\\ buckets' = 9
(* Nothing in a comment is a conjunct, and of ghosts nothing is taken away.  Ghosts: most,
   nothing.  /\\ water' = 0 *)
Vars == <<water, buckets, most>>
Init == water = 3 /\\ buckets = 0 /\\ most = 3
Carry == buckets' = buckets + 1
Fill(n) ==
    LET rest == water - n
    IN  /\\ n > 0
        /\\ \\/ /\\ water >= n
              /\\ water' = rest
           \\/ /\\ water = 9
              /\\ UNCHANGED water
        /\\ most' = IF most < water' THEN water' ELSE most
        /\\ Carry
Small == water
InRange == water \\in 0..3 /\\ Small >= 0
Spare == IF water > 9 THEN 1 ELSE 0
Spilt == {n \\in 0..3 : n > CASE water = 9 -> 0 [] OTHER -> water}
Rain == buckets > 2 /\\ buckets' = Spare /\\ water' = water /\\ most' = most
Leak == water' \\in {n \\in 0..3 : n < Cardinality(Spilt)} /\\ UNCHANGED <<buckets, most>>
Next == (\\E n \\in 1..2 : Fill(n)) \\/ Rain \\/ Leak
Spec == Init /\\ [][Next]_Vars
Enough == InRange /\\ (IF water = 3 THEN TRUE ELSE Small < 3)
Few == buckets < 4
Same == water = water
Dry == [][water' # 9]_Vars
Grows == [][buckets' >= buckets]_Vars
====
"""
MODEL = Model("MC_Well", "A well.", Tier.QUICK, {}, Counts(9, 9, 9), {"Enough": (), "Same": ()})
DEEP = Model(
    "MC_Well__Deep", "A defect.", Tier.QUICK, {}, Counts(9, 9, 9), breaks={"Same": Break(())}
)
DRY = "Well: Fill without water >= n"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Well.tla").write_text(MODULE)
    (tmp_path / "MC_Well.cfg").write_text("SPECIFICATION Spec\nINVARIANTS Enough Same\n")
    (tmp_path / "MC_Well__Deep.cfg").write_text("SPECIFICATION Spec\nINVARIANT Same\n")
    monkeypatch.setattr(mutants, "_MOST", (100,))
    monkeypatch.setattr(manifest, "MODELS", tmp_path)
    monkeypatch.setattr(manifest, "TLA", tmp_path)


def test_guards_and_updates_of_actions_are_taken_away_one_by_one() -> None:
    found = list(mutants.mutants("Well", MODULE))
    assert [(mutant.line, mutant.action, mutant.removed) for mutant in found] == [
        (8, "Carry", "buckets' = buckets + 1"),
        (11, "Fill", "n > 0"),
        (12, "Fill", "\\/ /\\ water >= n /\\ water' = rest \\/ /\\ water = 9 /\\ UNCHANGED water"),
        (12, "Fill", "water >= n"),
        (13, "Fill", "water' = rest"),
        (14, "Fill", "water = 9"),
        (20, "Spare", "IF water > 9, which is FALSE"),
        (20, "Spare", "IF water > 9, which is TRUE"),
        (21, "Spilt", "n > CASE water = 9 -> 0 [] OTHER -> water"),
        (21, "Spilt", "CASE water = 9, which is FALSE"),
        (22, "Rain", "buckets > 2"),
        (22, "Rain", "buckets' = Spare"),
        (22, "Rain", "water' = water"),
        (23, "Leak", "water' \\in {n \\in 0..3 : n < Cardinality(Spilt)}"),
        (23, "Leak", "n < Cardinality(Spilt)"),
    ]
    assert "IN  /\\ TRUE\n" in found[1].text
    assert "/\\ UNCHANGED <<water>>\n        /\\ most" in found[2].text
    for mutant in found:
        assert mutant.text.count("\n") <= MODULE.count("\n")
        assert "buckets' = 9" in mutant.text  # comments stay as they are


def test_a_module_that_only_extends_another_has_none() -> None:
    text = "---- MODULE MC_Well ----\nEXTENDS Well\n====\n"
    assert list(mutants.mutants("MC_Well", text)) == []


def test_a_mutant_of_what_a_model_extends_is_taken_though_the_original_is_beside_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "MC_Well.tla").write_text("---- MODULE MC_Well ----\nEXTENDS Well\n====\n")
    enough, _ = judge([MODEL], {}, None, lambda _: None)
    assert enough.killer == Killer("MC_Well", DRY)


def test_an_invariant_that_fails_in_no_mutant_is_told() -> None:
    told: list[str] = []
    enough, same = judge([MODEL], {}, None, told.append)
    assert (enough.property, enough.killer) == ("Enough", Killer("MC_Well", DRY))
    assert told == ["MC_Well: Enough violated by Well.tla:12, Fill without water >= n"]
    assert (same.property, same.models, same.killer) == ("Same", ("MC_Well",), None)


def test_what_is_recorded_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def violations(*_: object, watch: list[str], **__: object) -> list[str]:
        tried.append(watch[0])
        return watch

    monkeypatch.setattr(mutants, "violations", violations)
    recorded = {"Enough": Killer("MC_Well", DRY), "Same": Killer("MC_Well__Deep")}
    enough, same = judge([MODEL, DEEP], recorded, None, lambda _: None)
    assert tried == ["Enough"]
    assert [enough.killer, same.killer] == [*recorded.values()]


def test_where_no_mutant_is_found_a_model_that_breaks_it_will_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def violations(_: Path, __: str, title: str, *___: object, **____: object) -> list[str]:
        return ["Enough"] if title.endswith("Fill without water >= n") else []

    monkeypatch.setattr(mutants, "violations", violations)
    wrong = {"Enough": Killer("MC_Well", "Well: Fill without n > 0")}
    enough, same = judge([MODEL, DEEP], wrong, None, lambda _: None)
    assert enough.killer == Killer("MC_Well", DRY)
    assert same.killer == Killer("MC_Well__Deep")


def test_an_edit_made_by_hand_will_do_of_temporal_properties_too(tmp_path: Path) -> None:
    (tmp_path / "MC_Well.cfg").write_text("SPECIFICATION Spec\nINVARIANT Enough\nPROPERTY Dry\n")
    model = replace(MODEL, holds={"Enough": (), "Dry": ()})
    edit = Killer("MC_Well", edit=("water' = rest", "water' = 9"))
    recorded = {"Enough": edit, "Dry": edit}
    told: list[str] = []
    fates = judge([model], recorded, None, told.append)
    assert {fate.property: fate.killer for fate in fates} == recorded
    assert told == [
        "MC_Well: Dry, Enough violated by Well.tla:13, an edit without water' = rest, "
        "with water' = 9"
    ]


def test_every_module_has_mutants_and_keeps_its_properties() -> None:
    for path in TLA.glob("*.tla"):
        text = path.read_text()
        found = list(mutants.mutants(path.stem, text))
        assert len(found) > 3, path.stem
        names = {mutant.action for mutant in found}
        assert not names & {"Init", "Next", "Spec", "Fairness", "TypeOK"}, path.stem


def test_a_mutant_that_tlc_cannot_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = mutants.Mutant("Well", "Fill", 10, "n > 0", MODULE.replace("Init ==", "Init = ="))
    monkeypatch.setattr(mutants, "mutants", lambda *_: [broken])
    with pytest.raises(UserError, match=r"MC_Well, Well\.tla:10, Fill without n > 0"):
        judge([MODEL], {}, None, lambda _: None)
