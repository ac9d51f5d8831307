"""Logs that are there twice: as they were given, or copied under another name."""

from __future__ import annotations

from collections.abc import Sequence

from mqaudit.kept.log import content


def distinct(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Logs of which none is the beginning of another, and those that are: copies, packed or not,
    and what was copied while it was written. Their lines would count twice."""
    begun: dict[bytes, list[str]] = {}
    copies: list[str] = []
    for path in paths:
        alike = begun.setdefault(_first_line(path), [])
        if any(_begins(path, other) for other in alike):
            copies.append(path)
            continue
        shorter = [other for other in alike if _begins(other, path)]
        copies += shorter
        alike[:] = [other for other in alike if other not in shorter] + [path]
    kept = {path for alike in begun.values() for path in alike}
    return [path for path in paths if path in kept], copies


def _first_line(path: str) -> bytes:
    """The first line of a log, or what there is of it."""
    return next(content(path), b"").partition(b"\n")[0]


def _begins(path: str, other: str) -> bool:
    """Whether a log is the beginning of another, and is not empty."""
    theirs = content(other)
    rest, is_any = b"", False
    for chunk in content(path):
        while len(rest) < len(chunk) and (more := next(theirs, b"")):
            rest += more
        if not rest.startswith(chunk):
            return False
        rest, is_any = rest[len(chunk) :], True
    return is_any
