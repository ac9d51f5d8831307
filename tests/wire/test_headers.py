"""The fields of a header: read at once as one by one, and with the same errors."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqspec.wire import headers
from mqspec.wire.codec import Int, RemotingCommand
from mqspec.wire.headers import HeaderError, Long


class Wanted(msgspec.Struct, frozen=True):
    topic: str = msgspec.field(name="b")
    queue_id: Int = msgspec.field(name="e")
    time_ms: Long = msgspec.field(name="g")
    group: str = msgspec.field(name="a", default="nobody")
    flag: Int = msgspec.field(name="h", default=7)


def at_once(request: RemotingCommand) -> Wanted:
    return headers.read(request, Wanted)


def one_by_one(request: RemotingCommand, is_strict: bool = True) -> Wanted:
    return Wanted(
        headers.text(request, "b"),
        headers.integer(request, "e"),
        headers.long(request, "g"),
        request.ext_fields.get("a", "nobody"),
        headers.integer(request, "h", *(() if is_strict and "h" in request.ext_fields else (7,))),
    )


def outcome(
    read: Callable[[RemotingCommand], Wanted], fields: dict[str, str]
) -> tuple[Wanted | None, str]:
    try:
        return read(RemotingCommand(310, fields)), ""
    except HeaderError as error:
        return None, str(error)


USUAL = {"b": "T", "e": "1", "g": "5", "a": "G", "h": "0", "i": "unknown"}


def test_all_fields_are_read_at_once() -> None:
    assert at_once(RemotingCommand(310, USUAL)) == Wanted("T", 1, 5, "G", 0)


def test_what_is_not_sent_has_its_default() -> None:
    request = RemotingCommand(310, {"b": "T", "e": "-1", "g": "5"})
    assert at_once(request) == Wanted("T", -1, 5, "nobody", 7)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("e", "1.0", "the field e is '1.0', not a number"),
        ("e", "1e3", "the field e is '1e3', not a number"),
        ("h", "null", "the field h is 'null', not a number"),
        ("g", "", "the field g is '', not a number"),
        ("e", "2147483648", "the field e is 2147483648, which 32 bits do not hold"),
        ("g", str(1 << 63), f"the field g is {1 << 63}, which 64 bits do not hold"),
    ],
)
def test_a_field_that_does_not_fit_is_named(name: str, value: str, said: str) -> None:
    assert outcome(at_once, USUAL | {name: value}) == (None, said)


@pytest.mark.parametrize("name", ["b", "e", "g"])
def test_a_field_that_must_be_there_is_named(name: str) -> None:
    fields = {each: value for each, value in USUAL.items() if each != name}
    assert outcome(at_once, fields) == (None, f"the field {name} is missing")


numbers = st.integers(-(2**65), 2**65).map(str) | st.sampled_from(
    ["1.0", "1e3", "1E3", "-0", "+5", " 5", "1_0", "null", "true", "", "٣", "0x1", "05", "NaN"]
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "a": st.text(),
            "b": st.text(),
            "e": numbers,
            "g": numbers,
            "h": numbers,
            "k": st.text(),
        },
    )
)
@example({"b": "\ud800", "e": "1", "g": str(2**63 - 1)})
def test_at_once_is_as_one_by_one(fields: dict[str, str]) -> None:
    assert outcome(at_once, fields) == outcome(one_by_one, fields)
    read = outcome(lambda request: headers.read_by_reflection(request, Wanted), fields)
    assert read == outcome(lambda request: one_by_one(request, is_strict=False), fields)


@pytest.mark.parametrize(
    "value", ["", " 5 ", "1_0", "1e3", "0x10", "true", "2147483648", "9" * 200]
)
def test_what_java_does_not_read_is_as_if_it_were_missing(value: str) -> None:
    request = RemotingCommand(10, {"h": value})
    assert headers.integer(request, "h", 3) == 3
    assert headers.integer(request, "h", None) is None
    with pytest.raises(HeaderError, match="the field h is"):
        headers.integer(request, "h")


def test_a_number_may_have_a_sign() -> None:
    request = RemotingCommand(10, {"g": f"-{2**63}", "h": "+3"})
    assert (headers.long(request, "g"), headers.integer(request, "h", 7)) == (-(2**63), 3)
