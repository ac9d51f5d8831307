"""Which tests, replays and cases run a line, recorded once for a tree and kept.

Each kind of check is run once, on the tree as it is, with coverage noting who ran what. What
fails then cannot judge a mutant, and is left out.
"""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from coverage import Coverage, CoverageData

from mqconform.explore.areas import NAMES

MEASURED = "reference/mqspec"
TESTS, REPLAYS, CASES, AREAS = "tests", "replays", "cases", "areas"
CONSTANTS = ("tests/core/test_constants.py", "tests/core/test_defaults.py")

# What is run for each kind, the quickest kind first.
PATHS: Mapping[str, tuple[str, ...]] = {
    TESTS: (
        "tests/core",
        "tests/fast",
        "tests/broker",
        "tests/nameserver",
        "tests/client",
        "tests/service",
        "tests/store",
        "tests/wire",
        "tests/fuzz",
    ),
    REPLAYS: (
        "tests/mqcheck/test_replay.py",
        "tests/mqcheck/test_behaviours.py",
        "tests/mqcheck/test_worlds.py",
        "tests/mqcheck/test_trace.py",
    ),
    CASES: ("conformance/mqconform", "spec/mqrules"),
    AREAS: ("conformance/mqconform", "spec/mqrules"),
}
OF_SUITE = (CASES, AREAS)
EXPLORED_S = 20  # of each area, to see what it runs

# Servers are processes of their own, which coverage follows by this file; they end by a signal.
_SERVERS = """\
[run]
source_pkgs = mqspec
parallel = true
sigterm = true
data_file = {data}
context = {name}
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """How one test or case ended."""

    passed: bool
    seconds: float


@dataclass(frozen=True)
class Recording:
    """Who runs which line, of one kind of check."""

    kind: str
    data: CoverageData
    ran: Mapping[str, Ran]

    def meeting(self, path: Path, lines: Iterable[int]) -> list[str]:
        """Whoever runs one of these lines, the quickest first.

        What runs when a module is imported is run by nobody in particular: all count that run
        anything of the module, its own tests, and those that compare constants, which may run
        nothing of it.
        """
        by_line = self.data.contexts_by_lineno(str(path))
        names = {name for line in lines for name in self._names(by_line.get(line, ()))}
        if not names:
            names = {name for found in by_line.values() for name in self._names(found)}
            names.update(*(self._by_file.get(file, ()) for file in (*CONSTANTS, mirror_of(path))))
        return sorted(names, key=lambda name: self.ran[name].seconds)

    def runs(self, path: Path, lines: Iterable[int]) -> bool:
        """Whether anybody runs one of these lines, when its module is there already."""
        by_line = self.data.contexts_by_lineno(str(path))
        return any(True for line in lines for _ in self._names(by_line.get(line, ())))

    def nearest(self, path: Path, names: Iterable[str]) -> list[list[str]]:
        """The same names by their files: first those files that run most of what few others run
        of the module. A broker runs much of itself, whatever it is asked."""
        files: dict[str, list[str]] = {}
        for name in names:
            files.setdefault(name.partition("::")[0], []).append(name)
        share = dict.fromkeys(files, 0.0)
        for contexts in self.data.contexts_by_lineno(str(path)).values():
            running = {context.partition("::")[0].partition("|")[0] for context in contexts}
            for file in running & share.keys():
                share[file] += 1 / len(running)
        return [files[file] for file in sorted(files, key=lambda file: -share[file])]

    def _names(self, contexts: Iterable[str]) -> Iterable[str]:
        for context in contexts:
            name, _, phase = context.partition("|")
            if phase == "setup":  # of a fixture that all tests of the file may share
                yield from self._by_file.get(name.partition("::")[0], ())
            elif (function := name.partition("[")[0]) in self._passing:
                yield function

    @cached_property
    def _passing(self) -> set[str]:
        return {name for name, ran in self.ran.items() if ran.passed}

    @cached_property
    def _by_file(self) -> Mapping[str, list[str]]:
        files: dict[str, list[str]] = {}
        for name in self._passing:
            files.setdefault(name.partition("::")[0], []).append(name)
        return files


def mirror_of(module: Path) -> str:
    """The file of tests that mirrors a module."""
    return f"tests/{module.parent.name}/test_{module.stem}.py"


def recorded(root: Path, kind: str, folder: Path) -> Recording:
    """What was recorded of this tree, or is now; it takes some minutes."""
    place = folder / f"{kind}-{state(root, kind)}"
    data = place / "coverage"
    if not (place / "whole").exists():
        place.mkdir(parents=True, exist_ok=True)
        print(f"recording who runs what: {kind} …", flush=True)
        {CASES: _record_cases, AREAS: _record_areas}.get(kind, _record_tests)(root, kind, data)
        (place / "whole").touch()
    results = [read_results(file) for file in sorted(place.glob("*.xml"))]
    ran = {name: each for found in results for name, each in found.items()}
    if kind == AREAS:
        ran = dict.fromkeys(NAMES, Ran(True, EXPLORED_S))
    kept = CoverageData(str(data))
    kept.read()
    lost = unrecorded(ran, kept.measured_contexts()) if kind == CASES else []
    if lost:
        raise SystemExit(f"mutants: nothing was recorded of {', '.join(lost)}: remove {place}")
    return Recording(kind, kept, ran)


def state(root: Path, *kinds: str) -> str:
    """What is mutated and what judges it there, as a name: another where one of them changes."""
    return _digest(root, MEASURED, *(path for kind in kinds for path in PATHS[kind]))


def unrecorded(ran: Iterable[str], contexts: Iterable[str]) -> list[str]:
    """The files of which something ran and nothing was recorded: a server that is killed writes
    down nothing, and its cases would kill no mutant."""
    known = {context.partition("::")[0].partition("|")[0] for context in contexts}
    return sorted({name.partition("::")[0] for name in ran} - known)


def _record_tests(root: Path, kind: str, data: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile"]
    command += ["-p", "no:cacheprovider", f"--junitxml={data.parent / 'results.xml'}"]
    command += ["--cov=mqspec", "--cov-context=test", "--cov-report=", *PATHS[kind]]
    subprocess.run(command, cwd=root, env=os.environ | {"COVERAGE_FILE": str(data)})


def _record_cases(root: Path, kind: str, data: Path) -> None:
    place = data.parent
    for file in sorted((root / PATHS[kind][0] / "cases").glob("test_*.py")):
        # Cases share their servers, as tests what is set up for them.
        command = conform(file.stem, place / f"{file.stem}.xml", place / "history")
        _record_servers(root, place, f"cases/{file.name}|setup", command)
    Coverage(data_file=str(data)).combine([str(each) for each in place.glob("part.*")])


def _record_areas(root: Path, kind: str, data: Path) -> None:
    for area in NAMES:
        words = ["--explore", f"{EXPLORED_S}s", "--area", area, "--seed", "1"]
        command = [sys.executable, "-m", "mqspec.cli", "conform", "reference", *words]
        _record_servers(root, data.parent, area, command)
    Coverage(data_file=str(data)).combine([str(each) for each in data.parent.glob("part.*")])


def _record_servers(root: Path, place: Path, context: str, command: Sequence[str]) -> None:
    """Run a command, and note under a context what its servers run."""
    settings = place / "servers.ini"
    settings.write_text(_SERVERS.format(data=place / "part", name=context))
    env = os.environ | {"COVERAGE_PROCESS_START": str(settings)}
    subprocess.run(command, cwd=root, env=env, stdout=subprocess.DEVNULL)


def conform(cases: str, results: Path, history: Path) -> list[str]:
    """The command that runs cases against the reference."""
    command = [sys.executable, "-m", "mqspec.cli", "conform", "reference", "-k", cases]
    return [*command, "--junit", str(results), "--history", str(history)]


def read_results(file: Path) -> dict[str, Ran]:
    """How each function of tests in a file of JUnit's form ended: tests with parameters as one.

    Raises FileNotFoundError or ElementTree.ParseError where the run was cut off.
    """
    found: dict[str, Ran] = {}
    for case in ElementTree.parse(file).iter("testcase"):
        function = case.get("name", "").partition("[")[0]
        name = f"{case.get('classname', '').replace('.', '/')}.py::{function}"
        failed = any(case.find(tag) is not None for tag in ("failure", "error"))
        before = found.get(name, Ran(True, 0))
        seconds = before.seconds + float(case.get("time", 0))
        found[name] = Ran(before.passed and not failed, seconds)
    return found


def statement(source: str, line: int) -> range:
    """The lines of the smallest statement around a line; of one with a body, its head."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            body = getattr(node, "body", None)
            end = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
            if line < max(end, node.lineno + 1):
                found = range(node.lineno, max(end, node.lineno + 1))
    return found


def reached(source: str, line: int) -> Iterable[int]:
    """The lines that a server runs where a mutant of this line may show: those of its statement.
    What runs with an import, as that of a client's module does in servers too, shows where a
    function of its module runs."""
    functions = [
        range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    if any(line in body for body in functions) or not functions:
        return statement(source, line)
    return sorted({number for body in functions for number in body})


def _digest(root: Path, *paths: str) -> str:
    """The content of all Python files and tables at these paths, as a name."""
    digest = hashlib.sha256(sys.version.encode())
    for path in paths:
        at = root / path
        for file in [at] if at.is_file() else _files(at):
            digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in (".py", ".toml"))
