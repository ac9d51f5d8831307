"""run.py makes .venv of a Python that is built well, and of none that cannot serve."""

import fcntl
import importlib.util
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
MINOR = sys.version_info[1]


@pytest.fixture
def run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("run", ROOT / "run.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_is_asked_for_is_locked() -> None:
    """The set-up installs what is locked, and nothing else."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.split(r"[^\w-]", each)[0].lower() for each in asked} - {"mqspec"}
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = set(re.findall(r"^([\w-]+)==", lock, re.MULTILINE))
    assert names
    assert names <= locked


def test_every_package_says_that_it_has_types() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert packages
    assert [each for each in packages if not (ROOT / each / "py.typed").is_file()] == []


def test_the_workflow_runs_jobs_that_there_are(run: ModuleType) -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    asked = set(re.findall(r"run\.py (\w+)", workflow))
    asked |= set(re.search(r"command: \[(.*)\]", workflow)[1].split(", "))  # type: ignore[index]
    assert asked == {"test", "verify", "docs", "pdf", "nightly"}
    assert asked <= run.JOBS.keys()


def on_the_path(home: Path, monkeypatch: pytest.MonkeyPatch, answers: str) -> str:
    """The only python3 on the PATH: it prints `answers` whatever it is asked."""
    python = home / "python3"
    python.write_text(f"#!/bin/sh\necho '{answers}'\n")
    python.chmod(0o755)
    monkeypatch.setenv("PATH", str(home))
    return str(python)


def test_a_better_built_python_of_the_same_version_is_taken(
    run: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    better = str(tmp_path / "python3")
    on_the_path(tmp_path, monkeypatch, f"3 {MINOR} 0.0000001 {better}")
    assert run.best_built() == better
    said = capsys.readouterr().out
    assert better in said
    assert sys.executable in said


@pytest.mark.parametrize(
    "answers",
    [f"3 {MINOR + 1} 0.0000001 /another", f"3 {MINOR} 1000 /slower", "no module ensurepip", ""],
)
def test_no_other_is_taken(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: str
) -> None:
    on_the_path(tmp_path, monkeypatch, answers)
    assert run.best_built() == sys.executable


def test_what_is_no_program_is_passed_over(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(on_the_path(tmp_path, monkeypatch, "")).write_text("#!/nowhere/sh\n")
    assert run.best_built() == sys.executable


def test_as_good_as_this_one_is_not_better(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = on_the_path(tmp_path, monkeypatch, "")
    seconds = {sys.executable: 1.0, other: 0.95}
    monkeypatch.setattr(run, "probe", lambda python: (python, seconds[python]))
    assert run.best_built() == sys.executable
    seconds[other] = 0.85
    assert run.best_built() == other


def test_a_python_that_cannot_make_an_environment_gives_way(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = on_the_path(tmp_path, monkeypatch, f"3 {MINOR} 1000 {tmp_path / 'python3'}")
    real = run.probe
    monkeypatch.setattr(run, "probe", lambda p: None if p == sys.executable else real(p))
    assert run.best_built() == other


def test_who_sets_up_holds_the_lock(
    run: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another one that began meanwhile would remove what this one has so far. It waits, and then
    finds that all is done."""
    monkeypatch.setattr(run, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(run, "STAMP", tmp_path / "stamp")
    installed: list[str] = []

    def install(wanted: str) -> None:
        with run.LOCK.open("w") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        installed.append(wanted)
        run.STAMP.write_text(wanted)

    monkeypatch.setattr(run, "install", install)
    seen = iter((False, True))  # before the lock, and once it was got
    with monkeypatch.context() as late:
        late.setattr(run, "is_set_up", lambda _: next(seen))
        run.set_up()
    assert not installed
    run.set_up()
    run.set_up()
    assert installed == [run.state()]


@pytest.fixture
def ran(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that run.py runs once all is set up, none of which is run."""
    commands: list[list[str]] = []

    def note(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        commands.append([str(word) for word in command[1:]])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(run, "set_up", lambda: None)
    monkeypatch.setattr(run.subprocess, "run", note)
    return commands


def test_tests_that_are_named_run_alone(
    run: ModuleType, ran: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "test", "tests/core/test_lock.py", "-k", "expires"])
    assert run.main() == 0
    assert len(ran) == 1
    assert "pytest" in ran[0]
    assert ran[0][-3:] == ["tests/core/test_lock.py", "-k", "expires"]


def test_the_whole_test_job_has_the_linters_first(
    run: ModuleType, ran: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "test"])
    assert run.main() == 0
    assert [command[1] for command in ran[:2]] == ["ruff", "ruff"]
    assert "mypy" in ran[3]
    assert "pytest" in ran[-1]
