"""TLA+ values, as TLC prints them, to Python values and back.

| TLA+                     | Python                                   |
| ------------------------ | ---------------------------------------- |
| 3, "s", TRUE             | int, str, bool                           |
| model value m1           | ModelValue("m1")                         |
| {a, b}, 1..3             | frozenset                                |
| <<a, b>>                 | tuple                                    |
| [f |-> 1], (a :> 1 @@ …) | FrozenDict, a read-only hashable mapping |
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+)
      | "(?P<string>(?:[^"\\]|\\.)*)"
      | (?P<mark><<|>>|\|->|:>|@@|\.\.|[\[\]{}(),])
      | (?P<name>[A-Za-z_]\w*)
    )""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_CONSTANTS: dict[str, object] = {"TRUE": True, "FALSE": False}


class ModelValue(str):
    """A model value: equal only to itself."""

    __slots__ = ()


class FrozenDict(Mapping[Any, Any]):
    """A record or a function."""

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Mapping[Any, Any]) -> None:
        self._items = dict(items)
        self._hash = hash(frozenset(self._items.items()))

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return repr(self._items)


def parse_value(text: str) -> Any:
    """One TLA+ value. Raises ValueError where `text` is not one."""
    reader = _Reader(text)
    value = reader.value()
    reader.end()
    return value


def tla(value: Any) -> str:
    """A value as TLA+ writes it; what TLC does not give, as Python does."""
    match value:
        case FrozenDict() if all(type(key) is str for key in value):
            return f"[{', '.join(f'{name} |-> {tla(item)}' for name, item in value.items())}]"
        case FrozenDict():
            return f"({' @@ '.join(f'{tla(key)} :> {tla(item)}' for key, item in value.items())})"
        case frozenset():
            return "{" + ", ".join(sorted(map(tla, value))) + "}"
        case tuple():
            return f"<<{', '.join(map(tla, value))}>>"
        case bool():
            return str(value).upper()
        case ModelValue():
            return str(value)
        case str():
            return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
        case _:
            return str(value)


def parse_state(text: str) -> dict[str, Any]:
    """A state: lines of `/\\ variable = value`, or a single `variable = value`."""
    state = {}
    for part in re.split(r"(?m)^\s*/\\ ", text):
        if part.strip():
            name, _, value = part.partition("=")
            state[name.strip()] = parse_value(value)
    return state


class _Reader:
    """A recursive-descent reader over the tokens of one value."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0

    def value(self) -> Any:
        kind, token = self._next()
        match kind, token:
            case "number", _:
                first = int(token)
                if self._skip(".."):
                    return frozenset(range(first, self.value() + 1))
                return first
            case "string", _:
                return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), token)
            case "name", _:
                return _CONSTANTS.get(token, ModelValue(token))
            case _, "<<":
                return tuple(self._until(">>"))
            case _, "{":
                return frozenset(self._until("}"))
            case _, "[":
                return self._record()
            case _, "(":
                return self._function()
        raise ValueError(f"a TLA+ value cannot start with {token!r}")

    def end(self) -> None:
        if self._position != len(self._tokens):
            raise ValueError(f"unexpected {self._tokens[self._position][1]!r} after a value")

    def _until(self, close: str) -> Iterator[Any]:
        while not self._skip(close):
            yield self.value()
            self._skip(",")

    def _record(self) -> FrozenDict:
        fields = {}
        while not self._skip("]"):
            _, name = self._next()
            self._expect("|->")
            fields[name] = self.value()
            self._skip(",")
        return FrozenDict(fields)

    def _function(self) -> FrozenDict:
        pairs = {}
        while True:
            key = self.value()
            self._expect(":>")
            pairs[key] = self.value()
            if not self._skip("@@"):
                break
        self._expect(")")
        return FrozenDict(pairs)

    def _next(self) -> tuple[str, str]:
        if self._position == len(self._tokens):
            raise ValueError("the value ends too early")
        self._position += 1
        return self._tokens[self._position - 1]

    def _skip(self, mark: str) -> bool:
        if self._position < len(self._tokens) and self._tokens[self._position] == ("mark", mark):
            self._position += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            raise ValueError(f"{mark} expected")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    position, text = 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match or match.lastgroup is None:
            raise ValueError(f"not a TLA+ value at {text[position : position + 30]!r}")
        yield match.lastgroup, match[match.lastgroup]
        position = match.end()
