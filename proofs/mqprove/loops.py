"""What a loop or a comprehension is to a proof: one turn that stands for any.

What a turn adds to a list is put together over all turns, where the places follow each other at
one distance; what it chooses by is a condition on the turn. What is carried from turn to turn is
refused.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any, Final, cast

import z3

from mqprove.lists import (
    ONE,
    ZERO,
    Choice,
    Ids,
    Listing,
    Piece,
    Queue,
    Unknown,
    chosen,
    first_at,
    id_at,
)
from mqprove.ring import Points, Ring
from mqprove.symbolic import (
    OPERATIONS,
    NotUnderstoodError,
    Number,
    Term,
    Truth,
    again,
    certain,
    decide,
    explore_one,
    fact,
    in_run,
    looked_at,
    refusals,
    refusing,
    term,
    turn,
)


@refusing("__eq__", "__iter__", *OPERATIONS)
@dataclass(frozen=True, eq=False, repr=False)
class Range:
    """A range of any length, upwards."""

    start: Term
    stop: Term
    step: Term

    def count(self) -> Term:
        span = self.stop - self.start
        steps = span if self.step.eq(ONE) else (span - 1) / self.step + 1
        return z3.If(span > 0, steps, ZERO)


@refusing("__eq__", "__iter__", *OPERATIONS)
@dataclass(frozen=True, eq=False, repr=False)
class Numbered:
    """`enumerate` of a list."""

    of: Listing | Ids
    start: Term


@refusing("__eq__", "__iter__", *OPERATIONS)
class Turns:
    """Something else that a loop goes over, in no order that is known."""

    def any_turn(self, at: Term) -> tuple[z3.BoolRef, object]:
        """When the turn `at` is one, and what it is given."""
        raise NotImplementedError

    def over_turns(self, piece: Any, choice: Choice) -> Any:
        """What one turn adds to a list, over all turns."""
        raise NotImplementedError


class Collected:
    """What a loop fills, other than a list."""

    def over_turns(self, added: Sequence[tuple[Choice, Any]], given: object, each: object) -> None:
        """All turns are over; each added something once, in one of these ways."""
        raise NotImplementedError

    def turns(self) -> Turns | None:
        """What a loop over it goes over; None: it is an ordinary one."""
        raise NotImplementedError


class Filled:
    """What a turn adds to, of what a loop fills."""


def goes_over(value: Any) -> Any:
    turns = value.turns() if isinstance(value, Collected) else None
    return value if turns is None else turns


def is_symbolic(value: object) -> bool:
    """Whether a loop over this is tried on one element for all."""
    over = goes_over(value)
    if in_run() and not isinstance(over, _GONE_OVER):
        raise NotUnderstoodError(f"a loop over a {type(over).__name__}")
    return isinstance(over, _SYMBOLIC)


_SYMBOLIC: Final = (Range, Listing, Numbered, Ids, Turns)
# An iterator would be used up by the first turn that stands for any.
_GONE_OVER: Final[tuple[type, ...]] = (
    *_SYMBOLIC,
    *(Unknown, builtins.list, builtins.tuple, builtins.range, dict, set, frozenset, str, bytes),
    *(type({}.keys()), type({}.values()), type({}.items())),
)


def _any_turn(value: Any, at: Term) -> tuple[z3.BoolRef, object]:
    """When `at` is a turn of a loop over this, and what it is given."""
    if isinstance(value, Turns):
        return value.any_turn(at)
    count, each = _any_place(value, at)
    return z3.And(at >= 0, at < count), each


def _any_place(value: Any, at: Term) -> tuple[Term, object]:
    """How many turns a loop over this has, and what the one `at` is given."""
    match value:
        case Range():
            return value.count(), Number(value.start + value.step * at)
        case Listing():
            piece = value.only()
            return piece.count(), Queue(piece.base, z3.simplify(piece.start + piece.step * at))
        case Numbered():
            count, each = _any_place(value.of, at)
            return count, (Number(value.start + at), each)
        case _:
            return value.length, value.at(at)


def loop(given: Any, body: Callable[[Any], object] | None, line: int, problem: str) -> None:
    """A loop, by one turn that stands for any; without one where that is a problem."""
    if problem or body is None:
        raise NotUnderstoodError(f"line {line}: {problem}")
    given = goes_over(given)
    at = z3.FreshInt("turn")
    inside, each = _any_turn(given, at)
    before, looked_before = ordinary_state(body), builtins.len(looked_at())
    paths = explore_one(lambda: body(each), inside, line)
    if ordinary_state(body) != before:
        raise NotUnderstoodError(f"line {line}: an ordinary list, dict or set is changed in a loop")
    looked = looked_at()[looked_before:]
    if any(target is one for path in paths for target, _ in path.effects for one in looked):
        raise NotUnderstoodError(f"line {line}: a list that a loop fills is looked at in it")

    collected: dict[int, tuple[Collected, list[tuple[Choice, Any]]]] = {}
    for path in paths:
        choice = Choice(at, path.condition, path.facts)
        for target, what in path.effects:
            if isinstance(target, Collected):
                collected.setdefault(id(target), (target, []))[1].append((choice, what))
            elif isinstance(given, Turns):
                target.add([given.over_turns(what, choice)])
            else:
                count, _ = _any_place(given, at)
                target.add([_over_turns(what, choice, given, count, line)])
    for target, added in collected.values():
        if len({id(choice) for choice, _ in added}) != len(paths) or len(added) != len(paths):
            raise NotUnderstoodError(f"line {line}: a turn that adds nothing, or more than once")
        target.over_turns(added, given, each)


def after(name: str, line: int) -> Unknown:
    """What a name of a loop holds after it, which is the last turn's and not known."""
    unknown = type(f"value of {name} after the loop of line {line}", (Unknown,), {})
    return cast(Unknown, unknown())


def counted(start: Any, bounds: Sequence[tuple[Any, bool]], step: Any, line: int) -> Any:
    """What a while goes over that counts up to bounds, each of which is included or is not. An
    ordinary range where nothing is symbolic: the loop is run as it stands then."""
    numbers = (start, step, *(bound for bound, _ in bounds))
    if not any(isinstance(each, Number) for each in numbers):
        return builtins.range(0)
    if any(not isinstance(each, Number | int) or term(each).is_real() for each in numbers):
        raise NotUnderstoodError(f"line {line}: a while that does not count in whole numbers")
    if not certain(term(step) > 0):
        raise NotUnderstoodError(f"line {line}: a while that may have no end")
    stops = [term(bound) + 1 if included else term(bound) for bound, included in bounds]
    stop = reduce(lambda one, other: z3.If(one < other, one, other), stops)
    return Range(term(start), stop, term(step))


def ending(given: Range) -> Number:
    """Where such a while ends."""
    return Number(given.start + given.step * given.count())


def goes_on(value: Any, line: int) -> bool:
    """Whether a while without a bound goes on."""
    if in_run() and isinstance(value, Truth | Number | Unknown):
        again(line)
    return builtins.bool(value)


def first(
    given: Any,
    element: Callable[[Any], object],
    test: Callable[[Any], object],
    line: int,
    *default: object,
) -> Any:
    """`next` of a generator: of the first element that passes, else the default."""
    if not is_symbolic(given):
        return builtins.next((element(each) for each in given if test(each)), *default)
    given = goes_over(given)
    if turn() or isinstance(given, Turns):
        raise NotUnderstoodError(f"line {line}: the first, in a loop or of rooms")
    at = z3.FreshInt("turn")
    inside, each = _any_turn(given, at)
    before = ordinary_state(test)
    paths = explore_one(lambda: builtins.bool(test(each)), inside, line)
    if ordinary_state(test) != before or any(path.effects for path in paths):
        raise NotUnderstoodError(f"line {line}: what is looked for changes on the way")
    passes = z3.Or([path.condition for path in paths if path.value])
    facts = [each for path in paths for each in path.facts]

    is_there, place = _first_place(at, inside, passes, facts)
    if decide(is_there):
        return element(_any_place(given, place)[1])
    if default:
        return default[0]
    raise StopIteration


def _first_place(
    at: Term, inside: z3.BoolRef, passes: z3.BoolRef, facts: Sequence[z3.BoolRef]
) -> tuple[z3.BoolRef, Term]:
    """Whether a turn passes, and the first that does. It is guessed, and that it is right proved;
    where no guess is, it is whatever has that meaning."""
    for each in facts:
        fact(z3.Implies(inside, each))
    if certain(z3.Implies(inside, z3.Not(passes))):
        return z3.BoolVal(False), ZERO
    for guess in (ZERO, *_first_guesses(passes, at)):
        here = (at, guess)
        for each in facts:
            fact(z3.substitute(z3.Implies(inside, each), here))
        is_one = z3.substitute(z3.And(inside, passes), here)
        if certain(is_one) and certain(z3.Implies(z3.And(inside, at < guess), z3.Not(passes))):
            return z3.BoolVal(True), guess

    # By its meaning, so that it is the same in each run.
    meaning = z3.substitute(z3.And(inside, passes), (at, z3.Int("turn"))).sexpr()
    is_there, place = z3.Bool(f"there is: {meaning}"), z3.Int(f"first: {meaning}")
    here = (at, place)
    for each in facts:
        fact(z3.substitute(z3.Implies(inside, each), here))
    fact(z3.Implies(is_there, z3.substitute(z3.And(inside, passes), here)))
    fact(z3.ForAll(at, z3.Implies(z3.And(inside, passes), z3.And(is_there, place <= at))))
    return is_there, place


def _first_guesses(passes: z3.BoolRef, at: Term) -> Iterator[Term]:
    for bound in _compared(passes, at):
        yield from (bound, bound + 1)
    yield from _compared_rests(passes, at)
    for left, right in _comparisons(passes):
        for side, other in ((left, right), (right, left)):
            if side.eq(id_at(at)) and not _mentions(other, at):
                yield first_at(other)


def ordinary_state(value: object, depth: int = 4) -> object:
    """What the ordinary lists, dicts and sets hold that a function can reach, by identity."""
    match value:
        case FunctionType() if depth:
            held = [cell.cell_contents for cell in value.__closure__ or () if _is_set(cell)]
            held += [*(value.__defaults__ or ()), *value.__dict__.values()]
        case dict() if depth and not isinstance(value, Collected):
            held = [*value, *value.values()]
        case builtins.list() | set() | builtins.tuple() if depth:
            held = [*value]
        case _:
            return id(value)
    return (id(value), *(ordinary_state(each, depth - 1) for each in held))


def _is_set(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _over_turns(piece: Piece, choice: Choice, given: object, count: Term, line: int) -> Piece:
    """What one turn adds, over all turns: places that follow each other at one distance."""
    at, start = choice.turn, piece.start
    distance = z3.simplify(z3.substitute(start, (at, at + 1)) - start, som=True)
    single = z3.simplify(piece.stop - piece.start, som=True).eq(ONE) and piece.choice is None
    if not single or _mentions(distance, at) or not certain(distance > 0):
        raise NotUnderstoodError(f"line {line}: a loop that does not go on at one distance")
    first = z3.substitute(start, (at, ZERO))
    found = Piece(piece.base, z3.simplify(first), first + distance * count, distance)
    if isinstance(given, Range) and _is_same(first, given.start) and _is_same(distance, given.step):
        found = replace(found, stop=given.stop)  # the same places, in simpler words
    if z3.is_true(z3.simplify(choice.condition)):
        return found
    return _as_a_slice(found, choice, count) or replace(found, choice=choice)


def _as_a_slice(piece: Piece, choice: Choice, count: Term) -> Piece | None:
    """The same turns as a slice, where what a loop chooses is one: then they can be counted.

    Bounds and steps are guessed from what the choice compares; that they are right is proved.
    """
    at = choice.turn
    inside = z3.And(at >= 0, at < count)

    def is_choice(guess: z3.BoolRef) -> bool:
        return certain(z3.Implies(inside, choice.condition == guess))

    bounds = [bound for b in _compared(choice.condition, at) for bound in (b, b + 1)]
    for start in (ZERO, *bounds):
        for stop in (count, *bounds):
            if is_choice(z3.And(start <= at, at < stop)):
                low = z3.If(start > 0, start, ZERO)
                high = z3.If(stop < count, stop, count)
                return _of_turns(piece, low, high, ONE)
    for step in _divisors(choice.condition, at):
        for start in (*bounds, *_compared_rests(choice.condition, at)):
            in_step = at - step * (at / step) == start
            if certain(z3.And(start >= 0, start < step)) and is_choice(in_step):
                return _of_turns(piece, start, count, step)
    return None


def _of_turns(piece: Piece, start: Term, stop: Term, step: Term) -> Piece:
    first, last = (z3.simplify(piece.start + piece.step * bound) for bound in (start, stop))
    return Piece(piece.base, first, last, z3.simplify(piece.step * step))


_COMPARES: Final = (z3.is_le, z3.is_lt, z3.is_ge, z3.is_gt, z3.is_eq)


def _comparisons(condition: z3.ExprRef) -> Iterator[tuple[z3.ExprRef, z3.ExprRef]]:
    """Both sides of each comparison of numbers in a condition."""
    if any(compares(condition) for compares in _COMPARES):
        left, right = condition.children()
        if z3.is_int(left):
            yield left, right
            return
    for child in condition.children():
        yield from _comparisons(child)


def _compared(condition: z3.ExprRef, at: Term) -> list[Term]:
    """What the turn itself is compared with."""
    found: dict[str, Term] = {}
    for left, right in _comparisons(condition):
        for sign in (1, -1):
            bound = z3.simplify(at - sign * (left - right))
            if not _mentions(bound, at):
                found[str(bound)] = bound
    return list(found.values())


def _compared_rests(condition: z3.ExprRef, at: Term) -> list[Term]:
    """The sides without the turn, of comparisons of something computed of it."""
    sides = [side for pair in _comparisons(condition) for side in pair]
    return [side for side in sides if not _mentions(side, at)]


def _divisors(condition: z3.ExprRef, at: Term) -> list[Term]:
    """What something of the turn is divided by."""
    found: dict[str, Term] = {}
    for left, right in _comparisons(condition):
        for node in (*_nodes(left), *_nodes(right)):
            if z3.is_idiv(node) and _mentions(node.arg(0), at) and not _mentions(node.arg(1), at):
                found[str(node.arg(1))] = node.arg(1)
    return list(found.values())


def _nodes(term: z3.ExprRef) -> Iterator[z3.ExprRef]:
    yield term
    for child in term.children():
        yield from _nodes(child)


def _is_same(one: Term, other: Term) -> bool:
    return bool(z3.simplify(one - other, som=True).eq(ZERO))


def _mentions(term: z3.ExprRef, variable: Term) -> bool:
    return term.eq(variable) or any(_mentions(child, variable) for child in term.children())


def comprehension(
    given: Any,
    element: Callable[[Any], object],
    test: Callable[[Any], object],
    condition: str,
    line: int,
) -> Any:
    """A list comprehension; `condition` is its test as it is written."""
    if not is_symbolic(given):
        return [element(each) for each in given if test(each)]
    made = Listing()

    def body(each: Any) -> None:
        if test(each):
            made.append(element(each))

    made.depth = turn()
    refused_before = builtins.len(refusals())
    try:
        loop(given, body, line, "")
    except NotUnderstoodError:
        if not isinstance(given, Listing) or not _same_for_all(test):
            raise
        parent = given.only().base
        base = chosen(parent, f"{parent.name} if {condition}")
        fact(base.length >= 0)
        fact(base.length <= parent.length)
        whole_base = given.only().start.eq(ZERO) and given.only().stop.eq(given.only().base.length)
        left = Queue(base, z3.FreshInt("left"))
        if not whole_base or element(left) is not left:
            raise
        del refusals()[refused_before:]  # read in another way
        return Listing([Piece(base, ZERO, base.length, ONE)])
    return made


def _same_for_all(value: object) -> bool:
    """Whether a value, or all that a function can look at, is the same for every member."""
    match value:
        case None | bool() | int() | float() | str() | bytes() | Ring() | Points():
            return True
        case tuple() | builtins.list() | set() | frozenset():
            return all(map(_same_for_all, value))
        case dict():
            return all(map(_same_for_all, (*value, *value.values())))
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return all(map(_same_for_all, (*cells, *(value.__defaults__ or ()))))
        case _:
            return isinstance(value, type | BuiltinFunctionType)


def add_to(target: object, items: object) -> None:
    """`target += items` in a loop's turn."""
    if not isinstance(target, Listing):
        raise NotUnderstoodError("a number that is counted up in a loop")
    target.extend(items)


def display(*parts: tuple[bool, Any]) -> Any:
    """A list that is written down; of each part whether it has a star."""
    made = Listing()
    for starred, value in parts:
        if not isinstance(value, Listing | Queue):
            return _plain(parts)
        if starred:
            made.extend(value)
        else:
            made.append(value)
    return made


def _plain(parts: Iterable[tuple[bool, Any]]) -> list[Any]:
    found: list[Any] = []
    for starred, value in parts:
        found += value if starred else [value]
    return found
