"""The README's demonstration says what the commands still say."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
import record_demo

ROOT = Path(__file__).parents[2]
STILL = [command for command in record_demo.COMMANDS if " allocate " in command]


def told(picture: str) -> list[str]:
    """The lines of the picture, without spaces: what is coloured is cut to pieces in it."""
    lines: dict[str, str] = {}
    for line, words in re.findall(r'clip-path="url\(#demo-line-(\d+)\)">(.*?)</text>', picture):
        lines[line] = lines.get(line, "") + words
    return [re.sub(r"\s", "", html.unescape(line)) for line in lines.values()]


def missing(command: str, picture: str) -> list[str]:
    """What a command says now, and the picture does not."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", record_demo.shown(command))
    lines = told(picture)
    said = [re.sub(r"\s", "", line) for line in plain.splitlines()]
    return [line for line in said if line and line not in lines]


@pytest.mark.parametrize("command", STILL)
def test_the_readme_shows_what_the_commands_say(command: str) -> None:
    assert "docs/_static/demo.svg" in (ROOT / "README.md").read_text(encoding="utf-8")
    picture = record_demo.FILE.read_text(encoding="utf-8")
    lines = told(picture)
    for each in record_demo.COMMANDS:
        assert any(re.sub(r"\s", "", each) in line for line in lines), each
    assert missing(command, picture) == []


def test_a_picture_of_something_else_is_noticed() -> None:
    picture = record_demo.FILE.read_text(encoding="utf-8")
    changed = picture.replace("broker-a", "broker-b")
    assert len(missing(STILL[0], changed)) > 3
