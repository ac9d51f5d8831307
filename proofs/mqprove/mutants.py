"""Mutants of the strategies: killed by a theorem, equivalent, or listed.

cosmic-ray makes them of operators, comparisons and numbers; of the bounds of slices, which it does
not know, they are made here: each left out, one more, one less.

They test the theorems. A mutant is killed where a theorem fails of it, with numbers that make
it fail on ordinary lists too; it is equivalent where Z3 proves that, for every group, each
member takes what it took before; it is listed where no theorem can notice it, with why. Strategies
that are configured are proved equivalent for no mutant: the lifting takes any ring, however it is
made, so that a mutant of its making would be equivalent whatever it makes.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import dedent
from types import ModuleType

from mqprove.any_group import AnyGroup, Obligation
from mqprove.group import CONFIG, CONSISTENT_HASH, MACHINE_ROOM, NEARBY
from mqprove.lifting import TEXT
from mqprove.prover import DRAWN, Statement, Theorem, refute, tried, valid
from mqprove.symbolic import NotUnderstoodError
from mqprove.theorems import AVG, CIRCLE, THEOREMS
from mqrules import UserError

FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    AVG: ("average_slice", "averagely"),
    CIRCLE: ("averagely_by_circle",),  # has slices only
    MACHINE_ROOM: ("by_machine_room", "_room"),
    NEARBY: ("machine_room_nearby", "_by_room"),
    CONFIG: ("by_config",),
    CONSISTENT_HASH: ("consistent_hash", "hash_ring"),
}
"""The functions of each strategy that are mutated."""


_NODES = "the theorems take a ring of two points for each id: refusing other numbers is not theirs"
_TWICE = "it concerns ids that come twice; the theorems take unique ones, whose first point is 0"

_ORDER = "the order in which it goes through the rooms: which queues it takes is the same"
_ROOMS = "for room in sorted(queues, key=lambda room: (room {} own, string_order(room))):"
LISTED: Mapping[str, str] = {
    **{
        f"ReplaceComparisonOperator_NotEq_{name}: {_ROOMS.format(sign)}": _ORDER
        for name, sign in {
            "Eq": "==",
            "Lt": "<",
            "LtE": "<=",
            "Gt": ">",
            "GtE": ">=",
            "Is": "is",
            "IsNot": "is not",
        }.items()
    },
    "NumberReplacer: if virtual_nodes < 1:": _NODES,
    "NumberReplacer: if virtual_nodes < -1:": _NODES,
    "ReplaceComparisonOperator_Lt_Eq: if virtual_nodes == 0:": _NODES,
    "ReplaceComparisonOperator_Lt_LtE: if virtual_nodes <= 0:": _NODES,
    "ReplaceBinaryOperator_Mod_Sub: return ring[points[bisect_left(points, hash_key(str(mq)))"
    " - len(points)]]": "the same point: Python counts a negative index from the end",
    "ReplaceComparisonOperator_Eq_Is: return [mq for mq in mq_all if owner(mq) is current_cid]"
    " if ring else []": "the ids of the ordinary lists are the same objects",
    "ReplaceBinaryOperator_Add_BitOr: for replica in range(first, first | virtual_nodes):": _TWICE,
    "ReplaceBinaryOperator_Add_BitXor: for replica in range(first, first ^ virtual_nodes):": _TWICE,
    "ReplaceComparisonOperator_Eq_Gt: first = sum(owner > cid for owner in ring.values())": _TWICE,
    "ReplaceComparisonOperator_Eq_GtE: first = sum(owner >= cid"
    " for owner in ring.values())": _TWICE,
    "ReplaceComparisonOperator_Eq_Is: first = sum(owner is cid for owner in ring.values())": _TWICE,
}
"""Mutants that no theorem notices, by name, and why. Nothing is proved of them."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module in which one function is different in one place."""

    name: str  # the operator that made it, and the line that it made
    module: ModuleType


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a mutant; none of the others is true of a survivor."""

    mutant: Mutant
    killed_by: str = ""  # the theorem, and its counterexample
    equivalent: bool = False
    listed: str = ""  # why no theorem can notice it

    @property
    def survived(self) -> bool:
        return not (self.killed_by or self.equivalent or self.listed)


def mutants(module: ModuleType, *functions: Callable[..., object]) -> Iterator[Mutant]:
    """Every first-order mutant of these functions: those that cosmic-ray makes without arguments,
    and of their slices."""
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
                made = _loaded(name.removeprefix("core/"), module, source, mutated)
                if made and _what_runs(mutated) != _what_runs(source):
                    yield made
                occurrence += 1
        for name, mutated in sliced(source):
            yield mutate(name, module, source, mutated)


def sliced(source: str) -> Iterator[tuple[str, str]]:
    """What a source becomes with one bound of a slice left out, or moved by one; with its name."""
    whole = dedent(source)
    for node in ast.walk(ast.parse(whole)):
        if not isinstance(node, ast.Slice):
            continue
        bounds = {"Lower": node.lower, "Upper": node.upper, "Step": node.step}
        for name, bound in bounds.items():
            if bound is None:
                continue
            text = ast.get_source_segment(whole, bound) or ""
            for how, new in {"Left": "", "More": f"{text} + 1", "Less": f"{text} - 1"}.items():
                yield f"Slice{name}{how}", _spliced(whole, bound, new)


def _spliced(source: str, node: ast.expr, new: str) -> str:
    """The source with something else in the place of an expression, which is on one line."""
    lines = source.splitlines(keepends=True)
    line = lines[node.lineno - 1].encode()
    lines[node.lineno - 1] = (
        line[: node.col_offset].decode() + new + line[node.end_col_offset :].decode()
    )
    return "".join(lines)


def _loaded(made_by: str, module: ModuleType, source: str, mutated: str) -> Mutant | None:
    """The mutant; None where the module does not even load with it, which nobody overlooks."""
    try:
        return mutate(made_by, module, source, mutated)
    except (ValueError, TypeError, NameError):
        return None


class _NoAnnotations(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        self.generic_visit(node)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return node


def _what_runs(source: str) -> str:
    """The code without its annotations: what differs in those alone is no mutant."""
    return ast.dump(_NoAnnotations().visit(ast.parse(source)))


def about(strategy: str) -> list[Theorem]:
    """The theorems that a mutant of the strategy is judged by."""
    return [t for t in THEOREMS if t.strategy == strategy and t.holds and not t.empty]


def of_strategy(module: ModuleType, strategy: str) -> Iterator[Mutant]:
    """Every mutant of the strategy's functions."""
    return mutants(module, *(getattr(module, name) for name in FUNCTIONS[strategy]))


def mutate(made_by: str, module: ModuleType, source: str, mutated: str) -> Mutant:
    """The module with a piece of its source replaced."""
    text = inspect.getsource(module)
    if text.count(source) != 1:
        raise LookupError(f"{module.__name__} does not have this source once")
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
            # Rooms and hash functions are not among the numbers that Z3 finds: they are drawn.
            drawn = tried(theorem, mutant.module) if theorem.strategy in DRAWN else None
            if counterexample := drawn or refute(Statement.of(theorem, mutant.module)):
                return Fate(mutant, killed_by=f"{theorem.name}: {counterexample}")
        strategy = theorems[0].strategy
        if strategy in DRAWN:
            # A proof would be about one configuration, and about any ring, however it is made.
            return Fate(mutant, listed=LISTED.get(mutant.name, ""))
        return Fate(mutant, equivalent=equivalent(original, mutant.module, strategy))
    except NotUnderstoodError:
        return Fate(mutant, listed=LISTED.get(mutant.name, ""))


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
