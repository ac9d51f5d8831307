"""Java processes that cannot be started, end under TLC, or keep what they should not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def test_a_run_lets_go_of_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "Counts.tla"
    module.write_text("---- MODULE Counts ----\nVARIABLE n\nInit == n = 0\nNext == n' = n\n====")
    loaders = []

    def remembered(self: jvm.Jvm) -> Any:
        loaders.append(class_loader(self))
        return loaders[-1]

    class_loader = jvm.Jvm._class_loader
    monkeypatch.setattr(jvm.Jvm, "_class_loader", remembered)
    code, _ = run_tlc_in_jvm(module, "", "INIT Init\nNEXT Next\n", (), (), QUICK)
    assert code == 0
    (loader,) = loaders
    assert loader.loadClass("tlc2.TLCGlobals").getField("mainChecker").get(None) is None
