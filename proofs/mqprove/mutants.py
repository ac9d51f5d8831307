"""Mutants of averagely, as cosmic-ray makes them: each is killed by a theorem, or equivalent.

They test the theorems. A mutant is killed where a theorem fails of it, with numbers that make
it fail on ordinary lists too; it is equivalent where Z3 proves that, for every group, each
member takes what it took before.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

from mqprove.group import AnyGroup, Obligation
from mqprove.lifting import TEXT
from mqprove.prover import Statement, Theorem, refute, valid
from mqprove.symbolic import NotUnderstoodError
from mqrules import UserError


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module in which one function is different in one place."""

    name: str  # the operator that made it, and the line that it made
    module: ModuleType


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant; `killed_by` and `equivalent` are both false of a survivor."""

    mutant: Mutant
    killed_by: str = ""  # the theorem, and its counterexample
    equivalent: bool = False

    @property
    def survived(self) -> bool:
        return not (self.killed_by or self.equivalent)


def mutants(module: ModuleType, *functions: Callable[..., object]) -> Iterator[Mutant]:
    """Every first-order mutant of these functions that cosmic-ray makes without arguments."""
    try:
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator, operator_names
    except ModuleNotFoundError as error:
        raise UserError("--mutants", f"the package {error.name} is not installed") from None
    operators = {name: get_operator(name) for name in sorted(operator_names())}
    plain = {name: operator() for name, operator in operators.items() if not operator.arguments()}
    for function in functions:
        source = inspect.getsource(function)
        for name, operator in plain.items():
            occurrence = 0
            while mutated := mutate_code(source, operator, occurrence):
                yield mutate(name.removeprefix("core/"), module, source, mutated)
                occurrence += 1


def mutate(made_by: str, module: ModuleType, source: str, mutated: str) -> Mutant:
    """The module with a piece of its source replaced."""
    text = inspect.getsource(module)
    if text.count(source) != 1:
        raise ValueError(f"{module.__name__} does not have this source once")
    changed = ModuleType(module.__name__)
    changed.__dict__[TEXT] = text.replace(source, mutated)
    with warnings.catch_warnings():
        # A mutant may compare with `is`: Python warns of it, and that is the mutation.
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(text.replace(source, mutated), module.__name__, "exec"), changed.__dict__)
    known = set(source.splitlines())
    lines = [line.strip() for line in mutated.splitlines() if line not in known]
    return Mutant(f"{made_by}: {'; '.join(lines)}", changed)


def judge(mutant: Mutant, original: ModuleType, theorems: Sequence[Theorem]) -> Fate:
    """Try the theorems on a mutant; if all seem to hold, prove it equivalent.

    A mutant that has no symbolic meaning (it loops on its input, say) survives.
    """
    try:
        for theorem in theorems:
            if counterexample := refute(Statement.of(theorem, mutant.module)):
                return Fate(mutant, killed_by=f"{theorem.name}: {counterexample}")
        strategy = theorems[0].strategy
        return Fate(mutant, equivalent=equivalent(original, mutant.module, strategy))
    except NotUnderstoodError:
        return Fate(mutant)


def equivalent(original: ModuleType, mutant: ModuleType, strategy: str) -> bool:
    """Whether Z3 proves that any member of any group takes the same queues in both."""
    groups = [AnyGroup(original, strategy), AnyGroup(mutant, strategy)]
    members = [group.member("i") for group in groups]
    queue = groups[0].number("k", below=groups[0].queues)
    same = members[0].takes(queue) == members[1].takes(queue)
    hypotheses = tuple(h for group in groups for h in group.hypotheses)
    obligations = [goal for group in groups for goal in group.obligations]
    return all(
        valid(goal) for goal in [*obligations, Obligation("the same queues", hypotheses, same)]
    )
