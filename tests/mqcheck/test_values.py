"""TLA+ values as TLC prints them."""

from __future__ import annotations

import pytest

from mqcheck.values import FrozenDict, ModelValue, parse_state, parse_value, tla


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-3", -3),
        ('"a \\"b\\" \\\\"', 'a "b" \\'),
        ("TRUE", True),
        ("m1", ModelValue("m1")),
        ("{}", frozenset()),
        ("2..4", frozenset({2, 3, 4})),
        ("{<<1, m1>>, <<>>}", frozenset({(1, "m1"), ()})),
        ("[a |-> {1}, b |-> [c |-> FALSE]]", {"a": frozenset({1}), "b": {"c": False}}),
        ("(m1 :> {0} @@ m2 :> {})", {"m1": frozenset({0}), "m2": frozenset()}),
    ],
)
def test_each_kind_of_value(text: str, value: object) -> None:
    assert parse_value(text) == value
    assert parse_value(tla(parse_value(text))) == value


def test_functions_and_records_can_be_members_of_sets() -> None:
    assert parse_value("{[a |-> 1], [a |-> 1]}") == {FrozenDict({"a": 1})}


def test_a_state_with_several_variables_and_one_with_a_single_variable() -> None:
    assert parse_state("/\\ x = 1\n/\\ y = <<1,\n  2>>\n") == {"x": 1, "y": (1, 2)}
    assert parse_state("x = {1}") == {"x": frozenset({1})}


@pytest.mark.parametrize("text", ["", "{1", "[a 1]", "1 2", "(1 :> 2", "?"])
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_value(text)
