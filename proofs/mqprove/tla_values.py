"""Values of TLA+ over Z3's terms: of any size, or of one.

Numbers, truths and elements are terms. A set is known by whether it has a value, a function by what
it gives for one. Where a set lists its `candidates`, which hold all that it may have, a quantifier
over it is spelled out: so what is proved of any number of members is also computed for three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias
from zlib import crc32

import z3

from mqprove.symbolic import NotUnderstoodError

Value: TypeAlias = "z3.ExprRef | Rec | Set | Seq | Fun | Maybe | Token"


@dataclass(frozen=True, slots=True)
class Token:
    """A model value that stands for `none`: equal to itself only."""

    name: str


@dataclass(frozen=True, slots=True)
class Rec:
    """A record; a tuple has the fields 1, 2, ..."""

    fields: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Maybe:
    """A value, or the token where `none` holds."""

    none: z3.BoolRef
    token: str
    value: Value


@dataclass(frozen=True, slots=True)
class Set:
    """A set."""

    has: Callable[[Any], z3.BoolRef]
    of: Shape | None  # of its elements; None: no quantifier over them is understood
    candidates: Sequence[Value] | None = None
    last: Value | None = None  # an element that is worth a look, where there is any


@dataclass(frozen=True, slots=True)
class Fun:
    """A function."""

    domain: Set
    at: Callable[[Any], Any]


LONGER_MAX = 2  # by how much a step makes a sequence longer at most, in a small world
_WORDS: dict[int, str] = {}


def word(text: str) -> z3.ArithRef:
    """The number of a string, the same whatever was read before."""
    number = crc32(text.encode())
    if _WORDS.setdefault(number, text) != text:
        raise NotUnderstoodError(f"{text} and {_WORDS[number]} have one number")
    return z3.IntVal(number)


def word_of(number: int) -> str:
    """The string of a number; one that no module speaks of is as good as any other."""
    return _WORDS.get(number, f"another {number}")


@dataclass(frozen=True, slots=True)
class Seq:
    """A sequence: from 1 up to its length."""

    length: z3.ArithRef
    at: Callable[[Any], Any]


# Shapes


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number."""


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE or FALSE."""


@dataclass(frozen=True, slots=True)
class Word:
    """A string, of those that are named: they are told apart by number."""

    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a constant set, of any size."""

    of: str


@dataclass(frozen=True, slots=True)
class Record:
    """A record of these fields."""

    fields: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class SetOf:
    """A set of such."""

    of: Shape


@dataclass(frozen=True, slots=True)
class Map:
    """A function on a constant set, or on numbers."""

    key: Shape
    to: Shape


@dataclass(frozen=True, slots=True)
class SeqOf:
    """A sequence of such."""

    of: Shape


@dataclass(frozen=True, slots=True)
class Optional:
    """Such a value, or a token."""

    token: str
    of: Shape


Shape: TypeAlias = Number | Truth | Word | Element | Record | SetOf | SeqOf | Map | Optional


@dataclass
class World:
    """What elements are: of sorts of their own, any number of them; or those that are listed, and
    the numbers that are in any set. `facts` say that an element is one of those."""

    elements: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # by constant set
    numbers: Sequence[int] = ()
    facts: list[z3.BoolRef] = field(default_factory=list)
    count: int = 0
    sized: set[str] = field(default_factory=set)  # the functions whose lengths are natural

    @property
    def is_small(self) -> bool:
        return bool(self.elements)

    def sort(self, of: str) -> z3.SortRef:
        return z3.IntSort() if self.is_small else z3.DeclareSort(of)

    def all_of(self, of: str) -> Set:
        """A constant set."""
        return Set(_anything, Element(of), self.candidates(Element(of)))

    def candidates(self, shape: Shape) -> list[Value] | None:
        """All values of a shape that there are in a small world; None where they are not listed."""
        if not self.is_small:
            return None
        match shape:
            case Number():
                return [z3.IntVal(number) for number in self.numbers]
            case Element(of):
                return [z3.IntVal(number) for number in range(len(self.elements[of]))]
            case Truth():
                return [z3.BoolVal(True), z3.BoolVal(False)]
            case Word(words) if words:
                return [word(each) for each in words]
            case Record(fields):
                parts = [self.candidates(of) for of in fields.values()]
                if any(part is None for part in parts):
                    return None
                return [
                    Rec(dict(zip(fields, chosen, strict=True)))
                    for chosen in product(*(part or () for part in parts))
                ]
            case _:
                return None

    def name(self, of: str) -> str:
        """A name that was not used."""
        self.count += 1
        return f"{of}!{self.count}"

    def any(self, shape: Shape, name: str, given: Sequence[z3.ExprRef] = ()) -> Value:
        """Any value of a shape; one for each of what is given."""

        def term(sort: z3.SortRef, called: str = name) -> Any:
            if not given:
                return z3.Const(called, sort)
            return z3.Function(called, *(each.sort() for each in given), sort)(*given)

        match shape:
            case Number() | Word():
                return term(z3.IntSort())
            case Truth():
                return term(z3.BoolSort())
            case Element(of):
                found = term(self.sort(of))
                if self.is_small:
                    self.facts.append(z3.And(found >= 0, found < len(self.elements[of])))
                return found
            case Record(fields):
                parts = {key: self.any(of, f"{name}.{key}", given) for key, of in fields.items()}
                return Rec(parts)
            case Optional(token, of):
                none = self.any(Truth(), f"{name}.none", given)
                assert isinstance(none, z3.BoolRef)
                return Maybe(none, token, self.any(of, name, given))
            case SetOf(of):
                return self._any_set(of, name, given)
            case SeqOf(of):
                length = term(z3.IntSort(), f"{name}.length")
                self._sized(length, given)
                return Seq(length, lambda x: self.any(of, name, [*given, *flat(x)]))
            case Map(key, to):
                domain = self.domain(key)
                return Fun(domain, lambda x: self.any(to, name, [*given, *flat(x)]))

    def _sized(self, length: z3.ArithRef, given: Sequence[z3.ExprRef]) -> None:
        """A length is natural. In a small world a step makes no sequence too long for it."""
        if self.is_small:
            longest = max(0, self.numbers[-1] - LONGER_MAX)
            self.facts.append(z3.And(length >= 0, length <= longest))
        elif not given:
            self.facts.append(length >= 0)
        elif (name := length.decl().name()) not in self.sized:
            self.sized.add(name)
            each = [z3.Const(self.name("x"), one.sort()) for one in given]
            self.facts.append(z3.ForAll(each, length.decl()(*each) >= 0))

    def fitted(self, value: Any, shape: Shape, given: Sequence[z3.ExprRef] = ()) -> Any:
        """The value as one of the shape: what a token would be, if it were a value, is anything."""
        match shape, value:
            case Optional(_, of), Token():
                return Maybe(z3.BoolVal(True), value.name, self.any(of, self.name("none"), given))
            case Optional(_, of), Maybe():
                return Maybe(value.none, value.token, self.fitted(value.value, of, given))
            case Optional(token, of), _:
                return Maybe(z3.BoolVal(False), token, self.fitted(value, of, given))
            case Record(fields), Rec():
                parts = {
                    key: self.fitted(part, fields[key], given) for key, part in value.fields.items()
                }
                return Rec(parts)
            case Map(_, to), Fun():
                return Fun(value.domain, lambda x: self.fitted(value.at(x), to, [*given, *flat(x)]))
            case _:
                return value

    def domain(self, key: Shape) -> Set:
        if isinstance(key, Element):
            return self.all_of(key.of)
        return Set(_anything, key, self.candidates(key))

    def _any_set(self, of: Shape, name: str, given: Sequence[z3.ExprRef]) -> Set:
        candidates = self.candidates(of)

        def has(value: Value) -> z3.BoolRef:
            fits, inside = narrowed(value, of)
            there = self.any(Truth(), name, [*given, *flat(inside)])
            assert isinstance(there, z3.BoolRef)
            if candidates is None or any(value is each for each in candidates):
                return z3.And(*fits, there)
            return z3.And(*fits, there, z3.Or([equal(value, each) for each in candidates]))

        return Set(has, of, candidates)


def _anything(value: object) -> z3.BoolRef:
    return z3.BoolVal(True)


def flat(value: Value) -> list[z3.ExprRef]:
    """The terms of a value that can be an element or an argument."""
    match value:
        case z3.ExprRef():
            return [value]
        case Rec(fields):
            return [part for name in sorted(fields) for part in flat(fields[name])]
        case Maybe():
            return [value.none, *flat(value.value)]
        case _:
            raise NotUnderstoodError(f"a {type(value).__name__} as an element")


def shape_of(value: Value) -> Shape:
    """The shape of a value that can be an element."""
    match value:
        case z3.BoolRef():
            return Truth()
        case z3.ArithRef():
            return Number()
        case z3.ExprRef():
            return Element(value.sort().name())
        case Rec(fields):
            return Record({name: shape_of(part) for name, part in fields.items()})
        case Maybe():
            return Optional(value.token, shape_of(value.value))
        case _:
            raise NotUnderstoodError(f"a {type(value).__name__} as an element")


def wider(one: Shape, other: Shape) -> Shape:
    """The shape of what has one of two shapes."""
    match one, other:
        case Optional(token, of), Optional(same, also) if token == same:
            return Optional(token, wider(of, also))
        case (Optional(token, of), plainer) | (plainer, Optional(token, of)):
            return Optional(token, wider(of, plainer))
        case Record(fields), Record(others) if fields.keys() == others.keys():
            return Record({name: wider(fields[name], others[name]) for name in fields})
        case (Number() | Word(), Number() | Word()):
            return Number()
        case _ if one == other:
            return one
        case _:
            raise NotUnderstoodError(f"{one} and {other} in one set")


def narrowed(value: Value, shape: Shape) -> tuple[list[z3.BoolRef], Value]:
    """The value as one of the shape, and under which conditions it is one."""
    match shape, value:
        case Optional(), Maybe():
            return [], value
        case Optional(token, _), _:
            return [], Maybe(z3.BoolVal(False), token, value)
        case _, Maybe(none, _, inside):
            fits, found = narrowed(inside, shape)
            return [z3.Not(none), *fits], found
        case Record(fields), Rec(parts):
            each = {name: narrowed(part, fields[name]) for name, part in parts.items()}
            conditions = [condition for fits, _ in each.values() for condition in fits]
            return conditions, Rec({name: part for name, (_, part) in each.items()})
        case _:
            return [], value


def enumerated(values: Sequence[Value], shape: Shape | None = None) -> Set:
    """The set of these values."""
    if not values:
        return Set(lambda value: z3.BoolVal(False), shape, [])
    of = shape if shape or not _is_element(values[0]) else shape_of(values[0])
    return Set(lambda value: z3.Or([equal(value, each) for each in values]), of, list(values))


def _is_element(value: Value) -> bool:
    return isinstance(value, z3.ExprRef | Rec | Maybe)


def as_sequence(value: Any) -> Seq:
    """A sequence, also where it is written as a tuple."""
    match value:
        case Seq():
            return value
        case Rec(fields) if all(key.isdigit() for key in fields):
            parts = [fields[str(place)] for place in range(1, len(fields) + 1)]

            def nth(place: Value) -> Value:
                found = parts[-1]
                for number, part in enumerate(parts[:-1], 1):
                    found = either(z3.simplify(equal(place, z3.IntVal(number))), part, found)
                return found

            return Seq(z3.IntVal(len(parts)), nth)
        case _:
            raise NotUnderstoodError(f"a {type(value).__name__} as a sequence")


def is_empty(value: Any) -> bool:
    """Whether a sequence is <<>>."""
    if not isinstance(value, Seq):
        return False
    return bool(z3.is_int_value(value.length) and value.length.as_long() == 0)


def plain(value: Value) -> Any:
    """What is not none of it."""
    return value.value if isinstance(value, Maybe) else value


def either(condition: z3.BoolRef, one: Any, other: Any) -> Any:
    """One value where the condition holds, else the other."""
    if z3.is_true(condition) or one is other:
        return one
    if z3.is_false(condition):
        return other
    match one, other:
        case (Maybe(), Maybe() | Token()) | (Token(), Maybe()):
            first, second = _maybe(one, other), _maybe(other, one)
            none = z3.If(condition, first.none, second.none)
            return Maybe(none, first.token, either(condition, first.value, second.value))
        case (Token(), Token()) if one == other:
            return one
        case Token(), _:
            return Maybe(condition, one.name, other)
        case _, Token():
            return Maybe(z3.Not(condition), other.name, one)
        case (Maybe(), _) | (_, Maybe()):
            first, second = _maybe(one, other), _maybe(other, one)
            none = z3.If(condition, first.none, second.none)
            return Maybe(none, first.token, either(condition, first.value, second.value))
        case Rec(), Rec():
            if one.fields.keys() != other.fields.keys():
                raise NotUnderstoodError("records of different fields in one place")
            return Rec({n: either(condition, one.fields[n], other.fields[n]) for n in one.fields})
        case Set(), Set():
            both = None
            if one.candidates is not None and other.candidates is not None:
                both = [*one.candidates, *other.candidates]
            return Set(
                lambda value: z3.If(condition, one.has(value), other.has(value)),
                one.of or other.of,
                both,
            )
        case Fun(), Fun():
            return Fun(
                either(condition, one.domain, other.domain),
                lambda value: either(condition, one.at(value), other.at(value)),
            )
        case (Seq(), Rec()) | (Rec(), Seq()):
            return either(condition, as_sequence(one), as_sequence(other))
        case Seq(), Seq() if is_empty(one) or is_empty(other):
            # Of an empty one no element is looked at, whatever it would be.
            there = other if is_empty(one) else one
            return Seq(z3.If(condition, one.length, other.length), there.at)
        case Seq(), Seq():
            return Seq(
                z3.If(condition, one.length, other.length),
                lambda x: either(condition, one.at(x), other.at(x)),
            )
        case z3.ExprRef(), z3.ExprRef() if one.sort() == other.sort():
            return z3.If(condition, one, other)
        case _:
            raise NotUnderstoodError(f"{type(one).__name__} or {type(other).__name__}")


def _maybe(value: Value, like: Value) -> Maybe:
    if isinstance(value, Maybe):
        return value
    assert isinstance(like, Maybe)
    if isinstance(value, Token):
        if value.name != like.token:
            raise NotUnderstoodError(f"{value.name} and {like.token} in one place")
        return Maybe(z3.BoolVal(True), value.name, like.value)
    return Maybe(z3.BoolVal(False), like.token, value)


def equal(one: Any, other: Any) -> z3.BoolRef:
    """Whether two values are equal."""
    match one, other:
        case Token(), Token():
            return z3.BoolVal(one == other)
        case (Maybe(), Token()) | (Token(), Maybe()):
            maybe, token = (one, other) if isinstance(one, Maybe) else (other, one)
            return maybe.none if maybe.token == token.name else z3.BoolVal(False)
        case (Token(), _) | (_, Token()):
            return z3.BoolVal(False)  # a model value is nothing else
        case (Maybe(), _) | (_, Maybe()):
            first, second = _maybe(one, other), _maybe(other, one)
            return z3.Or(
                z3.And(first.none, second.none),
                z3.And(z3.Not(first.none), z3.Not(second.none), equal(first.value, second.value)),
            )
        case Rec(), Rec():
            if one.fields.keys() != other.fields.keys():
                return z3.BoolVal(False)
            return z3.And([equal(one.fields[n], other.fields[n]) for n in sorted(one.fields)])
        case Set(), Set():
            return z3.And(subset(one, other), subset(other, one))
        case Fun(), Fun():
            same = for_all(one.domain, lambda x: equal(one.at(x), other.at(x)))
            return z3.And(equal(one.domain, other.domain), same)
        case (Seq(), _) | (_, Seq()) if is_empty(one) or is_empty(other):
            return z3.simplify(as_sequence(one).length == as_sequence(other).length)
        case z3.ExprRef(), z3.ExprRef() if one.sort() == other.sort():
            return one == other
        case _:
            raise NotUnderstoodError(f"{type(one).__name__} = {type(other).__name__}")


_BOUND: list[z3.ExprRef] = []  # what quantifiers around the present place bind
_WORLD = World()  # of what they bind


def bound_now() -> list[z3.ExprRef]:
    """What the quantifiers around the present place bind."""
    return list(_BOUND)


def _quantified(over: Set, says: Callable[[Any], z3.BoolRef], *, is_all: bool) -> z3.BoolRef:
    if over.candidates is not None:
        of_each = []
        for each in over.candidates:
            there = z3.simplify(over.has(each))
            if not z3.is_false(there):
                of_each.append(_guarded(there, says(each), is_all))
        return z3.And(of_each) if is_all else z3.Or(of_each)
    if over.of is None:
        raise NotUnderstoodError("a quantifier over sets or functions")
    # Named by how deep it stands: what is said twice is one formula, whatever was said before.
    element = _WORLD.any(over.of, f"x!{len(_BOUND)}")
    terms = flat(element)
    _BOUND.extend(terms)
    try:
        body = _guarded(over.has(element), says(element), is_all)
    finally:
        del _BOUND[-len(terms) :]
    if is_all:
        return z3.ForAll(terms, body)
    if over.last is None:
        return z3.Exists(terms, body)
    # It says the same, and Z3 need not find what a step has put at the end.
    return z3.Or(_guarded(over.has(over.last), says(over.last), is_all), z3.Exists(terms, body))


def _guarded(there: z3.BoolRef, says: z3.BoolRef, is_all: bool) -> z3.BoolRef:
    return z3.Implies(there, says) if is_all else z3.And(there, says)


def for_all(over: Set, says: Callable[[Any], z3.BoolRef]) -> z3.BoolRef:
    """Whether something is true of all elements."""
    return _quantified(over, says, is_all=True)


def exists(over: Set, says: Callable[[Any], z3.BoolRef]) -> z3.BoolRef:
    """Whether something is true of some element."""
    return _quantified(over, says, is_all=False)


def subset(one: Set, other: Set) -> z3.BoolRef:
    """Whether all elements of one set are in the other."""
    return for_all(one, other.has)


def at_most(number: int, over: Set) -> z3.BoolRef:
    """Whether a set has no more elements than that."""

    def further(chosen: list[Value]) -> z3.BoolRef:
        if len(chosen) > number:
            return z3.Or([equal(a, b) for i, a in enumerate(chosen) for b in chosen[:i]])
        return for_all(over, lambda value: further([*chosen, value]))

    return further([])


def size(over: Set) -> z3.ArithRef:
    """How many elements a set has whose candidates are known."""
    assert over.candidates is not None
    counted: list[z3.ArithRef] = []
    for number, each in enumerate(over.candidates):
        before = [equal(each, other) for other in over.candidates[:number]]
        counted.append(z3.If(z3.And(over.has(each), z3.Not(z3.Or(before))), 1, 0))
    return z3.Sum([z3.IntVal(0), *counted])
