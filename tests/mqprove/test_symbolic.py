"""Symbolic numbers and lists do what Python's do: every operator, every slice, every error."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from itertools import product
from operator import getitem
from typing import Any

import pytest
import z3

from mqprove.lists import all_queues, forget_bases
from mqprove.symbolic import NotUnderstoodError, Number, explore

OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]


def number(value: int | z3.ArithRef) -> Any:
    """Its operators are made from a table, where no type checker sees them."""
    return Number(z3.IntVal(value) if isinstance(value, int) else value)


@pytest.mark.parametrize("operation", OPERATORS)
def test_numbers_are_as_pythons(operation: Callable[[object, object], object]) -> None:
    for left, right in product(range(-4, 5), repeat=2):
        [path] = explore(partial(operation, number(left), number(right)), [])
        try:
            expected = operation(left, right)
        except ZeroDivisionError:
            assert isinstance(path.error, ZeroDivisionError)
            continue
        assert path.error is None
        assert z3.is_true(z3.simplify(path.value.term == expected)), (left, right)


@pytest.mark.parametrize("operation", [operator.lshift, operator.rshift])
def test_a_negative_shift_raises(operation: Callable[[object, object], object]) -> None:
    [path] = explore(partial(operation, number(1), -1), [])
    assert isinstance(path.error, ValueError)


def test_slices_are_as_pythons() -> None:
    bounds = (None, -5, -2, 0, 1, 3, 6)
    for length, start, stop, step in product((0, 1, 4), bounds, bounds, (None, 1, 2)):
        forget_bases()
        queues = all_queues(z3.IntVal(length))
        [path] = explore(partial(getitem, queues, slice(start, stop, step)), [])
        expected = list(range(length))[start:stop:step]
        held = [path.value.contains(z3.IntVal(k))[0] for k in range(length)]
        found = [k for k, holds in enumerate(held) if z3.is_true(z3.simplify(holds))]
        assert found == expected, (length, start, stop, step)
        assert z3.simplify(path.value.length()).as_long() == len(expected)


def test_a_slice_of_floats_raises() -> None:
    forget_bases()
    [path] = explore(lambda: all_queues(z3.IntVal(4))[number(4) / 2 :], [])
    assert isinstance(path.error, TypeError)


def test_floats_are_not_compared() -> None:
    [path] = explore(lambda: number(4) / 2 < 3, [])
    assert isinstance(path.error, NotUnderstoodError)


def test_every_path_is_taken_once() -> None:
    n = z3.Int("n")

    def sign(x: Any) -> int:
        if x < 0:
            return -1
        return 1 if x > 0 else 0

    paths = explore(lambda: sign(Number(n)), [])
    assert sorted(path.value for path in paths) == [-1, 0, 1]
    solver = z3.Solver()
    assert solver.check(z3.Not(z3.Or([path.condition for path in paths]))) == z3.unsat
    assert [path.value for path in explore(lambda: sign(Number(n)), [n > 0])] == [1]


def test_a_possible_zero_divisor_is_a_path_that_raises() -> None:
    n = z3.Int("n")
    assert [path.error for path in explore(lambda: 1 // number(n), [n > 0])] == [None]
    errors = [type(path.error) for path in explore(lambda: 1 // number(n), [n >= 0])]
    assert sorted(error.__name__ for error in errors) == ["NoneType", "ZeroDivisionError"]


def test_a_loop_on_a_symbolic_number_is_not_understood() -> None:
    def count_down(x: Any) -> None:
        while x > 0:
            x = x - 1

    with pytest.raises(NotUnderstoodError, match="paths"):
        explore(lambda: count_down(Number(z3.Int("n"))), [])
