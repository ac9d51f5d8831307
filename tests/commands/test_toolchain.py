"""Jars are fetched again where the network is away for a moment, and kept where they are right; and
Java's classes are kept where Java can."""

from __future__ import annotations

import hashlib
import subprocess
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


def runtime(home: Path, version: str, *, own_classes: bool) -> None:
    """As much of a Java runtime as is looked at."""
    (home / "lib" / "server").mkdir(parents=True)
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    if own_classes:
        (home / "lib" / "server" / "classes.jsa").touch()


@pytest.mark.parametrize(
    ("version", "own_classes", "kept"),
    [
        ("25.0.2", True, True),
        ("19", True, True),
        ("17.0.15", True, False),  # it would not start
        ("25.0.2", False, False),  # it would warn at each start
    ],
)
def test_classes_are_kept_where_java_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, own_classes: bool, kept: bool
) -> None:
    runtime(tmp_path / "java", version, own_classes=own_classes)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setattr(toolchain, "_root", lambda: tmp_path)
    assert bool(toolchain.classes_kept_as("some")) == kept


def test_a_program_keeps_its_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says nothing of it: with modules opened, as Spark has them, Java complains."""
    words = ["--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", str(toolchain.tlc_jar())]
    monkeypatch.setattr(toolchain, "_root", lambda: tmp_path)
    kept = toolchain.classes_kept_as("some")
    for _ in range(2):
        done = subprocess.run(
            [toolchain.java(), *kept, *words, "tla2sany.SANY", "-help"],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert b"cds" not in done.stdout + done.stderr
        assert b"archive" not in done.stdout + done.stderr
    assert (tmp_path / "classes" / "some.jsa").is_file() == bool(kept)
