"""Java's numbers: what a long and an int hold."""

from __future__ import annotations

from mqprove.contracts.contract import contract
from mqspec.core import java, record


@contract("TIMER-005")
def a_wrapped_number_is_a_long(value: int) -> bool:
    """Whatever was computed, a long holds it after it was wrapped, and only whole turns are lost.

    post: _
    """
    wrapped = java.wrapped(value)
    return -(2**63) <= wrapped < 2**63 and (wrapped - value) % 2**64 == 0


@contract("TIMER-005")
def a_long_is_wrapped_to_itself(value: int) -> bool:
    """What a long holds already stays as it is.

    pre: -9223372036854775808 <= value <= 9223372036854775807
    post: _
    """
    return java.wrapped(value) == value


@contract("DELAY-005")
def an_int_is_what_32_bits_hold(value: int) -> bool:
    """A number fits exactly where Integer.parseInt would not refuse it.

    post: _
    """
    return java.fits(value, java.INT_BITS) == (-(2**31) <= value < 2**31)


@contract("SUBS-003")
def a_hash_is_an_int_of_java(before: int, is_long: bool) -> bool:
    """A text's hash is the polynomial over its code units that an int of Java's holds.

    post: _
    """
    text = "abc" * 5 if is_long else "b\U00010000"
    units = [97, 98, 99] * 5 if is_long else [98, 0xD800, 0xDC00]
    code = before
    for unit in units:
        code = code * 31 + unit
    return record.string_hash(text, before) == java.wrapped(code, java.INT_BITS)
