"""Reading what fastjson 1.2 writes: numbers and whole objects as keys, without quotes."""

from __future__ import annotations

import json
from typing import Any, Final

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = " \t\r\n"


def loads(text: bytes | str) -> Any:
    """Decode JSON in fastjson's dialect. Keys that are no strings become their own text.

    `{0:"a"}` gives `{"0": "a"}`, and `{{"topic":"T"}:1}` gives `{'{"topic":"T"}': 1}`.
    Raises ValueError where it is no such text.
    """
    source = text.decode() if isinstance(text, bytes) else text
    value, at = _value(source, _skip(source, 0))
    if _skip(source, at) != len(source):
        raise ValueError(f"more text after the value: {source[at : at + 20]!r}")
    return value


def _value(source: str, at: int) -> tuple[Any, int]:
    match source[at : at + 1]:
        case "{":
            return _object(source, at)
        case "[":
            return _array(source, at)
        case _:
            return _DECODER.raw_decode(source, at)


def _object(source: str, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _skip(source, at + 1)
    while source[at : at + 1] != "}":
        key, end = _value(source, at)
        name = key if isinstance(key, str) else source[at:end]
        at = _expect(source, end, ":")
        found[name], at = _value(source, at)
        at = _next(source, at, "}")
    return found, at + 1


def _array(source: str, at: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _skip(source, at + 1)
    while source[at : at + 1] != "]":
        item, at = _value(source, at)
        found.append(item)
        at = _next(source, at, "]")
    return found, at + 1


def _next(source: str, at: int, closing: str) -> int:
    at = _skip(source, at)
    if source[at : at + 1] == closing:
        return at
    return _expect(source, at, ",")


def _expect(source: str, at: int, mark: str) -> int:
    at = _skip(source, at)
    if source[at : at + 1] != mark:
        raise ValueError(f"{mark!r} expected at {at}: {source[at : at + 20]!r}")
    return _skip(source, at + 1)


def _skip(source: str, at: int) -> int:
    while at < len(source) and source[at] in _SPACE:
        at += 1
    return at
