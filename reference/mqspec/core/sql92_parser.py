"""SQL92, the text: its grammar, and the condition that an expression means.

Facts: filter/src/main/javacc/SelectorParser.jj (5.3.3), and 420 expressions that were asked of
5.3.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from math import isinf
from operator import ge, gt, le, lt
from typing import Any, Final, cast

from lark import Lark, Transformer, v_args
from lark.exceptions import LarkError, UnexpectedToken
from lark.lexer import Token

from mqspec.core.java import LONG_BITS, java_number
from mqspec.core.sql92 import (
    Cast,
    Compare,
    Condition,
    Constant,
    Either,
    Equal,
    Expression,
    ExpressionError,
    In,
    Negative,
    Not,
    Property,
    TextTest,
    Truth,
    is_true,
)

EXPRESSION_CHARS_MAX: Final = 16_384
"""A limit that the real one does not have: a broker of one thread reads it between others."""

_GRAMMAR: Final = r"""
    ?start: either -> condition
    ?either: both | either _OR both -> or_
    ?both: equality | both _AND equality -> and_
    ?equality: comparison
        | equality "=" comparison -> equal
        | equality "<>" comparison -> not_equal
        | equality _IS _NULL -> is_null
        | equality _IS _NOT _NULL -> is_not_null
    ?comparison: unary
        | comparison ORDER unary -> compare
        | comparison TEXT_TEST STRING -> text_test
        | comparison _NOT TEXT_TEST STRING -> not_text_test
        | comparison _BETWEEN unary _AND unary -> between
        | comparison _NOT _BETWEEN unary _AND unary -> not_between
        | comparison _IN "(" STRING ("," STRING)* ")" -> in_
        | comparison _NOT _IN "(" STRING ("," STRING)* ")" -> not_in
    ?unary: primary
        | "+" unary
        | "-" unary -> negative
        | _NOT unary -> not_
    ?primary: "(" either ")"
        | DECIMAL -> decimal
        | FLOAT -> float_
        | STRING -> string
        | TRUTH -> truth
        | _NULL -> null
        | ID -> property_

    ORDER: /<(?!>)=?|>=?/
    TEXT_TEST.2: /(CONTAINS|STARTSWITH|ENDSWITH)(?![a-z0-9_$])/i
    TRUTH.2: /(TRUE|FALSE)(?![a-z0-9_$])/i
    _OR.2: /OR(?![a-z0-9_$])/i
    _AND.2: /AND(?![a-z0-9_$])/i
    _NOT.2: /NOT(?![a-z0-9_$])/i
    _IS.2: /IS(?![a-z0-9_$])/i
    _IN.2: /IN(?![a-z0-9_$])/i
    _NULL.2: /NULL(?![a-z0-9_$])/i
    _BETWEEN.2: /BETWEEN(?![a-z0-9_$])/i
    ID: /[a-z_$][a-z0-9_$]*/i
    FLOAT.2: /[0-9]+\.[0-9]*(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+/i
    DECIMAL: /(0|[1-9][0-9]*)l?/i
    STRING: /'(''|[^'])*'/
    %ignore /[ \t\n\r\f]+/
    %ignore /--[^\n\r]*/
    %ignore /\/\*(.|\n)*?\*\//
"""

_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">": gt,
    ">=": ge,
    "<": lt,
    "<=": le,
}
_TEXT_TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def _condition(expression: Expression) -> Condition:
    """An expression where a condition is expected. Raises ExpressionError."""
    if isinstance(expression, Property):
        return Cast(expression)
    if not isinstance(expression, Condition):
        raise ExpressionError(f"Expression will not result in a boolean value: {expression}")
    return expression


def _equal(left: Expression, right: Expression) -> Equal:
    for side in (left, right):
        if isinstance(side, Truth) and side.value is None:
            raise ExpressionError("'NULL' cannot be compared.")
    if isinstance(left, Truth) and isinstance(right, Constant):
        raise ExpressionError(f"{left} cannot be compared with {right}")
    return Equal(left, right)


def _compare(order: str, left: Expression, right: Expression) -> Compare:
    for side in (left, right):
        is_text = isinstance(side, Constant) and isinstance(side.value, str)
        if is_text or isinstance(side, Condition):
            raise ExpressionError(f"Value {side} cannot be compared.")
    return Compare(_ORDERS[order], left, right)


def _text(token: str) -> str:
    return token[1:-1].replace("''", "'")


@v_args(inline=True)
class _Build(Transformer[Token, Expression]):
    """An Expression for each rule of the grammar."""

    def condition(self, of: Expression) -> Expression:
        return _condition(of)

    def or_(self, left: Expression, right: Expression) -> Expression:
        return Either(True, _condition(left), _condition(right))

    def and_(self, left: Expression, right: Expression) -> Expression:
        return Either(False, _condition(left), _condition(right))

    def equal(self, left: Expression, right: Expression) -> Expression:
        return _equal(left, right)

    def not_equal(self, left: Expression, right: Expression) -> Expression:
        return Not(_equal(left, right))

    def is_null(self, of: Expression) -> Expression:
        return Equal(of, Truth(None))

    def is_not_null(self, of: Expression) -> Expression:
        return Not(Equal(of, Truth(None)))

    def compare(self, left: Expression, order: Token, right: Expression) -> Expression:
        return _compare(order, left, right)

    def text_test(self, of: Expression, test: Token, text: Token) -> Expression:
        return TextTest(_TEXT_TESTS[test.upper()], of, _text(text), False)

    def not_text_test(self, of: Expression, test: Token, text: Token) -> Expression:
        return TextTest(_TEXT_TESTS[test.upper()], of, _text(text), True)

    def between(self, of: Expression, low: Expression, high: Expression) -> Expression:
        _check_range(low, high)
        return Either(False, _compare(">=", of, low), _compare("<=", of, high))

    def not_between(self, of: Expression, low: Expression, high: Expression) -> Expression:
        return Either(True, _compare("<", of, low), _compare(">", of, high))

    def in_(self, of: Expression, *texts: Token) -> Expression:
        if not isinstance(of, Property):
            raise ExpressionError(f"Expected a property for In expression, got: {of}")
        return In(of, frozenset(map(_text, texts)))

    def not_in(self, of: Expression, *texts: Token) -> Expression:
        return Not(_condition(self.in_(of, *texts)))

    def negative(self, of: Expression) -> Expression:
        return Negative(of)

    def not_(self, of: Expression) -> Expression:
        return Not(_condition(of))

    def decimal(self, token: Token) -> Expression:
        try:
            return Constant(java_number(token.rstrip("lL"), LONG_BITS))
        except ValueError:
            raise ExpressionError(f"{token:.40} is no long") from None

    def float_(self, token: Token) -> Expression:
        value = float(token)
        if isinf(value):
            raise ExpressionError(f"{token:.40} is greater than 1.7976931348623157E308")
        if value == 0:  # the real one takes the least double above 0 for the least of all
            raise ExpressionError(f"{token:.40} is less than 4.9E-324")
        return Constant(value)

    def string(self, token: Token) -> Expression:
        return Constant(_text(token))

    def truth(self, token: Token) -> Expression:
        return Truth(is_true(token))

    def null(self) -> Expression:
        return Truth(None)

    def property_(self, token: Token) -> Expression:
        return Property(str(token))


def _check_range(low: Expression, high: Expression) -> None:
    if not isinstance(low, Constant | Truth) or not isinstance(high, Constant | Truth):
        return
    if low.value is None or high.value is None:
        raise ExpressionError("Illegal values of between, values can not be null!")
    if isinstance(low.value, str) or isinstance(high.value, str) or low.value > high.value:
        raise ExpressionError(
            f"Illegal values of between, left value({low.value}) must less than or equal to "
            f"right value({high.value})"
        )


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", transformer=_Build())


def compile_expression(text: str) -> Condition:
    """The condition that a text means. It ends where the grammar cannot go on; one more token is
    read, which must be one. Raises ExpressionError."""
    compiled = _compile(text)
    if isinstance(compiled, str):
        raise ExpressionError(compiled)
    return compiled


@lru_cache(maxsize=256)
def _compile(text: str) -> Condition | str:
    """The condition, or what is wrong: that is remembered as well, for it is asked as often."""
    if len(text) > EXPRESSION_CHARS_MAX:
        return f"an expression of {len(text)} characters, at most {EXPRESSION_CHARS_MAX} are read"
    try:
        return _parse(text)
    except UnexpectedToken as error:
        if "$END" not in error.accepts:
            return _first_line(error)
        return _compile(text[: error.token.start_pos])
    except (LarkError, ExpressionError) as error:
        return _first_line(error)


def _parse(text: str) -> Condition:
    return cast(Condition, _parser().parse(text))  # as the transformer makes it


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
