"""What a TLA+ module says of states and of steps, in values as TLC prints them.

It reads what SANY reads, as the proofs do, and computes with numbers where they take terms. A set
that has no end, or too many elements to list, is one that can only be asked for an element.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain, combinations, product
from typing import Any, TypeAlias

from mqcheck.values import FrozenDict, ModelValue, tla
from mqprove.tla_module import ACTION, STATE, Bound, Definition, Expression, Module, one_by_one

State: TypeAlias = Mapping[str, Any]


class NoMeaningError(Exception):
    """An expression that is not read here."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression is looked at: the state, the next one as far as it is known, and what
    names stand for."""

    state: State
    after: State = field(default_factory=dict)
    names: Mapping[str, Any] = field(default_factory=dict)

    def binding(self, keys: Iterable[str], values: Iterable[Any]) -> Place:
        return replace(self, names={**self.names, **dict(zip(keys, values, strict=True))})


@dataclass(frozen=True, slots=True)
class Sought:
    """Which states are looked for: those in which these variables have these values."""

    known: State
    but: Set[str] = frozenset()  # by none of these actions
    is_initial: bool = False  # and not by a step

    @property
    def level(self) -> int:
        """Of what gives variables their values."""
        return STATE if self.is_initial else ACTION


@dataclass(frozen=True)
class Concrete:
    """A module whose constants have values."""

    module: Module
    constants: Mapping[str, Any]
    own: Collection[str]  # the modules that it consists of, besides those that it instantiates

    # Formulas

    def named(self, name: str) -> Definition:
        """The definition of this name. Raises NoMeaningError where there is none."""
        several = [each for each in self.module.definitions.values() if each.name == name]
        found = [each for each in several if each.module in self.own] or several
        if len(found) != 1:
            raise NoMeaningError(f"{self.module.name} defines {name} {len(found)} times")
        return found[0]

    def holds(self, name: str, state: State) -> bool:
        """Whether the module's formula of this name is true in a state."""
        found = self._value(self.named(name).body, Place(state))
        if not isinstance(found, bool):
            raise NoMeaningError(f"{name} is no formula")
        return found

    def _value(self, said: Expression, place: Place) -> Any:
        match said.kind:
            case "number":
                return said.number
            case "text":
                return said.name
            case "at":
                return place.names["@"]
            case "parameter" if said.operands:
                return place.names[said.name](*(self._value(e, place) for e in said.operands))
            case "parameter":
                return place.names[said.name]
            case "name" if said.name in place.state:
                return place.state[said.name]
            case "name":
                return self._constant(said.name)
            case "with":
                return self._value(said.operands[0], self._with(said, place))
            case "argument":
                return self._operator(said, place)
            case "operator":
                return self._applied(said, place)
            case "builtin":
                return self._builtin(said, place)
            case other:
                raise NoMeaningError(f"line {said.line}: a {other}")

    def _constant(self, name: str) -> Any:
        value = self.constants[name]
        if isinstance(value, ModelValue) and value != name and value in self._names:
            return self._value(self.named(value).body, Place({}))  # name <- value
        return value

    @cached_property
    def _names(self) -> set[str]:
        return {each.name for each in self.module.definitions.values()}

    def _with(self, said: Expression, place: Place) -> Place:
        """Inside an instance: its names stand for what it was made with."""
        others = [bound for bound in said.bounds if bound.over.name != bound.names[0]]
        stand = {bound.names[0]: self._value(bound.over, place) for bound in others}
        return replace(place, state={**place.state, **stand})

    def _operator(self, said: Expression, place: Place) -> Callable[..., Any]:
        """An operator that is handed on to another one."""
        defined = self.module.definitions[said.name]
        return lambda *given: self._value(defined.body, place.binding(defined.parameters, given))

    def _applied(self, said: Expression, place: Place) -> Any:
        defined = self.module.definitions[said.name]
        given = [self._value(each, place) for each in said.operands]
        if defined.module in _MODULES:
            return _STANDARD[defined.name](*given)
        return self._value(defined.body, place.binding(defined.parameters, given))

    def _builtin(self, said: Expression, place: Place) -> Any:
        name, parts = said.name, said.operands

        def value(part: Expression) -> Any:
            return self._value(part, place)

        match name:
            case "$ConjList" | "\\land":
                return all(value(each) for each in parts)
            case "$DisjList" | "\\lor":
                return any(value(each) for each in parts)
            case "=>":
                return not value(parts[0]) or value(parts[1])
            case "$IfThenElse" | "$Case":
                return value(self._chosen(said, place))
            case "$BoundedForall":
                return all(self._value(parts[0], each) for each in self._each(said, place))
            case "$BoundedExists":
                return any(self._value(parts[0], each) for each in self._each(said, place))
            case "$SetOfAll":
                return frozenset(self._value(parts[0], each) for each in self._each(said, place))
            case "$BoundedChoose" | "$SubsetOf":
                (bound,) = said.bounds
                found = (
                    each
                    for each in sorted(value(bound.over), key=tla)  # as TLC chooses the first
                    if self._value(parts[0], place.binding(*_parts(bound, each)))
                )
                return next(found) if name == "$BoundedChoose" else frozenset(found)
            case "$FcnConstructor":
                return self._function(parts[0], said.bounds, place)
            case "$RecursiveFcnSpec":
                return self._recursive(said, place)
            case "$Except":
                return reduce(
                    lambda f, pair: self._excepted(f, pair, place), parts[1:], value(parts[0])
                )
            case "$RcdConstructor" | "$SetOfRcds":
                fields = {pair.operands[0].name: value(pair.operands[1]) for pair in parts}
                return FrozenDict(fields) if name == "$RcdConstructor" else _records(fields)
            case "$RcdSelect":
                return value(parts[0])[parts[1].name]
            case "'":
                return self._value(parts[0], replace(place, state=place.after, after={}))
            case "UNCHANGED":
                return all(
                    place.after[each] == place.state[each] for each in self._listed(parts[0])
                )
            case _ if name in _OPERATORS:
                return _OPERATORS[name](*map(value, parts))
            case _:
                raise NoMeaningError(f"line {said.line}: {name}")

    def _chosen(self, said: Expression, place: Place) -> Expression:
        """Which part of IF or CASE counts."""
        if said.name == "$IfThenElse":
            condition, then, otherwise = said.operands
            return then if self._value(condition, place) else otherwise
        return next(
            pair.operands[1]
            for pair in said.operands
            if pair.operands[0].kind == "other" or self._value(pair.operands[0], place)
        )

    def _each(self, said: Expression, place: Place) -> Iterator[Place]:
        """The place with what is bound, in each way that there is."""
        bounds = [*one_by_one(said.bounds)]
        for way in product(*(self._value(bound.over, place) for bound in bounds)):
            inner = place
            for bound, each in zip(bounds, way, strict=True):
                inner = inner.binding(*_parts(bound, each))
            yield inner

    def _function(self, body: Expression, bounds: Sequence[Bound], place: Place) -> Any:
        """[x \\in S |-> body]"""
        keys = [name for bound in bounds for name in bound.names]
        over = [self._value(bound.over, place) for bound in bounds for _ in bound.names]
        return _normal(
            {
                way if len(keys) > 1 else way[0]: self._value(body, place.binding(keys, way))
                for way in product(*over)
            }
        )

    def _recursive(self, said: Expression, place: Place) -> Any:
        """f[x \\in S] == body, which speaks of f at other places: those are known first."""
        itself, bound = said.bounds
        known: dict[Any, Any] = {}

        def at(x: Any) -> Any:
            if x not in known:
                inner = place.binding((*itself.names, *bound.names), (_Lazy(at), x))
                known[x] = self._value(said.operands[0], inner)
            return known[x]

        return _normal({x: at(x) for x in self._value(bound.over, place)})

    def _excepted(self, function: Any, pair: Expression, place: Place) -> Any:
        """[function EXCEPT ![path] = value]"""
        path = [self._value(each, place) for each in pair.operands[0].operands]

        def put(inside: Any, left: list[Any]) -> Any:
            if not left:
                return self._value(pair.operands[1], place.binding(("@",), (inside,)))
            return _normal({**_items(inside), left[0]: put(_apply(inside, left[0]), left[1:])})

        return put(function, path)

    # Steps

    def initial(self, said: Expression, known: State) -> Iterator[State]:
        """The states that a formula allows, with these values of some variables."""
        return self._ways(said, Place({}), Sought(known, is_initial=True))

    def following(self, said: Expression, state: State, sought: Sought) -> Iterator[State]:
        """Where a next-state relation leads from a state, of what is sought."""
        return self._ways(said, Place(state), sought)

    def _ways(self, said: Expression, place: Place, sought: Sought) -> Iterator[State]:
        """What each way of a part of an action has given to variables, with what was there."""
        parts, is_step = said.operands, said.level == sought.level
        match said.kind, said.name:
            case "operator", key if is_step:
                defined = self.module.definitions[key]
                if defined.name not in sought.but:
                    given = [self._value(each, place) for each in parts]
                    inner = place.binding(defined.parameters, given)
                    yield from self._ways(defined.body, inner, sought)
            case "with", _ if is_step:
                yield from self._ways(parts[0], self._with(said, place), sought)
            case "builtin", "$ConjList" | "\\land":
                yield from self._all(parts, place, sought)
            case "builtin", "$DisjList" | "\\lor" if is_step:
                for each in parts:
                    yield from self._ways(each, place, sought)
            case "builtin", "$BoundedExists" if is_step:
                for inner in self._each(said, place):
                    yield from self._ways(parts[0], inner, sought)
            case "builtin", "$IfThenElse" | "$Case" if is_step:
                yield from self._ways(self._chosen(said, place), place, sought)
            case "builtin", "UNCHANGED":
                kept = {each: place.state[each] for each in self._listed(parts[0])}
                yield from _given(kept, place, sought)
            case "builtin", "=" | "\\in" if name := self._given_to(parts[0], sought):
                value = self._value(parts[1], place)
                for each in (value,) if said.name == "=" else value:
                    yield from _given({name: each}, place, sought)
            case _:
                if self._value(said, place):
                    yield place.after

    def _all(self, parts: Sequence[Expression], place: Place, sought: Sought) -> Iterator[State]:
        if not parts:
            yield place.after
            return
        for after in self._ways(parts[0], place, sought):
            state = after if sought.is_initial else place.state
            yield from self._all(parts[1:], replace(place, state=state, after=after), sought)

    def _given_to(self, said: Expression, sought: Sought) -> str:
        """The variable whose next value stands here, or whose first one; none where it is
        something else."""
        if not sought.is_initial:
            if said.name != "'" or said.kind != "builtin":
                return ""
            (said,) = said.operands
        return said.name if said.kind == "name" and said.name in self.module.variables else ""

    def _listed(self, said: Expression) -> Iterator[str]:
        """The variables of `vars` and the like."""
        if said.kind == "name":
            yield said.name
        for each in said.operands:
            yield from self._listed(each)
        if said.kind == "operator":
            yield from self._listed(self.module.definitions[said.name].body)


def _given(values: State, place: Place, sought: Sought) -> Iterator[State]:
    """The variables get these values, unless they have others already, or others are sought."""
    others = (place.after, sought.known)
    if all(each.get(name, value) == value for each in others for name, value in values.items()):
        yield {**place.after, **values}


def _parts(bound: Bound, each: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The names of a bound, and what each of them is."""
    return bound.names, each if bound.is_tuple else (each,)


@dataclass(frozen=True, slots=True)
class _Lazy:
    """A function that is known where it is asked."""

    at: Callable[[Any], Any]

    def __getitem__(self, place: Any) -> Any:
        return self.at(place)


def _items(function: Any) -> dict[Any, Any]:
    """A function as its pairs: a sequence is one on 1 .. n."""
    if isinstance(function, tuple):
        return dict(enumerate(function, start=1))
    return dict(function)


def _normal(items: Mapping[Any, Any]) -> Any:
    """A function as TLC prints it: one on 1 .. n is a sequence."""
    if set(items) == set(range(1, len(items) + 1)):
        return tuple(items[n] for n in range(1, len(items) + 1))
    return FrozenDict(items)


def _apply(function: Any, argument: Any) -> Any:
    return function[argument - 1] if isinstance(function, tuple) else function[argument]


# Sets


@dataclass(frozen=True, slots=True)
class Big:
    """A set that is asked whether it has an element; `each`, where it has an end, lists them."""

    has: Callable[[Any], bool]
    each: Callable[[], Iterable[Any]] | None = None

    def __contains__(self, element: object) -> bool:
        return self.has(element)

    def __iter__(self) -> Iterator[Any]:
        if self.each is None:
            raise NoMeaningError("a set without an end is listed")
        return iter(self.each())


def _records(fields: Mapping[str, Any]) -> Big:
    return Big(
        lambda r: (
            isinstance(r, FrozenDict)
            and set(r) == set(fields)
            and all(r[name] in over for name, over in fields.items())
        ),
        lambda: (
            FrozenDict(dict(zip(fields, way, strict=True))) for way in product(*fields.values())
        ),
    )


def _functions(domain: Any, values: Any) -> Big:
    keys = list(domain)
    return Big(
        lambda f: (
            isinstance(f, FrozenDict | tuple)
            and set(_items(f)) == set(keys)
            and all(each in values for each in _items(f).values())
        ),
        lambda: (
            _normal(dict(zip(keys, way, strict=True))) for way in product(values, repeat=len(keys))
        ),
    )


def _subsets(of: Any) -> Big:
    return Big(
        lambda part: isinstance(part, frozenset) and all(each in of for each in part),
        lambda: (
            frozenset(part)
            for part in chain.from_iterable(combinations(list(of), n) for n in range(len(of) + 1))
        ),
    )


def _union(one: Any, other: Any) -> Any:
    if isinstance(one, frozenset) and isinstance(other, frozenset):
        return one | other
    return Big(lambda x: x in one or x in other, lambda: chain(one, other))


def _product(*sets: Any) -> Big:
    return Big(
        lambda x: (
            isinstance(x, tuple)
            and len(x) == len(sets)
            and all(each in over for each, over in zip(x, sets, strict=True))
        ),
        lambda: product(*sets),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Operators, by their names


_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "TRUE": lambda: True,
    "FALSE": lambda: False,
    "BOOLEAN": lambda: frozenset({True, False}),
    "STRING": lambda: Big(lambda x: type(x) is str),
    "\\lnot": operator.not_,
    "\\equiv": operator.eq,
    "=": operator.eq,
    "/=": operator.ne,
    "\\in": lambda x, over: x in over,
    "\\notin": lambda x, over: x not in over,
    "\\subseteq": lambda one, other: all(x in other for x in one),
    "\\union": _union,
    "\\cup": _union,
    "\\intersect": lambda one, other: frozenset(x for x in one if x in other),
    "\\cap": lambda one, other: frozenset(x for x in one if x in other),
    "\\": lambda one, other: frozenset(x for x in one if x not in other),
    "$CartesianProd": _product,
    "$SetEnumerate": lambda *each: frozenset(each),
    "$Tuple": lambda *each: each,
    "$FcnApply": lambda f, *x: _apply(f, x[0] if len(x) == 1 else x),
    "$SetOfFcns": _functions,
    "DOMAIN": lambda f: frozenset(_items(f)),
    "SUBSET": _subsets,
    "UNION": lambda sets: frozenset(chain.from_iterable(sets)),
}
_MODULES = ("Naturals", "Integers", "FiniteSets", "Sequences", "TLC")
_STANDARD: Mapping[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "^": operator.pow,
    "<": operator.lt,
    ">": operator.gt,
    "\\leq": operator.le,
    "\\geq": operator.ge,
    "%": operator.mod,
    "\\div": operator.floordiv,
    "-.": operator.neg,
    "..": lambda low, high: frozenset(range(low, high + 1)),
    "Nat": lambda: Big(lambda x: _is_number(x) and x >= 0),
    "Int": lambda: Big(_is_number),
    "Cardinality": lambda over: len(frozenset(over)),
    "Len": len,
    "Append": lambda sequence, last: (*sequence, last),
    "Head": lambda sequence: sequence[0],
    "Tail": lambda sequence: sequence[1:],
    "SelectSeq": lambda sequence, test: tuple(filter(test, sequence)),
    "SubSeq": lambda sequence, first, last: sequence[max(first, 1) - 1 : max(last, 0)],
    "\\o": operator.add,
    "Seq": lambda over: Big(lambda x: isinstance(x, tuple) and all(each in over for each in x)),
    ":>": lambda key, value: _normal({key: value}),
    "@@": lambda one, other: _normal({**_items(other), **_items(one)}),
}
