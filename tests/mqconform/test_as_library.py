"""The suite as a pytest plugin in somebody's repository: from the built wheel, in an environment
with what the conformance extra asks for and nothing else of ours."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from mqconform.reference import Reference

ROOT: Final = Path(__file__).parents[2]
CASES: Final = "a_lock_fences_nobody_off or a_topic_that_may_not_be_read"
INI: Final = """[pytest]
addopts = -p mqconform.plugin --mqspec-nameserver {nameserver} --pyargs mqconform.cases
"""


def needed(name: str, extras: frozenset[str], seen: set[str]) -> Iterator[Distribution]:
    """What a distribution needs with some of its extras, and what that needs, each once."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            continue
        if requirement.name.lower() in seen:
            continue
        seen.add(requirement.name.lower())
        yield distribution(requirement.name)
        yield from needed(requirement.name, frozenset(requirement.extras), seen)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment that knows the wheel and the extra. What the extra asks for is linked from
    the environment of these tests, so that no network is needed."""
    folder = tmp_path_factory.mktemp("somebody")
    build = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    subprocess.run([*build, *offline, str(ROOT)], check=True, timeout=300)
    (wheel,) = folder.glob("mqspec-*.whl")

    venv.create(folder / "env", symlinks=True)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    for found in needed("mqspec", frozenset({"conformance"}), set()):
        for top in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            link = site / top
            if not link.exists() and top != "__pycache__":
                link.symlink_to(Path(str(found.locate_file(top))))
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    into = ["--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run([*install, *into], check=True, timeout=300)
    return folder / "env" / "bin" / "python"


def run_pytest(python: Path, project: Path, nameserver: str) -> subprocess.CompletedProcess[str]:
    (project / "pytest.ini").write_text(INI.format(nameserver=nameserver), encoding="utf-8")
    command = [str(python), "-m", "pytest", "-q", "-k", CASES]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300)


def test_two_lines_run_the_suite(python: Path, tmp_path: Path) -> None:
    with Reference(tmp_path) as target:
        done = run_pytest(python, tmp_path, str(target.nameserver))
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_nothing_of_ours_but_the_wheel_is_seen(python: Path) -> None:
    code = "import mqconform; print(mqconform.__file__); import mqcheck.tlc, z3"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert str(ROOT) not in done.stdout
    assert "No module named 'z3'" in done.stderr or "No module named 'py4j'" in done.stderr


def test_where_nobody_listens_one_line_says_so(python: Path, tmp_path: Path) -> None:
    done = run_pytest(python, tmp_path, "127.0.0.1:1")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "127.0.0.1:1" in done.stderr
