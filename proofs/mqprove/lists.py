"""What lists are to a proof: positions in the list of queues, of any length.

A list that is computed from the list of queues is known by which of its positions it holds. It is
made of pieces: from a start, up to a stop, in steps, of a base; and where a loop or comprehension
chose among them, those for which the choice holds. A base is the list of queues itself, or what a
condition left of it: nothing is known of such a condition but that it is the same for all members.
Their order is that of the pieces.

The functions whose names end with an underscore stand in for Python's own in the code under proof.
"""

from __future__ import annotations

import bisect
import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any, Final

import z3

from mqprove.symbolic import (
    OPERATIONS,
    NotUnderstoodError,
    Number,
    Term,
    Truth,
    certain,
    decide,
    effects,
    explore_one,
    fact,
    looked_at,
    refusals,
    refusing,
    turn,
    whole,
)

BUILTINS: Final = ("len", "range", "list", "sorted", "str", "enumerate")
SUMMARIES: Final = ("hash_ring", "bisect_left", "string_order")
_ZERO, _ONE = z3.IntVal(0), z3.IntVal(1)


@refusing(*OPERATIONS)
class Unknown:
    """A value of which nothing is known: whoever looks at it is refused."""

    def __eq__(self, other: object) -> Any:
        raise NotUnderstoodError(f"a {type(self).__name__} compared")

    def __ne__(self, other: object) -> Any:
        return Truth(z3.Not((self == other).term))

    __hash__ = None  # type: ignore[assignment]

    is_none: z3.BoolRef | None = None  # when it is None, where it may be

    def __init_subclass__(cls) -> None:
        # Python takes a class that says what is equal for one that cannot be hashed.
        cls.__hash__ = Unknown.__hash__  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotUnderstoodError(f"{type(self).__name__}.{name}")

    def __bool__(self) -> bool:
        raise NotUnderstoodError(f"whether a {type(self).__name__} is true")

    def __iter__(self) -> Iterator[Any]:
        raise NotUnderstoodError(f"a loop over a {type(self).__name__}")


class Text(Unknown):
    """A text: the name of a group, or a part of a queue. `equals` is what it was compared with."""

    def __init__(self, name: str, of: Term | None = None) -> None:
        self.name, self.of = name, of
        self.equals: dict[str, z3.BoolRef] = {}

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, str) or self.of is not None:
            raise NotUnderstoodError(f"{self.name} compared")
        return Truth(self.equals.setdefault(other, z3.Bool(f"{self.name} is {other}")))


class Id(Unknown):
    """A client id."""

    def __init__(self, term: Term, empty: bool = False) -> None:
        self.term, self.empty = term, empty

    def __bool__(self) -> bool:
        return not self.empty

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Id):
            raise NotUnderstoodError("a client id compared with something else")
        return Truth(self.term == other.term)


is_listed = z3.Function("listed", z3.IntSort(), z3.BoolSort())  # id -> whether it is in the list
first_at = z3.Function("first", z3.IntSort(), z3.IntSort())  # id -> its first position
id_at = z3.Function("id_at", z3.IntSort(), z3.IntSort())  # position -> id


class Ids(Unknown):
    """The id list: what Python's list does for `in`, `index`, `not`, `len` and a position."""

    def __init__(self, length: Term) -> None:
        self.length = length

    def __bool__(self) -> bool:
        return decide(self.length != 0)

    def __contains__(self, cid: Id) -> bool:
        return decide(self.holds(cid))

    def __getitem__(self, index: object) -> Id:
        if isinstance(index, slice):
            raise NotUnderstoodError("a slice of the ids")
        return self.at(_place(whole(index), self.length))

    def index(self, cid: Id) -> Number:
        if not decide(self.holds(cid)):
            raise ValueError("not in list")
        return Number(self.place(cid))

    def holds(self, cid: Id) -> z3.BoolRef:
        """Whether it has the id."""
        return is_listed(cid.term)

    def at(self, place: Term) -> Id:
        """The id at a place of it."""
        cid = id_at(place)
        inside = z3.And(place >= 0, place < self.length)
        found = z3.And(is_listed(cid), first_at(cid) <= place, first_at(cid) >= 0)
        fact(z3.Implies(inside, z3.And(found, id_at(first_at(cid)) == cid)))
        return Id(cid)

    def place(self, cid: Id) -> Term:
        """The first place of an id that it has."""
        return first_at(cid.term)


# Bases


@dataclass
class Base:
    """What positions are counted in. `rank` says where in it a queue is, `inside` whether."""

    name: str
    length: Term
    inside: Callable[[Term], z3.BoolRef]
    rank: Callable[[Term], Term]
    told: list[Term] = field(default_factory=list)  # queues of which facts were told
    parent: Base | None = None

    def facts(self, queue: Term) -> list[z3.BoolRef]:
        """What is true of a queue's rank: it lies in the base, and keeps the order."""
        if self.parent is None or any(queue.eq(other) for other in self.told):
            return []
        inside, rank = self.inside(queue), self.rank(queue)
        found = [
            self.length >= 0,
            self.length <= self.parent.length,
            z3.Implies(inside, z3.And(rank >= 0, rank < self.length)),
            *(
                z3.Implies(
                    z3.And(inside, self.inside(other)),
                    (queue < other) == (rank < self.rank(other)),
                )
                for other in self.told
            ),
        ]
        self.told.append(queue)
        return [*found, *self.parent.facts(queue)]


_BASES: dict[str, Base] = {}


def forget_bases() -> None:
    """Another theorem begins: of its queues nothing was told yet."""
    _BASES.clear()


def known_bases() -> dict[str, Base]:
    """What the runs of this theorem have counted in so far, by name."""
    return _BASES


def all_queues(length: Term) -> Listing:
    """The list of queues."""
    base = _BASES.setdefault("all", Base("all", length, _anything, lambda queue: queue))
    return Listing([Piece(base, _ZERO, length, _ONE)])


def any_listing(name: str) -> Listing:
    """A list of any queues, of this topic or not, each once."""
    base = _chosen(
        Base("there is", z3.Int("queues there are"), _anything, lambda queue: queue), name
    )
    return Listing([Piece(base, _ZERO, base.length, _ONE)])


def _anything(_: Term) -> z3.BoolRef:
    return z3.BoolVal(True)


def _chosen(parent: Base, name: str) -> Base:
    """Some of the queues of a base, of which nothing is known but the name."""
    if name not in _BASES:
        has = z3.Function(f"has: {name}", z3.IntSort(), z3.BoolSort())
        rank = z3.Function(f"rank: {name}", z3.IntSort(), z3.IntSort())
        _BASES[name] = Base(
            name,
            z3.Int(f"count: {name}"),
            lambda queue: z3.And(parent.inside(queue), has(queue)),
            lambda queue: rank(queue),
            parent=parent,
        )
    return _BASES[name]


# Lists of queues


@dataclass(frozen=True, slots=True)
class Choice:
    """What a loop chose by: a condition on its turn, and facts of what stands in it."""

    turn: Term
    condition: z3.BoolRef
    facts: tuple[z3.BoolRef, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """The positions `start`, `start + step`, ... before `stop` of a base, `step` being above 0;
    of them those for which the choice holds, if there is one."""

    base: Base
    start: Term
    stop: Term
    step: Term
    choice: Choice | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it counts from the base's first, one by one."""
        return bool(self.start.eq(_ZERO) and self.step.eq(_ONE))

    def contains(self, queue: Term) -> tuple[z3.BoolRef, list[z3.BoolRef]]:
        """Whether it holds a queue, and facts that the answer rests on."""
        rank = self.base.rank(queue)
        parts = [self.base.inside(queue), self.start <= rank, rank < self.stop]
        facts = self.base.facts(queue)
        if not self.step.eq(_ONE):
            parts.append((rank - self.start) % self.step == 0)
        if self.choice:
            at = z3.simplify(rank - self.start)
            at = at if self.step.eq(_ONE) else at / self.step
            here = (self.choice.turn, at)
            parts.append(z3.substitute(self.choice.condition, here))
            facts += [z3.substitute(each, here) for each in self.choice.facts]
        return z3.And(parts), facts

    def count(self) -> Term:
        """How many it holds."""
        if self.choice:
            raise NotUnderstoodError("how many a loop has chosen")
        span = self.stop - self.start
        steps = span if self.step.eq(_ONE) else (span - 1) / self.step + 1
        return z3.If(span > 0, steps, _ZERO)


class Queue(Unknown):
    """One queue: a position in a base."""

    def __init__(self, base: Base, rank: Term) -> None:
        self.base, self.rank = base, rank

    def __getattr__(self, name: str) -> Any:
        if name in ("topic", "broker_name", "queue_id"):
            return Text(name, self.rank)
        return super().__getattr__(name)

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Queue) or other.base is not self.base:
            raise NotUnderstoodError("a queue compared with something else")
        return Truth(self.rank == other.rank)


class Listing(Unknown):
    """A list of queues, as Python's list behaves."""

    def __init__(self, pieces: Iterable[Any] = ()) -> None:
        self.pieces: builtins.list[Any] = [*pieces]  # each a Piece, or what a loop over rooms took
        self.depth = turn()

    def __bool__(self) -> bool:
        return decide(self.length() != 0)

    def look(self) -> None:
        """Note that it is looked at: a loop whose turns add to it must not."""
        if self.depth < turn():
            looked_at().append(self)

    def length(self) -> Term:
        self.look()
        return z3.Sum([_ZERO, *(piece.count() for piece in self.pieces)])

    def contains(self, queue: Term) -> tuple[z3.BoolRef, list[z3.BoolRef]]:
        """Whether it holds the queue at a position of the list of queues, with facts."""
        self.look()
        found = [piece.contains(queue) for piece in self.pieces]
        facts = [each for _, told in found for each in told]
        return z3.Or([holds for holds, _ in found]), facts

    def __getitem__(self, where: object) -> Any:
        piece = self.only()
        if not isinstance(where, slice):
            return Queue(piece.base, piece.start + piece.step * _place(whole(where), piece.count()))
        step = _ONE if where.step is None else whole(where.step)
        if decide(step == 0):
            raise ValueError("slice step cannot be zero")
        if decide(step < 0):
            raise NotUnderstoodError("a slice that goes backwards")
        length = self._span(piece)
        start = _ZERO if where.start is None else _bound(whole(where.start), length)
        stop = length if where.stop is None else _bound(whole(where.stop), length)
        return Listing([_part(piece, start, stop, step)])

    def _span(self, piece: Piece) -> Term:
        return piece.stop if piece.is_plain else piece.count()

    def only(self) -> Piece:
        """Its one piece: positions are not counted over several."""
        self.look()
        if len(self.pieces) != 1 or not isinstance(self.pieces[0], Piece) or self.pieces[0].choice:
            raise NotUnderstoodError("a position in a list that was put together")
        return self.pieces[0]

    def append(self, item: object) -> None:
        if not isinstance(item, Queue):
            raise NotUnderstoodError("something else than a queue in a list of queues")
        self.add([Piece(item.base, item.rank, item.rank + 1, _ONE)])

    def extend(self, items: object) -> None:
        if isinstance(items, list) and not items:
            return
        if not isinstance(items, Listing):
            raise NotUnderstoodError("something else than queues in a list of queues")
        items.look()
        self.add(items.pieces)

    def copy(self) -> Listing:
        self.look()
        return Listing(self.pieces)

    def __add__(self, other: object) -> Listing:
        made = self.copy()
        made.extend(other)
        return made

    def __iadd__(self, other: object) -> Listing:
        self.extend(other)
        return self

    def add(self, pieces: Iterable[Any]) -> None:
        """At its end; in a loop's turn, what any turn adds is put together at the loop's."""
        if self.depth < turn():
            effects().extend((self, piece) for piece in pieces)
        else:
            self.pieces += pieces


def _part(piece: Piece, start: Term, stop: Term, step: Term) -> Piece:
    if piece.is_plain:
        return Piece(piece.base, start, stop, step)
    first, last = (piece.start + piece.step * bound for bound in (start, stop))
    return Piece(piece.base, first, last, piece.step * step)


def _place(index: Term, length: Term) -> Term:
    """An index as Python counts it: from the end where it is negative. Raises IndexError."""
    if not certain(index >= 0):
        index = z3.If(index < 0, index + length, index)
    if decide(z3.Or(index < 0, index >= length)):
        raise IndexError("list index out of range")
    return index


def _bound(bound: Term, length: Term) -> Term:
    """Python counts a negative bound from the end, and clips both ends."""
    if not certain(bound >= 0):
        from_end = bound + length
        bound = z3.If(bound >= 0, bound, z3.If(from_end >= 0, from_end, _ZERO))
    if not certain(bound <= length):
        bound = z3.If(bound <= length, bound, length)
    return bound


# Loops


@refusing("__eq__", "__iter__", *OPERATIONS)
@dataclass(frozen=True, eq=False, repr=False)
class Range:
    """A range of any length, upwards."""

    start: Term
    stop: Term
    step: Term

    def count(self) -> Term:
        span = self.stop - self.start
        steps = span if self.step.eq(_ONE) else (span - 1) / self.step + 1
        return z3.If(span > 0, steps, _ZERO)


@refusing("__eq__", "__iter__", *OPERATIONS)
@dataclass(frozen=True, eq=False, repr=False)
class Numbered:
    """`enumerate` of a list."""

    of: Listing
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


def _goes_over(value: Any) -> Any:
    turns = value.turns() if isinstance(value, Collected) else None
    return value if turns is None else turns


def is_symbolic(value: object) -> bool:
    """Whether a loop over this is tried on one element for all."""
    return isinstance(_goes_over(value), Range | Listing | Numbered | Ids | Turns)


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
    given = _goes_over(given)
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
    single = z3.simplify(piece.stop - piece.start, som=True).eq(_ONE) and piece.choice is None
    if not single or _mentions(distance, at) or not certain(distance > 0):
        raise NotUnderstoodError(f"line {line}: a loop that does not go on at one distance")
    first = z3.substitute(start, (at, _ZERO))
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
    for start in (_ZERO, *bounds):
        for stop in (count, *bounds):
            if is_choice(z3.And(start <= at, at < stop)):
                low = z3.If(start > 0, start, _ZERO)
                high = z3.If(stop < count, stop, count)
                return _of_turns(piece, low, high, _ONE)
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
    return bool(z3.simplify(one - other, som=True).eq(_ZERO))


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
        base = _chosen(parent, f"{parent.name} if {condition}")
        fact(base.length >= 0)
        fact(base.length <= parent.length)
        whole_base = given.only().start.eq(_ZERO) and given.only().stop.eq(given.only().base.length)
        left = Queue(base, z3.FreshInt("left"))
        if not whole_base or element(left) is not left:
            raise
        del refusals()[refused_before:]  # read in another way
        return Listing([Piece(base, _ZERO, base.length, _ONE)])
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


# Python's own


def is_(one: object, other: object) -> Any:
    """`one is other`. Whether two equal values are one object is not known; that unequal ones are
    not, is."""
    if one is other or not any(isinstance(each, Unknown | Number | Truth) for each in (one, other)):
        return one is other
    if isinstance(one, Truth) or isinstance(other, Truth):
        return bool(one) is bool(other) and all(isinstance(e, bool | Truth) for e in (one, other))
    if one is None or other is None:
        absent = getattr(one if other is None else other, "is_none", None)
        return Truth(absent) if absent is not None else False
    same = z3.FreshBool("the same object")
    fact(z3.Implies(same, (one == other).term))  # type: ignore[attr-defined]
    return Truth(same)


GUARDED: Final = (
    *("isinstance", "issubclass", "type", "id", "callable", "vars", "dir"),
    *("hasattr", "getattr", "setattr", "delattr"),
)
"""What Python answers about any object: of a symbolic one, about the stand-in."""


def guarded(name: str) -> Callable[..., Any]:
    """A function of Python's own that refuses symbolic values."""
    original = getattr(builtins, name)

    def call(*given: Any, **named: Any) -> Any:
        plain(*given)
        return original(*given, **named)

    return call


def plain(*values: Any) -> Any:
    """The value, or values, if nothing of them is symbolic; else refused."""
    for value in values:
        inner = value if isinstance(value, tuple | builtins.list | set) else (value,)
        for each in inner:
            if isinstance(each, Unknown | Number | Truth | Range | Numbered | Turns | Collected):
                raise NotUnderstoodError(f"what a {type(each).__name__} is")
    return values[0] if builtins.len(values) == 1 else values


def attribute(value: Any, name: str) -> Any:
    """An attribute with a name of Python's own."""
    return getattr(plain(value), name)


def refuse(what: str) -> Any:
    """In place of a statement that cannot be read."""
    raise NotUnderstoodError(what)


def len_(value: Any) -> Any:
    match value:
        case Listing():
            piece = value.pieces[0] if len(value.pieces) == 1 else None
            plain = isinstance(piece, Piece) and not piece.choice and piece.is_plain
            return Number(piece.stop if piece and plain else value.length())
        case Ids() | Points():
            return Number(value.length)
        case Range():
            return Number(value.count())
        case _:
            return builtins.len(value)


def range_(*given: Any) -> Any:
    if not any(isinstance(each, Number) for each in given):
        return builtins.range(*given)
    start, stop = (0, given[0]) if builtins.len(given) == 1 else given[:2]
    step = whole(given[2]) if builtins.len(given) == 3 else _ONE
    if decide(step == 0):
        raise ValueError("range() arg 3 must not be zero")
    if decide(step < 0):
        raise NotUnderstoodError("a range that goes downwards")
    return Range(whole(start), whole(stop), step)


def list_(*given: Any) -> Any:
    return given[0].copy() if given and isinstance(given[0], Listing) else builtins.list(*given)


def enumerate_(given: Any, start: Any = 0) -> Any:
    if isinstance(given, Listing):
        return Numbered(given, whole(start))
    return builtins.enumerate(given, start)


def sorted_(given: Any, **how: Any) -> Any:
    turns = _goes_over(given)
    if isinstance(turns, Turns):
        _, each = turns.any_turn(z3.FreshInt("turn"))
        if how.get("key"):
            how["key"](each)  # which must not raise; the order itself is not known anyway
        return turns
    if isinstance(given, Ring) and not how:
        return Points(given)
    if is_symbolic(given) or isinstance(given, Ring):
        raise NotUnderstoodError("a list in another order")
    return builtins.sorted(given, **how)


def str_(*given: Any) -> Any:
    if given and isinstance(given[0], Queue):
        return Text("str(queue)", given[0].rank)
    return builtins.str(*given)


# The ring of consistent hashing


_hash = z3.Function("hash", z3.IntSort(), z3.IntSort())  # of a queue
_point = z3.Function("point", z3.IntSort(), z3.IntSort())  # the points in order, by place
_before = z3.Function("before", z3.IntSort(), z3.IntSort())  # how many points are less
_stands = z3.Function("stands", z3.IntSort(), z3.IntSort())  # point -> id
RING_SIZE = z3.Int("points of the ring")


class Ring(Unknown):
    """Any ring: points, and whose each is. Of its making nothing is known but that all members
    make it of the same, and that whoever stands there is in the list."""

    def __bool__(self) -> bool:
        return decide(RING_SIZE != 0)

    def __getitem__(self, point: object) -> Id:
        return Id(_stands(whole(point)))


class Points(Unknown):
    """The points of a ring in their order."""

    def __init__(self, _: Ring) -> None:
        self.length = RING_SIZE

    def __bool__(self) -> bool:
        return decide(self.length != 0)

    def __getitem__(self, index: object) -> Number:
        return Number(_point(_place(whole(index), self.length)))


def hash_of(text: object) -> Number:
    """The hash of a queue, any function of it."""
    if not isinstance(text, Text) or text.of is None:
        raise NotUnderstoodError("the hash of something else than a queue")
    return Number(_hash(text.of))


def round_the_end(queue: Term) -> z3.BoolRef:
    """What a remainder by the number of points comes to, of the place of a queue's next point:
    a lemma, to be proved before it is used."""
    at = _before(_hash(queue))
    inside = z3.And(at >= 0, at <= RING_SIZE, RING_SIZE > 0)
    remainder = at - RING_SIZE * (at / RING_SIZE)
    return z3.Implies(inside, remainder == z3.If(at == RING_SIZE, _ZERO, at))


def next_owner(queue: Term) -> Term:
    """Who stands at the first point at or after a queue's hash, round the end."""
    at = _before(_hash(queue))
    return _stands(_point(z3.If(at == RING_SIZE, _ZERO, at)))


def ring_facts(queue: Term) -> list[z3.BoolRef]:
    """What `bisect_left` means, of one queue."""
    at, point = _before(_hash(queue)), _hash(queue)
    return [
        RING_SIZE >= 0,
        at >= 0,
        at <= RING_SIZE,
        z3.Implies(at > 0, _point(at - 1) < point),
        z3.Implies(at < RING_SIZE, _point(at) >= point),
    ]


def summary(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in for a function on symbolic input; on ordinary input it runs itself."""

    def hash_ring(cid_all: Any, *others: Any) -> Any:
        return Ring() if type(cid_all) is Ids else original(cid_all, *others)

    def bisect_left(points: Any, value: Any) -> Any:
        if not isinstance(points, Points):
            return bisect.bisect_left(points, value)
        at, number = _before(whole(value)), whole(value)
        for each in (
            RING_SIZE >= 0,
            at >= 0,
            at <= RING_SIZE,
            z3.Implies(at > 0, _point(at - 1) < number),
            z3.Implies(at < RING_SIZE, _point(at) >= number),
        ):
            fact(each)
        return Number(at)

    def string_order(text: Any) -> Any:
        return Text("string_order") if isinstance(text, Unknown) else original(text)

    stand_ins: dict[str, Callable[..., Any]] = {
        "string_order": string_order,
        "hash_ring": hash_ring,
        "bisect_left": bisect_left,
    }
    return stand_ins[name]
