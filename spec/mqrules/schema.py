"""Dataclasses as schemas: decoding with one clear line on bad input, and JSON Schema.

A record that the tools exchange is a frozen dataclass; the dataclass is its only
definition. `decode` builds one from plain data (JSON, TOML), `encode` goes back, and
`json_schema` publishes it for tools in other languages.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from mqrules.errors import UserError

SCHEMA_VERSION = 1

T = TypeVar("T")

_SCALARS: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def decode(cls: type[T], data: object, where: str) -> T:
    """Build the dataclass `cls` from `data`.

    Raises UserError naming `where` and the field when a field is missing, unknown or of
    the wrong type.
    """
    record: T = _value(cls, data, where)
    return record


def encode(record: object) -> Any:
    """Plain data (dicts, lists, scalars) for a dataclass; fields that are None are left out."""
    match record:
        case enum.Enum():
            return record.value
        case tuple() | list():
            return [encode(item) for item in record]
        case Mapping():
            return {str(key): encode(value) for key, value in record.items()}
        case _ if dataclasses.is_dataclass(record):
            pairs = ((f.name, getattr(record, f.name)) for f in dataclasses.fields(record))
            return {name: encode(value) for name, value in pairs if value is not None}
        case _:
            return record


def json_schema(cls: type) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a dataclass."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{cls.__name__}, version {SCHEMA_VERSION}",
        **_schema(cls),
    }


def _value(kind: Any, data: object, where: str) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(args, data, where)
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise UserError(where, f"a list is expected, not {data!r}")
        return tuple(_value(args[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise UserError(where, f"a table is expected, not {data!r}")
        return {key: _value(args[1], item, f"{where}.{key}") for key, item in data.items()}
    if dataclasses.is_dataclass(kind):
        return _record(kind, data, where)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        try:
            return kind(data)
        except ValueError:
            allowed = ", ".join(str(member.value) for member in kind)
            raise UserError(where, f"{data!r} is not one of {allowed}") from None
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind in _SCALARS and type(data) is not kind:
        raise UserError(where, f"{_SCALARS[kind]} expected, not {data!r}")
    return data


def _union(args: tuple[Any, ...], data: object, where: str) -> Any:
    if data is None and type(None) in args:
        return None
    failure: UserError | None = None
    for arg in (a for a in args if a is not type(None)):
        try:
            return _value(arg, data, where)
        except UserError as error:
            failure = failure or error
    raise failure or UserError(where, f"unexpected {data!r}")


def _record(cls: Any, data: object, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise UserError(where, f"a table is expected, not {data!r}")
    fields = _fields(cls)
    if unknown := sorted(data.keys() - fields.keys()):
        raise UserError(where, f"unknown field {unknown[0]!r}", f"known: {', '.join(fields)}")
    values = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _value(field.kind, data[name], f"{where}.{name}")
        elif field.required:
            raise UserError(where, f"field {name!r} is missing")
    return cls(**values)


class _Field(NamedTuple):
    kind: Any
    required: bool


@cache
def _fields(cls: type) -> dict[str, _Field]:
    """Kept: to find out the types of a class takes longer than to decode a record of it."""
    hints, missing = get_type_hints(cls), dataclasses.MISSING
    return {
        f.name: _Field(hints[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(cls)
    }


def _schema(kind: Any) -> dict[str, Any]:
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        parts = [_schema(arg) for arg in args if arg is not type(None)]
        return parts[0] if len(parts) == 1 else {"anyOf": parts}
    if origin is tuple:
        return {"type": "array", "items": _schema(args[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(args[1])}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        fields = _fields(kind)
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": {name: _schema(field.kind) for name, field in fields.items()},
            "required": [name for name, field in fields.items() if field.required],
        }
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    return {"type": _SCALARS[kind]} if kind in _SCALARS else {}
