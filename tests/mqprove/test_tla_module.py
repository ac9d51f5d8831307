"""A module is read by SANY once, and again as soon as anything is other that it reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mqprove import tla_module
from mqprove.tla_module import read
from mqspec import toolchain

TEXT = "---- MODULE Counts ----\nEXTENDS Shared\nVARIABLE x\nInit == x = start\n====\n"
SHARED = "---- MODULE Shared ----\nstart == {}\n====\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Shared.tla").write_text(SHARED.format(1))
    path = tmp_path / "Counts.tla"
    path.write_text(TEXT)
    return path


def no_java() -> Path:
    raise AssertionError("SANY is asked")


def test_what_sany_said_is_kept(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read(module)
    monkeypatch.setattr(toolchain, "java", no_java)
    assert read(module) == first
    shutil.rmtree(tla_module.KEPT)
    with pytest.raises(AssertionError, match="is asked"):
        read(module)


def test_a_module_that_it_extends_is_read_again(module: Path) -> None:
    before = read(module).named("start").body
    module.with_name("Shared.tla").write_text(SHARED.format(2))
    assert (before.number, read(module).named("start").body.number) == (1, 2)


def test_modules_of_another_folder_are_not_kept(module: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "Shared.tla").write_text(SHARED.format(3))
    assert read(module).named("start").body.number == 1
    assert read(module, other).named("start").body.number == 3
    assert read(module).named("start").body.number == 1
