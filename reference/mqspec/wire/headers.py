"""The fields of a request's header, which all travel as text.

The real broker does not refuse a request for a missing field as such: what happens depends
on who needs it first, and mostly it is an exception, answered with code 1 (SYSTEM_ERROR).
A number that Java does not read is as if it were missing (WIRE-020), but for the headers
that 5.3.3 reads without reflection, a pull's and a send's of code 310 (FastCodesHeader.java).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Annotated, Any, Final, TypeAlias, TypeVar, overload

import msgspec

from mqspec.core.java import INT_BITS, LONG_BITS, java_number
from mqspec.wire.codec import Int, RemotingCommand

Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

H = TypeVar("H", bound=msgspec.Struct)
D = TypeVar("D", int, None)

_REQUIRED: Final = object()
_TEXTS: Final = (str, str | None)

# The fields of a send as 310, 320 and 325 write them (SendMessageRequestHeaderV2.java, 5.3.3).
SEND_V2_NAMES: Final[Mapping[str, str]] = {
    "producer_group": "a",
    "topic": "b",
    "default_topic": "c",
    "default_topic_queue_nums": "d",
    "queue_id": "e",
    "sys_flag": "f",
    "born_timestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsume_times": "j",
    "unit_mode": "k",
    "batch": "m",
}


class HeaderError(ValueError):
    """A field is missing, or is not what it should be."""


def read(request: RemotingCommand, kind: type[H]) -> H:
    """Many fields at once, in less time than one by one: those of a `msgspec.Struct`, each a
    `str`, an `Int` or a `Long`, or None where it is missing, at least one of them a number. Raises
    HeaderError.

    The time is saved where each number is there, and not negative: one that seldom is should
    be read alone. No field is a `bool`: msgspec takes 1 for true, and Java does not.
    """
    fields = request.ext_fields
    try:
        # Only digits: msgspec takes 1.0 and 1e3 for integers, too.
        if "".join(_numbers_of(kind)(fields)).isdecimal():
            return msgspec.convert(fields, kind, strict=False)
    except (KeyError, msgspec.ValidationError):
        pass
    return _read_one_by_one(request, kind)


def read_by_reflection(request: RemotingCommand, kind: type[H]) -> H:
    """The same of a header that 5.3.3 reads by reflection: a number that may be missing, and is
    none, has its default."""
    try:
        return read(request, kind)
    except HeaderError:
        return _read_one_by_one(request, kind, by_reflection=True)


_fields_of = lru_cache(msgspec.structs.fields)  # which evaluates the annotations each time


@lru_cache
def _numbers_of(kind: type[msgspec.Struct]) -> Callable[[Mapping[str, str]], Iterable[str]]:
    numbers = (each.encode_name for each in _fields_of(kind) if each.type not in _TEXTS)
    return itemgetter(*numbers)


def _read_one_by_one(request: RemotingCommand, kind: type[H], by_reflection: bool = False) -> H:
    values = {}
    for each in _fields_of(kind):
        if each.required or each.encode_name in request.ext_fields:
            is_defaulted = by_reflection and not each.required and each.type not in _TEXTS
            default = (each.default,) if is_defaulted else ()
            values[each.name] = _READERS[each.type](request, each.encode_name, *default)
    return kind(**values)


def text(request: RemotingCommand, name: str) -> str:
    """A field that must be there. Raises HeaderError."""
    try:
        return request.ext_fields[name]
    except KeyError:
        raise HeaderError(f"the field {name} is missing") from None


@overload
def integer(request: RemotingCommand, name: str) -> int: ...
@overload
def integer(request: RemotingCommand, name: str, default: D) -> int | D: ...
def integer(request: RemotingCommand, name: str, default: Any = _REQUIRED) -> Any:
    """A Java int. Where it is missing, or none: the default; without one, HeaderError."""
    return _number(request, name, default, INT_BITS)


@overload
def long(request: RemotingCommand, name: str) -> int: ...
@overload
def long(request: RemotingCommand, name: str, default: D) -> int | D: ...
def long(request: RemotingCommand, name: str, default: Any = _REQUIRED) -> Any:
    """A Java long. Where it is missing, or none: the default; without one, HeaderError."""
    return _number(request, name, default, LONG_BITS)


def _number(request: RemotingCommand, name: str, default: Any, bits: int) -> Any:
    value = request.ext_fields.get(name)
    why: object = "is missing"
    if value is not None:
        try:
            return java_number(value, bits)
        except ValueError as error:
            why = error
    if default is _REQUIRED:
        raise HeaderError(f"the field {name} {why}")
    return default


def boolean(request: RemotingCommand, name: str, default: bool = False) -> bool:
    """`true`, in any case, or anything else, as Java reads it."""
    value = request.ext_fields.get(name)
    return default if value is None else value.lower() == "true"


_READERS: Final[Mapping[Any, Callable[..., Any]]] = {
    str: text,
    str | None: text,
    Int: integer,
    Int | None: integer,
    Long: long,
}
