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
from typing import Any, Final, NamedTuple, cast

import z3

from mqprove.iterables import (
    PLACED,
    Collected,
    Filled,
    Once,
    Range,
    Turns,
    any_turn,
    count,
    each_at,
    goes_over,
    gone_over,
)
from mqprove.lists import (
    ONE,
    ZERO,
    Choice,
    Listing,
    ListingTuple,
    Piece,
    Queue,
    Rebuilt,
    Unknown,
    chosen,
    first_at,
    id_at,
)
from mqprove.ring import ALL, STAYING, Points, Ring
from mqprove.symbolic import (
    NotUnderstoodError,
    Number,
    Path,
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
    term,
    turn,
    whole,
)


def is_symbolic(value: object) -> bool:
    """Whether a loop over this is tried on one element for all."""
    over = goes_over(value)
    if in_run() and not isinstance(over, _GONE_OVER):
        raise NotUnderstoodError(f"a loop over a {type(over).__name__}")
    return isinstance(over, _SYMBOLIC)


_SYMBOLIC: Final = (*PLACED, Turns)
# An iterator would be used up by the first turn that stands for any.
_GONE_OVER: Final[tuple[type, ...]] = (
    *_SYMBOLIC,
    *(Once, Unknown, builtins.list, builtins.tuple, builtins.range),
    *(dict, set, frozenset, str, bytes),
    *(type({}.keys()), type({}.values()), type({}.items())),
)


def loop(
    given: Any,
    body: Callable[[Any], object] | None,
    line: int,
    problem: str,
    *filling: Any,
) -> None:
    """A loop, by one turn that stands for any; without one where that is a problem. One that is a
    `Filling` may have a test that is not read."""
    refused_before = builtins.len(refusals())
    try:
        _loop(given, body, line, problem)
    except NotUnderstoodError:
        how = Filling(*filling) if filling else None
        read = _by_a_condition(given, how.test, how.condition) if how else None
        if how is None or read is None:
            raise
        del refusals()[refused_before:]  # read in another way
        how.put(read)


def _loop(given: Any, body: Callable[[Any], object] | None, line: int, problem: str) -> None:
    if problem or body is None:
        raise NotUnderstoodError(f"line {line}: {problem}")
    given = gone_over(given)
    at = z3.FreshInt("turn")
    inside, each = any_turn(given, at)
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
                target.add([_over_turns(what, choice, given, count(given), line)])
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


@dataclass(frozen=True, eq=False, repr=False)
class Rest:
    """What a while uses up from its front: the list, and as its turns how many are taken before."""

    of: Any
    turns: Any
    pieces: Sequence[Any] = ()  # of the list, before
    looked_before: int = 0  # how often lists had been looked at


def rest_of(of: Any, least: Any, step: Any, line: int) -> Rest:
    """What such a while uses up, so many at a step as long as more than the least are left. Without
    turns where it is an ordinary list: the loop is run as it stands then."""
    if not isinstance(of, Listing):
        return Rest(of, builtins.range(0))
    if isinstance(of, ListingTuple) or of.depth < turn():
        raise NotUnderstoodError(f"line {line}: a tuple, or another loop's list, that is used up")
    if not certain(whole(step) > 0):
        raise NotUnderstoodError(f"line {line}: a while that may have no end")
    if not certain(whole(least) >= 0):
        raise NotUnderstoodError(f"line {line}: a while that may go on where nothing is left")
    length = of.length() - whole(least)
    turns = Range(ZERO, length, whole(step))
    return Rest(of, turns, (*of.pieces,), builtins.len(looked_at()))


def left(rest: Rest, taken: Any) -> Any:
    """What is left of it, once so many are taken."""
    return Listing(rest.pieces)[taken:]


def shortened(rest: Rest, pops: bool) -> Any:
    """What is left of it after the loop, which is another list unless it `pops`."""
    turns = rest.turns
    remains = Listing(rest.pieces)[Number(turns.step * turns.count()) :]
    looked = looked_at()[rest.looked_before :]
    if [*map(id, rest.of.pieces)] != [*map(id, rest.pieces)]:
        raise NotUnderstoodError("a list that is changed while it is used up")
    if not pops:
        return Rebuilt(remains.pieces)
    if type(rest.of) is not Listing or any(each is rest.of for each in looked):
        raise NotUnderstoodError("a list that is looked at, or another's, while it is used up")
    rest.of.pieces = remains.pieces
    return rest.of


class _Growing(Listing):
    """A list that is put together anew in each turn of a loop: what it was `before`, and more."""

    def __init__(self, before: Listing) -> None:
        super().__init__(before.pieces)
        self.before = before


def grows(value: Any) -> Any:
    """A list, before a loop gives its name more behind it in each turn."""
    return _Growing(value) if type(value) in (Listing, Rebuilt) else value


def joined(target: Any, more: Any) -> None:
    """`target = target + more` in a loop's turn."""
    if not isinstance(target, _Growing) or isinstance(more, ListingTuple):
        raise NotUnderstoodError("what grows in a loop, and is no list of queues")
    target.before.look()  # which is another list from the first turn on, and must not change
    target.extend(more)


def grown(value: Any) -> Any:
    """The list after the loop. Without a turn it is still what it was before, whoever has that."""
    return Rebuilt(value.pieces) if isinstance(value, _Growing) else value


def goes_on(value: Any, line: int) -> bool:
    """Whether a while without a bound goes on."""
    if in_run() and isinstance(value, Listing):
        raise NotUnderstoodError(f"line {line}: a while that does not use up its list step by step")
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
    given = gone_over(given)
    if isinstance(given, Turns):
        raise NotUnderstoodError(f"line {line}: the first of rooms")
    at, inside, _, paths = _looked_at_once(
        given, lambda each: builtins.bool(test(each)), line, "what is looked for", test
    )
    passes = z3.Or([path.condition for path in paths if path.value])
    facts = [each for path in paths for each in path.facts]

    is_there, place = _first_place(at, inside, passes, facts, count(given), line)
    if decide(is_there):
        return element(each_at(given, place))
    if default:
        return default[0]
    raise StopIteration


class _OneTurn(NamedTuple):
    """One turn that stands for any: its number, when it is one, what it is given, and what can
    come of it."""

    at: Term
    inside: z3.BoolRef
    each: object
    paths: list[Path]


def _looked_at_once(
    given: Any, look: Callable[[Any], object], line: int, what: str, *functions: object
) -> _OneTurn:
    """A look at what any turn is given, by functions that change nothing."""
    at = z3.FreshInt("turn")
    inside, each = any_turn(given, at)
    before = [*map(ordinary_state, functions)]
    paths = explore_one(lambda: look(each), inside, line)
    if [*map(ordinary_state, functions)] != before or any(path.effects for path in paths):
        raise NotUnderstoodError(f"line {line}: {what} changes on the way")
    return _OneTurn(at, inside, each, paths)


def exists(
    given: Any,
    element: Callable[[Any], object],
    test: Callable[[Any], object],
    line: int,
) -> bool:
    """`any` of a generator."""

    def passes(each: Any) -> bool:
        return builtins.bool(test(each)) and builtins.bool(element(each))

    return first(given, lambda _: True, passes, line, False) is True


def for_all(
    given: Any,
    element: Callable[[Any], object],
    test: Callable[[Any], object],
    line: int,
) -> bool:
    """`all` of a generator."""
    return not exists(given, lambda each: not element(each), test, line)


def total(
    given: Any,
    element: Callable[[Any], Any],
    test: Callable[[Any], object],
    line: int,
    start: Any = 0,
) -> Any:
    """`sum` of a generator: of numbers that are the same in turns that can be counted."""
    if not is_symbolic(given):
        return builtins.sum((element(each) for each in given if test(each)), start)
    given = gone_over(given)
    if isinstance(given, Turns):
        raise NotUnderstoodError(f"line {line}: a sum of rooms")
    at, _, _, paths = _looked_at_once(
        given,
        lambda each: _counted(element(each)) if test(each) else 0,
        line,
        "what is summed",
        element,
        test,
    )
    if any(path.facts for path in paths):
        raise NotUnderstoodError(f"line {line}: a sum of what rests on more than is seen")

    turns, found = count(given), term(start)
    for path in paths:
        value, chosen_turns = term(path.value), _as_a_range(at, path.condition, turns)
        if value.eq(ZERO):
            continue
        if chosen_turns is None or _mentions(value, at) or value.is_real():
            raise NotUnderstoodError(f"line {line}: a sum whose parts are not counted")
        found = z3.simplify(found + value * _certain_count(chosen_turns))
    return Number(found)


def _counted(value: Any) -> Any:
    """A truth as the number that it counts as, by what is so in a turn."""
    return int(builtins.bool(value)) if isinstance(value, Truth) else value


def _certain_count(turns: Range) -> Term:
    """How many turns there are, in simpler words where it is known that there is one or more."""
    is_plain = turns.step.eq(ONE) and certain(turns.start <= turns.stop)
    return z3.simplify(turns.stop - turns.start) if is_plain else turns.count()


def _first_place(
    at: Term,
    inside: z3.BoolRef,
    passes: z3.BoolRef,
    facts: Sequence[z3.BoolRef],
    turns: Term,
    line: int,
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
        if not certain(z3.Implies(z3.And(inside, at < guess), z3.Not(passes))):
            continue
        if certain(z3.substitute(z3.And(inside, passes), here)):
            return z3.BoolVal(True), guess
        is_one = z3.Implies(guess < turns, z3.substitute(passes, here))
        if certain(z3.And(guess >= 0, is_one)):
            return guess < turns, guess
    if turn():  # another one in each turn
        raise NotUnderstoodError(f"line {line}: the first in a loop, which is not found")

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


def _over_turns(piece: Piece, choice: Choice, given: object, turns: Term, line: int) -> Piece:
    """What one turn adds, over all turns: places that follow each other at one distance."""
    at, start = choice.turn, piece.start
    distance = z3.simplify(z3.substitute(start, (at, at + 1)) - start, som=True)
    single = z3.simplify(piece.stop - piece.start, som=True).eq(ONE) and piece.choice is None
    is_even = single and not _mentions(distance, at)
    down = is_even and certain(distance < 0)
    if not is_even or not (down or certain(distance > 0)):
        raise NotUnderstoodError(f"line {line}: a loop that does not go on at one distance")
    first = z3.substitute(start, (at, ZERO))
    found = Piece(piece.base, z3.simplify(first), first + distance * turns, distance, down=down)
    if isinstance(given, Range) and _is_same(distance, given.step):
        # The same places, in simpler words.
        found = replace(found, stop=z3.simplify(given.stop + (first - given.start)))
    if z3.is_true(z3.simplify(choice.condition)):
        return found
    chosen_turns = _as_a_range(at, choice.condition, turns)
    if chosen_turns is None:
        return replace(found, choice=choice)
    return _of_turns(found, chosen_turns)


def _as_a_range(at: Term, condition: z3.BoolRef, turns: Term) -> Range | None:
    """The turns for which a condition holds, where they follow each other at one distance: then
    they can be counted.

    Bounds and steps are guessed from what the condition compares; that they are right is proved.
    """
    inside = z3.And(at >= 0, at < turns)

    def is_condition(guess: z3.BoolRef) -> bool:
        return certain(z3.Implies(inside, condition == guess))

    bounds = [bound for b in _compared(condition, at) for bound in (b, b + 1)]
    for start in (ZERO, *bounds):
        for stop in (turns, *bounds):
            if is_condition(z3.And(start <= at, at < stop)):
                low = start if certain(start >= 0) else z3.If(start > 0, start, ZERO)
                high = stop if certain(stop <= turns) else z3.If(stop < turns, stop, turns)
                return Range(low, high, ONE)
    for step, shift in _divisors(condition, at):
        rests = _compared_rests(condition, at)
        for start in (*bounds, *rests, *(z3.simplify(rest - shift) for rest in rests)):
            in_step = at - step * (at / step) == start
            if certain(z3.And(start >= 0, start < step)) and is_condition(in_step):
                return Range(start, turns, step)
    return None


def _of_turns(piece: Piece, turns: Range) -> Piece:
    """Of what each turn adds, what these turns add."""
    bounds = (turns.start, turns.stop)
    first, last = (z3.simplify(piece.start + piece.step * bound) for bound in bounds)
    return Piece(piece.base, first, last, z3.simplify(piece.step * turns.step), down=piece.down)


_COMPARES: Final = (z3.is_le, z3.is_lt, z3.is_ge, z3.is_gt, z3.is_eq, z3.is_distinct)


def _comparisons(condition: z3.ExprRef) -> Iterator[tuple[z3.ExprRef, z3.ExprRef]]:
    """Both sides of each comparison of numbers in a condition."""
    if any(compares(condition) for compares in _COMPARES):
        sides = condition.children()
        if builtins.len(sides) == 2 and z3.is_int(sides[0]):
            yield sides[0], sides[1]
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
            for place in _points_before(left, right, sign, at):
                found[str(place)] = place
    return list(found.values())


def _points_before(left: Term, right: Term, sign: int, at: Term) -> Iterator[Term]:
    """Where the points of a ring begin that are no less than what the one of the turn is compared
    with, or one more. What their order says of both is told."""
    for node in (*_nodes(left), *_nodes(right)):
        circle = next((each for each in (ALL, STAYING) if each.has_as_point(node)), None)
        if circle is None:
            continue
        number = z3.simplify(node - sign * (left - right))
        shift = z3.simplify(node.arg(0) - at)
        if _mentions(number, at) or _mentions(shift, at):
            continue
        for bound in (number, z3.simplify(number + 1)):
            place = circle.before(bound)
            for each in (node.arg(0), place):
                for told in circle.either_side(bound, each):
                    fact(told)
            yield z3.simplify(place - shift)


def _compared_rests(condition: z3.ExprRef, at: Term) -> list[Term]:
    """The sides without the turn, of comparisons of something computed of it."""
    sides = [side for pair in _comparisons(condition) for side in pair]
    return [side for side in sides if not _mentions(side, at)]


def _divisors(condition: z3.ExprRef, at: Term) -> list[tuple[Term, Term]]:
    """What the turn, or something of it, is divided by, and what was added to it before."""
    found: dict[str, tuple[Term, Term]] = {}
    for left, right in _comparisons(condition):
        for node in (*_nodes(left), *_nodes(right)):
            if z3.is_idiv(node) and _mentions(node.arg(0), at) and not _mentions(node.arg(1), at):
                shift = z3.substitute(node.arg(0), (at, ZERO))
                found[str(node)] = node.arg(1), shift
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
    if isinstance(over := goes_over(given), Turns):
        return _chosen_turns(over, element, test, line)
    if isinstance(over, Points):
        return _chosen_points(over, element, test, line)
    made = Listing()

    def body(each: Any) -> None:
        if test(each):
            made.append(element(each))

    made.depth = turn()
    refused_before = builtins.len(refusals())
    try:
        loop(given, body, line, "")
    except NotUnderstoodError:
        read = _by_a_condition(given, test, condition)
        if (
            read is None
            or element(left := Queue(read.only().base, z3.FreshInt("left"))) is not left
        ):
            raise
        del refusals()[refused_before:]  # read in another way
        return read
    return made


def _by_a_condition(given: Any, test: Callable[[Any], object], condition: str) -> Listing | None:
    """What a condition that is not read leaves of a whole list, if it is the same for all members:
    nothing else is known of it."""
    if not isinstance(given, Listing) or not _same_for_all(test):
        return None
    part = given.only()
    if not (part.start.eq(ZERO) and part.stop.eq(part.base.length) and part.step.eq(ONE)):
        return None
    base = chosen(part.base, f"{part.base.name} if {condition}")
    fact(base.length >= 0)
    fact(base.length <= part.base.length)
    return Listing([Piece(base, ZERO, base.length, ONE)])


class Filling(NamedTuple):
    """What a loop does that puts its elements to a list where a test passes, and nothing else."""

    test: Callable[[Any], object]
    condition: str  # as it is written
    put: Callable[[Listing], object]


def flattened(
    given: Any, element: Callable[[Any], Any], test: Callable[[Any], object], line: int
) -> Any:
    """A comprehension over several: each `element` is a list."""
    if not is_symbolic(given):
        lists = [element(each) for each in given if test(each)]
        return reduce(lambda made, each: made + each, lists) if lists else []
    made = Listing()

    def body(each: Any) -> None:
        if test(each):
            made.extend(element(each))

    loop(given, body, line, "")
    return made


@dataclass(frozen=True, eq=False, repr=False)
class _Chosen(Turns):
    """A list of some of what has turns: those that pass."""

    of: Turns
    at: Term
    passes: z3.BoolRef
    facts: tuple[z3.BoolRef, ...]

    def any_turn(self, at: Term) -> tuple[z3.BoolRef, object]:
        inside, each = self.of.any_turn(at)
        for told in self.facts:
            fact(z3.substitute(told, (self.at, at)))
        return z3.And(inside, z3.substitute(self.passes, (self.at, at))), each

    def over_turns(self, piece: Any, choice: Choice) -> Any:
        passes = z3.substitute(self.passes, (self.at, choice.turn))
        facts = tuple(z3.substitute(each, (self.at, choice.turn)) for each in self.facts)
        both = Choice(choice.turn, z3.And(choice.condition, passes), (*choice.facts, *facts))
        return self.of.over_turns(piece, both)


def _chosen_turns(
    given: Turns,
    element: Callable[[Any], object],
    test: Callable[[Any], object],
    line: int,
) -> _Chosen:
    at, _, each, paths = _looked_at_once(
        given, lambda each: builtins.bool(test(each)), line, "what is chosen", test
    )
    if element(each) is not each:
        raise NotUnderstoodError(f"line {line}: a list made of rooms")
    passes = z3.Or([path.condition for path in paths if path.value])
    return _Chosen(given, at, passes, tuple(told for path in paths for told in path.facts))


def _chosen_points(
    given: Points,
    element: Callable[[Any], object],
    test: Callable[[Any], object],
    line: int,
) -> Points:
    """Those of a ring's points that pass, where they are neighbours."""
    at, _, each, paths = _looked_at_once(
        given, lambda each: builtins.bool(test(each)), line, "what is chosen", test
    )
    passes = z3.Or([path.condition for path in paths if path.value])
    turns = _as_a_range(at, passes, given.length)
    if element(each) is not each or turns is None or not turns.step.eq(ONE):
        raise NotUnderstoodError(f"line {line}: points that are not neighbours, or something else")
    return Points(given.circle, z3.simplify(given.start + turns.start), _certain_count(turns))


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


def display(*given: tuple[bool, Any]) -> Any:
    """A list that is written down; of each part whether it has a star."""
    parts = [
        (star, each.take() if star and isinstance(each, Once) else each) for star, each in given
    ]
    match parts:
        case (True, Filled() as before), (False, each):
            return before.with_one(each)
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
