"""What Java reads as a number (Integer.parseInt and Long.parseLong), how it splits a text, and how
it writes a time."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

INT_BITS: Final = 32
INT_MAX: Final = (1 << INT_BITS - 1) - 1
LONG_BITS: Final = 64

# Digits of any script, of those that are one char of Java.
_NUMBER = re.compile(r"[+-]?(?:(?![\U00010000-\U0010FFFF])\d){1,99}")


def fits(value: int, bits: int) -> bool:
    """Whether a signed number of so many bits can be the value."""
    return value >> bits - 1 in (0, -1)


def wrapped(value: int, bits: int = LONG_BITS) -> int:
    """What a Java long holds of a number, or an int with its number of bits."""
    half = 1 << bits - 1
    return (value + half) % (2 * half) - half


def java_number(text: str, bits: int) -> int:
    """The number that a text is, where it has a sign or none, digits, and nothing else. Raises
    ValueError, with what the text is, where Java finds no number of so many bits in it."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"is {text!r:.40}, not a number")
    number = int(text)
    if not fits(number, bits):
        raise ValueError(f"is {text:.40}, which {bits} bits do not hold")
    return number


def human_time(time_ms: int) -> str:
    """A time since the epoch as people read it here (UtilAll.timeMillisToHumanString2, 5.3.3);
    one that is too far away stays a number."""
    try:
        second = datetime.fromtimestamp(time_ms // 1000)
    except (ValueError, OverflowError, OSError):
        return str(time_ms)
    return f"{second:%Y-%m-%d %H:%M:%S},{time_ms % 1000:03}"


def java_split(text: str, separator: str) -> list[str]:
    """String.split: what is empty at the end is dropped; of nothing but separators nothing is
    left."""
    parts = text.split(separator)
    while text and parts and not parts[-1]:
        parts.pop()
    return parts
