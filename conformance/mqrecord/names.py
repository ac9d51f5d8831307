"""Which rows are written, and under which names."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

_NAMES: Final = ("topic", "group", "client_id", "peer", "message_key")
_OF_GROUPS: Final = "%RETRY%", "%DLQ%"
_DIGITS: Final = 12


@dataclass(frozen=True)
class Patterns:
    """Topics and groups that are wanted; none given, all are. A group's retry topic is its own."""

    topics: Sequence[str]
    groups: Sequence[str]

    def keeps(self, row: dict[str, Any]) -> bool:
        topic, group = row.get("topic"), row.get("group")
        is_own = topic is not None and topic.startswith(_OF_GROUPS)
        if topic is not None and not is_own and not _fits(topic, self.topics):
            return False
        return group is None or _fits(group, self.groups)


@dataclass(frozen=True)
class Hashed:
    """Names as hashes, alike in a run, which nobody can undo without the salt."""

    salt: bytes

    def written(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with hashes in place of names; brokers keep theirs."""
        hashed = {name: self._of(row[name]) for name in _NAMES if row.get(name) is not None}
        if row.get("client_id") is None:
            hashed.pop("peer", None)  # a broker
        if row.get("tag") is not None:
            hashed["tag"] = " || ".join(
                one if one in ("", "*") else self._of(one)
                for one in (part.strip() for part in row["tag"].split("||"))
            )
        return row | hashed

    def _of(self, name: str) -> str:
        for mark in _OF_GROUPS:
            if name.startswith(mark):
                return mark + self._of(name.removeprefix(mark))
        return hmac.digest(self.salt, name.encode(), "sha256").hex()[:_DIGITS]


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
