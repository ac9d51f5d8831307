"""ConfigFile: a table that a broker keeps as JSON, with its last content beside it as `.bak`.

topics.json, consumerOffset.json and subscriptionGroup.json under `config/` are such files
(ConfigManager.java, 5.3.3). Their JSON is that of fastjson: keys that are integers are not
quoted.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mqrules import UserError
from mqspec.store.files import DISK, Disk

_log = logging.getLogger(__name__)

_STRING_OR_INTEGER_KEY = re.compile(r'("(?:[^"\\]|\\.)*")|(-?\d+)(?=\s*:)')


class ConfigFile:
    """One such file. A content is a JSON object; a file that is not one is damaged."""

    def __init__(self, path: Path, disk: Disk = DISK) -> None:
        self.path = path
        self._disk = disk
        self._bak = path.with_name(path.name + ".bak")

    def load(self, spare: bool = False) -> dict[str, Any]:
        """The content; that of `.bak` where the file is missing or damaged (RECOV-020); empty
        where there is no `.bak` either. Keys that are integers are read as strings.

        Raises UserError where `.bak` is needed and damaged too, as 5.3.3 does not start then.
        A `spare` file does not keep all messages from being served: both are set aside, named
        `.damaged`, and the content is empty.
        """
        content = read_content(self.path)
        if content is not None:
            return content
        if not self._bak.exists():
            return {}
        content = read_content(self._bak)
        if content is None and spare:
            _log.warning("%s and its .bak are damaged: set aside, and empty now", self.path)
            for path in filter(Path.exists, (self.path, self._bak)):
                self._disk.replace(path, path.with_name(path.name + ".damaged"))
            return {}
        if content is None:
            raise UserError(
                str(self.path),
                f"neither it nor {self._bak.name} is a JSON object",
                "restore one of them from a copy, or remove both to start without",
            )
        # Or the next persist would make the damaged content the new .bak.
        if self.path.exists():
            self._disk.remove(self.path)
        return content

    def persist(self, content: Mapping[str, Any]) -> None:
        """Replace the content. It is on disk when this returns, and whenever the machine
        crashes one of both files is whole."""
        for renamed in self._disk.make_directory(self.path.parent):
            self._disk.sync_directory(renamed)
        new = self.path.with_name(self.path.name + ".new")
        self._disk.write(new, _dump(content, "").encode(errors="replace"))
        if self.path.exists():
            self._disk.replace(self.path, self._bak)
        self._disk.replace(new, self.path)
        self._disk.sync_directory(self.path.parent)


def read_content(path: Path) -> dict[str, Any] | None:
    """The content of one file; None where it is missing or damaged."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(_STRING_OR_INTEGER_KEY.sub(_quoted, text))
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def read_for_start(path: Path) -> dict[str, Any]:
    """The content that a start would take: of the file, else of its `.bak`, else empty."""
    for one in (path, path.with_name(path.name + ".bak")):
        with suppress(OSError):
            if (content := read_content(one)) is not None:
                return content
    return {}


def damaged(folder: Path) -> Iterator[tuple[Path, str]]:
    """The files of a folder of tables that are damaged or missing, each with what is wrong."""
    for path in (*sorted(folder.glob("*.json")), *sorted(folder.glob("*.json.bak"))):
        bak = path.with_name(path.name + ".bak")
        if (why := _why_unread(path)) and path.suffix == ".json" and bak.exists():
            why += ", and its .bak is none" if _why_unread(bak) else ": a start takes its .bak"
        if why:
            yield path, why

    for bak in sorted(folder.glob("*.json.bak")):
        if not bak.with_suffix("").exists():
            yield bak.with_suffix(""), "missing: a start takes its .bak"


def _why_unread(path: Path) -> str:
    try:
        return "" if read_content(path) is not None else "not a JSON object"
    except OSError as error:
        return f"not readable ({error.strerror})"


def _quoted(match: re.Match[str]) -> str:
    string, integer = match.groups()
    return string or f'"{integer}"'


class Rendered(str):
    """An entry of a table in a content, as it is written: see `render`."""


def render(entry: Mapping[str, Any]) -> Rendered:
    """An entry of a table, which stands one level below the content. A large table of which a
    few entries changed is written faster with the others rendered before."""
    return Rendered(_dump(entry, "\t\t"))


def _dump(value: object, indent: str) -> str:
    if isinstance(value, Rendered):
        return value
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    inner = indent + "\t"
    entries = (
        f"{inner}{key if isinstance(key, int) else json.dumps(key)}:{_dump(item, inner)}"
        for key, item in value.items()
    )
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
