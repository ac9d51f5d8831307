"""Jars are fetched again where the network is away for a moment, and kept where they are right."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest
from jgo import maven

from mqrules import UserError
from mqspec import toolchain

COORDINATE, JAR = "group:name:1", b"a jar"


class Network:
    """In place of what jgo fetches with: away for so many times."""

    def __init__(self, file: Path, away: int) -> None:
        self._file, self.away = file, away

    def create_dependency(self, _: str) -> Network:
        return self

    @property
    def artifact(self) -> Network:
        return self

    def resolve(self) -> Path:
        if self.away:
            self.away -= 1
            raise OSError("no name is resolved")
        self._file.write_bytes(JAR)
        return self._file


@pytest.fixture
def pauses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was waited between tries."""
    waited: list[float] = []
    monkeypatch.setattr(toolchain, "_root", lambda: tmp_path)
    monkeypatch.setattr(time, "sleep", waited.append)
    return waited


def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away: int, digest: str) -> Path:
    monkeypatch.setattr(toolchain, "_jars", lambda _: {COORDINATE: digest})
    network = Network(tmp_path / "download", away)
    monkeypatch.setattr(maven, "MavenContext", lambda repo_cache: network)
    toolchain.fetch("set", lambda _: None)
    return toolchain.classpath("set")[0]


RIGHT = hashlib.sha256(JAR).hexdigest()


@pytest.mark.parametrize("away", range(4))
def test_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float], away: int
) -> None:
    assert fetched(tmp_path, monkeypatch, away, RIGHT).read_bytes() == JAR
    assert pauses == list(toolchain.RETRY_PAUSES_S[:away])


def test_not_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    with pytest.raises(UserError, match="not fetched: no name is resolved"):
        fetched(tmp_path, monkeypatch, 4, RIGHT)
    assert pauses == list(toolchain.RETRY_PAUSES_S)


def test_another_file_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    with pytest.raises(UserError, match="SHA-256"):
        fetched(tmp_path, monkeypatch, 0, "0" * 64)
    with pytest.raises(UserError, match="is not there"):
        toolchain.classpath("set")
