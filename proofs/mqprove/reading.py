"""What loops and comprehensions are written as: one meaning in several ways of writing it.

`filter` and `map` of a function go through a list as a generator does, and a `while` that counts up
to a bound as a loop over a range.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass

# Names that stand for Python's own in what is rewritten.
REWRITTEN = ("all", "any", "filter", "list", "map", "next", "sum", "tuple")


def generator(node: ast.expr) -> ast.GeneratorExp | None:
    """The generator that an expression is, or that a filter or a map amounts to. The function of
    these stands there, without defaults: so that it is the same at each turn."""
    match node:
        case ast.GeneratorExp():
            return node
        case ast.Call(
            ast.Name("filter" | "map" as name), [ast.Lambda() as function, over], []
        ) if not (
            function.args.defaults or function.args.kw_defaults or isinstance(over, ast.Starred)
        ):
            each = ast.Name("__each_item", ast.Load())
            called = ast.Call(deepcopy(function), [each], [])
            is_filter = name == "filter"
            tests: list[ast.expr] = [called] if is_filter else []
            target = ast.Name("__each_item", ast.Store())
            through = ast.comprehension(target, over, tests, 0)
            made = ast.GeneratorExp(each if is_filter else called, [through])
            ast.fix_missing_locations(ast.copy_location(made, node))
            return made
        case _:
            return None


def without_filter(loop: ast.For) -> ast.For:
    """A loop over a filter or a map, as one over the list itself."""
    through = None if isinstance(loop.iter, ast.GeneratorExp) else generator(loop.iter)
    if through is None:
        return loop
    (over,) = through.generators
    body: list[ast.stmt] = [ast.Assign([loop.target], through.elt), *loop.body]
    if over.ifs:
        body = [ast.If(over.ifs[0], body, [])]
    made = ast.For(over.target, over.iter, body, loop.orelse)
    return ast.fix_missing_locations(ast.copy_location(made, loop))


def without_filter_of(over: ast.comprehension) -> ast.comprehension:
    """What a comprehension goes through, a filter as one of its tests."""
    through = None if isinstance(over.iter, ast.GeneratorExp) else generator(over.iter)
    if through is None or not isinstance(over.target, ast.Name):
        return over
    (inner,) = through.generators
    if not inner.ifs or not isinstance(inner.ifs[0], ast.Call):
        return over  # a map
    function = inner.ifs[0].func
    own = [a.arg for a in ast.walk(function) if isinstance(a, ast.arg)]
    if over.target.id in {*_names(function)} - {*own}:
        return over  # which means another one of the name, outside
    called = ast.Call(function, [ast.Name(over.target.id, ast.Load())], [])
    made = ast.comprehension(over.target, inner.iter, [called, *over.ifs], 0)
    for each in (called, *ast.walk(called)):
        ast.copy_location(each, over.iter)
    return made


def is_function_of_one(over: ast.comprehension, values: Iterable[ast.expr]) -> bool:
    """Whether what stands in a comprehension can be a function of its element: it gives no value
    to a name outside, and takes the element as it is, or apart into names."""
    parts = over.target.elts if isinstance(over.target, ast.Tuple) else [over.target]
    inside = [node for value in (over.iter, *values) for node in ast.walk(value)]
    return all(isinstance(part, ast.Name) for part in parts) and not any(
        isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom) for node in inside
    )


def is_copy(element: ast.expr, over: ast.comprehension) -> bool:
    """Whether a comprehension leaves what it goes through as it is."""
    match element, over.target:
        case ast.Name(one), ast.Name(other):
            return one == other and not over.ifs
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Counting:
    """A while that counts a name up to bounds: `while name < bound: ...; name += step`."""

    name: str
    bounds: Sequence[tuple[ast.expr, bool]]  # and whether each is included
    step: ast.expr
    body: Sequence[ast.stmt]  # without the step


def counting(loop: ast.While, function: ast.AST) -> Counting | None:
    """How a while counts, if it does: by the same step up to the same bounds in all turns."""
    *body, last = loop.body
    stepped = _step(last)
    if stepped is None or not body or loop.orelse:
        return None
    name, step = stepped
    tests = [loop.test]
    if isinstance(loop.test, ast.BoolOp) and isinstance(loop.test.op, ast.And):
        tests = loop.test.values
    bounds = [_bound(test, name) for test in tests]
    found = [bound for bound in bounds if bound is not None]

    looked_at = {name for each in (step, *(b for b, _ in found)) for name in _names(each)}
    stored = set(_stored(body))
    is_plain = all(_is_plain(each) for each in (step, *(bound for bound, _ in found)))
    is_same = name not in stored | looked_at and not looked_at & stored
    jumps = (ast.Continue, ast.Nonlocal, ast.Global)
    inside = [*ast.walk(function), *(node for each in body for node in ast.walk(each))]
    elsewhere = any(isinstance(node, jumps[1:]) for node in inside)
    skips = any(isinstance(node, jumps[0]) for each in body for node in ast.walk(each))
    if len(found) < len(tests) or not is_plain or not is_same or elsewhere or skips:
        return None
    return Counting(name, found, step, body)


def _step(last: ast.stmt) -> tuple[str, ast.expr] | None:
    match last:
        case ast.AugAssign(ast.Name(name), ast.Add(), step):
            return name, step
        case ast.Assign([ast.Name(name)], ast.BinOp(ast.Name(same), ast.Add(), step)) if (
            name == same
        ):
            return name, step
        case _:
            return None


def _bound(test: ast.expr, name: str) -> tuple[ast.expr, bool] | None:
    """What a name is compared with, and whether it may be that."""
    match test:
        case ast.Compare(ast.Name(counted), [ast.Lt() | ast.LtE() as how], [bound]) if (
            counted == name
        ):
            return bound, isinstance(how, ast.LtE)
        case ast.Compare(bound, [ast.Gt() | ast.GtE() as how], [ast.Name(counted)]) if (
            counted == name
        ):
            return bound, isinstance(how, ast.GtE)
        case _:
            return None


def _is_plain(value: ast.expr) -> bool:
    """Whether computing it once is computing it at each turn: numbers, and lengths of lists."""
    match value:
        case ast.Name() | ast.Constant(int()):
            return True
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult(), right):
            return _is_plain(left) and _is_plain(right)
        case ast.Call(ast.Name("len"), [ast.Name()], []):
            return True
        case _:
            return False


def _names(value: ast.AST) -> Iterator[str]:
    return (node.id for node in ast.walk(value) if isinstance(node, ast.Name))


def _stored(body: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that get a value."""
    for node in (node for each in body for node in ast.walk(each)):
        match node:
            case ast.Name(name, ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.alias(name, asname):
                yield asname or name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case _:
                pass


def given_meanings(tree: ast.Module, own: Sequence[str]) -> list[str]:
    """The names of Python's own that a module gives a meaning of its own: those that are rewritten
    anywhere, the others outside of functions."""
    anywhere = {*_stored(tree.body), *(a.arg for a in ast.walk(tree) if isinstance(a, ast.arg))}
    functions = (ast.FunctionDef, ast.ClassDef)
    outside = {each.name for each in tree.body if isinstance(each, functions)}
    outside |= set(_stored([each for each in tree.body if not isinstance(each, functions)]))
    declared = {name for n in ast.walk(tree) if isinstance(n, ast.Global) for name in n.names}
    return sorted(anywhere & set(REWRITTEN) | (outside | declared) & set(own))
