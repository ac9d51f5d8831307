"""Mutants are made alike for a seed, tried on a copy, and killed by what runs their line alone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
import trial
from contexts import (
    CASES,
    CONSTANTS,
    PATHS,
    TESTS,
    Ran,
    Recording,
    mirror_of,
    read_results,
    statement,
    unrecorded,
)
from coverage import CoverageData
from mutation import Mutant, sample
from trial import Copy, Fate, copy_of

import mutants

SOURCE = '''\
"""A module whose number nobody checks."""
from __future__ import annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    LIMIT = 1 + 1


@dataclass(frozen=True)
class Span:
    begin: int | None = None


def larger(a: int | float, b: int) -> int | float:
    return a if a > b else b


def unchecked() -> int:
    return 7


def down(n: int) -> int:
    while n > 0:
        n -= 1
    return n
'''
CHECKS = """\
from toy import down, larger, unchecked

def test_larger():
    assert larger(1, 2) == 2
    assert larger(2, 1) == 2

def test_unchecked():
    unchecked()

def test_broken():
    assert unchecked() == 8

def test_down():
    assert down(3) == 0
"""
MODULE, FILE = "reference/toy.py", "tests/test_toy.py"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one module, and tests of which one fails as it is."""
    root = tmp_path_factory.mktemp("tree")
    for name, text in ((MODULE, SOURCE), (FILE, CHECKS)):
        (root / name).parent.mkdir()
        (root / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


@pytest.fixture(scope="module")
def copy(tree: Path) -> Iterator[Copy]:
    with copy_of(tree) as made:
        yield made


def mutant(old: str, new: str) -> Mutant:
    line = SOURCE.count("\n", 0, SOURCE.index(old)) + 1
    return Mutant(MODULE, line, "by hand", SOURCE, SOURCE.replace(old, new))


def recording(tree: Path, lines: Mapping[str, list[int]], **ran: bool) -> Recording:
    """Who runs which lines of the module; all pass but for those that are said not to."""
    data = CoverageData(no_disk=True)
    for context, its in lines.items():
        data.set_context(context)
        data.add_lines({str(tree / MODULE): its})
    names = {context.partition("|")[0].partition("[")[0] for context in lines} - {""}
    return Recording(
        TESTS,
        data,
        {name: Ran(ran.get(name.partition("::")[2], True), 0.1) for name in names},
    )


def judged(copy: Copy, tree: Path, made: Mutant, *tests: str) -> Fate:
    return copy.judge(
        made, [recording(tree, {f"{FILE}::{t}|run": [made.line] for t in tests})], tree
    )


def test_a_seed_makes_the_same_mutants_each_time(tree: Path) -> None:
    first = list(sample(tree, [MODULE], seed=1, number=4))
    assert first == list(sample(tree, [MODULE], seed=1, number=4))
    assert first != list(sample(tree, [MODULE], seed=2, number=4))
    assert len(first) == 4


def test_each_mutant_is_of_another_place_that_decides_something(tree: Path) -> None:
    made = list(sample(tree, [MODULE], seed=1, number=1_000))
    texts = [each.mutated for each in made]
    assert len(set(texts)) == len(texts)
    lines = {each.source.splitlines()[each.line - 1].strip() for each in made}
    assert lines == {"return a if a > b else b", "return 7", "while n > 0:", "n -= 1"}


def test_an_exception_that_is_named_with_its_module_ends_no_sample(tmp_path: Path) -> None:
    """cosmic-ray can replace the module's name, and falls over the other."""
    source = "import json\n\ntry:\n    n = 7\nexcept json.JSONDecodeError:\n    n = 8\n"
    (tmp_path / "toy.py").write_text(source)
    assert sorted(each.line for each in sample(tmp_path, ["toy.py"], 1, 100)) == [4, 5, 6]


def test_no_mutant_compares_by_identity(tree: Path) -> None:
    for seed in range(30):
        for each in sample(tree, [MODULE], seed, 1_000):
            assert " is " not in each.mutated


def test_a_mutant_is_killed_by_the_test_that_fails_of_it(tree: Path, copy: Copy) -> None:
    fate = judged(copy, tree, mutant("a > b", "a < b"), "test_unchecked", "test_larger")
    assert fate.killed_by == f"tests: {FILE}::test_larger"
    assert (tree / MODULE).read_text() == (copy.root / MODULE).read_text() == SOURCE


def test_a_mutant_that_nothing_notices_survives(tree: Path, copy: Copy) -> None:
    fate = judged(copy, tree, mutant("return 7", "return 6"), "test_unchecked")
    assert (fate.killed_by, fate.tried) == ("", 1)


def test_a_test_that_fails_without_the_mutant_kills_nothing(tree: Path, copy: Copy) -> None:
    fate = judged(copy, tree, mutant("return 7", "return 6"), "test_broken", "test_unchecked")
    assert not fate.killed_by


def test_a_test_after_one_that_always_fails_still_kills(tree: Path, copy: Copy) -> None:
    fate = judged(copy, tree, mutant("a > b", "a < b"), "test_broken", "test_larger")
    assert fate.killed_by == f"tests: {FILE}::test_larger"


def test_a_mutant_that_does_not_end_is_killed(
    tree: Path, copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "LEAST_S", 15.0)
    fate = judged(copy, tree, mutant("n -= 1", "n -= 0"), "test_down")
    assert fate.killed_by == f"tests: {FILE}::test_down"


def test_a_mutant_that_cannot_be_imported_is_killed(tree: Path, copy: Copy) -> None:
    fate = judged(copy, tree, mutant("def larger", "x = 1 / 0\ndef larger"), "test_unchecked")
    assert fate.killed_by


def test_a_test_that_does_not_exist_kills_nothing(tree: Path, copy: Copy) -> None:
    assert not judged(copy, tree, mutant("return 7", "return 6"), "test_no_such").killed_by


def test_whoever_runs_a_line_meets_it(tree: Path) -> None:
    found = recording(
        tree,
        {
            "": [10, 11, 12],
            f"{FILE}::test_larger[1-2]|run": [16],
            f"{FILE}::test_unchecked|setup": [20],
            f"{FILE}::test_down|run": [24, 25],
            f"{FILE}::test_broken|run": [16],
        },
        test_broken=False,
    )
    everyone = {f"{FILE}::test_{name}" for name in ("larger", "unchecked", "down")}
    module = tree / MODULE
    assert found.meeting(module, [16]) == [f"{FILE}::test_larger"]
    assert set(found.meeting(module, [20])) == everyone  # they share what was set up
    assert set(found.meeting(module, [11])) == everyone  # which runs on import
    assert found.meeting(tree / "reference/other.py", [1]) == []


def test_whoever_compares_constants_meets_what_runs_on_import(tree: Path) -> None:
    compares = {f"{file}::test_x" for file in (*CONSTANTS, mirror_of(tree / MODULE))}
    lines = {"": [11], f"{FILE}::test_larger|run": [16]} | {f"{x}|run": [] for x in compares}
    found = recording(tree, lines)
    module = tree / MODULE
    assert found.meeting(module, [16]) == [f"{FILE}::test_larger"]
    assert set(found.meeting(module, [11])) == {f"{FILE}::test_larger"} | compares


@pytest.mark.parametrize(
    ("line", "lines"),
    [(1, [1]), (3, [2, 3]), (2, [2, 3]), (4, [4, 5, 6]), (6, [4, 5, 6]), (7, [7])],
)
def test_a_place_within_a_statement_is_of_its_lines(line: int, lines: list[int]) -> None:
    source = "def f(a):\n    if (a and\n        not a):\n        return [\n1,\n]\n    return 0\n"
    assert list(statement(source, line)) == lines


def test_a_function_with_parameters_passes_where_all_of_it_does(tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    file.write_text(
        '<testsuites><testsuite><testcase classname="tests.test_a" name="test_x[1]" time="1"/>'
        '<testcase classname="tests.test_a" name="test_x[2]" time="2"><failure/></testcase>'
        '<testcase classname="tests.test_a" name="test_y" time="3"/></testsuite></testsuites>'
    )
    assert read_results(file) == {
        "tests/test_a.py::test_x": Ran(False, 3.0),
        "tests/test_a.py::test_y": Ran(True, 3.0),
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--number", "0"], "--number is at least 1, not 0"),
        (["no/such/folder"], "no/such/folder is no Python file or folder of this tree"),
        (["README.md"], "README.md is no Python file or folder of this tree"),
        (["/etc"], "/etc is no Python file or folder of this tree"),
    ],
)
def test_bad_arguments_are_told_in_a_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        mutants.main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_survivor_that_is_not_explained_fails_the_run(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = Fate(mutant("a > b", "a < b"), "tests: x", 1, 1)
    survivor = Fate(mutant("return 7", "return 6"), "", 1, 0)
    assert mutants.summary([killed], {}) == 0
    assert mutants.summary([killed, survivor], {(MODULE, "return 7", "return 6"): "why"}) == 0
    assert mutants.summary([killed, survivor], {(MODULE, "return 7", "return 5"): "why"}) == 1
    said = capsys.readouterr().out
    assert f"{MODULE}:20" in said
    assert "1 of 2 killed, 0 equivalent, 1 survived" in said


def test_a_run_that_is_cut_off_goes_on_where_it_was(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = drawn = [
        mutant("a > b", "a < b"),
        mutant("return 7", "return 6"),
        mutant("n > 0", "n > 1"),
    ]
    judged: list[Mutant] = []
    cut_off_at = [second]

    def judge(self: Copy, one: Mutant, *_: object) -> Fate:
        judged.append(one)
        if one in cut_off_at:
            raise KeyboardInterrupt
        return Fate(one, "cases: x" if one is first else "", 1, 1)

    def run(*words: str, state: str = "a") -> list[Mutant]:
        judged.clear()
        monkeypatch.setattr(mutants, "state", lambda *_: state)
        arguments = ["--suite", "--jobs", "1", "--keep", str(tmp_path / "kept.json"), *words]
        with suppress(KeyboardInterrupt):
            mutants.main(arguments)
        return list(judged)

    monkeypatch.setattr(mutants, "recorded", lambda *_: None)
    monkeypatch.setattr(mutants, "is_seen", lambda *_: True)
    monkeypatch.setattr(mutants, "sample", lambda *_: iter(drawn))
    monkeypatch.setattr(mutants, "copy_of", lambda _: nullcontext(Copy.__new__(Copy)))
    monkeypatch.setattr(Copy, "judge_by_suite", judge)

    assert run()[:2] == [first, second]  # the third may have begun
    cut_off_at.clear()
    assert run() == [second, third]
    assert run("--seconds", "20") == []
    assert run("--seconds", "200") == [second, third]  # explored for longer: who survived
    assert run("--seconds", "200") == []
    assert run("--seconds", "200", state="b") == drawn  # another tree


def test_what_is_run_and_what_is_mutated_is_there() -> None:
    paths = [path for kind in PATHS.values() for path in kind]
    assert [path for path in (*paths, *mutants.DECIDES) if not (mutants.ROOT / path).exists()] == []


def test_all_cases_of_a_file_meet_what_their_server_runs(tree: Path) -> None:
    data = CoverageData(no_disk=True)
    data.set_context("cases/test_lock.py|setup")
    data.add_lines({str(tree / MODULE): [16]})
    ran = {
        "cases/test_lock.py::test_a": Ran(True, 1),
        "cases/test_lock.py::test_b": Ran(False, 1),  # as it is: it cannot judge
        "cases/test_pull.py::test_c": Ran(True, 1),
    }
    found = Recording(CASES, data, ran).meeting(tree / MODULE, [16])
    assert found == ["cases/test_lock.py::test_a"]


def test_a_file_of_which_nothing_was_recorded_is_told() -> None:
    ran = ["cases/test_a.py::test_x", "cases/test_a.py::test_y", "cases/test_b.py::test_x"]
    assert unrecorded(ran, ["cases/test_a.py|setup"]) == ["cases/test_b.py"]
    assert unrecorded(ran, ["cases/test_a.py|setup", "cases/test_b.py|setup"]) == []


def test_what_is_explained_stands_in_its_file() -> None:
    for (path, line, becomes), why in mutants.explained(mutants.EXPLAINED, mutants.UNSEEN).items():
        lines = (mutants.ROOT / path).read_text(encoding="utf-8").splitlines()
        assert line in map(str.strip, lines), f"{path} has no line: {line}"
        assert becomes != line
        assert why
