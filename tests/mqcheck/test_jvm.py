"""Java processes that cannot be started, or end under TLC."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqcheck import jvm
from mqcheck.jvm import QUICK, run_tlc_in_jvm
from mqrules import UserError


def test_a_java_that_ends_under_tlc_gets_one_line_and_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = jvm.Jvm(QUICK)
    monkeypatch.setitem(jvm._idle, QUICK, [dying])
    dying._process.kill()
    dying._process.wait()
    with pytest.raises(UserError, match="Counts: Java ended under TLC"):
        run_tlc_in_jvm(tmp_path / "Counts.tla", "", "", (), (), QUICK)
    assert jvm._idle[QUICK] == []


def test_a_java_that_is_not_there_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(jvm._idle, QUICK, [])
    monkeypatch.setattr("mqspec.toolchain.java", lambda: tmp_path / "java")
    with pytest.raises(UserError, match="Counts: Java ended under TLC"):
        run_tlc_in_jvm(tmp_path / "Counts.tla", "", "", (), (), QUICK)
