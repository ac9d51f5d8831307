"""SQL92: what Apache 5.3.3 answered, expression by expression, and the laws of three values.

sql92_observed.json has messages, and for each expression which of them a pull of 5.3.3 with
enablePropertyFilter delivered; null where request 46 called the expression wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqspec.core.sql92 import Condition, EvaluationError, ExpressionError, matches
from mqspec.core.sql92_parser import EXPRESSION_CHARS_MAX, compile_expression

OBSERVED: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("sql92_observed.json").read_text(encoding="utf-8")
)
# What every message has besides.
BROKERS_OWN = {"CLUSTER": "DefaultCluster", "MSG_REGION": "DefaultRegion", "UNIQ_KEY": "U"}


def found(text: str, messages: list[dict[str, str]]) -> list[int] | None:
    """Which messages match; None: the expression is wrong."""
    try:
        condition = compile_expression(text)
    except ExpressionError:
        return None
    return [
        number
        for number, message in enumerate(messages)
        if matches(condition, message | BROKERS_OWN | {"KEYS": f"r{number}"})
    ]


@pytest.mark.parametrize("table", OBSERVED, ids=["first", "second"])
def test_all_that_was_asked_of_the_real_broker(table: dict[str, Any]) -> None:
    messages = table["messages"]
    wrong = {
        text: (mine, expected)
        for text, expected in table["expressions"]
        if (mine := found(text, messages)) != expected
    }
    assert wrong == {}
    assert len(table["expressions"]) > 100


# A property t is 'true' and f is 'false'; there is no property u.
MESSAGE = {"t": "true", "f": "false", "n": "3", "x": "text"}
VALUES = {"t = TRUE": True, "f = TRUE": False, "u = TRUE": None, "n > 2": True, "u > 2": None}

conditions = st.recursive(
    st.sampled_from([*VALUES, "TRUE", "FALSE", "NULL"]),
    lambda inner: st.one_of(
        inner.map(lambda a: f"NOT ({a})"),
        st.tuples(inner, inner).map(lambda ab: f"({ab[0]}) AND ({ab[1]})"),
        st.tuples(inner, inner).map(lambda ab: f"({ab[0]}) OR ({ab[1]})"),
    ),
    max_leaves=6,
)


def value(text: str, message: Mapping[str, str] = MESSAGE) -> bool | None:
    return compile_expression(text).evaluate(message)


@pytest.mark.parametrize(("text", "expected"), VALUES.items())
def test_the_three_values(text: str, expected: bool | None) -> None:
    assert value(text) is expected


LAW = settings(deadline=None, derandomize=True)  # a machine may be busy


@LAW
@given(conditions)
def test_not_keeps_the_unknown(a: str) -> None:
    known = value(a)
    assert value(f"NOT ({a})") is (None if known is None else not known)
    assert value(f"NOT (NOT ({a}))") is known


@LAW
@given(conditions, conditions)
def test_and_is_the_least_and_or_the_greatest(a: str, b: str) -> None:
    order = [False, None, True]
    left, right = order.index(value(a)), order.index(value(b))
    assert value(f"({a}) AND ({b})") is order[min(left, right)]
    assert value(f"({a}) OR ({b})") is order[max(left, right)]


@LAW
@given(conditions, conditions)
def test_de_morgan(a: str, b: str) -> None:
    assert value(f"NOT (({a}) AND ({b}))") is value(f"NOT ({a}) OR NOT ({b})")


@LAW
@given(conditions)
def test_is_null_is_never_unknown(a: str) -> None:
    assert value(f"({a}) IS NULL") is (value(a) is None)
    assert value(f"({a}) IS NOT NULL") is (value(a) is not None)


@LAW
@given(st.text(max_size=40))
def test_no_text_does_more_than_be_wrong(text: str) -> None:
    try:
        condition = compile_expression(text)
    except ExpressionError:
        return
    assert isinstance(condition, Condition)
    assert matches(condition, MESSAGE) in (True, False)


def test_what_cannot_be_compared_does_not_match() -> None:
    condition = compile_expression("x > 1 OR n > 2")
    with pytest.raises(EvaluationError):
        condition.evaluate(MESSAGE)
    assert not matches(condition, MESSAGE)
    assert matches(compile_expression("n > 2 OR x > 1"), MESSAGE)


def test_a_number_of_too_many_digits_is_none() -> None:
    for digits in (100, 5000):
        assert not matches(compile_expression("n > 2"), {"n": "9" * digits})
        with pytest.raises(ExpressionError, match="is no long"):
            compile_expression("n > " + "9" * digits)


def test_a_tower_of_nots_matches_nothing() -> None:
    assert not matches(compile_expression("NOT " * 4001 + "TRUE"), MESSAGE)


def test_an_expression_has_a_greatest_length() -> None:
    longest = "TRUE".ljust(EXPRESSION_CHARS_MAX)
    assert matches(compile_expression(longest), MESSAGE)
    with pytest.raises(ExpressionError, match="16385 characters"):
        compile_expression(longest + " ")
