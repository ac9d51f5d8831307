"""The page 'How to add a rule', done as it says, in a copy of the checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "add-a-rule.md"
SOURCES = ("spec", "reference", "proofs", "conformance")

_BLOCK = re.compile(
    r"^```\{code-block\} (?P<language>\w+)\n:caption: (?P<caption>[^\n]+)\n\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block of the page: what is to be done with it stands in its caption."""

    language: str
    caption: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    for match in _BLOCK.finditer(page):
        yield Block(match["language"], match["caption"], match["text"])


class Checkout:
    """A copy of the sources, with the commands that run them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for source in SOURCES:
            shutil.copytree(
                ROOT / source, folder / source, ignore=shutil.ignore_patterns("__pycache__")
            )
        # Before the path of the checkout that is installed.
        paths = os.pathsep.join(str(folder / source) for source in SOURCES)
        self.env = os.environ | {"PYTHONPATH": paths, "COLUMNS": "200"}
        self.printed = ""

    def do(self, block: Block) -> None:
        match block:
            case Block(caption="prints"):
                assert self.printed == block.text
            case Block(language="console", caption="run"):
                self._console(block.text)
            case Block(language="python", caption="run"):
                self.printed = self._run("-c", block.text)
            case _:
                self._edit(block)

    def _console(self, text: str) -> None:
        command, _, expected = text.partition("\n")
        words = command.removeprefix("$ mqspec ").split()
        assert len(words) < len(command.split()), f"no mqspec command: {command}"
        said = " ".join(self._run("-m", "mqspec.cli", *words).split())
        for part in expected.split("...\n"):
            assert " ".join(part.split()) in said

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _edit(self, block: Block) -> None:
        name, _, place = block.caption.partition(", ")
        path = self.folder / name
        if not place:
            assert not path.exists(), f"{name} is there already"
            path.write_text(block.text)
            return
        lines = path.read_text().splitlines(keepends=True)
        before = re.fullmatch("before `(.+)`", place)
        if place == "at its end":
            at, text = len(lines), "\n" + block.text
        elif place == "before its last line":
            at, text = len(lines) - 1, block.text
        elif before:
            at, text = lines.index(before[1] + "\n"), block.text + "\n\n"
        else:
            pytest.fail(f"the page asks for something that cannot be done: {block.caption}")
        path.write_text("".join([*lines[:at], text, *lines[at:]]))


def test_what_the_page_says_comes_out(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    done = list(blocks(PAGE.read_text(encoding="utf-8")))
    assert len(done) == PAGE.read_text(encoding="utf-8").count("```{code-block}")
    for block in done:
        checkout.do(block)
    assert sum(block.caption in ("run", "prints") for block in done) >= 4


def test_a_page_that_says_something_else_is_noticed(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.do(Block("python", "run", "print(1)"))
    with pytest.raises(AssertionError):
        checkout.do(Block("text", "prints", "2\n"))
    with pytest.raises(AssertionError):
        checkout.do(Block("console", "run", "$ mqspec check --list\nno such line\n"))
