"""The fields of a request's header, which all travel as text.

The real broker does not refuse a request for a missing field as such: what happens depends
on who needs it first, and mostly it is an exception, answered with code 1 (SYSTEM_ERROR).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from mqspec.wire.codec import Int, RemotingCommand

Long: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

H = TypeVar("H", bound=msgspec.Struct)


class HeaderError(ValueError):
    """A field is missing, or is not what it should be."""


def read(request: RemotingCommand, kind: type[H]) -> H:
    """Many fields at once, in less time than one by one: those of a `msgspec.Struct`, each a
    `str`, an `Int` or a `Long`, at least one of them a number. Raises HeaderError.

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


@lru_cache
def _numbers_of(kind: type[msgspec.Struct]) -> Callable[[Mapping[str, str]], Iterable[str]]:
    fields = msgspec.structs.fields(kind)
    return itemgetter(*(each.encode_name for each in fields if each.type is not str))


def _read_one_by_one(request: RemotingCommand, kind: type[H]) -> H:
    return kind(
        **{
            each.name: _READERS[each.type](request, each.encode_name)
            for each in msgspec.structs.fields(kind)
            if each.required or each.encode_name in request.ext_fields
        }
    )


def text(request: RemotingCommand, name: str) -> str:
    """A field that must be there. Raises HeaderError."""
    try:
        return request.ext_fields[name]
    except KeyError:
        raise HeaderError(f"the field {name} is missing") from None


def integer(request: RemotingCommand, name: str, default: int | None = None) -> int:
    """A Java int; without a default it must be there. Raises HeaderError."""
    return _number(request, name, default, 1 << 31)


def long(request: RemotingCommand, name: str, default: int | None = None) -> int:
    """A Java long; without a default it must be there. Raises HeaderError."""
    return _number(request, name, default, 1 << 63)


def _number(request: RemotingCommand, name: str, default: int | None, bound: int) -> int:
    try:
        value = request.ext_fields[name]
    except KeyError:
        if default is None:
            raise HeaderError(f"the field {name} is missing") from None
        return default
    try:
        number = int(value)
    except ValueError:
        raise HeaderError(f"the field {name} is {value!r:.40}, not a number") from None
    if -bound <= number < bound:
        return number
    bits = bound.bit_length()
    raise HeaderError(f"the field {name} is {value:.40}, which {bits} bits do not hold")


def boolean(request: RemotingCommand, name: str, default: bool = False) -> bool:
    """`true`, in any case, or anything else, as Java reads it."""
    value = request.ext_fields.get(name)
    return default if value is None else value.lower() == "true"


_READERS: Final[Mapping[Any, Callable[[RemotingCommand, str], str | int]]] = {
    str: text,
    Int: integer,
    Long: long,
}
