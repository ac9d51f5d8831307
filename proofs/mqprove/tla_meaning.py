"""What expressions and actions of a module mean, over the values of `tla_values`.

An action is a choice of ways; each has conditions, and gives every variable its next value. What
has no meaning here is refused, with its line.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import z3

from mqprove.symbolic import NotUnderstoodError
from mqprove.tla_arithmetic import PRODUCTS
from mqprove.tla_module import ACTION, Bound, Expression, Module, one_by_one
from mqprove.tla_sizes import Sizes
from mqprove.tla_values import (
    Fun,
    Number,
    Rec,
    Record,
    Seq,
    Set,
    Shape,
    Token,
    Value,
    World,
    as_sequence,
    at_most,
    bound_now,
    either,
    enumerated,
    equal,
    exists,
    for_all,
    is_empty,
    plain,
    shape_of,
    size,
    subset,
    wider,
    word,
)

_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "<": operator.lt,
    ">": operator.gt,
    "\\leq": operator.le,
    "\\geq": operator.ge,
}
_ALL, _SOME, _CHOOSE = "$BoundedForall", "$BoundedExists", "$BoundedChoose"
_STANDARD = ("Naturals", "Integers", "FiniteSets", "Sequences")
NEXT = "Next"  # ends the name of a next-state relation
SIZE_MAX = 2  # of a set, that is asked for in words: "at most" so many


@dataclass(frozen=True)
class Place:
    """Where an expression is looked at: what names stand for, and the state."""

    state: Mapping[str, Value]
    names: Mapping[str, Any] = field(default_factory=dict)  # of parameters, by their keys
    after: Mapping[str, Value] | None = None  # the next state, as far as it is known
    at: Value | None = None  # what stands where EXCEPT puts something

    def binding(self, names: Mapping[str, Any]) -> Place:
        return replace(self, names={**self.names, **names})


@dataclass(frozen=True)
class Way:
    """One way of an action: it can be taken where the conditions hold."""

    action: str = ""
    conditions: tuple[z3.BoolRef, ...] = ()
    after: Mapping[str, Value] = field(default_factory=dict)
    place: Place | None = None
    chosen: Mapping[str, Value] = field(default_factory=dict)  # for what, by its name


class Meaning:
    """A module whose constants have values. `facts` are true of the terms that were made."""

    def __init__(
        self,
        module: Module,
        world: World,
        constants: dict[str, Value],
        shapes: Mapping[str, Shape],  # of the variables
    ) -> None:
        self.module, self.world, self.constants, self.shapes = module, world, constants, shapes
        self.facts: list[z3.BoolRef] = []
        self.sizes = Sizes(world)
        self._known: dict[tuple[Any, ...], tuple[Any, Any]] = {}

    # Expressions

    def says(self, expression: Expression, place: Place) -> z3.BoolRef:
        """The truth of a formula."""
        found = plain(self.value(expression, place))
        if not isinstance(found, z3.BoolRef):
            raise NotUnderstoodError(f"line {expression.line}: no truth")
        return found

    def value(self, expression: Expression, place: Place) -> Any:
        """The value of an expression."""
        match expression.kind:
            case "number":
                return z3.IntVal(expression.number)
            case "text":
                known = self.constants.get(expression.name)
                return known if isinstance(known, Token) else word(expression.name)
            case "at":
                return place.at
            case "name":
                found = place.state.get(expression.name, self.constants.get(expression.name))
                if found is None:
                    raise NotUnderstoodError(
                        f"line {expression.line}: {expression.name} is not known"
                    )
                return found
            case "parameter":
                return place.names[expression.name]
            case "operator":
                return self._applied(expression, place)
            case "builtin":
                return self._builtin(expression, place)
            case "with":
                return self.value(self._inside(expression), place)
            case other:
                raise NotUnderstoodError(f"line {expression.line}: a {other}")

    def _inside(self, expression: Expression) -> Expression:
        """What an INSTANCE says that puts each name for itself: so the name is the same there."""
        for bound in expression.bounds:
            if bound.over.kind != "name" or bound.names != (bound.over.name,):
                raise NotUnderstoodError(f"line {expression.line}: an INSTANCE with other names")
        return expression.operands[0]

    def _applied(self, expression: Expression, place: Place) -> Any:
        defined = self.module.definitions[expression.name]
        if defined.module in _STANDARD:
            return self._standard(defined.name, expression, place)
        if not defined.parameters and defined.body.level < ACTION:
            return self._once(expression.name, defined.body, place)
        given = [self.value(each, place) for each in expression.operands]
        names = dict(zip(defined.parameters, given, strict=True))
        return self.value(defined.body, place.binding(names))

    def _once(self, key: str, body: Expression, place: Place) -> Any:
        """What a name stands for, the same wherever it stands: what it chooses is chosen once."""
        # What is kept is kept with what it is kept by, so that no number is used again.
        by = (place.state, *place.names.values())
        at = (key, *map(id, by), *(term.get_id() for term in bound_now()))
        if at not in self._known:
            self._known[at] = (by, self.value(body, place))
        return self._known[at][1]

    def _standard(self, name: str, expression: Expression, place: Place) -> Any:
        """An operator of a standard module."""
        if name in _ARITHMETIC:
            if (bounded := self._at_most(name, expression, place)) is not None:
                return bounded
            left, right = (plain(self.value(each, place)) for each in expression.operands)
            return _ARITHMETIC[name](left, right)
        if name in PRODUCTS:
            left, right = (plain(self.value(each, place)) for each in expression.operands)
            return PRODUCTS[name](left, right, known=self.world.is_small)
        given = [plain(self.value(each, place)) for each in expression.operands]
        match name, given:
            case "..", [low, high]:
                return self._range(low, high)
            case "Cardinality", [over]:
                return self._cardinality(over)
            case "Len", [sequence]:
                return sequence.length
            case "Append", [sequence, last]:
                length = z3.simplify(sequence.length + 1)
                return Seq(length, lambda x: either(_same(x, length), last, sequence.at(x)))
            case "\\o", [one, other]:
                return _joined(as_sequence(one), as_sequence(other))
            case "-.", [number]:
                return -number
            case "Nat", []:
                return Set(lambda x: plain(x) >= 0, Number(), self.world.candidates(Number()))
            case "Int", []:
                return self.world.domain(Number())
            case _:
                raise NotUnderstoodError(f"line {expression.line}: {name}")

    def _range(self, low: z3.ArithRef, high: z3.ArithRef) -> Set:
        first, last = z3.simplify(low), z3.simplify(high)
        candidates = self.world.candidates(Number())
        if z3.is_int_value(first) and z3.is_int_value(last):
            span = range(first.as_long(), last.as_long() + 1)
            candidates = [z3.IntVal(each) for each in span]
        return Set(lambda x: z3.And(low <= plain(x), plain(x) <= high), Number(), candidates)

    def _at_most(self, name: str, expression: Expression, place: Place) -> z3.BoolRef | None:
        """Cardinality(set) <= 1 in words: so it means something of sets of any size."""
        counted, number = expression.operands
        is_size = counted.kind == "operator" and (
            self.module.definitions[counted.name].name == "Cardinality"
        )
        if not is_size or number.kind != "number" or name not in ("\\leq", "<"):
            return None
        most = number.number - (name == "<")
        return at_most(most, self.value(counted.operands[0], place)) if most <= SIZE_MAX else None

    def _cardinality(self, over: Set) -> z3.ArithRef:
        if over.candidates is not None:
            return size(over)
        if over.of is None:
            raise NotUnderstoodError("the size of a set of sets or functions")
        return self.sizes.of(over, bound_now())

    def _any(self, shape: Any, name: str) -> Any:
        return self.world.any(shape, self.world.name(name), bound_now())

    def _fact(self, term: z3.BoolRef) -> None:
        bound = bound_now()
        self.facts.append(z3.ForAll(bound, term) if bound else term)

    def _builtin(self, expression: Expression, place: Place) -> Any:
        name, operands = expression.name, expression.operands
        match name:
            case "TRUE" | "FALSE":
                return z3.BoolVal(name == "TRUE")
            case "BOOLEAN":
                return enumerated([z3.BoolVal(True), z3.BoolVal(False)])
            case "$ConjList" | "\\land":
                return z3.And([self.says(each, place) for each in operands])
            case "$DisjList" | "\\lor":
                return z3.Or([self.says(each, place) for each in operands])
            case "\\lnot":
                return z3.Not(self.says(operands[0], place))
            case "=>":
                return z3.Implies(*(self.says(each, place) for each in operands))
            case "\\equiv":
                left, right = (self.says(each, place) for each in operands)
                return left == right
            case "=" | "/=":
                same = equal(*(self.value(each, place) for each in operands))
                return same if name == "=" else z3.Not(same)
            case "$IfThenElse":
                condition = self.says(operands[0], place)
                if self.world.is_small:
                    condition = z3.simplify(condition)
                if z3.is_true(condition) or z3.is_false(condition):
                    return self.value(operands[1 if z3.is_true(condition) else 2], place)
                one, other = (self.value(each, place) for each in operands[1:])
                return either(condition, one, other)
            case "'":
                if place.after is None:
                    raise NotUnderstoodError(f"line {expression.line}: a next state")
                return self.value(operands[0], replace(place, state=place.after, after=None))
            case "UNCHANGED":
                return z3.And(
                    [
                        equal(place.state[each], (place.after or {})[each])
                        for each in self._variables(operands[0])
                    ]
                )
            case "$BoundedForall" | "$BoundedExists":
                return self._quantifier(expression, place)
            case "$BoundedChoose":
                return self._choice(expression, place)
            case "$FcnApply":
                function, argument = (plain(self.value(each, place)) for each in operands)
                return function.at(argument)
            case "$FcnConstructor":
                return self._function(expression, place)
            case "$Except":
                return self._except(expression, place)
            case "$RcdConstructor":
                return Rec(
                    {
                        pair.operands[0].name: self.value(pair.operands[1], place)
                        for pair in operands
                    }
                )
            case "$RcdSelect":
                return plain(self.value(operands[0], place)).fields[operands[1].name]
            case "$Tuple" if not operands:
                return Seq(z3.IntVal(0), lambda x: self._any(Number(), "none"))
            case "$Case":
                return self._case(expression, place)
            case "$Tuple":
                parts = [self.value(each, place) for each in operands]
                return Rec({str(number): part for number, part in enumerate(parts, 1)})
            case _:
                return self._set(expression, place)

    def _case(self, expression: Expression, place: Place) -> Any:
        """CASE, whose conditions are looked at in their order: TLC takes the first that holds."""
        found: Any = None
        for pair in reversed(expression.operands):
            condition, value = pair.operands
            there = self.value(value, place)
            is_other = condition.kind == "other"
            if found is None and not is_other:
                raise NotUnderstoodError(f"line {expression.line}: a CASE without OTHER")
            found = there if is_other else either(self.says(condition, place), there, found)
        return found

    def _set(self, expression: Expression, place: Place) -> Any:
        name, operands = expression.name, expression.operands
        if name == "UNION" and operands[0].name == "$SetOfAll":
            return self._union_of(operands[0], place)
        is_plain = not expression.bounds and name != "$SetOfRcds"
        given = [self.value(each, place) for each in operands] if is_plain else []
        match name, given:
            case "\\in", [element, over]:
                return plain(over).has(element)
            case "\\notin", [element, over]:
                return z3.Not(plain(over).has(element))
            case "\\subseteq", [one, other]:
                return subset(plain(one), plain(other))
            case (("\\union" | "\\cup"), [one, other]):
                return _union(plain(one), plain(other))
            case (("\\intersect" | "\\cap"), [one, other]):
                one, other = plain(one), plain(other)
                return replace(one, has=lambda x: z3.And(one.has(x), other.has(x)))
            case "\\", [one, other]:
                one, other = plain(one), plain(other)
                return replace(one, has=lambda x: z3.And(one.has(x), z3.Not(other.has(x))))
            case "$SetEnumerate", values:
                return enumerated(values)
            case "DOMAIN", [Seq(length)]:
                return replace(self._range(z3.IntVal(1), length), last=length)
            case "DOMAIN", [function]:
                return plain(function).domain
            case "SUBSET", [over]:
                return Set(lambda x: subset(plain(x), plain(over)), None)
            case "$SetOfFcns", [keys, values]:
                return Set(
                    lambda f: for_all(plain(keys), lambda x: plain(values).has(plain(f).at(x))),
                    None,
                )
            case "$SetOfRcds", _:
                return self._records(expression, place)
            case "$SubsetOf", _:
                return self._filtered(expression, place)
            case "$SetOfAll", _:
                return self._image(expression, place)
            case _:
                raise NotUnderstoodError(f"line {expression.line}: {name}")

    def _records(self, expression: Expression, place: Place) -> Set:
        sets = {
            pair.operands[0].name: plain(self.value(pair.operands[1], place))
            for pair in expression.operands
        }

        def has(value: Value) -> z3.BoolRef:
            value = plain(value)
            if not isinstance(value, Rec) or value.fields.keys() != sets.keys():
                return z3.BoolVal(False)
            return z3.And([sets[name].has(value.fields[name]) for name in sets])

        of = {name: each.of for name, each in sets.items() if each.of}
        listed = [each.candidates for each in sets.values() if each.candidates is not None]
        candidates = None
        if len(listed) == len(sets):
            candidates = [Rec(dict(zip(sets, one, strict=True))) for one in product(*listed)]
        return Set(has, Record(of) if len(of) == len(sets) else None, candidates)

    def _filtered(self, expression: Expression, place: Place) -> Set:
        (bound,) = expression.bounds
        over = plain(self.value(bound.over, place))

        def has(value: Value) -> z3.BoolRef:
            inner = place.binding(_bind(bound, value))
            return z3.And(over.has(value), self.says(expression.operands[0], inner))

        return Set(has, over.of, over.candidates)

    def _image(self, expression: Expression, place: Place) -> Set:
        def of(names: Mapping[str, Any]) -> Value:
            return self.value(expression.operands[0], place.binding(names))

        def has(value: Value) -> z3.BoolRef:
            return self._over(
                expression.bounds, place, lambda names: equal(of(names), value), exists
            )

        candidates: list[Value] = []
        known = self._each(expression.bounds, place)
        if known is not None:
            candidates = [of(names) for names, _ in known]
            shape = shape_of(candidates[0]) if candidates else None
            return Set(has, shape, candidates)
        found: list[Shape] = []

        def look(names: Mapping[str, Any]) -> z3.BoolRef:
            found.append(shape_of(of(names)))
            return z3.BoolVal(True)

        self._over(expression.bounds, place, look, exists)
        return Set(has, found[0])

    def _union_of(self, image: Expression, place: Place) -> Set:
        """UNION {S(x) : x \\in T}: what is in one of them."""

        def of(names: Mapping[str, Any]) -> Any:
            return plain(self.value(image.operands[0], place.binding(names)))

        found: list[Shape | None] = []

        def look(names: Mapping[str, Any]) -> z3.BoolRef:
            found.append(of(names).of)
            return z3.BoolVal(True)

        self._over(image.bounds, place, look, exists)
        shape = next((each for each in found if each), None)

        def has(value: Value) -> z3.BoolRef:
            return self._over(image.bounds, place, lambda names: of(names).has(value), exists)

        return Set(has, shape, self.world.candidates(shape) if shape else [])

    def _each(
        self, bounds: tuple[Bound, ...], place: Place
    ) -> list[tuple[dict[str, Any], tuple[z3.BoolRef, ...]]] | None:
        """What the names can stand for, where that is listed, and that it is in the sets."""
        found: list[tuple[dict[str, Any], tuple[z3.BoolRef, ...]]] = [({}, ())]
        for one in one_by_one(bounds):
            over = plain(self.value(one.over, place))
            if over.candidates is None:
                return None
            there = [(each, z3.simplify(over.has(each))) for each in over.candidates]
            found = [
                ({**names, **_bind(one, each)}, (*conditions, is_there))
                for names, conditions in found
                for each, is_there in there
                if not z3.is_false(is_there)
            ]
        return found

    def _over(
        self,
        bounds: tuple[Bound, ...],
        place: Place,
        says: Callable[[Mapping[str, Any]], z3.BoolRef],
        how: Callable[[Set, Callable[[Any], z3.BoolRef]], z3.BoolRef],
    ) -> z3.BoolRef:
        """A formula, quantified over all names of some bounds."""
        pairs = [(one, plain(self.value(one.over, place))) for one in one_by_one(bounds)]

        def further(number: int, names: Mapping[str, Any]) -> z3.BoolRef:
            if number == len(pairs):
                return says(names)
            bound, over = pairs[number]
            return how(over, lambda x: further(number + 1, {**names, **_bind(bound, x)}))

        return further(0, {})

    def _quantifier(self, expression: Expression, place: Place) -> z3.BoolRef:
        (body,) = expression.operands
        how = for_all if expression.name == _ALL else exists
        return self._over(
            expression.bounds, place, lambda names: self.says(body, place.binding(names)), how
        )

    def _choice(self, expression: Expression, place: Place) -> Value:
        (bound,), (body,) = expression.bounds, expression.operands
        over = plain(self.value(bound.over, place))

        def fits(value: Value) -> z3.BoolRef:
            return self.says(body, place.binding(_bind(bound, value)))

        if self.world.is_small and over.candidates is not None:  # TLC takes the first that fits
            found = self._any(over.of or Number(), "chosen")
            for each in reversed(over.candidates):
                there = z3.simplify(z3.And(over.has(each), fits(each)))
                found = either(there, each, found)
            return found
        found = self._any(over.of, "chosen")
        there = z3.And(over.has(found), fits(found))
        if self._is_least(expression):
            # Of natural numbers one is the least: that is induction, which Z3 is not asked for.
            some = exists(over, lambda x: z3.BoolVal(True))
            self._fact(z3.Implies(z3.And(some, for_all(over, lambda x: x >= 0)), there))
        else:
            self._fact(z3.Implies(exists(over, fits), there))
        return found

    def _is_least(self, expression: Expression) -> bool:
        """Whether it chooses x of a set such that x <= y for all y of the set."""
        (bound,), (body,) = expression.bounds, expression.operands
        if body.name != _ALL or len(body.bounds) != 1 or len(bound.names) != 1:
            return False
        (inner,), (compared,) = body.bounds, body.operands
        sides = [each.name for each in compared.operands]
        return (
            _text(inner.over) == _text(bound.over)
            and compared.kind == "operator"
            and self.module.definitions[compared.name].name == "\\leq"
            and sides == [bound.names[0], *inner.names]
        )

    def _function(self, expression: Expression, place: Place) -> Fun:
        (body,) = expression.operands
        if len(expression.bounds) != 1 or len(expression.bounds[0].names) != 1:
            raise NotUnderstoodError(f"line {expression.line}: a function of several arguments")
        (bound,) = expression.bounds
        domain = plain(self.value(bound.over, place))
        return Fun(domain, lambda x: self.value(body, place.binding(_bind(bound, x))))

    def _except(self, expression: Expression, place: Place) -> Value:
        function, *pairs = expression.operands
        found = self.value(function, place)
        for pair in pairs:
            path, new = pair.operands
            found = self._with(found, list(path.operands), new, place)
        return found

    def _with(self, old: Value, path: list[Expression], new: Expression, place: Place) -> Any:
        if not path:
            return self.value(new, replace(place, at=old))
        old, step = plain(old), path[0]
        if isinstance(old, Rec):
            inner = self._with(old.fields[step.name], path[1:], new, place)
            return Rec({**old.fields, step.name: inner})
        assert isinstance(old, Fun)
        key = self.value(step, place)
        there = self._with(old.at(plain(key)), path[1:], new, place)
        return Fun(old.domain, lambda x: either(_same(x, key), there, old.at(x)))

    # Actions

    def ways(self, expression: Expression, state: Mapping[str, Value]) -> list[Way]:
        """The ways of an action, each of which gives every variable its next value."""
        found = self._ways(expression, [Way(place=Place(state, after={}))])
        for way in found:
            if missing := set(self.module.variables) - way.after.keys():
                raise NotUnderstoodError(f"{way.action} says nothing of {sorted(missing)}")
        return found

    def beginnings(self, expression: Expression) -> list[Way]:
        """The ways of the initial predicate: variable = value is its next value there."""
        found = self._ways(expression, [Way("Init", place=Place({}, after={}))])
        for way in found:
            if missing := set(self.module.variables) - way.after.keys():
                raise NotUnderstoodError(f"Init says nothing of {sorted(missing)}")
        return found

    def _ways(self, expression: Expression, so_far: list[Way]) -> list[Way]:
        return [way for before in so_far for way in self._further(expression, before)]

    def _further(self, expression: Expression, way: Way) -> list[Way]:
        place = way.place
        assert place is not None
        begins = way.action == "Init"
        if expression.level < ACTION and not self._acts(expression) and not begins:
            return self._where(way, self.says(expression, replace(place, after=None)))
        name, operands = expression.name, expression.operands
        if expression.kind == "operator":
            return self._called(expression, way)
        if expression.kind == "with":
            return self._further(self._inside(expression), way)
        match name:
            case "$ConjList" | "\\land":
                found = [way]
                for each in operands:
                    found = self._ways(each, found)
                return found
            case "$DisjList" | "\\lor":
                return [one for each in operands for one in self._further(each, way)]
            case "$BoundedExists":
                return list(self._chosen(expression, way))
            case "$IfThenElse":
                condition = self.says(operands[0], replace(place, after=None))
                return [
                    *self._ways(operands[1], self._where(way, condition)),
                    *self._ways(operands[2], self._where(way, z3.Not(condition))),
                ]
            case "=>":
                condition = self.says(operands[0], replace(place, after=None))
                return [
                    *self._ways(operands[1], self._where(way, condition)),
                    *self._where(way, z3.Not(condition)),
                ]
            case "UNCHANGED":
                return self._kept(way, place, self._variables(operands[0]))
            case "=" if begins and operands[0].kind == "name":
                inner = replace(place, state=way.after)
                return self._given(way, operands[0].name, self.value(operands[1], inner))
            case "=" if operands[0].kind == "builtin" and operands[0].name == "'":
                variable = operands[0].operands[0]
                if variable.kind == "name":
                    inner = replace(place, after=way.after)
                    return self._given(way, variable.name, self.value(operands[1], inner))
        state = way.after if begins else place.state
        return self._where(way, self.says(expression, replace(place, state=state, after=way.after)))

    def _kept(self, way: Way, place: Place, variables: list[str]) -> list[Way]:
        found = [way]
        for name in variables:
            found = [one for each in found for one in self._given(each, name, place.state[name])]
        return found

    def _acts(self, expression: Expression) -> bool:
        """Whether an expression is UNCHANGED: SANY takes one of no variables for a constant."""
        return expression.kind == "builtin" and expression.name == "UNCHANGED"

    def _called(self, expression: Expression, way: Way) -> list[Way]:
        defined, place = self.module.definitions[expression.name], way.place
        assert place is not None
        inner = replace(place, after=way.after)
        given = [self.value(each, inner) for each in expression.operands]
        names = dict(zip(defined.parameters, given, strict=True))
        named = "" if defined.name.endswith(NEXT) else defined.name  # that is no action, but all
        called = replace(way, place=place.binding(names), action=way.action or named)
        return [
            replace(after, place=place)  # its names are its own
            for after in self._further(defined.body, called)
        ]

    def _chosen(self, expression: Expression, way: Way) -> Iterator[Way]:
        place = way.place
        assert place is not None
        known = self._each(expression.bounds, place)
        if known is None:
            names: dict[str, Any] = {}
            conditions = []
            for one in one_by_one(expression.bounds):
                over = plain(self.value(one.over, place))
                if over.of is None:
                    raise NotUnderstoodError(
                        f"line {expression.line}: a choice of sets or functions"
                    )
                element = self._any(over.of, "any")
                names |= _bind(one, element)
                conditions.append(over.has(element))
            known = [(names, tuple(conditions))]
        for names, conditions_of in known:
            inner = replace(
                way,
                conditions=(*way.conditions, *conditions_of),
                place=place.binding(names),
                chosen={**way.chosen, **names},
            )
            for after in self._further(expression.operands[0], inner):
                yield replace(after, place=place)

    def _where(self, way: Way, condition: z3.BoolRef) -> list[Way]:
        if self.world.is_small:
            condition = z3.simplify(condition)
        if z3.is_false(condition):
            return []
        return [replace(way, conditions=(*way.conditions, condition))]

    def _given(self, way: Way, variable: str, value: Value) -> list[Way]:
        if variable in way.after:
            return self._where(way, equal(way.after[variable], value))
        if way.place is None or value is not way.place.state.get(variable):
            value = self.world.fitted(value, self.shapes[variable])
        return [replace(way, after={**way.after, variable: value})]

    def _variables(self, expression: Expression) -> list[str]:
        """The variables of a tuple, or of a definition that is one."""
        if expression.kind == "name":
            return [expression.name]
        if expression.kind == "operator":
            return self._variables(self.module.definitions[expression.name].body)
        return [name for each in expression.operands for name in self._variables(each)]


def _bind(bound: Bound, value: Any) -> dict[str, Any]:
    if not bound.is_tuple:
        return dict.fromkeys(bound.names, value)
    fields = plain(value).fields
    return {name: fields[str(number)] for number, name in enumerate(bound.names, 1)}


def _union(one: Set, other: Set) -> Set:
    both = None
    if one.candidates is not None and other.candidates is not None:
        both = [*one.candidates, *other.candidates]
    of = wider(one.of, other.of) if one.of and other.of and both is None else one.of or other.of
    return Set(lambda x: z3.Or(one.has(x), other.has(x)), of, both)


def _joined(one: Seq, other: Seq) -> Seq:
    """One sequence, and another behind it."""
    length = z3.simplify(one.length + other.length)
    if is_empty(one) or is_empty(other):
        return other if is_empty(one) else one
    return Seq(
        length, lambda x: either(z3.simplify(x <= one.length), one.at(x), other.at(x - one.length))
    )


def _same(one: Value, other: Value) -> z3.BoolRef:
    return z3.simplify(equal(one, other))


def _text(expression: Expression) -> str:
    """What an expression says, wherever it stands."""
    sets = (bound.over for bound in expression.bounds)
    names = [bound.names for bound in expression.bounds]
    inside = ",".join(map(_text, (*expression.operands, *sets)))
    return f"{expression.kind} {expression.name} {expression.number} {names} ({inside})"
