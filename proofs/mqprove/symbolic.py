"""Ordinary Python, run on Z3 terms: along every path, with Python's own semantics.

A theorem is about the code that runs, so the code itself is run: `explore` calls it with
`Number`s instead of ints. An operation on them builds a term; a branch on one is taken both
ways where Z3 finds both possible, each in a run of its own. What would raise on an int raises
here: a division asks first whether the divisor may be zero, and if it may, one path raises.
So that a path without an error is one whose side conditions are proved.

Operators that are not arithmetic (shifts, bits, powers) are opaque: an uninterpreted function,
of which a refutation learns the values that it needs.
"""

from __future__ import annotations

import inspect
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import z3

RUNTIME = "__runtime__"  # what a lifted module knows its stand-ins by
PATHS_MAX = 64  # of one call: more, or more decisions on one of them, mean that the
DECISIONS_MAX = 64  # code loops on a symbolic number
WHILE_TURNS_MAX = 16  # of one while without a bound that was found
BRANCH_MS_MAX = 2_000  # for Z3 to say whether a branch is possible; no answer: it may be

Term: TypeAlias = z3.ArithRef
T = TypeVar("T")


class NotUnderstoodError(Exception):
    """The code does something that has no symbolic meaning here: nothing is proved.

    The run remembers it, so that code which catches every exception does not hide it.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what if what.startswith("line ") else _line() + what)
        if _Run.active:
            _Run.active.refused.append(self)


def _line() -> str:
    """Where the code under proof is now, in the words of a refusal; empty: nowhere."""
    frame = inspect.currentframe()
    while frame and RUNTIME not in frame.f_globals:
        frame = frame.f_back
    return f"line {frame.f_lineno}: " if frame else ""


def refusing(*names: str) -> Callable[[type[T]], type[T]]:
    """Operations that Python would answer for any object, or look for in vain, and that a symbolic
    value refuses instead: what it answered would be about the stand-in."""

    def add(to: type[T]) -> type[T]:
        for name in names:
            if to.__dict__.get(name) is None:  # None: as Python leaves __hash__ beside __eq__
                setattr(to, name, _refusal(to.__name__, name))
        return to

    return add


def _refusal(owner: str, name: str) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> Any:
        raise NotUnderstoodError(f"{name} of a {owner}")

    return refuse


_TEXT = ("__str__", "__repr__", "__format__", "__bytes__")
_NUMBER = ("__int__", "__float__", "__complex__", "__index__")
_ROUNDED = ("__round__", "__floor__", "__ceil__", "__trunc__")
_ORDERED = ("__lt__", "__le__", "__gt__", "__ge__")
_ADDED = ("__add__", "__radd__", "__iadd__", "__mul__", "__rmul__", "__mod__", "__or__")
_HELD = ("__len__", "__reversed__", "__contains__", "__getitem__", "__setitem__", "__delitem__")
OF_NUMBERS = ("__hash__", *_TEXT, *_NUMBER, *_ROUNDED)
OPERATIONS = ("__hash__", *_TEXT, *_NUMBER, *_ORDERED, *_ADDED, *_HELD)


@dataclass(frozen=True, slots=True)
class Opaque:
    """One use of an operator that Z3 is not told the meaning of."""

    meaning: Callable[[int, int], int]
    left: Term
    right: Term
    result: Term


@dataclass(frozen=True, slots=True)
class Path:
    """One way through the code: under `condition` it returned `value`, or raised `error`."""

    condition: z3.BoolRef
    value: Any
    error: Exception | None
    opaque: tuple[Opaque, ...]
    facts: tuple[z3.BoolRef, ...] = ()  # what is true of the terms in it, on any path
    effects: tuple[tuple[Any, Any], ...] = ()  # of a loop's turn: to which list, and what
    owed: tuple[tuple[str, z3.BoolRef], ...] = ()  # what is to be shown for it


def explore(call: Callable[[], object], hypotheses: Iterable[z3.BoolRef]) -> list[Path]:
    """Every path of `call` that the hypotheses allow: together they cover all cases."""
    hypotheses = list(hypotheses)
    pending: list[list[bool]] = [[]]
    paths: list[Path] = []
    while pending:
        run = _Run(hypotheses, pending.pop())
        paths.append(run.follow(call))
        pending += run.forks
        if len(paths) + len(pending) > PATHS_MAX:
            raise NotUnderstoodError(f"more than {PATHS_MAX} paths")
    return paths


class _Run:
    """One call: takes the decisions that are given, then the first possible one of each pair."""

    active: _Run | None = None

    def __init__(self, hypotheses: list[z3.BoolRef], given: list[bool]) -> None:
        self.solver = z3.Solver()
        self.solver.set("timeout", BRANCH_MS_MAX)
        self.solver.add(hypotheses)
        self.given = given
        self.decisions: list[bool] = []
        self.conditions: list[z3.BoolRef] = []
        self.forks: list[list[bool]] = []
        self.opaque: list[Opaque] = []
        self.facts: list[z3.BoolRef] = []
        self.effects: list[tuple[Any, Any]] = []
        self.owed: list[tuple[str, z3.BoolRef]] = []
        self.refused: list[NotUnderstoodError] = []
        self.looked_at: list[Any] = []  # lists from outside of a loop's turn
        self.turns: Counter[int] = Counter()  # of each while, by its line
        self.depth: int = 0 if _Run.active is None else _Run.active.depth + 1

    def follow(self, call: Callable[[], object]) -> Path:
        outer, _Run.active = _Run.active, self
        value, error = None, None
        try:
            value = call()
        except Exception as raised:
            # Whatever the code raises is what this path does: the theorem judges it.
            error = raised
        finally:
            _Run.active = outer
        if self.refused:
            value, error = None, self.refused[0]
        if outer:
            outer.looked_at += self.looked_at
        return Path(
            z3.And(self.conditions),
            value,
            error,
            tuple(self.opaque),
            tuple(self.facts),
            tuple(self.effects),
            tuple(self.owed),
        )

    def possible(self, condition: z3.BoolRef) -> bool:
        return bool(self.solver.check(condition) != z3.unsat)

    def decide(self, condition: z3.BoolRef) -> bool:
        step = len(self.decisions)
        if step == DECISIONS_MAX:
            raise NotUnderstoodError(f"more than {DECISIONS_MAX} decisions")
        if step < len(self.given):
            decision = self.given[step]
        else:
            decision = self.possible(condition)
            if decision and self.possible(z3.Not(condition)):
                self.forks.append([*self.decisions, False])
        self.decisions.append(decision)
        taken = condition if decision else z3.Not(condition)
        self.conditions.append(taken)
        self.solver.add(taken)
        return decision


def _run() -> _Run:
    if _Run.active is None:
        raise NotUnderstoodError("a symbolic number outside a run")
    return _Run.active


def decide(condition: z3.BoolRef) -> bool:
    """Which way this run goes; the other way, where possible, is a run of its own."""
    return _run().decide(condition)


def again(line: int) -> None:
    """A while looks once more, at what is not known. Raises NotUnderstoodError where it does so
    too often: it has no bound that was found."""
    turns = _run().turns
    turns[line] += 1
    if turns[line] > WHILE_TURNS_MAX:
        raise NotUnderstoodError(f"line {line}: a while whose bound is not found")


def fact(term: z3.BoolRef) -> None:
    """What is true of the terms that stand in it: a path may rest on it."""
    run = _run()
    run.facts.append(term)
    run.solver.add(term)


def in_run() -> bool:
    """Whether code is run on terms now."""
    return _Run.active is not None


def turn() -> int:
    """How many loops this run is within."""
    return _Run.active.depth if _Run.active else 0


def effects() -> list[tuple[Any, Any]]:
    """What this turn of a loop did to lists from outside of it."""
    return _run().effects


def looked_at() -> list[Any]:
    """The lists from outside that a loop's turns have looked at, within this run."""
    return _run().looked_at


def refusals() -> list[NotUnderstoodError]:
    """What this run could not read so far."""
    return _run().refused


def explore_one(call: Callable[[], object], inside: z3.BoolRef, line: int) -> list[Path]:
    """Every path of one turn of a loop, any of those `inside` it. That no turn raises is owed."""
    outer = _run()
    paths = explore(call, [*outer.solver.assertions(), inside])
    for path in paths:
        if isinstance(path.error, NotUnderstoodError):
            outer.refused.append(path.error)
            raise path.error
        if path.opaque:
            raise NotUnderstoodError(f"line {line}: an operator that is not arithmetic, in a loop")
        if path.error:
            what = f"{type(path.error).__name__}: {path.error}"
            outer.owed.append((what, z3.Not(z3.And(inside, path.condition))))
        outer.owed += path.owed
        outer.facts += path.facts
    well = [path for path in paths if not path.error]
    # That the others are impossible is owed: so the only one that is left is taken by every turn.
    return [replace(well[0], condition=z3.BoolVal(True))] if len(well) == 1 else well


def certain(condition: z3.BoolRef) -> bool:
    """Whether the condition is proved on this path."""
    return not _run().possible(z3.Not(condition))


@refusing("__eq__", "__ne__", *OPERATIONS)
class Truth:
    """The answer of a comparison, which counts as 0 or 1."""

    __slots__ = ("term",)

    def __init__(self, term: z3.BoolRef) -> None:
        self.term = term

    def __bool__(self) -> bool:
        return decide(self.term)


Operation: TypeAlias = Callable[[Any, Any], Any]


def _binary(operation: Operation, wrap: Callable[[Any], object]) -> Operation:
    def method(self: Number | Truth, other: object) -> object:
        if not isinstance(other, Number | Truth | int | float):
            return NotImplemented
        return wrap(operation(term(self), term(other)))

    return method


def _flipped(operation: Operation) -> Operation:
    return lambda left, right: operation(right, left)


def _compare(operation: Operation) -> Operation:
    def compare(left: Term, right: Term) -> z3.BoolRef:
        if left.is_real() or right.is_real():
            # Z3's reals do not round as floats do: an answer here could be wrong.
            raise NotUnderstoodError("a comparison of floats")
        return operation(left, right)

    return compare


def _divisor(value: Term) -> Term:
    if decide(value == 0):
        raise ZeroDivisionError("division by zero")
    return value


def _floordiv(left: Term, right: Term) -> Term:
    right = _divisor(right)
    if left.is_real() or right.is_real():
        raise NotUnderstoodError("a floor division of floats")
    # Z3 rounds so that the rest is not negative; Python rounds down. Equal for a divisor > 0.
    return left / right if certain(right > 0) else z3.If(right > 0, left / right, -left / -right)


def _mod(left: Term, right: Term) -> Term:
    return left - right * _floordiv(left, right)


def _truediv(left: Term, right: Term) -> Term:
    return z3.ToReal(left) / _divisor(z3.ToReal(right))


def _opaque(meaning: Callable[[int, int], int]) -> Operation:
    function = z3.Function(meaning.__name__, z3.IntSort(), z3.IntSort(), z3.IntSort())

    def operation(left: Term, right: Term) -> Term:
        if left.is_real() or right.is_real():
            raise TypeError(f"unsupported operand for {meaning.__name__}: float")
        result = function(left, right)
        _run().opaque.append(Opaque(meaning, left, right, result))
        return result

    return operation


def _shift(meaning: Callable[[int, int], int]) -> Operation:
    opaque = _opaque(meaning)

    def operation(left: Term, right: Term) -> Term:
        if decide(right < 0):
            raise ValueError("negative shift count")
        return opaque(left, right)

    return operation


def _pow(left: Term, right: Term) -> Term:
    if decide(right < 0):
        raise NotUnderstoodError("a negative power")
    return _opaque(operator.pow)(left, right)


@refusing(*OF_NUMBERS)
class Number:
    """An int of Python's as a Z3 term; a real term stands for a float that came of a division."""

    __slots__ = ("term",)

    def __init__(self, value: Term) -> None:
        self.term = value

    def __getattr__(self, name: str) -> Any:
        raise NotUnderstoodError(f"{name} of a number")

    def __bool__(self) -> bool:
        return decide(self.term != 0)

    def __neg__(self) -> Number:
        return Number(-self.term)

    def __pos__(self) -> Number:
        return self

    def __invert__(self) -> Number:
        return Number(-self.term - 1)

    def __abs__(self) -> Number:
        return Number(z3.If(self.term < 0, -self.term, self.term))

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self


_COMPARISONS: dict[str, Operation] = {
    name: _compare(getattr(operator, name)) for name in ("lt", "le", "gt", "ge", "eq", "ne")
}
_OPERATIONS: dict[str, Operation] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": _floordiv,
    "mod": _mod,
    "truediv": _truediv,
    "pow": _pow,
    "lshift": _shift(operator.lshift),
    "rshift": _shift(operator.rshift),
    "and": _opaque(operator.and_),
    "or": _opaque(operator.or_),
    "xor": _opaque(operator.xor),
}
for _name, _operation in _COMPARISONS.items():
    setattr(Number, f"__{_name}__", _binary(_operation, Truth))
for _name, _operation in _OPERATIONS.items():
    for _one in (Number, Truth) if _name in ("add", "sub", "mul") else (Number,):
        setattr(_one, f"__{_name}__", _binary(_operation, Number))
        setattr(_one, f"__r{_name}__", _binary(_flipped(_operation), Number))


def term(value: object) -> Term:
    """The Z3 term of a number."""
    match value:
        case Number():
            return value.term
        case Truth():
            return z3.If(value.term, z3.IntVal(1), z3.IntVal(0))
        case int():
            return z3.IntVal(int(value))
        case float():
            return z3.RealVal(value)
        case _:
            raise NotUnderstoodError(f"{value!r} as a number")


def whole(value: object) -> Term:
    """The Z3 term of an index. Raises TypeError for a float, as Python does."""
    number = term(value)
    if number.is_real():
        raise TypeError("slice indices must be integers")
    return number


def choice(
    paths: Sequence[Path], pick: Callable[[Any], z3.ExprRef], otherwise: z3.ExprRef
) -> z3.ExprRef:
    """One term for what the paths return, each under its condition; `otherwise`: all raise.

    Sound because `explore` covers all cases; paths that raise are the caller's to rule out.
    """
    chosen = otherwise
    for path in reversed(paths):
        if path.error is None:
            chosen = z3.If(path.condition, pick(path.value), chosen)
    return chosen
