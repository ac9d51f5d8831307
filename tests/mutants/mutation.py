"""A seeded sample of first-order mutants, as cosmic-ray makes them.

A mutant is one file with one place changed by one of cosmic-ray's operators. The sample chooses a
place first and then what becomes of it: chosen among all mutants alike, a `+` with its eleven
replacements would weigh eleven times a condition.
"""

from __future__ import annotations

import ast
import difflib
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

Place = tuple[int, int]  # line, from 1, and column, from 0

# Nobody writes `is` for `<` by mistake; and whether two equal numbers are identical depends on
# which of them the interpreter keeps.
_NO_MISTAKE = re.compile(r"Operator_(?!Is_IsNot|IsNot_Is)(?:(?:Is|IsNot)_|\w+_(?:Is|IsNot)$)")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One file with one place changed."""

    path: str  # of the file, below the root of the tree
    line: int  # from 1
    operator: str
    source: str
    mutated: str

    @property
    def edit(self) -> tuple[str, str]:
        """The lines that are gone and those in their place, without indentation."""
        before, after = self.source.splitlines(), self.mutated.splitlines()
        changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        gone = [line for tag, a, b, _, _ in changes if tag != "equal" for line in before[a:b]]
        come = [line for tag, _, _, a, b in changes if tag != "equal" for line in after[a:b]]
        return "\n".join(map(str.strip, gone)), "\n".join(map(str.strip, come))

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.operator}"


def sample(root: Path, paths: Iterable[str], seed: int, number: int) -> Iterator[Mutant]:
    """So many mutants of these files, each of another place; fewer where there are no more."""
    places = [(path, place) for path in sorted(paths) for place in sorted(_places(root / path))]
    chosen = random.Random(seed)
    chosen.shuffle(places)

    found = 0
    for path, place in places:
        if found == number:
            return
        name, occurrence = chosen.choice(_places(root / path)[place])
        source = (root / path).read_text(encoding="utf-8")
        try:
            mutated = mutate_code(source, _operators()[name], occurrence)
        except AttributeError:  # cosmic-ray's own, of an exception named with its module
            continue
        if mutated is not None and _is_another(source, mutated):
            found += 1
            yield Mutant(path, place[0], name.removeprefix("core/"), source, mutated)


def _is_another(source: str, mutated: str) -> bool:
    """Whether a mutant is a program, and not the same one: cosmic-ray writes some anew."""
    try:
        return ast.dump(ast.parse(source)) != ast.dump(ast.parse(mutated))
    except SyntaxError:
        return False


@cache
def _places(path: Path) -> dict[Place, list[tuple[str, int]]]:
    """Each place of a file that decides something: the operators that change it, and which of
    their occurrences in the file it is."""
    source = path.read_text(encoding="utf-8")
    idle = list(_idle(ast.parse(source)))
    nodes = list(ast_nodes(get_ast(source)))
    found: dict[Place, list[tuple[str, int]]] = {}
    for name, operator in _operators().items():
        positions = (begin for node in nodes for begin, _ in operator.mutation_positions(node))
        for occurrence, place in enumerate(positions):
            if not any(begin <= place < end for begin, end in idle):
                found.setdefault(place, []).append((name, occurrence))
    return found


@cache
def _operators() -> dict[str, Operator]:
    """cosmic-ray's operators that need no arguments, by name."""
    named = {name: get_operator(name) for name in sorted(operator_names())}
    return {
        name: operator()
        for name, operator in named.items()
        if not operator.arguments() and not _NO_MISTAKE.search(name)
    }


def _idle(tree: ast.Module) -> Iterator[tuple[Place, Place]]:
    """Where nothing is decided: in annotations, in what is there for the type checker alone, and
    in how a class is built (frozen, with slots, kept in a cache)."""
    for node in ast.walk(tree):
        idle: Sequence[ast.expr | ast.stmt | ast.keyword | None] = ()
        if isinstance(node, ast.AnnAssign | ast.arg):
            idle = [node.annotation]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            idle = [node.returns, *node.decorator_list]
        elif isinstance(node, ast.ClassDef):
            idle = [*node.decorator_list, *node.keywords]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            idle = [node]
        for part in idle:
            if part is None:
                continue
            # The @ of a decorator is what cosmic-ray removes, one column before its name.
            begin = part.lineno, max(0, part.col_offset - 1)
            yield begin, (part.end_lineno or 0, part.end_col_offset or 0)
