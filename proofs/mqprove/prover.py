"""Proving a claim about every group, or finding one group where it fails.

A proof asks Z3 about every group at once. Where that does not succeed, a refutation looks for
a counterexample among small groups; what Z3 finds is then run on ordinary lists, and counts
only if the claim fails there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter
from types import ModuleType
from typing import TypeAlias

import z3

from mqprove.group import (
    AllocateRaisedError,
    AnyGroup,
    GivenGroup,
    Group,
    NoMemberError,
    Obligation,
)
from mqprove.symbolic import Opaque

PROOF_MS_MAX = 10_000  # for one goal
SIZES_MAX = ((4, 2), (12, 5))  # queues, members: where a refutation looks, small groups first
LESSONS_MAX = 100  # how many models a refutation takes before it gives up

Claim: TypeAlias = Callable[[Group], z3.BoolRef]


@dataclass(frozen=True, slots=True)
class Theorem:
    """A statement about every group, as a function that says it of one."""

    name: str
    rules: tuple[str, ...]
    statement: str
    strategy: str
    claim: Claim
    unique: bool = True  # whether client ids are
    empty: bool = False  # whether the lists may be
    holds: bool = True  # else a counterexample is expected


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of a theorem: proved, refuted with a counterexample, or neither."""

    theorem: Theorem
    proved: bool
    counterexample: str | None
    goals: int
    paths: int
    seconds: float

    @property
    def as_expected(self) -> bool:
        return self.proved if self.theorem.holds else self.counterexample is not None

    @property
    def outcome(self) -> str:
        """In words."""
        if self.proved:
            return "proved"
        return f"fails: {self.counterexample}" if self.counterexample else "neither"


@dataclass(frozen=True, slots=True)
class Statement:
    """A theorem, said of the group of every size."""

    theorem: Theorem
    group: AnyGroup
    goals: tuple[Obligation, ...]  # the claim, and what has to be shown on the way to it

    @classmethod
    def of(cls, theorem: Theorem, allocation: ModuleType) -> Statement:
        """Run the code along every path, and collect what there is to prove."""
        group = AnyGroup(allocation, theorem.strategy, theorem.unique, theorem.empty)
        claim = theorem.claim(group)
        goals = (*group.obligations, Obligation("the claim", tuple(group.hypotheses), claim))
        return cls(theorem, group, goals)


def prove(theorem: Theorem, allocation: ModuleType) -> Proof:
    """Prove the theorem about a module's `allocate`, or refute it with numbers."""
    started = perf_counter()
    statement = Statement.of(theorem, allocation)
    if not _possible(statement.group):
        raise AssertionError(f"{theorem.name}: its hypotheses contradict each other")
    proved = all(valid(goal) for goal in statement.goals)
    return Proof(
        theorem,
        proved,
        counterexample=None if proved else refute(statement),
        goals=len(statement.goals),
        paths=statement.group.paths,
        seconds=perf_counter() - started,
    )


def _possible(group: AnyGroup) -> bool:
    """Whether there is a group that fulfils the hypotheses: else all would be proved of it."""
    solver = z3.Solver()
    solver.add(*group.hypotheses, *group.small(*SIZES_MAX[0]))
    return bool(solver.check() == z3.sat)


def valid(goal: Obligation) -> bool:
    """Whether Z3 proves the goal from its hypotheses."""
    solver = z3.Solver()
    solver.set("timeout", PROOF_MS_MAX)
    solver.add(*goal.hypotheses)
    return bool(solver.check(z3.Not(goal.goal)) == z3.unsat)


def refute(statement: Statement) -> str | None:
    """A small group, in numbers, where the claim fails on ordinary lists; None: none found."""
    group = statement.group
    failure = z3.Or([z3.And(*goal.hypotheses, z3.Not(goal.goal)) for goal in statement.goals])
    lessons: list[z3.BoolRef] = []
    for sizes in SIZES_MAX:
        solver = z3.Solver()
        solver.set("timeout", PROOF_MS_MAX)
        # What fails on the way to a claim may come before its last numbers are named.
        solver.add(failure, *group.bounds, *group.small(*sizes), *lessons)
        while len(lessons) < LESSONS_MAX and solver.check() == z3.sat:
            model = solver.model()
            given = group.given(model)
            if _fails(statement.theorem, given):
                return str(given)
            learned = [*_lessons(model, group.opaque), group.others(model)]
            lessons += learned
            solver.add(*learned)
    return None


def _fails(theorem: Theorem, given: GivenGroup) -> bool:
    try:
        return bool(z3.is_false(z3.simplify(theorem.claim(given))))
    except NoMemberError:
        return True
    except AllocateRaisedError:
        # A member that takes nothing at all, and `given` tells so. That is no failure that
        # anybody expects.
        return theorem.holds


def _lessons(model: z3.ModelRef, uses: Iterable[Opaque]) -> list[z3.BoolRef]:
    """What the operators that Z3 guessed at really give for the numbers of this model."""
    found = []
    for use in uses:
        left, right = (
            model.eval(side, model_completion=True).as_long() for side in (use.left, use.right)
        )
        fact = use.meaning(left, right)
        found.append(z3.Implies(z3.And(use.left == left, use.right == right), use.result == fact))
    return found
