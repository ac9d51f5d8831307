"""Proving a claim about every group, or finding one group where it fails.

A proof asks Z3 about every group at once. Where that does not succeed, a refutation looks for
a counterexample among small groups; what Z3 finds is then run on ordinary lists, and counts
only if the claim fails there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from time import perf_counter
from types import ModuleType
from typing import Protocol, TypeAlias

import z3

from mqprove.any_group import AnyGroup, Obligation
from mqprove.given_group import (
    GivenGroup,
    NoFunctionError,
    NoMemberError,
    NothingSaidError,
)
from mqprove.group import CONFIG, CONSISTENT_HASH, GROUP_NAME, MACHINE_ROOM, NEARBY, Group
from mqprove.symbolic import NotUnderstoodError, Opaque

PROOF_MS_MAX = 10_000  # to look for what fulfils formulas, and for cvc5
# Z3's own count of what it does for one goal, some three million a second: what is proved does not
# depend on who else is at work.
PROOF_WORK_MAX = 30_000_000
LITTLE_WORK_MAX = 100_000  # in which most is proved by one of the tries
FEW_WORK_MAX = 1_000_000  # from few of its hypotheses
SEEDS = 3  # that a goal is tried with
SIZES_MAX = (
    (4, 2),
    (12, 5),
    (10, 10),
)  # queues, members: where a refutation looks, small groups first
TRIES, TRIED_QUEUES, TRIED_MEMBERS = 400, 9, 5  # of small groups that are simply tried
TRIED_NAMES = (*[GROUP_NAME] * 4, "", " ", "%RETRY%group", "g" * 255)
TRIED_STRANGE = 0.3  # of them have ids that are in another order in Java
DRAWN = (MACHINE_ROOM, NEARBY, CONFIG, CONSISTENT_HASH)  # what is configured
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

    @property
    def unbounded(self) -> str:
        return "none: every number of queues and members"


class Claimed(Protocol):
    """What any theorem has."""

    @property
    def name(self) -> str: ...

    @property
    def rules(self) -> tuple[str, ...]: ...

    @property
    def statement(self) -> str: ...

    @property
    def holds(self) -> bool: ...

    @property
    def unbounded(self) -> str:
        """What there may be any number of."""
        ...


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of a theorem: proved, refuted with a counterexample, or neither."""

    theorem: Claimed
    proved: bool
    counterexample: str | None
    not_understood: str  # why neither, where the code could not be read
    goals: int
    paths: int
    seconds: float
    says_nothing: str = ""  # why what is proved would be true of nothing

    @property
    def as_expected(self) -> bool:
        return self.proved if self.theorem.holds else self.counterexample is not None

    @property
    def outcome(self) -> str:
        """In words."""
        if self.proved:
            return "proved"
        if self.counterexample:
            return f"fails: {self.counterexample}"
        if self.says_nothing:
            return f"says nothing: {self.says_nothing}"
        return f"not read: {self.not_understood}" if self.not_understood else "neither"


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
    try:
        statement = Statement.of(theorem, allocation)
    except NotUnderstoodError as error:
        found = tried(theorem, allocation)
        return Proof(theorem, False, found, str(error), 0, 0, perf_counter() - started)
    group = statement.group
    if not _possible(group):
        raise AssertionError(f"{theorem.name}: its hypotheses contradict each other")
    # Small groups as well: they know what a proof takes as given, such as which rooms are near.
    found = tried(theorem, allocation) if theorem.strategy in DRAWN else None
    proved = found is None and all(valid(goal, LITTLE_WORK_MAX) for goal in statement.goals)
    if not proved and found is None:  # of what is false Z3 may look for a proof for minutes
        found = refute(statement) or tried(theorem, allocation)
        proved = found is None and all(map(valid, statement.goals))
    return Proof(
        theorem,
        proved,
        counterexample=found,
        not_understood=group.not_understood,
        goals=len(statement.goals),
        paths=group.paths,
        seconds=perf_counter() - started,
    )


def _possible(group: AnyGroup) -> bool:
    """Whether there is a group that fulfils the hypotheses: else all would be proved of it."""
    solver = z3.Solver()
    solver.add(*group.hypotheses, *group.small(*SIZES_MAX[0]))
    return bool(solver.check() == z3.sat)


def valid(goal: Obligation, work_max: int = PROOF_WORK_MAX) -> bool:
    """Whether Z3 proves the goal from its hypotheses, within some tries of so much work. Where
    it gives up it begins again otherwise: which quantifiers it looks at first is chance. So each
    try has little work at first."""
    if any(goal.goal.eq(each) for each in goal.hypotheses):
        return True
    for work in sorted({LITTLE_WORK_MAX, work_max}):
        if goal.few and _answer(goal.few, goal.goal, min(work, FEW_WORK_MAX)) == z3.unsat:
            return True
        for seed in range(SEEDS):
            answer = _answer(goal.hypotheses, goal.goal, work, seed)
            if answer != z3.unknown:
                return bool(answer == z3.unsat)
    return False


def _answer(
    hypotheses: Sequence[z3.BoolRef], goal: z3.BoolRef, work_max: int, seed: int = 0
) -> z3.CheckSatResult:
    """What Z3 finds out of the contrary."""
    solver = alone((*hypotheses, z3.Not(goal)))
    solver.set("rlimit", work_max)
    solver.set("random_seed", seed)
    return solver.check()


def alone(formulas: Iterable[z3.BoolRef]) -> z3.Solver:
    """A solver of formulas in a context of its own, where terms are numbered anew: on their numbers
    hangs where Z3 looks first, and so whether it ends, and they would come from whatever was looked
    at before."""
    context = z3.Context()
    solver = z3.Solver(ctx=context)
    solver.add(*(each.translate(context) for each in formulas))
    return solver


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


def tried(theorem: Theorem, allocation: ModuleType) -> str | None:
    """The first of many small groups where the claim fails on ordinary lists; None: none found.
    Rooms and hash functions are drawn, by a fixed seed."""
    draw = Random(theorem.name)
    is_drawn = theorem.strategy in DRAWN
    for _ in range(TRIES):
        queues, members = draw.randint(1, TRIED_QUEUES), draw.randint(1, TRIED_MEMBERS)
        ids = list(range(members))
        if not theorem.unique:
            ids = sorted(draw.choices(ids, k=members))
        numbers = {
            **{name: draw.randrange(queues) for name in "klm"},
            **{name: draw.randrange(members) for name in "ij"},
        }
        given = GivenGroup(
            allocation,
            theorem.strategy,
            queues,
            ids,
            numbers,
            theorem.empty,
            name=draw.choice(TRIED_NAMES),
            strange=draw.random() < TRIED_STRANGE,
            rooms=draw.getrandbits(queues) if is_drawn else -1,
            seed=draw.randrange(100),
        )
        if _fails(theorem, given):
            return str(given)
    return None


def _fails(theorem: Theorem, given: GivenGroup) -> bool:
    try:
        return bool(z3.is_false(z3.simplify(theorem.claim(given))))
    except NoMemberError:
        return True
    except NothingSaidError:
        return False
    except NoFunctionError:
        # `given` tells so. That is no failure that anybody expects.
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
