"""What a proof takes of rings holds of those that the core makes, and not of any two."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import pytest
import z3

from mqprove.any_group import AnyGroup
from mqprove.group import CONSISTENT_HASH
from mqprove.lists import id_at
from mqprove.mutants import mutate
from mqprove.ring import ALL, STAYING, Circle, hash_at, without
from mqspec.core import allocation
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


KEY, AFTER = "key = hash_key(str(mq))", "points[0]"
NEXT = {
    "next": f"{KEY}; return ring[next((p for p in points if p {{how}} key), {AFTER})]",
    "least": f"{KEY}; return ring[min((p for p in points if p {{how}} key), default={AFTER})]",
    "later": f"{KEY}; later = [p for p in points if p {{how}} key]; "
    f"return ring[later[0] if later else {AFTER}]",
    "last": f"{KEY}; later = [p for p in points if p {{how}} key]; "
    f"return ring[later[-1] if later else {AFTER}]",
    "some of some": f"{KEY}; later = [p for p in points if p {{how}} key]; "
    "return ring[[p for p in later if p > key][0] if later[1:] else max(ring)]",
    "counted": f"{KEY}; return ring[points[sum(p {{how}} key for p in points) % len(points)]]",
    "length": f"{KEY}; return ring[points[len([p for p in points if p {{how}} key]) - 1]]",
    "place": f"{KEY}; return ring[points[next((at for at in range(len(points)) "
    "if points[at] {how} key), 0)]]",
    "numbered": f"{KEY}; return ring[points[next((at for at, p in enumerate(points) "
    "if key {how} p), -1)]]",
    "loop": f"{KEY}\nfor p in points:\n    if p {{how}} key:\n        return ring[p]\n"
    f"return ring[{AFTER}]",
    "left": f"{KEY}\nfor p in points:\n    if p {{how}} key:\n        break\n"
    f"else:\n    p = {AFTER}\nreturn ring[p]",
}
WHOLE = "return ring[points[bisect_left(points, hash_key(str(mq))) % len(points)]]"


@pytest.mark.parametrize("how", ["<", "<=", ">", ">=", "=="])
@pytest.mark.parametrize("name", NEXT)
def test_what_is_read_of_a_ring_is_what_python_does(name: str, how: str) -> None:
    """Whichever point is looked for: it is that which Python finds, or it is refused."""
    body = NEXT[name].format(how=how).replace("; ", "\n").replace("\n", "\n" + " " * 12)
    module = mutate("by hand", allocation, WHOLE, body).module
    group = AnyGroup(module, CONSISTENT_HASH)
    member, queue = group.member("i"), z3.Int("k")
    takes = member.takes(queue)
    if group.not_understood:
        from_one_on = ("<", "<=") if name == "numbered" else (">", ">=")
        assert how not in from_one_on or name == "some of some"
        return

    ring = {2: 0, 4: 2, 5: 1}
    for hashed in range(7):
        solver = z3.Solver()
        hypotheses = [each for each in group.hypotheses if not z3.is_quantifier(each)]
        solver.add(*hypotheses, *is_ring(ALL, ring), group.queues == 1, group.members == 3)
        solver.add(queue == 0, hash_at(queue) == hashed, member.position == 1)
        solver.add(*(id_at(z3.IntVal(at)) == at for at in range(3)))
        expected = owner_in_python(body, ring, hashed)
        if expected is None:  # it raises: then that it does not is what would have to be shown
            goals = [each.goal for each in group.obligations]
            assert solver.check(z3.Not(z3.And(goals))) == z3.sat
            continue
        assert solver.check() == z3.sat
        assert solver.check(takes != (expected == 1)) == z3.unsat, hashed


def owner_in_python(body: str, ring: Mapping[int, int], hashed: int) -> int | None:
    """Whose a queue is that is hashed to a number, by the body of `owner`; None: it raises."""
    known = {"ring": ring, "points": sorted(ring), "hash_key": lambda _: hashed, "mq": ""}
    exec("def owner():\n            " + body, known)
    try:
        return known["owner"]()  # type: ignore[operator,no-any-return]
    except (IndexError, ValueError):
        return None
