"""Mutants are judged from outside: by what their servers answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trial
from contexts import AREAS, CASES, Ran, Recording, reached
from coverage import CoverageData
from mutation import Mutant
from servers import explored
from trial import Copy, _in_turn, copy_of

import mutants

LOCK = "reference/mqspec/core/lock.py"
GIVEN_UP = "locks[mq].client_id == event.client_id"


@pytest.fixture(scope="module")
def copy() -> Iterator[Copy]:
    with copy_of(mutants.ROOT) as made:
        yield made


def mutant(becomes: str) -> Mutant:
    """Of who may give a queue up."""
    source = (mutants.ROOT / LOCK).read_text(encoding="utf-8")
    line = next(n for n, text in enumerate(source.splitlines(), 1) if GIVEN_UP in text)
    return Mutant(LOCK, line, "made-up", source, source.replace(GIVEN_UP, becomes))


def nobody_runs_it(kind: str = CASES) -> Recording:
    return Recording(kind, CoverageData(no_disk=True), {})


NOBODY = nobody_runs_it(), nobody_runs_it(AREAS)


def ran_by(path: Path, lines: dict[str, list[int]], kind: str = CASES) -> Recording:
    """Who runs which lines of a file, in a second each."""
    data = CoverageData(no_disk=True)
    for context, of_file in lines.items():
        data.set_context(context)
        data.add_lines({str(path): of_file})
    names = (context.partition("|")[0] for context in lines)
    functions = {name + ("::test_a" if kind == CASES else ""): Ran(True, 1.0) for name in names}
    return Recording(kind, data, functions)


def test_a_mutant_that_no_case_runs_is_noticed_by_exploration(copy: Copy) -> None:
    fate = copy.judge_by_suite(mutant("True"), NOBODY, mutants.ROOT, 60, seed=1)
    assert fate.killed_by.startswith("exploration: locks: ")
    assert (copy.root / LOCK).read_text(encoding="utf-8") == fate.mutant.source


def test_servers_that_do_not_start_are_noticed(copy: Copy) -> None:
    broken = dataclasses.replace(mutant("True"), mutated="raise SystemExit")
    fate = copy.judge_by_suite(broken, NOBODY, mutants.ROOT, 1, seed=1)
    assert fate.killed_by == "exploration: its servers do not start"


def test_a_tree_without_a_mutant_is_not_noticed(copy: Copy) -> None:
    assert explored(copy.root, copy.environment(), 5, 1, ["locks", "kv"]) == ""


def test_cases_are_asked_before_anybody_explores(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the nearest file first; what fails without the mutant too has noticed nothing."""
    near, far = "cases/test_near.py::test_a", "cases/test_far.py::test_a"
    asked: list[list[str]] = []

    def failing(self: Copy, recording: Recording, those: list[str]) -> str:
        asked.append(list(those))
        is_mutated = "True" in (self.root / LOCK).read_text(encoding="utf-8").split("given_up")[1]
        return those[0] if is_mutated or those == [near] else ""

    monkeypatch.setattr(Copy, "_failing", failing)
    one, alone = mutant("True"), 1
    lines = {
        "cases/test_far.py|setup": [one.line],
        "cases/test_near.py|setup": [one.line, alone],
    }
    recordings = ran_by(mutants.ROOT / LOCK, lines), nobody_runs_it(AREAS)
    fate = copy.judge_by_suite(one, recordings, mutants.ROOT, 1, seed=1)
    assert fate.killed_by == f"cases: {far}"
    assert asked == [[near], [near], [far], [far]]


def test_what_waits_for_long_is_asked_last() -> None:
    names = [
        "cases/test_lock.py::test_a_lock_that_is_not_renewed_goes_to_the_next",
        "cases/b.py::b",
    ]
    assert list(_in_turn(nobody_runs_it(), Path(LOCK), names)) == [names[1:], names[:1]]


def test_the_areas_that_run_the_line_are_explored(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, told = mutant("True"), list[list[str]]()

    def explored_these(*args: Any) -> str:
        told.append(args[-1])
        return ""

    monkeypatch.setattr(trial, "explored", explored_these)
    areas = ran_by(mutants.ROOT / LOCK, {"locks": [one.line], "kv": [1]}, AREAS)
    fate = copy.judge_by_suite(one, (nobody_runs_it(), areas), mutants.ROOT, 1, seed=1)
    assert (fate.killed_by, told) == ("", [["locks"]])


def test_a_case_that_fails_kills_whatever_the_suite_exits_with(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is 0 where only rules that are no MUST are broken."""
    name = "cases/test_lock.py::test_a"

    def run(self: Copy, *_: object) -> int:
        is_mutated = "True" in (self.root / LOCK).read_text(encoding="utf-8").split("given_up")[1]
        failure = "<failure/>" if is_mutated else ""
        case = f'<testcase classname="cases.test_lock" name="test_a">{failure}</testcase>'
        self._results.write_text(f"<testsuite>{case}</testsuite>", encoding="utf-8")
        return 0

    monkeypatch.setattr(Copy, "_run", run)
    monkeypatch.setattr(Recording, "meeting", lambda *_: [name])
    recording = Recording(CASES, CoverageData(no_disk=True), {name: Ran(True, 1.0)})
    assert copy.judge(mutant("True"), [recording], mutants.ROOT).killed_by == f"cases: {name}"
    assert not copy.judge(mutant(GIVEN_UP), [recording], mutants.ROOT).killed_by


def test_what_is_imported_shows_where_its_module_runs() -> None:
    source = "LIMIT = 2\n\ndef f(n):\n    return n < LIMIT\n"
    assert list(reached(source, 1)) == [4]
    assert list(reached(source, 3)) == [4]  # a default is evaluated then, too
    assert list(reached(source, 4)) == [4]
    assert list(reached("LIMIT = 2\n", 1)) == [1]


def test_only_what_somebody_runs_is_seen() -> None:
    one = mutant("True")
    assert mutants.is_seen(one, ran_by(mutants.ROOT / LOCK, {"cases/a.py|setup": [one.line]}))
    assert not mutants.is_seen(one, nobody_runs_it())
