"""What lists are to a proof: positions in the list of queues, of any length.

A list that is computed from the list of queues is known by which of its positions it holds. It is
made of pieces: from a start, up to a stop, in steps, of a base; and where a loop or comprehension
chose among them, those for which the choice holds. A base is the list of queues itself, or what a
condition left of it: nothing is known of such a condition but that it is the same for all members.
Their order is that of the pieces.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

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
    fact,
    looked_at,
    refusing,
    turn,
    whole,
)

ZERO, ONE = z3.IntVal(0), z3.IntVal(1)


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

    def __getitem__(self, index: object) -> Any:
        if index == slice(None):
            return self.copy()
        if isinstance(index, slice):
            raise NotUnderstoodError("a slice of the ids")
        return self.at(place_in(whole(index), self.length))

    def index(self, cid: Id) -> Number:
        if not decide(self.holds(cid)):
            raise ValueError("not in list")
        return Number(self.place(cid))

    def count(self, cid: Id) -> Number:
        """How often it has an id; more is not known of that than whether it is there."""
        times = z3.Function(f"times in {self.length}", z3.IntSort(), z3.IntSort())(cid.term)
        fact(z3.And(times >= 0, (times > 0) == self.holds(cid)))
        return Number(times)

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

    def copy(self) -> Ids:
        """Another list of the same."""
        return Ids(self.length)


class FewerIds(Ids):
    """The ids without that of the member that left, where ids are unique."""

    def __init__(self, members: Term, gone: Term) -> None:
        super().__init__(members - 1)
        self.members, self.gone = members, gone  # how many there were; the position that left

    def holds(self, cid: Id) -> z3.BoolRef:
        return z3.And(is_listed(cid.term), cid.term != id_at(self.gone))

    def at(self, place: Term) -> Id:
        before = z3.If(place < self.gone, place, place + 1)
        cid = id_at(before)
        inside = z3.And(place >= 0, place < self.length)
        fact(z3.Implies(inside, z3.And(is_listed(cid), first_at(cid) == before)))
        return Id(cid)

    def place(self, cid: Id) -> Term:
        return self.moved(first_at(cid.term))

    def moved(self, before: Term) -> Term:
        """Where a position before comes to be."""
        return z3.If(before > self.gone, before - 1, before)

    def copy(self) -> Ids:
        return FewerIds(self.members, self.gone)


class IdTuple(Ids):
    """The ids as a tuple."""

    def copy(self) -> Ids:
        raise NotUnderstoodError("copy of a tuple")


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
    return Listing([Piece(base, ZERO, length, ONE)])


def any_listing(name: str) -> Listing:
    """A list of any queues, of this topic or not, each once."""
    base = chosen(
        Base("there is", z3.Int("queues there are"), _anything, lambda queue: queue), name
    )
    return Listing([Piece(base, ZERO, base.length, ONE)])


def _anything(_: Term) -> z3.BoolRef:
    return z3.BoolVal(True)


def chosen(parent: Base, name: str) -> Base:
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
    """The positions `start`, `start + step`, ... before `stop` of a base; of them those for which
    the choice holds, if there is one. `down`: the step is below 0, else above."""

    base: Base
    start: Term
    stop: Term
    step: Term
    choice: Choice | None = None
    down: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it counts from the base's first, one by one."""
        return bool(self.start.eq(ZERO) and self.step.eq(ONE))

    def contains(self, queue: Term) -> tuple[z3.BoolRef, list[z3.BoolRef]]:
        """Whether it holds a queue, and facts that the answer rests on."""
        rank = self.base.rank(queue)
        between = (rank <= self.start, self.stop < rank)
        parts = [
            self.base.inside(queue),
            *(between if self.down else (self.start <= rank, rank < self.stop)),
        ]
        facts = self.base.facts(queue)
        if not self._by.eq(ONE):
            parts.append((rank - self.start) % self._by == 0)
        if self.choice:
            at = z3.simplify(rank - self.start)
            at = at if self.step.eq(ONE) else at / self.step
            here = (self.choice.turn, at)
            parts.append(z3.substitute(self.choice.condition, here))
            facts += [z3.substitute(each, here) for each in self.choice.facts]
        return z3.And(parts), facts

    def count(self) -> Term:
        """How many it holds."""
        if self.choice:
            raise NotUnderstoodError("how many a loop has chosen")
        span = self.start - self.stop if self.down else self.stop - self.start
        steps = span if self._by.eq(ONE) else (span - 1) / self._by + 1
        return z3.If(span > 0, steps, ZERO)

    @property
    def _by(self) -> Term:
        """How far it goes at a step, whichever way."""
        return z3.simplify(-self.step) if self.down else self.step


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
        return z3.Sum([ZERO, *(piece.count() for piece in self.pieces)])

    def contains(self, queue: Term) -> tuple[z3.BoolRef, list[z3.BoolRef]]:
        """Whether it holds the queue at a position of the list of queues, with facts."""
        self.look()
        found = [piece.contains(queue) for piece in self.pieces]
        facts = [each for _, told in found for each in told]
        return z3.Or([holds for holds, _ in found]), facts

    def contains_twice(self, queue: Term) -> z3.BoolRef:
        """Whether two of its pieces hold the queue; none holds it twice."""
        self.look()
        found = [piece.contains(queue)[0] for piece in self.pieces]
        return z3.Or([z3.And(one, other) for one, other in combinations(found, 2)])

    def __getitem__(self, where: object) -> Any:
        piece = self.only()
        if not isinstance(where, slice):
            return Queue(
                piece.base, piece.start + piece.step * place_in(whole(where), piece.count())
            )
        step = ONE if where.step is None else whole(where.step)
        if decide(step == 0):
            raise ValueError("slice step cannot be zero")
        length = self._span(piece)
        if decide(step < 0):
            last = length - 1
            start = last if where.start is None else _bound(whole(where.start), length, down=True)
            stop = -ONE if where.stop is None else _bound(whole(where.stop), length, down=True)
            return type(self)([_part(piece, start, stop, step, down=True)])
        start = ZERO if where.start is None else _bound(whole(where.start), length)
        stop = length if where.stop is None else _bound(whole(where.stop), length)
        return type(self)([_part(piece, start, stop, step)])

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
        self.add([Piece(item.base, item.rank, item.rank + 1, ONE)])

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
        if isinstance(other, ListingTuple):
            raise NotUnderstoodError("a tuple added to a list")
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


class ListingTuple(Listing):
    """Queues as a tuple, which nothing changes."""

    def _refused(self, *_: object) -> Any:
        raise NotUnderstoodError("what is done to a tuple here")

    append = extend = add = _refused  # type: ignore[assignment]
    copy = __add__ = __iadd__ = _refused


class Rebuilt(Listing):
    """A list that may be another one's still: so it is not changed in its place."""

    def _refused(self, *_: object) -> Any:
        raise NotUnderstoodError("a list that may be another's too, and is changed in its place")

    append = extend = add = __iadd__ = _refused  # type: ignore[assignment]


def _part(piece: Piece, start: Term, stop: Term, step: Term, down: bool = False) -> Piece:
    if piece.is_plain:
        return Piece(piece.base, start, stop, step, down=down)
    first, last = (z3.simplify(piece.start + piece.step * bound) for bound in (start, stop))
    steps = z3.simplify(piece.step * step)
    return Piece(piece.base, first, last, steps, down=piece.down != down)


def place_in(index: Term, length: Term) -> Term:
    """An index as Python counts it: from the end where it is negative. Raises IndexError."""
    if not certain(index >= 0):
        index = z3.If(index < 0, index + length, index)
    if decide(z3.Or(index < 0, index >= length)):
        raise IndexError("list index out of range")
    return index


def _bound(bound: Term, length: Term, down: bool = False) -> Term:
    """Python counts a negative bound from the end, and clips both ends: one earlier where a slice
    goes down."""
    first, last = (-ONE, length - 1) if down else (ZERO, length)
    if not certain(bound >= 0):
        from_end = bound + length
        bound = z3.If(bound >= 0, bound, z3.If(from_end >= first, from_end, first))
    if not certain(bound <= last):
        bound = z3.If(bound <= last, bound, last)
    return bound
