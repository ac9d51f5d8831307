"""Mutants are judged from outside: by what their servers answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import trial
from contexts import CASES, Ran, Recording
from coverage import CoverageData
from mutation import Mutant
from servers import explored
from trial import Copy, copy_of

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


def nobody_runs_it() -> Recording:
    return Recording(CASES, CoverageData(no_disk=True), {})


def test_a_mutant_that_no_case_runs_is_noticed_by_exploration(copy: Copy) -> None:
    fate = copy.judge_by_suite(mutant("True"), nobody_runs_it(), mutants.ROOT, 60, seed=1)
    assert fate.killed_by.startswith("exploration: locks: ")
    assert (copy.root / LOCK).read_text(encoding="utf-8") == fate.mutant.source


def test_servers_that_do_not_start_are_noticed(copy: Copy) -> None:
    broken = dataclasses.replace(mutant("True"), mutated="raise SystemExit")
    fate = copy.judge_by_suite(broken, nobody_runs_it(), mutants.ROOT, 1, seed=1)
    assert fate.killed_by == "exploration: its servers do not start"


def test_a_tree_without_a_mutant_is_not_noticed(copy: Copy) -> None:
    assert explored(copy.root, copy.environment(), 5, seed=1) == ""


def test_cases_are_asked_before_anybody_explores(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quickest file first; what fails without the mutant too has noticed nothing."""
    names = ["cases/test_slow.py::test_a", "cases/test_quick.py::test_b"]
    ran = {names[0]: Ran(True, 9.0), names[1]: Ran(True, 1.0)}
    asked: list[list[str]] = []

    def failing(self: Copy, recording: Recording, those: list[str]) -> str:
        asked.append(list(those))
        is_mutated = "True" in (self.root / LOCK).read_text(encoding="utf-8").split("given_up")[1]
        return those[0] if is_mutated or those == names[1:] else ""

    monkeypatch.setattr(Copy, "_failing", failing)
    monkeypatch.setattr(Recording, "meeting", lambda *_: list(names))
    monkeypatch.setattr(trial, "explored", lambda *_: "")
    recording = Recording(CASES, CoverageData(no_disk=True), ran)
    fate = copy.judge_by_suite(mutant("True"), recording, mutants.ROOT, 1, seed=1)
    assert fate.killed_by == f"cases: {names[0]}"
    assert asked == [names[1:], names[1:], names[:1], names[:1]]


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


def test_only_what_somebody_runs_is_seen() -> None:
    data = CoverageData(no_disk=True)
    one = mutant("True")
    data.set_context("cases/test_lock.py|setup")
    data.add_lines({str(mutants.ROOT / LOCK): [one.line]})
    ran = {"cases/test_lock.py::test_a": Ran(True, 1.0)}
    assert mutants.is_seen(one, Recording(CASES, data, ran))
    assert not mutants.is_seen(one, nobody_runs_it())
