"""What loops and comprehensions are written as: one meaning in several ways of writing it.

`filter` and `map` of a function go through a list as a generator does; a `while` that counts up to
a bound, or takes the first ones off a list until it is empty, is a loop over a range; and a list
that is given itself with more behind it grows as one that is added to.
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


@dataclass(frozen=True, slots=True)
class Shrinking:
    """A while that takes so many off the front of a list in each turn, as long as more than the
    least are left: `while rest: ...; rest = rest[step:]`."""

    name: str
    least: ast.expr
    step: ast.expr
    body: Sequence[ast.stmt]
    pops: bool  # it changes the list itself


def shrinking(loop: ast.While) -> Shrinking | None:
    """How a while uses up a list, if it does: by as many in all turns."""
    left = _left(loop.test)
    if left is None or loop.orelse:
        return None
    name, least = left
    body = [each for statement in loop.body for each in _apart(statement, name)]
    steps = [step for step in (_cut(each, name) for each in body) if step is not None]
    stored = [*_stored(body)]
    ends = (ast.Continue, ast.Break, ast.Return, ast.Nonlocal, ast.Global, ast.Try, ast.With)
    is_left = any(isinstance(node, ends) for each in body for node in ast.walk(each))
    if len(steps) != 1 or stored.count(name) != 1 or is_left:
        return None
    is_plain = _is_plain(steps[0]) and _is_plain(least)
    looked_at = {*_names(steps[0]), *_names(least)}
    if not is_plain or looked_at & {name, *stored}:
        return None
    pops = any(_is_pop(node, name) for each in loop.body for node in ast.walk(each))
    return Shrinking(name, least, steps[0], body, pops)


def _left(test: ast.expr) -> tuple[str, ast.expr] | None:
    """The list that a test looks at, and how many must be left for more than that."""
    match test:
        case ast.Name(name) | ast.Call(ast.Name("len"), [ast.Name(name)], []):
            return name, ast.Constant(0)
        case ast.Compare(
            ast.Call(ast.Name("len"), [ast.Name(name)], []), [ast.Gt() | ast.GtE() as how], [least]
        ) | ast.Compare(
            least, [ast.Lt() | ast.LtE() as how], [ast.Call(ast.Name("len"), [ast.Name(name)], [])]
        ):
            is_one_more = isinstance(how, ast.GtE | ast.LtE)
            return name, ast.BinOp(least, ast.Sub(), ast.Constant(1)) if is_one_more else least
        case _:
            return None


def _apart(statement: ast.stmt, name: str) -> list[ast.stmt]:
    """A statement that takes something off a list and does something else, as several."""
    cut = ast.parse(f"{name} = {name}[1:]").body[0]
    match statement:
        case ast.Assign(
            [ast.Tuple([ast.Name() as first, ast.Starred(ast.Name(rest))])], ast.Name(same)
        ) if rest == same == name:
            found: list[ast.stmt] = [ast.Assign([first], _first_of(name)), cut]
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if _is_one_by_one(targets, values):
            pairs = [*zip(targets, values, strict=True)]
            own = [pair for pair in pairs if isinstance(pair[0], ast.Name) and pair[0].id == name]
            others = [pair for pair in pairs if pair not in own]
            found = [ast.Assign([target], value) for target, value in (*others, *own)]
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr() if [
            *_names(statement)
        ].count(name) == 1 and any(_is_pop(node, name) for node in ast.walk(statement)):
            found = [_Popped(name).visit(deepcopy(statement)), cut]
        case _:
            return [statement]
    return [ast.fix_missing_locations(ast.copy_location(each, statement)) for each in found]


def _is_one_by_one(targets: Sequence[ast.expr], values: Sequence[ast.expr]) -> bool:
    """Whether names get their values one by one as they do all at once, the list's own last."""
    own = [each.id for each in targets if isinstance(each, ast.Name)]
    seen = [{*_names(value)} & {*own} for value in values]
    is_plain = len(own) == len(targets) == len(values) == len({*own})
    starred = any(isinstance(value, ast.Starred) for value in values)
    lists = {each for names in seen for each in names}
    return is_plain and not starred and len(lists) <= 1


def _first_of(name: str) -> ast.expr:
    return ast.parse(f"{name}[0]", mode="eval").body


def _is_pop(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(ast.Attribute(ast.Name(of), "pop"), [ast.Constant(0)], []):
            return of == name
        case _:
            return False


class _Popped(ast.NodeTransformer):
    """What is taken off the front, as the first that is there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if _is_pop(node, self._name):
            return _first_of(self._name)
        self.generic_visit(node)
        return node


def _cut(statement: ast.stmt, name: str) -> ast.expr | None:
    """How many `name = name[step:]` takes off."""
    match statement:
        case ast.Assign(
            [ast.Name(one)],
            ast.Subscript(ast.Name(other), ast.Slice(ast.expr() as step, None, None)),
        ) if one == other == name:
            return step
        case _:
            return None


@dataclass(frozen=True, slots=True)
class Searching:
    """A loop that looks for the first that passes, and does something with it alone."""

    test: ast.expr
    then: Sequence[ast.stmt]


def searching(loop: ast.For) -> Searching | None:
    """What a loop looks for, if it is left at once where something passes: by break or return."""
    match loop.body:
        case [ast.If(test, [*then, ast.Break()], [])]:
            pass
        case [ast.If(test, [*before, ast.Return() as last], [])]:
            then = [*before, last]
        case _:
            return None
    jumps = (ast.Break, ast.Continue)
    is_left = any(isinstance(node, jumps) for each in then for node in ast.walk(each))
    through = ast.comprehension(loop.target, loop.iter, [], 0)
    if is_left or not is_function_of_one(through, (test,)):
        return None
    return Searching(test, then)


@dataclass(frozen=True, slots=True)
class Filling:
    """A loop that puts its elements to a list where a test passes, and does nothing else."""

    test: ast.expr
    into: str
    is_anew: bool  # the name is given a new list, of the old one and the element


def filling(body: Sequence[ast.stmt], target: ast.expr) -> Filling | None:
    """What a loop with this body and target fills, if it does nothing else."""
    match body:
        case [ast.If(test, [put], [] | [ast.Pass()])]:
            pass
        case [ast.If(skipped, [ast.Continue()], []), put]:
            test = ast.UnaryOp(ast.Not(), skipped)
        case _:
            return None
    match put:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(into), "append"), [ast.Name(item)], [])):
            is_anew = False
        case ast.AugAssign(ast.Name(into), ast.Add(), ast.List([ast.Name(item)])):
            is_anew = False
        case _:
            match more_behind(put):
                case (into, ast.List([ast.Name(item)])):
                    is_anew = True
                case _:
                    return None

    through = ast.comprehension(target, ast.Constant(None), [], 0)
    is_own = isinstance(target, ast.Name) and target.id == item
    is_read = is_own and is_function_of_one(through, (test,))
    return Filling(test, into, is_anew) if is_read else None


def more_behind(statement: ast.AST) -> tuple[str, ast.expr] | None:
    """A name that is given itself and a list behind it, and that list: `name = name + more`."""
    match statement:
        case ast.Assign([ast.Name(name)], ast.BinOp(op=ast.Add()) as value):
            first, more = _first_and_more(value)
            is_own = isinstance(first, ast.Name) and first.id == name
            return (name, more) if is_own else None
        case ast.Assign([ast.Name(name)], ast.List([ast.Starred(ast.Name(same)), *rest])) if (
            name == same
        ):
            return name, ast.List(rest, ast.Load())
        case _:
            return None


def _first_and_more(value: ast.BinOp) -> tuple[ast.expr, ast.expr]:
    """Of a sum its first, and the sum of the others."""
    match value.left:
        case ast.BinOp(op=ast.Add()) as left:
            first, more = _first_and_more(left)
            return first, ast.BinOp(more, ast.Add(), value.right)
        case _:
            return value.left, value.right


def chosen_value(statement: ast.AST) -> ast.If | None:
    """`name = one if test else other` as two statements, where either is the name or more of it."""
    match statement:
        case ast.Assign([ast.Name(name) as target], ast.IfExp(test, one, other)):
            ways: list[list[ast.stmt]] = []
            for value in (one, other):
                made = ast.Assign([target], value)
                is_same = isinstance(value, ast.Name) and value.id == name
                if not is_same and more_behind(made) is None:
                    return None
                ways.append([ast.Pass()] if is_same else [made])
            found = ast.If(test, *ways)
            return ast.fix_missing_locations(ast.copy_location(found, statement))
        case _:
            return None


def growing(body: Iterable[ast.stmt]) -> set[str]:
    """The names that get nothing in a loop but themselves with more behind."""
    inside = [node for each in body for node in ast.walk(each)]
    grown = [name for name, _ in filter(None, map(more_behind, inside))]
    for chosen in filter(None, map(chosen_value, inside)):
        grown += [*{name for name, _ in filter(None, map(more_behind, ast.walk(chosen)))}]
    stored = [*_stored(body)]
    return {name for name in grown if grown.count(name) == stored.count(name)}


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
