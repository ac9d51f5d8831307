"""How many elements a set has that does not list them: any number that sets of its kind can have.

A size is a function of what the set depends on, one for each way in which sets are described. Known
of sizes is what is true of all finite sets: that of the empty one alone is 0, and where one set is
in another it is no larger, and is smaller unless they are equal. So is the number of those before
a member another for each member. TLC counts finite sets only, and so does this: that those which a
module counts are finite is assumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

import z3

from mqprove.terms import applications
from mqprove.tla_values import Set, World, flat


@dataclass(frozen=True, slots=True)
class _Sized:
    """The sets of one description: what they depend on, an element, whether it is in one."""

    size: z3.FuncDeclRef
    given: tuple[z3.ExprRef, ...]
    element: tuple[z3.ExprRef, ...]
    has: z3.BoolRef

    def of(self, given: Sequence[z3.ExprRef]) -> z3.ArithRef:
        return self.size(*given)

    def anew(self, mark: str) -> _Sized:
        """The same, of another set."""
        given = tuple(z3.Const(f"{each}{mark}", each.sort()) for each in self.given)
        has = z3.substitute(self.has, *zip(self.given, given, strict=True))
        return _Sized(self.size, given, self.element, has)


@dataclass
class Sizes:
    """The sizes that were asked for."""

    world: World
    known: dict[tuple[int, tuple[int, ...]], _Sized] = field(default_factory=dict)

    def of(self, over: Set, bound: Sequence[z3.ExprRef]) -> z3.ArithRef:
        """The size of a set, which may depend on what is bound around it."""
        assert over.of is not None
        element = flat(self.world.any(over.of, "element"))
        has = z3.simplify(over.has(self.world.any(over.of, "element")))
        there = {term.get_id() for term in applications([has]) if z3.is_const(term)}
        depends = [each for each in bound if each.get_id() in there]
        given = [z3.Const(f"given{n}", each.sort()) for n, each in enumerate(depends)]
        has = z3.substitute(has, *zip(depends, given, strict=True))
        key = (has.get_id(), tuple(each.get_id() for each in element))
        if key not in self.known:
            sorts = [each.sort() for each in given]
            size = z3.Function(self.world.name("size"), *sorts, z3.IntSort())
            self.known[key] = _Sized(size, tuple(given), tuple(element), has)
        return self.known[key].of(depends)

    def facts(self, spoken: AbstractSet[str]) -> Iterator[z3.BoolRef]:
        """What is true of those sizes that are spoken of, by the names of functions."""
        asked = [each for each in self.known.values() if each.size.name() in spoken]
        for one in asked:
            yield from _alone(one)
        for one, other in combinations_with_replacement(asked, 2):
            alike = [a.sort() for a in one.element] == [b.sort() for b in other.element]
            if alike and (one is not other or one.given):
                yield from _together(one.anew("a"), other.anew("b"))


def _alone(one: _Sized) -> Iterator[z3.BoolRef]:
    size = one.of(one.given)
    empty = z3.ForAll(list(one.element), z3.Not(one.has))
    yield _of_all([size], one.given, z3.And(size >= 0, (size == 0) == empty))


def _together(one: _Sized, other: _Sized) -> Iterator[z3.BoolRef]:
    element = list(one.element)
    there = z3.substitute(other.has, *zip(other.element, one.element, strict=True))
    first, second = one.of(one.given), other.of(other.given)
    inside = z3.ForAll(element, z3.Implies(one.has, there))
    around = z3.ForAll(element, z3.Implies(there, one.has))
    compared = z3.And(
        z3.Implies(inside, first <= second),
        z3.Implies(around, second <= first),
        z3.Implies(z3.And(inside, first == second), around),
        z3.Implies(z3.And(around, first == second), inside),
    )
    yield _of_all([first, second], (*one.given, *other.given), compared)


def _of_all(
    sizes: Sequence[z3.ArithRef], given: Sequence[z3.ExprRef], fact: z3.BoolRef
) -> z3.BoolRef:
    if not given:
        return fact
    looked_at = [each for each in sizes if each.num_args()]
    return z3.ForAll(list(given), fact, patterns=[z3.MultiPattern(*looked_at)])
