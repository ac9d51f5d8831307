"""What a proof takes of rings holds of those that the core makes, and not of any two."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
import z3

from mqprove.ring import ALL, STAYING, Circle, without
from mqspec.core.allocation import hash_ring

POINTS = 7  # of a hash function: so that ids meet at one point
LEAVER = 1


def drawn(seed: int, ids: list[int]) -> dict[int, int]:
    """The ring of some ids, with one of many hash functions."""

    def hash_key(text: str) -> int:
        return Random(f"{seed} {text}").randrange(POINTS)

    ring = hash_ring([str(cid) for cid in ids], 2, hash_key)
    return {point: int(owner) for point, owner in ring.items()}


def is_ring(circle: Circle, ring: Mapping[int, int]) -> list[z3.BoolRef]:
    """That a circle is the given ring."""
    points = sorted(ring)
    found = [circle.size == len(points)]
    for place, point in enumerate(points):
        found += [
            circle.point(z3.IntVal(place)) == point,
            circle.stands(z3.IntVal(point)) == ring[point],
        ]
        found.append(circle.place(z3.IntVal(point)) == place)
    return found


def may_be(everyone: Mapping[int, int], staying: Mapping[int, int]) -> bool:
    """Whether two rings are as the proofs take them to be."""
    solver = z3.Solver()
    solver.add(*is_ring(ALL, everyone), *is_ring(STAYING, staying), *without(z3.IntVal(LEAVER)))
    found = solver.check()
    assert found != z3.unknown
    return bool(found == z3.sat)


@pytest.mark.parametrize("seed", range(20))
def test_a_leave_takes_the_leavers_points_alone(seed: int) -> None:
    assert may_be(drawn(seed, [0, LEAVER, 2, 3]), drawn(seed, [0, 2, 3]))


@pytest.mark.parametrize("seed", range(20))
def test_the_leaver_may_have_hidden_a_point(seed: int) -> None:
    """Whoever comes last stands at a point, and before it another did."""
    assert may_be(drawn(seed, [0, 2, 3, LEAVER]), drawn(seed, [0, 2, 3]))


@pytest.mark.parametrize(
    "staying",
    [
        {2: 0, 5: 3},  # a point of a member that stays is gone
        {2: 0, 4: 2, 5: 2},  # one is another's
        {2: 0, 3: 2, 4: 2, 5: 3},  # one came from nowhere
        {1: LEAVER, 2: 0, 4: 2, 5: 3},  # the leaver stands still
    ],
)
def test_other_rings_are_not_taken(staying: dict[int, int]) -> None:
    everyone = {1: LEAVER, 2: 0, 4: 2, 5: 3}
    assert may_be(everyone, {2: 0, 4: 2, 5: 3})
    assert not may_be(everyone, staying)
