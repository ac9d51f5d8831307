"""What the ring of consistent hashing is to a proof: any ring, the same for all members."""

from __future__ import annotations

from dataclasses import dataclass

import z3

from mqprove.lists import ZERO, FewerIds, Id, Ids, Text, Unknown, place_in
from mqprove.symbolic import NotUnderstoodError, Number, Term, decide, whole

hash_at = z3.Function("hash", z3.IntSort(), z3.IntSort())  # of a queue


@dataclass(frozen=True, slots=True)
class Circle:
    """The points of a ring, which lie in order, and whose each is; of whom it is made is its
    `name`. Of a queue's hash the next point is the first at or after it, round the end."""

    name: str

    @property
    def size(self) -> Term:
        return z3.Int(f"points of {self.name}")

    def point(self, place: Term) -> Term:
        """The point at a place."""
        return self._of("point", place)

    def has_as_point(self, term: z3.ExprRef) -> bool:
        """Whether a term is the point at some place."""
        return bool(z3.is_app(term) and term.decl().eq(self.point(ZERO).decl()))

    def stands(self, point: Term) -> Term:
        """Whose a point is."""
        return self._of("stands", point)

    def place(self, point: Term) -> Term:
        """The place of a point."""
        return self._of("place", point)

    def before(self, number: Term) -> Term:
        """How many points are less than a number."""
        return self._of("before", number)

    def next_owner(self, queue: Term) -> Term:
        """Who stands at the next point of a queue's hash."""
        at = self.before(hash_at(queue))
        return self.stands(self.point(z3.If(at == self.size, ZERO, at)))

    def next_facts(self, queue: Term) -> list[z3.BoolRef]:
        """What is known of a queue's next point."""
        return self.first_at_or_after(hash_at(queue))[1]

    def first_at_or_after(self, number: Term) -> tuple[Term, list[z3.BoolRef]]:
        """The place of the first point that is no less than a number, and what that means."""
        at = self.before(number)
        return at, [
            self.size >= 0,
            at >= 0,
            at <= self.size,
            z3.Implies(at > 0, self.point(at - 1) < number),
            z3.Implies(at < self.size, self.point(at) >= number),
        ]

    def either_side(self, number: Term, place: Term) -> list[z3.BoolRef]:
        """What the order of the points says of the one at a place, whichever that is."""
        at, facts = self.first_at_or_after(number)
        less = z3.Implies(z3.And(place >= 0, place < at), self.point(place) < number)
        no_less = z3.Implies(z3.And(place >= at, place < self.size), self.point(place) >= number)
        return [*facts, less, no_less]

    def round_the_end(self, queue: Term) -> z3.BoolRef:
        """What a remainder by the number of points comes to, of the place of a queue's next point:
        a lemma, to be proved before it is used."""
        at = self.before(hash_at(queue))
        inside = z3.And(at >= 0, at <= self.size, self.size > 0)
        remainder = at - self.size * (at / self.size)
        return z3.Implies(inside, remainder == z3.If(at == self.size, ZERO, at))

    def has(self, place: Term) -> z3.BoolRef:
        """Whether there is a point at a place."""
        return z3.And(place >= 0, place < self.size)

    def in_order(self) -> z3.BoolRef:
        """That points lie in order, each once."""
        one, other = z3.Ints("one other")
        inside = z3.And(self.has(one), self.has(other), one < other)
        points = self.point(one), self.point(other)
        looked_at = [z3.MultiPattern(*points)]
        return z3.ForAll(
            [one, other], z3.Implies(inside, points[0] < points[1]), patterns=looked_at
        )

    def _of(self, what: str, given: Term) -> Term:
        found: Term = z3.Function(f"{what} of {self.name}", z3.IntSort(), z3.IntSort())(given)
        return found


ALL, STAYING = Circle("all"), Circle("those who stay")


def without(leaver: Term) -> list[z3.BoolRef]:
    """How the ring of those who stay lies to that of all, where ids are unique: the points of the
    others are the same and theirs. At one of them the leaver may have stood last."""
    place, point = z3.Int("place"), ALL.point(z3.Int("place"))
    there = STAYING.place(point)
    is_others = z3.And(ALL.has(place), ALL.stands(point) != leaver)
    stays = z3.And(
        STAYING.has(there),
        STAYING.point(there) == point,
        STAYING.stands(point) == ALL.stands(point),
    )
    left = STAYING.point(place)
    here = ALL.place(left)
    was = z3.And(
        ALL.has(here),
        ALL.point(here) == left,
        STAYING.stands(left) != leaver,
        z3.Or(ALL.stands(left) == STAYING.stands(left), ALL.stands(left) == leaver),
    )
    return [
        ALL.in_order(),
        STAYING.in_order(),
        z3.ForAll([place], z3.Implies(is_others, stays), patterns=[point]),
        z3.ForAll([place], z3.Implies(STAYING.has(place), was), patterns=[left]),
    ]


def next_stays(queue: Term, leaver: Term) -> z3.BoolRef:
    """Who is next of all, and stays, is next of those who stay: a lemma, to be proved of `without`
    before it is used."""
    owner = ALL.next_owner(queue)
    is_next = z3.And(STAYING.size > 0, STAYING.next_owner(queue) == owner)
    stays = z3.Implies(z3.And(ALL.size > 0, owner != leaver), is_next)
    return z3.And(stays, z3.Implies(STAYING.size > 0, ALL.size > 0))


class Ring(Unknown):
    """Any ring: points, and whose each is. Of its making nothing is known but that all members
    make it of the same, and that whoever stands there is in the list."""

    def __init__(self, ids: Ids) -> None:
        self.circle = STAYING if isinstance(ids, FewerIds) else ALL

    def __bool__(self) -> bool:
        return decide(self.circle.size != 0)

    def __getitem__(self, point: object) -> Id:
        return Id(self.circle.stands(whole(point)))


class Points(Unknown):
    """The points of a ring in their order, or neighbours among them from a place on."""

    def __init__(self, circle: Circle, start: Term = ZERO, length: Term | None = None) -> None:
        self.circle, self.start = circle, start
        self.length = circle.size if length is None else length

    def __bool__(self) -> bool:
        return decide(self.length != 0)

    def __getitem__(self, index: object) -> Number:
        return self.at(place_in(whole(index), self.length))

    def at(self, place: Term) -> Number:
        """The point at a place of it."""
        return Number(self.circle.point(place if self.start.eq(ZERO) else self.start + place))


def hash_of(text: object) -> Number:
    """The hash of a queue, any function of it."""
    if not isinstance(text, Text) or text.of is None:
        raise NotUnderstoodError("the hash of something else than a queue")
    return Number(hash_at(text.of))
