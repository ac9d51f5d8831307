"""Options: the fields of a configuration dataclass, under the names that Apache RocketMQ has.

Every field is an option without being listed anywhere else. `message_delay_level` here is
`messageDelayLevel` in broker.conf and over the wire (requests 25, 26, 318 and 319).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import Any, NamedTuple, TypeAlias, TypeVar, get_type_hints

from javaproperties import loads

C = TypeVar("C")
Value: TypeAlias = bool | int | float | str


def camel(name: str) -> str:
    """`message_delay_level` as `messageDelayLevel`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


class Option(NamedTuple):
    """One option, as its field says."""

    name: str
    hint: Any  # its type
    default: Any


def options(config: type) -> Iterator[Option]:
    """The options of a configuration class; those of a configuration in it are its own."""
    hints = get_type_hints(config)
    for field in fields(config):
        hint = hints[field.name]
        if is_dataclass(hint):
            assert isinstance(hint, type)
            yield from options(hint)
        else:
            made = field.default_factory
            yield Option(field.name, hint, field.default if made is MISSING else made())


def build(config: type[C], given: Mapping[str, Any]) -> C:
    """A configuration with the options that are given, all others as they are by default."""
    hints = get_type_hints(config)
    values: dict[str, Any] = {}
    for field in fields(config):  # type: ignore[arg-type]  # a dataclass, as `fields` checks
        hint = hints[field.name]
        if is_dataclass(hint):
            assert isinstance(hint, type)
            values[field.name] = build(hint, given)
        elif field.name in given:
            values[field.name] = given[field.name]
    return config(**values)


def to_properties(*configs: Any) -> str:
    """`name=value` a line, sorted, with the real names."""
    lines = (
        f"{camel(name)}={_text(value)}\n"
        for config in configs
        for name, value in values(config).items()
    )
    return "".join(sorted(lines))


def parse_properties(data: bytes) -> dict[str, str]:
    """The names and values of a file of properties, as java.util.Properties reads it: a byte a
    character. Raises ValueError."""
    return {name: value.strip() for name, value in loads(data.decode("latin-1")).items()}


def updated(config: C, properties: Mapping[str, str]) -> C:
    """The options after some were set, by their real names. A name or value that is none is
    ignored, as the real ones ignore it (MixAll.properties2Object, 5.3.3)."""
    changes: dict[str, Any] = {}
    for field in fields(config):  # type: ignore[arg-type]  # a dataclass, as `fields` checks
        value = getattr(config, field.name)
        text = properties.get(camel(field.name))
        if is_dataclass(value):
            changes[field.name] = updated(value, properties)
        elif text is not None and isinstance(value, Value):
            with suppress(ValueError):
                changes[field.name] = parse(value, text)
    return replace(config, **changes)  # type: ignore[type-var]  # as above


def values(config: Any) -> dict[str, Value]:
    """The options that a line of text can hold, and their values."""
    found: dict[str, Value] = {}
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            found |= values(value)
        elif isinstance(value, Value):
            found[field.name] = value
    return found


def parse(default: Value, text: str) -> Value:
    """A value of the type of `default`. Raises ValueError."""
    if isinstance(default, bool):
        return text.lower() == "true"
    return type(default)(text)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
