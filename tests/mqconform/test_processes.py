"""What a run starts ends with it, also what a case that was cut off is about to start."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from mqconform import reference
from mqconform.apache import Apache
from mqconform.processes import Popen, Processes
from mqconform.reference import Reference
from mqrules import UserError

WAITS = (sys.executable, "-c", "input()")


def test_what_was_begun_is_killed() -> None:
    processes = Processes()
    begun = [processes.popen(WAITS, stdin=subprocess.PIPE) for _ in range(2)]
    assert [process.poll() for process in begun] == [None, None]
    processes.close()
    assert [process.poll() for process in begun] == [-9, -9]


def test_none_begins_after_the_end() -> None:
    processes = Processes()
    begun: list[subprocess.Popen[bytes]] = []
    first = threading.Event()

    def begin_again_and_again() -> None:
        while True:
            try:
                begun.append(processes.popen(WAITS, stdin=subprocess.PIPE))
            except UserError:
                return
            first.set()

    threads = [threading.Thread(target=begin_again_and_again) for _ in range(4)]
    for thread in threads:
        thread.start()
    first.wait()
    processes.close()
    for thread in threads:
        thread.join()
    assert begun
    assert {process.poll() for process in begun} == {-9}


def test_a_reference_that_is_interrupted_while_it_starts_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def interrupted(log: Path, *words: str, popen: Popen, program: Sequence[str]) -> NoReturn:
        begun.append(popen(WAITS, stdin=subprocess.PIPE))
        raise KeyboardInterrupt

    monkeypatch.setattr(reference, "serve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        reference.Reference(tmp_path).__enter__()
    assert [process.poll() for process in begun] == [-9]


def test_a_reference_that_ended_starts_nothing(tmp_path: Path) -> None:
    with Reference(tmp_path) as ended:
        secured = ended.target.secured
    assert secured
    with pytest.raises(UserError, match="the run is over"):
        ended.start()
    with pytest.raises(UserError, match="the run is over"):
        secured.start()


def test_an_apache_that_ended_starts_nothing(tmp_path: Path) -> None:
    apache = Apache(tmp_path)
    apache.__exit__()
    secured = apache.target.secured
    assert secured
    with pytest.raises(UserError, match="the run is over"):
        apache.start()
    with pytest.raises(UserError, match="the run is over"):
        secured.start()
