"""A night runs all stages whatever falls, says what fell, and is not longer than it may be."""

from __future__ import annotations

from pathlib import Path

import pytest
from by_night import BY_NIGHT, one_in

import nightly
from nightly import SEED, STAGES, Stage, main


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(nightly, "FOLDER", tmp_path)
    return tmp_path


def says(name: str, code: str, minutes: float = 1) -> Stage:
    return Stage(name, ("-c", code, SEED), minutes)


def test_the_night_ends_well_where_all_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "5"], [says("one", "pass"), says("two", "pass")]) == 0
    assert "0 of 2 stages fell" in capsys.readouterr().out


def test_what_fell_is_told_and_the_rest_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fails = says("one", "import sys; print('seed', sys.argv[1]); sys.exit('it is broken')")
    assert main(["--seed", "5"], [fails, says("two", "print('fine')")]) == 1
    said = capsys.readouterr().out
    assert "one: exit code 1" in said
    assert "two: ok" in said
    assert "    seed 5\n    it is broken" in said
    assert "run.py nightly --seed 5 --only one" in said
    assert (folder / "two.log").read_text() == "fine\n"
    assert (folder / "report.md").read_text() in said


def test_a_stage_that_does_not_end_falls() -> None:
    waits = says("one", "import threading; threading.Event().wait()", minutes=1 / 60)
    assert main([], [waits]) == 1


def test_one_stage_runs_alone(folder: Path) -> None:
    assert main(["--only", "two"], [says("one", "1 / 0"), says("two", "pass")]) == 0
    assert not (folder / "one.log").exists()


def test_an_unknown_stage_is_told() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--only", "no such"])
    assert ended.value.code == 2


def test_a_night_has_three_hours() -> None:
    assert sum(stage.minutes for stage in STAGES) <= 180


def test_what_a_stage_runs_is_there() -> None:
    for stage in STAGES:
        files = [word for word in stage.words if word.startswith("tests/")]
        assert files or stage.words[:2] == ("-m", "mqspec.cli")
        assert all((nightly.ROOT / file).exists() for file in files)


def test_of_like_tests_the_first_of_so_many_is_no_work_of_the_night(
    pytestconfig: pytest.Config,
) -> None:
    cases = one_in(3, "abcdefg")
    later = [pytest.param(case, marks=BY_NIGHT) for case in "bcef"]
    assert cases == ["a", later[0], later[1], "d", later[2], later[3], "g"]
    assert "not by_night" in pytestconfig.getini("addopts")


def test_the_night_runs_what_a_change_leaves_out() -> None:
    (stage,) = (stage for stage in STAGES if "by_night" in stage.words)
    assert stage.words[stage.words.index("by_night") - 1] == "-m"
