"""Values of a small world as Python has those of TLC, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import z3

from mqcheck.values import FrozenDict, ModelValue
from mqprove.symbolic import NotUnderstoodError
from mqprove.tla_values import (
    Element,
    Fun,
    Map,
    Maybe,
    Number,
    Optional,
    Rec,
    Record,
    Seq,
    SeqOf,
    Set,
    SetOf,
    Shape,
    Token,
    Truth,
    Value,
    Word,
    World,
    either,
    enumerated,
    equal,
    plain,
    word,
    word_of,
)

Look = Callable[[z3.ExprRef], z3.ExprRef]  # what a term is: in a model, or where all is known

OUTSIDE = -1  # of a model value that a model names, and has not among its own


def told(value: Any, shape: Shape, world: World, look: Look) -> Any:
    """The value as TLC tells it. Raises NotUnderstoodError where it is not known."""
    match shape:
        case Number():
            return _whole(look(plain(value)))
        case Word():
            return word_of(_whole(look(plain(value))))
        case Truth():
            return _true(look(value))
        case Element(of):
            return world.elements[of][_whole(look(plain(value)))]
        case Optional(token, of):
            is_none = isinstance(value, Maybe) and _true(look(value.none))
            if is_none or isinstance(value, Token):
                return ModelValue(token)
            return told(plain(value), of, world, look)
        case Record(fields):
            parts = plain(value).fields
            return FrozenDict({n: told(parts[n], of, world, look) for n, of in fields.items()})
        case SetOf(of):
            return frozenset(told(each, of, world, look) for each in _elements(plain(value), look))
        case SeqOf(of):
            length = _whole(look(value.length))
            places = [z3.IntVal(place) for place in range(1, length + 1)]
            return tuple(told(value.at(place), of, world, look) for place in places)
        case Map(key, to):
            function = plain(value)
            return FrozenDict(
                {
                    told(each, key, world, look): told(function.at(each), to, world, look)
                    for each in _elements(function.domain, look)
                }
            )


def _elements(of: Set, look: Look) -> list[Value]:
    if of.candidates is None:
        raise NotUnderstoodError("a set whose elements are not listed")
    return [each for each in of.candidates if _true(look(of.has(each)))]


def _whole(term: z3.ExprRef) -> int:
    if not isinstance(term, z3.IntNumRef):
        raise NotUnderstoodError(f"{term} as a number")
    return int(term.as_long())


def _true(term: z3.ExprRef) -> bool:
    if not (z3.is_true(term) or z3.is_false(term)):
        raise NotUnderstoodError(f"{term} as a truth")
    return bool(z3.is_true(term))


def given(value: Any, shape: Shape, world: World) -> Any:
    """What TLC tells as a value of the small world."""
    match shape:
        case Number():
            return z3.IntVal(value)
        case Word():
            return word(value)
        case Truth():
            return z3.BoolVal(value)
        case Element(of):
            there = world.elements[of]
            return z3.IntVal(there.index(value) if value in there else OUTSIDE)
        case Optional(token, of):
            if value == token:
                return Maybe(z3.BoolVal(True), token, world.any(of, world.name("none")))
            return Maybe(z3.BoolVal(False), token, given(value, of, world))
        case Record(fields):
            return Rec({name: given(value[name], of, world) for name, of in fields.items()})
        case SetOf(of):
            return enumerated([given(each, of, world) for each in value], of)
        case SeqOf(of):
            elements = [given(each, of, world) for each in value]

            def nth(place: Value) -> Value:
                found = world.any(of, world.name("outside"))
                for number, each in enumerate(elements, 1):
                    here = z3.simplify(equal(place, z3.IntVal(number)))
                    found = either(here, each, found)
                return found

            return Seq(z3.IntVal(len(elements)), nth)
        case Map(key, to):
            pairs = [(given(k, key, world), given(v, to, world)) for k, v in items(value)]

            def at(argument: Value) -> Value:
                found = world.any(to, world.name("outside"))
                for each, there in pairs:
                    found = either(z3.simplify(equal(argument, each)), there, found)
                return found

            return Fun(enumerated([each for each, _ in pairs], key), at)


def items(function: Any) -> list[tuple[Any, Any]]:
    """The pairs of a function: TLC tells one on 1..n as a tuple."""
    if isinstance(function, Mapping):
        return list(function.items())
    return list(enumerate(function, 1))
