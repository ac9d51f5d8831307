"""What the ring of consistent hashing is to a proof: any ring, the same for all members."""

from __future__ import annotations

import z3

from mqprove.lists import ZERO, Id, Text, Unknown, place_in
from mqprove.symbolic import NotUnderstoodError, Number, Term, decide, whole

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
        return Number(_point(place_in(whole(index), self.length)))


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
    return z3.Implies(inside, remainder == z3.If(at == RING_SIZE, ZERO, at))


def next_owner(queue: Term) -> Term:
    """Who stands at the first point at or after a queue's hash, round the end."""
    at = _before(_hash(queue))
    return _stands(_point(z3.If(at == RING_SIZE, ZERO, at)))


def ring_facts(queue: Term) -> list[z3.BoolRef]:
    """What is known of a queue's next point."""
    _, facts = first_at_or_after(_hash(queue))
    return facts


def first_at_or_after(number: Term) -> tuple[Term, list[z3.BoolRef]]:
    """The place of the first point that is no less than a number, and what that means."""
    at = _before(number)
    return at, [
        RING_SIZE >= 0,
        at >= 0,
        at <= RING_SIZE,
        z3.Implies(at > 0, _point(at - 1) < number),
        z3.Implies(at < RING_SIZE, _point(at) >= number),
    ]
