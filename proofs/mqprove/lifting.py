"""Python, read so that it can run on symbolic values: loops and comprehensions as functions.

A theorem is about the code that runs, and the code runs here too, on terms in place of numbers and
lists. What Python itself would insist on doing with real values is rewritten first, in the tree of
the module's own source: a loop or a comprehension over a symbolic list becomes a function that is
tried on one element, any of them; a list that is written down becomes a list that may hold
symbolic elements; `len`, `range` and the like become those of `stand_ins`. Everything else is run
as it stands. What cannot be read is refused with its line: nothing is guessed.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import deepcopy
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

from mqprove import loops, rooms, stand_ins
from mqprove.reading import (
    chosen_value,
    counting,
    filling,
    generator,
    given_meanings,
    growing,
    is_copy,
    is_function_of_one,
    more_behind,
    searching,
    shrinking,
    without_filter,
    without_filter_of,
)
from mqprove.symbolic import RUNTIME, NotUnderstoodError

_CALLED: Sequence[Callable[..., Any]] = (
    *(loops.add_to, loops.comprehension, loops.display, loops.first),
    *(loops.is_symbolic, loops.loop, loops.after),
    *(loops.counted, loops.ending, loops.goes_on),
    *(loops.rest_of, loops.left, loops.shortened),
    *(loops.grows, loops.joined, loops.grown),
    *(loops.exists, loops.flattened, loops.for_all, loops.total),
    *(stand_ins.attribute, stand_ins.is_, stand_ins.plain, stand_ins.refuse),
    stand_ins.compared,
    *(stand_ins.container, stand_ins.function, stand_ins.method, stand_ins.stored),
)
# What uses up a generator that it is given.
_CONSUMERS = ("all", "any", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple")
_OVER_TURNS = {"any": "exists", "all": "for_all", "sum": "total"}  # of a generator
_OWN = (*stand_ins.BUILTINS, *rooms.BUILTINS, *stand_ins.GUARDED)  # which the lifted module gets
TEXT = "__source__"  # of a module that was made from text


@cache
def lift(module: ModuleType) -> ModuleType:
    """The module with its functions rewritten, beside the original, which stays as it is. Raises
    NotUnderstoodError where it gives names of Python's own another meaning."""
    text = module.__dict__.get(TEXT) or inspect.getsource(module)
    original = ast.parse(text)
    if other := given_meanings(original, _OWN):
        raise NotUnderstoodError(f"{', '.join(other)} with a meaning of the module's own")
    tree = _Rewriter().visit(original)
    ast.fix_missing_locations(tree)
    lifted = ModuleType(module.__name__)
    called = {function.__name__: function for function in _CALLED}
    lifted.__dict__[RUNTIME] = SimpleNamespace(**called, Map=rooms.Map)
    with warnings.catch_warnings():
        # A mutant may compare with `is`: Python warns of it, and that is the mutation.
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(tree, f"{module.__name__}.py", "exec"), lifted.__dict__)
    for module_of in (stand_ins, rooms):
        found = {name: getattr(module_of, f"{name}_") for name in module_of.BUILTINS}
        lifted.__dict__.update(found)
    lifted.__dict__.update({name: stand_ins.guarded(name) for name in stand_ins.GUARDED})
    lifted.__dict__.update(
        {
            name: stand_ins.summary(name, lifted.__dict__[name])
            for name in stand_ins.SUMMARIES
            if name in lifted.__dict__
        }
    )
    return lifted


class _Rewriter(ast.NodeTransformer):
    """Rewrites the bodies of functions."""

    def __init__(self) -> None:
        self._functions: list[ast.AST] = []
        self._names = 0  # that were made up

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._functions.append(node)
        node.body = self._block(node.body)
        self._functions.pop()
        return node

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        if not self._functions:
            return node
        if _is_place(node.target):
            return ast.Expr(self._refused(node.iter, "a loop that writes to a place"))
        node = without_filter(node)
        given = self._new_name("given")
        line = node.lineno
        names = [each.id for each in ast.walk(node.target) if isinstance(each, ast.Name)]
        after = [ast.parse(f"{each} = {RUNTIME}.after({each!r}, {line})").body[0] for each in names]
        symbolic = self._searched(node, given, after) or [*self._turned(node, given), *after]
        over = ast.Name(given, ast.Load())
        plain = ast.For(node.target, over, self._block(node.body), node.orelse)
        return self._either(node, given, self.visit(node.iter), symbolic, plain)

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        if not self._functions:
            return node
        if lessened := self._lessened(node):
            return lessened
        found = counting(node, self._functions[-1])
        if found is None:
            self.generic_visit(node)
            node.test = _ours("goes_on", node.test, ast.Constant(node.lineno))
            return node
        given = self._new_name("given")
        bounds: list[ast.expr] = [
            ast.Tuple([deepcopy(bound), ast.Constant(included)], ast.Load())
            for bound, included in found.bounds
        ]
        start = ast.Name(found.name, ast.Load())
        listed = ast.Tuple(bounds, ast.Load())
        line = ast.Constant(node.lineno)
        over = _ours("counted", start, listed, deepcopy(found.step), line)
        # The bounds are looked at in each turn, so that one that it changes is seen.
        body = [ast.Expr(deepcopy(listed)), *found.body]
        target = ast.Name(found.name, ast.Store())
        loop = ast.copy_location(ast.For(target, over, deepcopy(body), []), node)
        after = ast.parse(f"{found.name} = {RUNTIME}.ending({given})").body[0]
        symbolic = [*self._turned(loop, given), after]
        plain = ast.While(self.visit(node.test), self._block(node.body), [])
        return self._either(node, given, self.visit(over), symbolic, plain)

    def _lessened(self, node: ast.While) -> list[ast.stmt] | None:
        """A while that takes the first ones off a list, as a loop over what it has taken before."""
        found = shrinking(node)
        if found is None:
            return None
        held, given, taken = map(self._new_name, ("held", "given", "taken"))
        line = ast.Constant(node.lineno)
        name = ast.Name(found.name, ast.Load())
        numbers = (deepcopy(found.least), deepcopy(found.step))
        hold = ast.Assign([ast.Name(held, ast.Store())], _ours("rest_of", name, *numbers, line))
        view = ast.parse(f"{found.name} = {RUNTIME}.left({held}, {taken})").body[0]
        target = ast.Name(taken, ast.Store())
        over = ast.parse(f"{held}.turns", mode="eval").body
        loop = ast.For(target, over, [view, *deepcopy(found.body)], [])
        end = f"{found.name} = {RUNTIME}.shortened({held}, {found.pops})"
        # It is the turn's own there, so that it is not carried from turn to turn.
        turned = self._turned(ast.copy_location(loop, node), given, own=found.name)
        symbolic = [*turned, *ast.parse(end).body]
        plain = ast.While(self.visit(node.test), self._block(node.body), [])
        either = self._either(node, given, over, symbolic, plain)
        return [ast.copy_location(hold, node), *either]

    def _searched(
        self, node: ast.For, given: str, after: Iterable[ast.stmt]
    ) -> list[ast.stmt] | None:
        """A loop for the first that passes, by that one."""
        found = searching(node)
        if found is None:
            return None
        hit = self._new_name("hit")
        each = ast.parse(ast.unparse(node.target), mode="eval").body
        element = _of_one(node.target, ast.Tuple([each], ast.Load()))
        test = _of_one(node.target, self.visit(deepcopy(found.test)))
        over, none = ast.Name(given, ast.Load()), ast.Tuple([], ast.Load())
        first = _ours("first", over, element, test, ast.Constant(node.lineno), none)
        unpack = ast.Assign([node.target], ast.parse(f"{hit}[0]", mode="eval").body)
        then = [unpack, *self._block(deepcopy([*found.then]))]
        otherwise = [*after, *self._block(deepcopy(node.orelse))] or [ast.Pass()]
        return [
            ast.Assign([ast.Name(hit, ast.Store())], first),
            ast.If(ast.Name(hit, ast.Load()), then, otherwise),
        ]

    def _new_name(self, word: str) -> str:
        self._names += 1
        return f"__{word}_{self._names}"

    def _turned(self, node: ast.For, given: str, own: str = "") -> list[ast.stmt]:
        """A loop by one turn, where it can be, of what has a name. A name that each turn gives
        a value first is its `own`."""
        names = growing(node.body)
        problem = _problem(node, self._functions[-1], {own, *names})
        if problem:
            words = f"{given}, None, {node.lineno}, {problem!r}"
            return ast.parse(f"{RUNTIME}.loop({words})").body
        body, each = self._new_name("body"), self._new_name("each")
        function = ast.parse(f"def {body}({each}): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        unpack = ast.Assign([node.target], ast.Name(each, ast.Load()))
        turned = _Turn(names).visit(ast.Module(deepcopy(node.body), []))
        function.body = [unpack, *self._block(turned.body)]
        line = ast.Constant(node.lineno)
        over, turn = ast.Name(given, ast.Load()), ast.Name(body, ast.Load())
        filled = self._filling(node, names)
        call = ast.Expr(_ours("loop", over, turn, line, ast.Constant(""), *filled))
        before, after = (
            [ast.parse(f"{name} = {RUNTIME}.{what}({name})").body[0] for name in sorted(names)]
            for what in ("grows", "grown")
        )
        return [*before, function, call, *after]

    def _filling(self, node: ast.For, names: Collection[str]) -> list[ast.expr]:
        """Of a loop that fills a list with its elements where a test passes: the test, as it is
        written, too, and what puts a list to that list."""
        body = [chosen_value(each) or each for each in node.body]
        found = filling(body, node.target)
        if found is None:
            return []
        if found.is_anew and found.into not in names:
            return []

        into, items = ast.Name(found.into, ast.Load()), ast.Name("__items", ast.Load())
        added = _ours("joined" if found.is_anew else "add_to", into, items)
        put = ast.Lambda(_arguments(["__items"]), added)
        test = _of_one(node.target, self.visit(deepcopy(found.test)))
        return [test, ast.Constant(ast.unparse(found.test)), put]

    def _either(
        self, node: ast.stmt, given: str, over: ast.expr, symbolic: list[ast.stmt], plain: ast.stmt
    ) -> list[ast.stmt]:
        """A loop over what is symbolic, or the same over what is not."""
        test = ast.parse(f"{RUNTIME}.is_symbolic({given})", mode="eval").body
        choice = ast.If(test, symbolic, [plain])
        made = [ast.Assign([ast.Name(given, ast.Store())], over), choice]
        return [ast.copy_location(each, node) for each in made]

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        if not self._functions:
            return node
        over = without_filter_of(node.generators[0])
        if len(node.generators) > 1:
            return self._flattened(node, over)
        if is_copy(node.elt, over):
            return self.visit_Call(_called("list", over.iter))
        node.generators = [over]
        if not is_function_of_one(over, (node.elt, *over.ifs)):
            return self._refused(node, "a comprehension that gives names a value")
        text = ast.unparse(_test(over))
        parts = self._one_by_one(node)
        call = _ours("comprehension", *parts, ast.Constant(text), ast.Constant(node.lineno))
        return ast.copy_location(call, node)

    def _flattened(self, node: ast.ListComp, over: ast.comprehension) -> ast.AST:
        """A comprehension over several: for each element of the first, one over the others."""
        inner = ast.ListComp(node.elt, node.generators[1:])
        made = ast.copy_location(ast.ListComp(inner, [over]), node)
        ast.fix_missing_locations(made)
        if not is_function_of_one(over, (inner, *over.ifs)):
            return self._refused(node, "a comprehension that gives names a value")
        line = ast.Constant(node.lineno)
        call = _ours("flattened", *self._one_by_one(made), line)
        return ast.copy_location(call, node)

    def _one_by_one(self, node: ast.ListComp | ast.GeneratorExp) -> list[ast.expr]:
        """What it goes through, and its element and its test as functions."""
        (over,) = node.generators
        test = _test(over)
        return [
            self.visit(over.iter),
            _of_one(over.target, self.visit(node.elt)),
            _of_one(over.target, self.visit(test)),
        ]

    def visit_List(self, node: ast.List) -> ast.AST:
        if self._functions:
            for each in node.elts:
                if isinstance(each, ast.Starred):
                    each.value = _as_list(each.value)
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or not self._functions:
            return node
        pairs: list[ast.expr] = [
            ast.Tuple(
                [
                    ast.Constant(isinstance(each, ast.Starred)),
                    each.value if isinstance(each, ast.Starred) else each,
                ],
                ast.Load(),
            )
            for each in node.elts
        ]
        return ast.copy_location(_ours("display", *pairs), node)

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        if node.keys or not self._functions:
            return node
        return ast.copy_location(_ours("Map"), node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if self._functions:
            node.comparators = [
                _ours("container", side) if isinstance(op, ast.In | ast.NotIn) else side
                for op, side in zip(node.ops, node.comparators, strict=True)
            ]
        if len(node.ops) > 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
            return node
        call: ast.expr = _ours("is_", node.left, node.comparators[0])
        if isinstance(node.ops[0], ast.IsNot):
            call = ast.UnaryOp(ast.Not(), call)
        return ast.copy_location(call, node)

    def visit_Match(self, node: ast.Match) -> ast.AST:
        self.generic_visit(node)
        by_value = all(_looks_at_values(case.pattern) for case in node.cases)
        node.subject = _ours("compared" if by_value else "plain", node.subject)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        is_read = isinstance(node.ctx, ast.Load)
        if not node.attr.startswith("__") or not self._functions or not is_read:
            return node
        return ast.copy_location(_ours("attribute", node.value, ast.Constant(node.attr)), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """What is called is looked at first: it must keep nothing from one call to the next."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        through = generator(node.args[0]) if node.args and self._functions else None
        if name == "next" and through and not node.keywords:
            return self._next(node, through)
        if name in _OVER_TURNS and through and not any(k.arg != "start" for k in node.keywords):
            others = [*node.args[1:], *(each.value for each in node.keywords)]
            if found := self._over_turns(node, _OVER_TURNS[name], through, others):
                return found
        if name in ("filter", "map") and self._functions:
            return self._refused(node, f"a {name} that is kept, or whose function is not seen")
        if name in _CONSUMERS and len(node.args) == 1 and through:  # used up at once
            if name in ("list", "tuple", "min", "max"):
                node.args = [self.visit(_as_list(through))]
            else:
                self.generic_visit(through)
                node.args = [through]
            node.keywords = [self.visit(each) for each in node.keywords]
        else:
            self.generic_visit(node)
        if not self._functions or _is_ours(node.func):
            return node
        if isinstance(node.func, ast.Attribute):
            node.func = _ours("method", node.func.value, ast.Constant(node.func.attr))
        else:
            node.func = _ours("function", node.func)
        return node

    def _next(self, node: ast.Call, through: ast.GeneratorExp) -> ast.expr:
        found = self._over_turns(node, "first", through, node.args[1:])
        return found or self._refused(
            node, "next of a generator over several, or that gives names a value"
        )

    def _over_turns(
        self, node: ast.Call, ours: str, through: ast.GeneratorExp, others: Sequence[ast.expr]
    ) -> ast.expr | None:
        """What uses up a generator over one list, by what stands for any turn."""
        over, *more = map(without_filter_of, through.generators)
        through.generators = [over, *more]
        if more or len(others) > 1 or not is_function_of_one(over, (through.elt, *over.ifs)):
            return None
        visited = [self.visit(each) for each in others]
        line = ast.Constant(node.lineno)
        return ast.copy_location(_ours(ours, *self._one_by_one(through), line, *visited), node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        self.generic_visit(node)
        return self._refused(node, "a generator that is kept") if self._functions else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        node.value = self._stored(node.targets, node.value)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.value = node.value and self._stored([node.target], node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        node.value = self._stored([node.target], node.value)
        return node

    def visit_Delete(self, node: ast.Delete) -> ast.AST:
        if not self._functions or not any(map(_is_place, node.targets)):
            return node
        return ast.Expr(self._refused(node.targets[0], "a place that is deleted"))

    def visit_With(self, node: ast.With) -> ast.AST:
        if not self._functions:
            return node
        return ast.Expr(self._refused(node.items[0].context_expr, "a context"))

    def _stored(self, targets: Iterable[ast.expr], value: ast.expr) -> ast.expr:
        """A value that goes to a place of something, which is looked at then."""
        inside = (
            [each for target in targets for each in ast.walk(target)] if self._functions else []
        )
        for target in inside:
            if not isinstance(getattr(target, "ctx", None), ast.Store):
                continue
            if isinstance(target, ast.Attribute):
                return self._refused(value, "an attribute that is set")
            if isinstance(target, ast.Subscript):
                looked_at = _ours("stored", deepcopy(target.value), value)
                value = ast.copy_location(looked_at, value)
        return value

    def _refused(self, node: ast.expr, what: str) -> ast.expr:
        words = f"line {node.lineno}: {what}"
        return ast.copy_location(_ours("refuse", ast.Constant(words)), node)

    def _block(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in body:
            new = self.visit(statement)
            found += new if isinstance(new, list) else [new]
        return found


def _looks_at_values(pattern: ast.pattern) -> bool:
    """Whether a pattern compares by equality, of a tuple each part; and asks for no class."""
    within = (node for node in ast.walk(pattern) if isinstance(node, ast.pattern))
    return not any(isinstance(node, ast.MatchClass | ast.MatchMapping) for node in within)


def _is_place(target: ast.expr) -> bool:
    """Whether a target is, or has, a place of something, and is not a name."""
    return any(isinstance(each, ast.Attribute | ast.Subscript) for each in ast.walk(target))


def _ours(name: str, *arguments: ast.expr) -> ast.expr:
    """A call of what the rewriting puts in."""
    # Without a place of its own: so it has that of what it stands in, which a refusal names.
    function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), name, ast.Load())
    return ast.Call(function, list(arguments), [])


def _called(name: str, argument: ast.expr) -> ast.Call:
    call = ast.Call(ast.Name(name, ast.Load()), [argument], [])
    return ast.fix_missing_locations(ast.copy_location(call, argument))


def _is_ours(function: ast.expr) -> bool:
    """Whether a call was put there by the rewriting."""
    return isinstance(function, ast.Attribute) and ast.unparse(function.value) == RUNTIME


class _Turn(ast.NodeTransformer):
    """One turn of a loop as a function's body: `continue` ends it, `+=` adds to a list, and so does
    what gives a name of those that grow itself with more behind."""

    def __init__(self, growing: Collection[str]) -> None:
        self._growing = growing

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        chosen = chosen_value(node)
        if chosen and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self._growing:
            return self.generic_visit(chosen)
        found = more_behind(node)
        if found is None or found[0] not in self._growing:
            return node
        return ast.Expr(_ours("joined", ast.Name(found[0], ast.Load()), found[1]))

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return ast.Return(None)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target = ast.parse(ast.unparse(node.target), mode="eval").body
        return ast.Expr(_ours("add_to", target, node.value))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node


def _as_list(value: ast.expr) -> ast.expr:
    """A generator, or what amounts to one, that is used up at once."""
    through = generator(value)
    if through is None:
        return value
    return ast.copy_location(ast.ListComp(through.elt, through.generators), value)


def _test(over: ast.comprehension) -> ast.expr:
    if len(over.ifs) > 1:
        return ast.BoolOp(ast.And(), over.ifs)
    return over.ifs[0] if over.ifs else ast.Constant(True)


def _of_one(target: ast.expr, value: ast.expr) -> ast.expr:
    """A function of one element: of its parts, where the target is a tuple."""
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    inner = ast.Lambda(_arguments(names), value)
    if isinstance(target, ast.Name):
        return inner
    starred = ast.Starred(ast.Name("__each", ast.Load()), ast.Load())
    return ast.Lambda(_arguments(["__each"]), ast.Call(inner, [starred], []))


def _arguments(names: Iterable[str]) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def _problem(loop: ast.For, function: ast.AST, not_carried: Collection[str] = ()) -> str:
    """Why one turn of a loop does not stand for any; empty where it does. Of some names it is known
    that nothing is carried on in them."""
    inside = list(ast.walk(ast.Module(loop.body, [])))
    for node in inside:
        if isinstance(node, ast.Break | ast.Return | ast.Yield | ast.While):
            return f"{type(node).__name__.lower()} in a loop"
    if loop.orelse:
        return "else of a loop"

    targets = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    stored = {
        n.id for n in inside if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
    } - targets
    added = {
        n.target.id
        for n in inside
        if isinstance(n, ast.AugAssign)
        and isinstance(n.target, ast.Name)
        and isinstance(n.op, ast.Add)
    }
    within = {id(node) for node in inside}
    elsewhere = {
        n.id for n in ast.walk(function) if isinstance(n, ast.Name) and id(n) not in within
    }
    carried = sorted((stored - added - {*not_carried}) & elsewhere)
    return f"{', '.join(carried)} is carried from turn to turn" if carried else ""
