"""SQL92: the expressions by which a group chooses messages from their properties.

The language is the one of JMS selectors without arithmetic and LIKE, with CONTAINS, STARTSWITH
and ENDSWITH, and its logic has three values: what is asked of a property that a message lacks
is unknown (None), and only what is true matches. A property is always text. It becomes what it
is compared with, and where it cannot, the message does not match, wherever in the expression
that happens; an AND or OR that is decided by its left side does not look at its right. How a text
becomes a condition is the matter of sql92_parser.

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
from math import copysign, isnan
from typing import Any, Final, TypeAlias

from mqspec.core.java import INT_BITS, LONG_BITS, fits, java_number

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

_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)"
)
_HEX_DOUBLE = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?"
)
_JAVA_SPACE: Final = "".join(map(chr, range(33)))


def _integer(text: str, other: int) -> int:
    """Integer.valueOf or Long.valueOf: a number in an expression is the smaller that holds it."""
    bits = INT_BITS if fits(other, INT_BITS) else LONG_BITS
    try:
        return java_number(text, bits)
    except ValueError:
        raise EvaluationError(f"{text!r:.40} is no integer of {bits} bits") from None


def _double(text: str) -> float:
    """Double.valueOf."""
    text = text.strip(_JAVA_SPACE)
    if found := _HEX_DOUBLE.fullmatch(text):
        return float.fromhex(found[1])
    if not _DOUBLE.fullmatch(text):
        raise EvaluationError(f"{text!r:.40} is no double")
    return float(text.rstrip("fFdD"))


def is_true(text: str) -> bool:
    """Boolean.valueOf."""
    return text.lower() == "true"


def _convert(text: str, other: Value) -> Value:
    """What a text becomes that is compared with another value."""
    match other:
        case bool():
            return is_true(text)
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


def matches(condition: Condition, properties: Properties) -> bool:
    """Whether a message with these properties is wanted: the condition is true of it."""
    try:
        return condition.evaluate(properties) is True
    except (EvaluationError, RecursionError):
        return False
