"""What a loop goes over: ranges, lists with their places, several lists side by side.

Of each it is known how many turns it has, and what any of them is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import z3

from mqprove.lists import ONE, ZERO, Choice, Ids, Listing, Queue
from mqprove.ring import Points
from mqprove.symbolic import OPERATIONS, NotUnderstoodError, Number, Term, refusing, turn


@refusing("__eq__", "__iter__", *OPERATIONS)
@dataclass(frozen=True, eq=False, repr=False)
class Range:
    """A range of any length; `down`: its step is below 0, else above."""

    start: Term
    stop: Term
    step: Term
    down: bool = False

    def count(self) -> Term:
        span = self.start - self.stop if self.down else self.stop - self.start
        step = -self.step if self.down else self.step
        steps = span if step.eq(ONE) else (span - 1) / step + 1
        return z3.If(span > 0, steps, ZERO)

    def backwards(self) -> Range:
        """The same from its end."""
        last = self.start + self.step * (self.count() - 1)
        return Range(last, self.start - self.step, -self.step, not self.down)


@refusing("__eq__", "__iter__", *OPERATIONS)
@dataclass(frozen=True, eq=False, repr=False)
class Numbered:
    """What `enumerate` goes over."""

    of: Any
    start: Term


@refusing("__eq__", "__iter__", *OPERATIONS)
@dataclass(frozen=True, eq=False, repr=False)
class Zipped:
    """What `zip` goes over."""

    parts: Sequence[Any]


@refusing("__eq__", "__iter__", *OPERATIONS)
@dataclass(frozen=True, eq=False, repr=False)
class Cycled:
    """What `cycle` goes over."""

    of: Any


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

    def with_one(self, item: object) -> Any:
        """What was there, and one more at its end."""
        raise NotUnderstoodError(f"what a turn adds to, with {item} at its end")


@refusing("__eq__", "__next__", *OPERATIONS)
class Once:
    """An iterator over something, which is used up by the first loop that goes over it. What it was
    made of must not change before: an iterator would see that."""

    def __init__(self, over: Any, *made_of: Any) -> None:
        self.over = over
        self._left, self._made_in = True, turn()
        self._made_of = [(each, _held(each)) for each in made_of]

    def take(self) -> Any:
        """What it goes over, once."""
        if not self._left or self._made_in != turn():
            raise NotUnderstoodError("an iterator that is used again")
        if any(_held(each) != held for each, held in self._made_of):
            raise NotUnderstoodError("an iterator over what has changed since")
        self._left = False
        return self.over

    def __iter__(self) -> Iterator[Any]:
        return iter(self.take())


def _held(value: Any) -> Any:
    """What a list holds now, by identity."""
    match value:
        case Listing():
            return [id(piece) for piece in value.pieces]
        case list() | dict() | set():
            return [id(each) for each in value]
        case _:
            return None


PLACED = (Range, Listing, Numbered, Ids, Points, Zipped, Cycled)  # that have places


def goes_over(value: Any) -> Any:
    """What a loop over this goes over, which may be done again."""
    if isinstance(value, Once):
        return goes_over(value.over)
    turns = value.turns() if isinstance(value, Collected) else None
    return value if turns is None else turns


def gone_over(value: Any) -> Any:
    """The same; of an iterator nothing is left then."""
    return goes_over(value.take() if isinstance(value, Once) else value)


def any_turn(value: Any, at: Term) -> tuple[z3.BoolRef, object]:
    """When `at` is a turn of a loop over this, and what it is given."""
    if isinstance(value, Turns):
        return value.any_turn(at)
    return z3.And(at >= 0, at < count(value)), each_at(value, at)


def count(value: Any) -> Term:
    """How many turns a loop over this has."""
    match value:
        case Range():
            return value.count()
        case Listing():
            return value.only().count()
        case Numbered():
            return count(value.of)
        case Zipped():
            end = reduce(_less, map(count, (p for p in value.parts if not isinstance(p, Cycled))))
            # One that goes round and round ends only where there is nothing in it.
            around = (count(p.of) > 0 for p in value.parts if isinstance(p, Cycled))
            return reduce(lambda so_far, some: z3.If(some, so_far, ZERO), around, end)
        case Cycled():
            raise NotUnderstoodError("a cycle without an end")
        case _:
            length: Term = value.length
            return length


def each_at(value: Any, at: Term) -> object:
    """What the turn `at` of a loop over this is given."""
    match value:
        case Range():
            return Number(value.start + value.step * at)
        case Listing():
            piece = value.only()
            return Queue(piece.base, z3.simplify(piece.start + piece.step * at))
        case Numbered():
            return Number(value.start + at), each_at(value.of, at)
        case Zipped():
            return tuple(each_at(part, at) for part in value.parts)
        case Cycled():
            length = count(value.of)
            return each_at(value.of, at - length * (at / length))
        case _:
            return value.at(at)


def _less(one: Term, other: Term) -> Term:
    return one if one.eq(other) else z3.If(one < other, one, other)
