"""What Java reads as a number, how it splits a text, and how it writes a time."""

from __future__ import annotations

import time

import pytest

from mqspec.core.java import INT_BITS, LONG_BITS, human_time, java_number, java_split, wrapped


@pytest.mark.parametrize(
    ("text", "bits", "number"),
    [
        ("0", INT_BITS, 0),
        ("+007", INT_BITS, 7),
        ("\uff13\u0663", INT_BITS, 33),
        ("2147483647", INT_BITS, 2**31 - 1),
        ("-2147483648", INT_BITS, -(2**31)),
        ("2147483648", LONG_BITS, 2**31),
        ("-9223372036854775808", LONG_BITS, -(2**63)),
    ],
)
def test_a_number(text: str, bits: int, number: int) -> None:
    assert java_number(text, bits) == number


@pytest.mark.parametrize("text", ["", " 1", "1 ", "1_0", "1.0", "0x1", "--1", "+", "9" * 5000])
def test_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a number"):
        java_number(text, LONG_BITS)


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("2147483648", INT_BITS),
        ("-2147483649", INT_BITS),
        ("-9223372036854775809", LONG_BITS),
        ("-18446744073709551616", LONG_BITS),
    ],
)
def test_a_number_that_is_too_big(text: str, bits: int) -> None:
    with pytest.raises(ValueError, match=f"{bits} bits do not hold"):
        java_number(text, bits)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        (",", []),
        ("a", ["a"]),
        ("a,,", ["a"]),
        (",a", ["", "a"]),
        ("a,,b", ["a", "", "b"]),
    ],
)
def test_a_text_is_split(text: str, parts: list[str]) -> None:
    assert java_split(text, ",") == parts


@pytest.mark.parametrize(
    ("value", "left"),
    [(0, 0), (-1, -1), (2**63 - 1, 2**63 - 1), (2**63, -(2**63)), (1000 * (2**63 - 1), -1000)],
)
def test_what_does_not_fit_wraps(value: int, left: int) -> None:
    assert wrapped(value) == left


def test_a_time_as_people_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        assert human_time(4_102_444_800_123) == "2100-01-01 00:00:00,123"
        assert human_time(1 << 62) == str(1 << 62)
    finally:
        monkeypatch.undo()
        time.tzset()
