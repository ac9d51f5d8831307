"""The fields of a request's header, which all travel as text.

The real broker does not refuse a request for a missing field as such: what happens depends
on who needs it first, and mostly it is an exception, answered with code 1 (SYSTEM_ERROR).
"""

from __future__ import annotations

from mqspec.wire.codec import RemotingCommand


class HeaderError(ValueError):
    """A field is missing, or is not what it should be."""


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
