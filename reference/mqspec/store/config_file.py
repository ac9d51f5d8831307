"""ConfigFile: a table that a broker keeps as JSON, with its last content beside it as `.bak`.

topics.json, consumerOffset.json and subscriptionGroup.json under `config/` are such files
(ConfigManager.java, 5.3.3). Their JSON is that of fastjson: keys that are integers are not
quoted.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mqrules import UserError

_STRING_OR_INTEGER_KEY = re.compile(r'("(?:[^"\\]|\\.)*")|(-?\d+)(?=\s*:)')


class ConfigFile:
    """One such file. A content is a JSON object; a file that is not one is damaged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bak = path.with_name(path.name + ".bak")

    def load(self) -> dict[str, Any]:
        """The content; that of `.bak` where the file is missing or damaged (RECOV-020); empty
        where there is no `.bak` either. Keys that are integers are read as strings.

        Raises UserError where `.bak` is needed and damaged too: a broker that started all the
        same would have forgotten everything, and 5.3.3 does not start either.
        """
        content = _read(self.path)
        if content is not None:
            return content
        if not self._bak.exists():
            return {}
        content = _read(self._bak)
        if content is None:
            raise UserError(
                str(self.path),
                f"neither it nor {self._bak.name} is a JSON object",
                "restore one of them from a copy, or remove both to start without",
            )
        # Or the next persist would make the damaged content the new .bak.
        self.path.unlink(missing_ok=True)
        return content

    def persist(self, content: Mapping[str, Any]) -> None:
        """Replace the content. Whenever the process dies, one of both files is whole."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(self.path.name + ".new")
        with new.open("wb") as file:
            file.write(_dump(content, "").encode())
            file.flush()
            os.fsync(file.fileno())
        if self.path.exists():
            self.path.replace(self._bak)
        new.replace(self.path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(_STRING_OR_INTEGER_KEY.sub(_quoted, text))
    except (FileNotFoundError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _quoted(match: re.Match[str]) -> str:
    string, integer = match.groups()
    return string or f'"{integer}"'


def _dump(value: object, indent: str) -> str:
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    inner = indent + "\t"
    entries = (
        f"{inner}{key if isinstance(key, int) else json.dumps(key)}:{_dump(item, inner)}"
        for key, item in value.items()
    )
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
