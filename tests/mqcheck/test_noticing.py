"""A sample of mistakes in modules: each is noticed by a property or a replay, or is told."""

from __future__ import annotations

import argparse
import io
from itertools import islice
from pathlib import Path

import pytest
from rich.console import Console

from mqcheck import command, noticing, sampling
from mqcheck.manifest import TLA, models
from mqcheck.mutation import Edit, Mutation, plain, sample
from mqcheck.noticing import Fate, NoModuleError, explained, judge, survivors, witnesses
from mqrules import UserError

MODULE = """\
---- MODULE Well ----
EXTENDS Naturals
VARIABLES water, last
vars == <<water, last>>
TypeOK == water \\in 0..9 /\\ last >= 0
Init == water = 3 /\\ last = [n \\in 1..2 |-> 0]
Fill(n) ==  \\* n < 5
    /\\ n \\in 1..2
    /\\ water' = water + n
    /\\ last' = [last EXCEPT ![n] = water]
Next == \\E n \\in 1..2 : Fill(n)
Spec == Init /\\ [][Next]_vars /\\ WF_vars(\\E n \\in 1..2 : Fill(n))
Wet == \\A n \\in 1..2 : ~(last[n] = 9) => water <= 8
Dry == water < 9
====
"""


def changed(module: str, old: str, new: str, definition: str) -> Mutation:
    """A module of the library in which one text, which stands there once, is another."""
    text = (TLA / f"{module}.tla").read_text()
    assert text.count(old) == 1
    line = text.count("\n", 0, text.index(old)) + 1
    return Mutation(module, definition, line, text, text.replace(old, new))


def test_what_is_changed_is_what_says_something() -> None:
    edits = set()
    for seed in range(40):
        edits |= {(m.definition, *m.edit[1:]) for m in sample({"Well": MODULE}, seed, {"Dry"})}
    made = {(name, come) for name, _, come in edits}
    assert {name for name, _ in made} == {"Init", "Fill", "Next", "Spec", "Wet"}
    assert {come for name, come in made if name == "Fill"} == {
        "/\\ TRUE",
        "/\\ n \\notin 1..2",
        "/\\ n \\in 2..2",
        "/\\ n \\in 1..3",
        "/\\ UNCHANGED <<water>>",
        "/\\ water' = water - n",
        "/\\ UNCHANGED <<last>>",
    }
    assert {come for name, come in made if name == "Next"} >= {"Next == \\E n \\in 1..2 : FALSE"}
    assert "Spec == Init /\\ [][Next]_vars /\\ TRUE" in {come for _, come in made}
    assert {come for name, come in made if name == "Wet"} == {
        "Wet == \\E n \\in 1..2 : ~(last[n] = 9) => water <= 8",
        "Wet == \\A n \\in 2..2 : ~(last[n] = 9) => water <= 8",
        "Wet == \\A n \\in 1..3 : ~(last[n] = 9) => water <= 8",
        "Wet == \\A n \\in 1..2 : (last[n] = 9) => water <= 8",
        "Wet == \\A n \\in 1..2 : ~(last[n] # 9) => water <= 8",
        "Wet == \\A n \\in 1..2 : ~(last[n] = 10) => water <= 8",
        "Wet == \\A n \\in 1..2 : ~(last[n] = 9) <=>water <= 8",
        "Wet == \\A n \\in 1..2 : ~(last[n] = 9) => water < 8",
        "Wet == \\A n \\in 1..2 : ~(last[n] = 9) => water <= 9",
    }


def test_a_seed_makes_the_same_mutants_each_of_another_place() -> None:
    texts = {path.stem: path.read_text() for path in TLA.glob("*.tla")}
    first = list(islice(sample(texts, 7), 200))
    assert first == list(islice(sample(texts, 7), 200))
    assert first != list(islice(sample(texts, 8), 200))
    assert len({mutant.module for mutant in first}) > 15
    for mutant in first:
        assert mutant.source == texts[mutant.module] != mutant.text
        assert (
            mutant.source.splitlines()[mutant.line - 1] != mutant.text.splitlines()[mutant.line - 1]
        )


def test_no_witness_is_changed_and_no_property_is_a_witness() -> None:
    assert {"NeverNeedsBak", "ListsAgree"} <= witnesses()
    assert not witnesses() & {name for model in models().values() for name in model.holds}


def test_a_mistake_is_noticed_by_a_property() -> None:
    mutant = changed(
        "ConfigFile", "bak' = file\n    /\\ file' = None", "file' = None", "RenameToBak"
    )
    with pytest.raises(NoModuleError):
        judge(mutant, None)  # nothing says what bak becomes
    mutant = changed(
        "ConfigFile",
        "bak' = file\n    /\\ file' = None",
        "bak' = bak\n    /\\ file' = None",
        "RenameToBak",
    )
    fate = judge(mutant, None)
    assert fate.noticed_by == "MC_ConfigFile: Invariant NothingWrittenIsLost is violated"


def test_a_mistake_is_noticed_by_the_core() -> None:
    old, new = "msgTreeMap \\ listening", "msgTreeMap \\cup listening"
    fate = judge(changed("CleanExpired", old, new, "StartListening"), None)
    assert fate.noticed_by.startswith("the core, in MC_CleanExpired: in {")


def test_a_property_that_says_nothing_is_noticed_where_it_must_fail() -> None:
    fate = judge(
        changed("Retry", "Total(m)' >= Total(m)]_vars", "Total(m)' >= 0]_vars", "Deliver"), None
    )
    assert not fate.noticed_by  # as told: what was changed is no part of the property
    made = changed("Retry", "Total(m)' >= Total(m)]_vars", "Total(m)' >= 0]_vars", "NoCopyVanishes")
    assert judge(made, None).noticed_by.endswith(": NoCopyVanishes fails no more where it must")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sample", "5"], "--sample: of what; add --mutants"),
        (["--mutants", "--sample", "0"], "--sample: 0 mutants; ask for one or more"),
    ],
)
def test_a_sample_of_nothing_is_refused(arguments: list[str], says: str) -> None:
    parser = argparse.ArgumentParser()
    command.configure(parser)
    with pytest.raises(UserError, match=says):
        command.run(parser.parse_args(arguments))


def test_what_changes_nothing_survives() -> None:
    mutant = changed("ConfigFile", "table' = table + 1", "table' = 1 + table", "Update")
    fate = judge(mutant, None)
    assert (fate.noticed_by, fate.tried > 1) == ("", True)
    assert survivors([fate], {}) == [fate]
    assert survivors([fate], {mutant.edit: "a sum has no order"}) == []


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[Edit, str]:
    """Of the mutants of a sample the first is no module, the second noticed, the others not;
    and which of these are explained, which a test may add to."""
    known: dict[Edit, str] = {}
    tried: list[Mutation] = []

    def judged(mutant: Mutation, _: object) -> Fate:
        tried.append(mutant)
        if len(tried) == 1:
            raise NoModuleError
        return Fate(mutant, "a property" if len(tried) == 2 else "", 4, 0.5)

    monkeypatch.setattr(sampling, "judge", judged)
    monkeypatch.setattr(sampling, "explained", lambda: known)
    return known


def told(number: int) -> tuple[int, str]:
    """The exit code of a sample, and what it says."""
    out = io.StringIO()
    chosen = [models()["MC_ConfigFile"]]
    code = sampling.try_sample(chosen, number, 3, None, Console(file=out, width=200))
    return code, out.getvalue()


def test_a_survivor_is_told_with_what_was_changed(known: dict[Edit, str]) -> None:
    assert not known
    code, said = told(2)
    assert code == 1
    assert "1/2 noticed ConfigFile.tla:" in said
    assert "2/2 SURVIVED ConfigFile.tla:" in said
    assert "\n- " in said
    assert "\n+ " in said
    assert "1 of 2 noticed, 0 equivalent, 1 survived: 50%" in said


def test_one_that_is_explained_is_no_survivor(known: dict[Edit, str]) -> None:
    text = (TLA / "ConfigFile.tla").read_text()
    _, _, third = islice(sample({"ConfigFile": text}, 3, witnesses()), 3)
    known[third.edit] = "nobody can tell"
    code, said = told(2)
    assert code == 0
    assert "equivalent ConfigFile.tla:" in said
    assert "1 of 2 noticed, 1 equivalent, 0 survived: 100%" in said


def test_what_is_explained_stands_in_its_module() -> None:
    for (module, line, becomes), why in explained().items():
        lines = [plain(text) for text in (TLA / f"{module}.tla").read_text().splitlines()]
        for each in line.splitlines():
            assert each in lines, f"{noticing.EXPLAINED.name}: {module}.tla has no line: {each}"
        assert becomes != line
        assert why


def test_an_explanation_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "equivalent.toml"
    file.write_text("[[mutant]]\nmodule = 'Well'\nline = 'a'\nbecomes = 'b'\nwhy = 'so'\n")
    assert explained(file) == {("Well", "a", "b"): "so"}
