"""A mutant's trial: the checks that meet its line, run on a copy of the tree that holds it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from contexts import CASES, Recording, conform, reached, read_results, statement
from mutation import Mutant
from servers import explored

from mqconform.explore.areas import NAMES
from mqconform.plugin import slow

ROOTS = ("spec", "reference", "proofs", "conformance")
PATIENCE = 10  # how many times what it took when it was recorded a check may take
PATIENCE_OF_CASES = 3  # that have deadlines of their own: a server that hangs takes all of it
LEAST_S = 60.0


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant; `killed_by` is empty of a survivor."""

    mutant: Mutant
    killed_by: str
    seconds: float
    tried: int  # checks that meet its line


class Copy:
    """A copy of the tree, and nothing of the checkout is ever changed."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = home / "tree"
        self._results, self._history = home / "results.xml", home / "history"
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=root, capture_output=True, text=True, check=True).stdout
        for name in filter(None, names.split("\0")):
            if (root / name).is_file():  # and not deleted since
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self.root / name)

    def judge(self, mutant: Mutant, recordings: Sequence[Recording], measured: Path) -> Fate:
        """Run what meets the mutant's line until something fails."""
        began, tried = time.monotonic(), 0
        lines = statement(mutant.source, mutant.line)
        for recording in recordings:
            names = recording.meeting(measured / mutant.path, lines)
            tried += len(names)
            while killer := self._failing_with(mutant, recording, names):
                # Only what passes without the mutant can have noticed it.
                if not self._failing(recording, [killer]):
                    killed_by = f"{recording.kind}: {killer}"
                    return Fate(mutant, killed_by, time.monotonic() - began, tried)
                names.remove(killer)
        return Fate(mutant, "", time.monotonic() - began, tried)

    def judge_by_suite(
        self,
        mutant: Mutant,
        recordings: Sequence[Recording],
        measured: Path,
        seconds: float,
        seed: int,
    ) -> Fate:
        """Run the cases that meet the mutant's line, those of the nearest file first and what waits
        for long last, and then explore the areas that meet it: until something notices."""
        began, lines = time.monotonic(), list(reached(mutant.source, mutant.line))
        path = measured / mutant.path
        cases, areas = recordings
        names = cases.meeting(path, lines)
        for together in _in_turn(cases, path, names):
            killer = self._failing_with(mutant, cases, together)
            if killer and not self._failing(cases, [killer]):
                took = time.monotonic() - began
                return Fate(mutant, f"{cases.kind}: {killer}", took, len(names))
        met = areas.meeting(path, lines) or list(NAMES)
        with self._holding(mutant):
            why = explored(self.root, self.environment(), seconds, seed, met)
        return Fate(mutant, why and f"exploration: {why}", time.monotonic() - began, len(names))

    @contextmanager
    def _holding(self, mutant: Mutant) -> Iterator[None]:
        """The copy of the tree with the mutant in it."""
        file = self.root / mutant.path
        file.write_text(mutant.mutated, encoding="utf-8")
        try:
            yield
        finally:
            file.write_text(mutant.source, encoding="utf-8")

    def _failing_with(self, mutant: Mutant, recording: Recording, names: Sequence[str]) -> str:
        with self._holding(mutant):
            return self._failing(recording, names)

    def _failing(self, recording: Recording, names: Sequence[str]) -> str:
        """The first of these checks that fails; empty where all pass, or there are none."""
        if not names:
            return ""
        self._results.unlink(missing_ok=True)
        if recording.kind == CASES:
            functions = " or ".join(name.rpartition("::")[2] for name in names)
            command = conform(functions, self._results, self._history)
        else:
            command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *names]
            command += ["-p", "no:cacheprovider", f"--junitxml={self._results}"]
        patience = PATIENCE_OF_CASES if recording.kind == CASES else PATIENCE
        limit = LEAST_S + patience * sum(recording.ran[name].seconds for name in names)
        is_well = self._run(command, limit) == 0
        try:
            results = read_results(self._results)
        except (FileNotFoundError, ElementTree.ParseError):
            return names[0]  # the run was cut off: no result names a test
        # Whatever the exit code is: the suite's is 0 where only rules that are no MUST are broken.
        failed = [name for name in names if name in results and not results[name].passed]
        # Others may have failed that are named alike.
        cut_off = "" if is_well or recording.kind == CASES else names[0]
        return failed[0] if failed else cut_off

    def environment(self) -> dict[str, str]:
        """With what a process runs the copy, and its tests to the first that fails."""
        path = os.pathsep.join(str(self.root / name) for name in ROOTS)
        own = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": "-x"}
        return os.environ | own

    def _run(self, command: Sequence[str], limit: float) -> int | None:
        """Its exit code; none where it took longer. Nothing of it runs on after that."""
        env = self.environment()
        process = subprocess.Popen(
            command, cwd=self.root, env=env, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):  # all that it started are gone as well
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _in_turn(cases: Recording, path: Path, names: Sequence[str]) -> Iterator[list[str]]:
    """Cases to run together, file by file; and all at once those that wait for long."""
    waiting = {name.partition("[")[0] for name in slow()}
    late = [name for name in names if name.rpartition("::")[2] in waiting]
    yield from cases.nearest(path, [name for name in names if name not in late])
    if late:
        yield late


@contextmanager
def copy_of(root: Path) -> Iterator[Copy]:
    """A copy of the tree in a folder of its own, which is removed."""
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as home:
        yield Copy(root, Path(home))
