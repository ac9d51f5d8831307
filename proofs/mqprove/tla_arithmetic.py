"""Products and divisions of numbers of which neither is written out.

They are functions of which nothing is known until it matters: most of what is proved is true
whatever they are, and a solver that is told what they are multiplies for ever. `facts` tell it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

import z3

_TIMES, _QUOTIENT, _REMAINDER = (
    z3.Function(name, *[z3.IntSort()] * 3) for name in ("times", "quotient", "remainder")
)


def _times(one: z3.ArithRef, other: z3.ArithRef, *, known: bool) -> z3.ArithRef:
    is_linear = any(z3.is_int_value(z3.simplify(each)) for each in (one, other))
    return one * other if known or is_linear else _TIMES(one, other)


def _divided(
    function: z3.FuncDeclRef, exact: Callable[[z3.ArithRef, z3.ArithRef], z3.ArithRef]
) -> Callable[..., z3.ArithRef]:
    """Z3 rounds as TLC does where the divisor is positive; by any other TLC does not divide, and
    nothing is known of what would be found."""

    def divided(number: z3.ArithRef, by: z3.ArithRef, *, known: bool) -> z3.ArithRef:
        divisor = z3.simplify(by)
        if z3.is_int_value(divisor) and divisor.as_long() > 0:
            return exact(number, by)
        found = function(number, by)
        return z3.If(by > 0, exact(number, by), found) if known else found

    return divided


PRODUCTS: Mapping[str, Callable[..., z3.ArithRef]] = {
    "*": _times,
    "%": _divided(_REMAINDER, operator.mod),
    "\\div": _divided(_QUOTIENT, operator.truediv),
}
"""By name. What they are is `known` in a small world, where they are computed."""


def facts(spoken: AbstractSet[str]) -> Iterator[z3.BoolRef]:
    """What is true of those of them that are spoken of, by the names of functions."""
    x, y = z3.Ints("x y")
    product, quotient, remainder = (each(x, y) for each in (_TIMES, _QUOTIENT, _REMAINDER))
    if _TIMES.name() in spoken:
        yield z3.ForAll([x, y], product == x * y, patterns=[product])
    if {_QUOTIENT.name(), _REMAINDER.name()} & spoken:
        whole = z3.And(x == y * quotient + remainder, remainder >= 0, remainder < y)
        yield z3.ForAll([x, y], z3.Implies(y > 0, whole), patterns=[quotient, remainder])
