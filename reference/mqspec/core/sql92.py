"""SQL92: the expressions by which a group chooses messages from their properties.

The language is the one of JMS selectors without arithmetic and LIKE, with CONTAINS, STARTSWITH
and ENDSWITH, and its logic has three values: what is asked of a property that a message lacks
is unknown (None), and only what is true matches. A property is always text. It becomes what it
is compared with, and where it cannot, the message does not match, wherever in the expression
that happens; an AND or OR that is decided by its left side does not look at its right.

Some of it surprises, and is as Apache 5.3.3 was seen to do it: an expression ends where the
grammar cannot go on, and what follows is not looked at (SUBS-013); NOT binds closer than any
comparison; the unknown is false to the right of '=' and unknown to its left.

Facts: filter/src/main/javacc/SelectorParser.jj and the package filter.expression (5.3.3), and 420
expressions that were asked of 5.3.3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from math import copysign, isinf, isnan
from operator import ge, gt, le, lt
from typing import Any, Final, TypeAlias, cast

from lark import Lark, Transformer, v_args
from lark.exceptions import LarkError, UnexpectedToken
from lark.lexer import Token

EXPRESSION_CHARS_MAX: Final = 16_384
"""A limit that the real one does not have: a broker of one thread reads it between others."""

Properties: TypeAlias = Mapping[str, str]
Value: TypeAlias = bool | int | float | str | None
"""What an expression has for a message; None: it is unknown."""


class ExpressionError(ValueError):
    """The text is no expression."""


class EvaluationError(ValueError):
    """A message's property is not what it is compared with."""


class Expression:
    """A part of an expression that has a value for a message."""

    def evaluate(self, properties: Properties) -> Value:
        """Raises EvaluationError."""
        raise NotImplementedError


class Condition(Expression):
    """A part that is true, false or unknown."""

    def evaluate(self, properties: Properties) -> bool | None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Constant(Expression):
    """A number or a text."""

    value: int | float | str

    def evaluate(self, properties: Properties) -> Value:
        return self.value


@dataclass(frozen=True, slots=True)
class Truth(Condition):
    """TRUE, FALSE or NULL."""

    value: bool | None

    def evaluate(self, properties: Properties) -> bool | None:
        return self.value


@dataclass(frozen=True, slots=True)
class Property(Expression):
    """A property of the message, by its name."""

    name: str

    def evaluate(self, properties: Properties) -> Value:
        return properties.get(self.name)


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """A number below a minus. A property below one is text, and so unknown."""

    of: Expression

    def evaluate(self, properties: Properties) -> Value:
        value = self.of.evaluate(properties)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return -value if is_number else None  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class Cast(Condition):
    """A property where a condition is expected: text is false, 'true' too."""

    of: Property

    def evaluate(self, properties: Properties) -> bool | None:
        return None if self.of.evaluate(properties) is None else False


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """True where the other is false."""

    of: Condition

    def evaluate(self, properties: Properties) -> bool | None:
        value = self.of.evaluate(properties)
        return None if value is None else not value


@dataclass(frozen=True, slots=True)
class Either(Condition):
    """AND (decided by false) or OR (decided by true), whose left side is looked at first."""

    decided_by: bool
    left: Condition
    right: Condition

    def evaluate(self, properties: Properties) -> bool | None:
        left = self.left.evaluate(properties)
        if left is self.decided_by:
            return left
        right = self.right.evaluate(properties)
        if right is self.decided_by:
            return right
        return None if left is None or right is None else not self.decided_by


@dataclass(frozen=True, slots=True)
class Equal(Condition):
    """Two values are the same; two that are unknown are."""

    left: Expression
    right: Expression

    def evaluate(self, properties: Properties) -> bool | None:
        left, right = self.left.evaluate(properties), self.right.evaluate(properties)
        if left is None and right is not None:
            return None
        if left is None or right is None:
            return left is right
        pair = _comparable(left, right)
        return pair is not None and pair[0] == pair[1]


@dataclass(frozen=True, slots=True)
class Compare(Condition):
    """One number is less than another, or more. Two texts are compared as numbers."""

    is_so: Callable[[Any, Any], bool]
    left: Expression
    right: Expression

    def evaluate(self, properties: Properties) -> bool | None:
        left, right = self.left.evaluate(properties), self.right.evaluate(properties)
        if left is None or right is None:
            return None
        if isinstance(left, str) and isinstance(right, str):
            left, right = _double(left), _double(right)
        pair = _comparable(left, right)
        return pair is not None and self.is_so(*pair)


@dataclass(frozen=True, slots=True)
class In(Condition):
    """A property is one of some texts."""

    of: Property
    texts: frozenset[str]

    def evaluate(self, properties: Properties) -> bool | None:
        value = self.of.evaluate(properties)
        return None if value is None else value in self.texts


@dataclass(frozen=True, slots=True)
class TextTest(Condition):
    """CONTAINS, STARTSWITH or ENDSWITH; `negated`: NOT so. False, never unknown, of what is not
    a text, and where the text that is looked for is empty: the negated ones too."""

    test: Callable[[str, str], bool]
    of: Expression
    text: str
    negated: bool

    def evaluate(self, properties: Properties) -> bool | None:
        value = self.of.evaluate(properties)
        if not isinstance(value, str) or not self.text:
            return False
        return self.test(value, self.text) is not self.negated


# Comparing, as Java converts.

_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_HEX_DOUBLE = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_JAVA_SPACE: Final = "".join(map(chr, range(33)))


def _fits(value: int, bits: int) -> bool:
    return value >> bits - 1 in (0, -1)


def _integer(text: str, other: int) -> int:
    """Integer.valueOf or Long.valueOf: a number in an expression is the smaller that holds it."""
    bits = 32 if _fits(other, 32) else 64
    if not _INTEGER.fullmatch(text) or not _fits(int(text), bits):
        raise EvaluationError(f"{text!r:.40} is no integer of {bits} bits")
    return int(text)


def _double(text: str) -> float:
    """Double.valueOf."""
    text = text.strip(_JAVA_SPACE)
    if found := _HEX_DOUBLE.fullmatch(text):
        return float.fromhex(found[1])
    if not _DOUBLE.fullmatch(text):
        raise EvaluationError(f"{text!r:.40} is no double")
    return float(text.rstrip("fFdD"))


def _is_true(text: str) -> bool:
    """Boolean.valueOf."""
    return text.lower() == "true"


def _convert(text: str, other: Value) -> Value:
    """What a text becomes that is compared with another value."""
    match other:
        case bool():
            return _is_true(text)
        case int():
            return _integer(text, other)
        case float():
            return _double(text)
        case _:
            return text


def _comparable(left: Value, right: Value) -> tuple[object, object] | None:
    """Two values as ones of one type, or None where they are of different ones. A condition
    cannot be compared with a text to its right."""
    if isinstance(left, str):
        left = _convert(left, right)
    elif isinstance(right, str):
        if isinstance(left, bool):
            raise EvaluationError("a condition is compared with a text")
        right = _convert(right, left)
    if isinstance(left, bool | str) or isinstance(right, bool | str):
        return (left, right) if type(left) is type(right) else None
    if isinstance(left, int) and isinstance(right, int):
        return left, right
    assert left is not None
    assert right is not None
    return _order(float(left)), _order(float(right))


def _order(value: float) -> tuple[bool, float, float]:
    """Double.compareTo: NaN is above all and equal to itself, and -0.0 is below 0.0."""
    return isnan(value), 0.0 if isnan(value) else value, copysign(1.0, value)


# Parsing

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
        value = int(token.rstrip("lL"))
        if not _fits(value, 64):
            raise ExpressionError(f"{token:.40} is no long")
        return Constant(value)

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
        return Truth(_is_true(token))

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


def matches(condition: Condition, properties: Properties) -> bool:
    """Whether a message with these properties is wanted: the condition is true of it."""
    try:
        return condition.evaluate(properties) is True
    except (EvaluationError, RecursionError):
        return False
