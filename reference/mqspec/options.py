"""Options: the fields of a configuration dataclass, under the names that Apache RocketMQ has.

Every field is an option without being listed anywhere else. `message_delay_level` here is
`messageDelayLevel` in broker.conf and over the wire (requests 25, 26, 318 and 319).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeAlias, TypeVar

C = TypeVar("C")
Value: TypeAlias = bool | int | float | str


def camel(name: str) -> str:
    """`message_delay_level` as `messageDelayLevel`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def to_properties(*configs: Any) -> str:
    """`name=value` a line, sorted, with the real names."""
    lines = (
        f"{camel(name)}={_text(value)}\n"
        for config in configs
        for name, value in values(config).items()
    )
    return "".join(sorted(lines))


def parse_properties(text: str) -> dict[str, str]:
    """The names and values of `name=value` lines; empty lines and comments say nothing."""
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {name.strip(): value.strip() for name, _, value in pairs}


def updated(config: C, properties: Mapping[str, str]) -> C:
    """The options after some were set, by their real names. A name or value that is none is
    ignored, as the real ones ignore it (MixAll.properties2Object, 5.3.3)."""
    changes: dict[str, Value] = {}
    for name, default in values(config).items():
        text = properties.get(camel(name))
        if text is None:
            continue
        try:
            changes[name] = parse(default, text)
        except ValueError:
            continue
    return replace(config, **changes)  # type: ignore[type-var]  # a dataclass, as `fields` checks


def values(config: Any) -> dict[str, Value]:
    """The options that a line of text can hold, and their values."""
    pairs = ((field.name, getattr(config, field.name)) for field in fields(config))
    return {name: value for name, value in pairs if isinstance(value, Value)}


def parse(default: Value, text: str) -> Value:
    """A value of the type of `default`. Raises ValueError."""
    if isinstance(default, bool):
        return text.lower() == "true"
    return type(default)(text)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
