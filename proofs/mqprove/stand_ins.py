"""What stands in for Python's own functions, and for some of the code's, in the code under proof.

The names of functions end with an underscore; `summary` has those of the code under proof itself.
"""

from __future__ import annotations

import bisect
import builtins
import itertools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final

import z3

from mqprove.iterables import (
    PLACED,
    Collected,
    Cycled,
    Filled,
    Numbered,
    Once,
    Range,
    Turns,
    Zipped,
    goes_over,
    gone_over,
)
from mqprove.lists import (
    ONE,
    FewerIds,
    Ids,
    IdTuple,
    Listing,
    ListingTuple,
    Piece,
    Queue,
    Text,
    Unknown,
)
from mqprove.loops import is_symbolic
from mqprove.ring import Points, Ring
from mqprove.symbolic import (
    RUNTIME,
    NotUnderstoodError,
    Number,
    Truth,
    decide,
    fact,
    in_run,
    term,
    turn,
    whole,
)

BUILTINS: Final = ("len", "range", "list", "tuple", "sorted", "str", "enumerate")
SUMMARIES: Final = ("hash_ring", "bisect_left", "string_order")


def is_(one: object, other: object) -> Any:
    """`one is other`. Whether two equal values are one object is not known; that unequal ones are
    not, is."""
    if one is other or not any(isinstance(each, Unknown | Number | Truth) for each in (one, other)):
        return one is other
    if isinstance(one, Truth) or isinstance(other, Truth):
        return bool(one) is bool(other) and all(isinstance(e, bool | Truth) for e in (one, other))
    if one is None or other is None:
        absent = getattr(one if other is None else other, "is_none", None)
        return Truth(absent) if absent is not None else False
    if turn():  # another answer in each turn
        raise NotUnderstoodError("whether something is the same object, in a loop")
    same = z3.FreshBool("the same object")
    fact(z3.Implies(same, (one == other).term))  # type: ignore[attr-defined]
    return Truth(same)


GUARDED: Final = (
    *("isinstance", "issubclass", "type", "id", "callable", "vars", "dir"),
    *("hasattr", "getattr", "setattr", "delattr"),
)
"""What Python answers about any object: of a symbolic one, about the stand-in."""


def guarded(name: str) -> Callable[..., Any]:
    """A function of Python's own that refuses symbolic values."""
    original = getattr(builtins, name)

    def call(*given: Any, **named: Any) -> Any:
        plain(*given)
        if name in ("setattr", "delattr"):
            raise NotUnderstoodError("an attribute that is set")
        return original(*given, **named)

    return call


def plain(*values: Any) -> Any:
    """The value, or values, if nothing of them is symbolic; else refused."""
    for value in values:
        inner = value if isinstance(value, tuple | builtins.list | set) else (value,)
        for each in inner:
            if isinstance(each, (Unknown, Number, Truth, *PLACED, Turns, Once, Collected)):
                raise NotUnderstoodError(f"what a {type(each).__name__} is")
    return values[0] if builtins.len(values) == 1 else values


def compared(value: Any) -> Any:
    """What a match compares by equality: of truths which they are, since it asks for the object."""
    match value:
        case Truth():
            return bool(value)
        case Number():
            return value
        case tuple():
            return tuple(map(compared, value))
        case _:
            return plain(value)


def attribute(value: Any, name: str) -> Any:
    """An attribute with a name of Python's own."""
    return getattr(plain(value), name)


def refuse(what: str) -> Any:
    """In place of what cannot be read."""
    raise NotUnderstoodError(what)


# What keeps something from one call to the next would make one turn of a loop another than the one
# before, and one member's run another than the next's. So nothing that might is called, or written
# to, that is not known: of ordinary values those that cannot change, and the code itself.

_UNCHANGING: Final = (
    *(str, bytes, int, float, bool, tuple, frozenset, builtins.range, type(None)),
    *(Unknown, Number, Truth, *PLACED, Turns, Once, Collected, Filled),
)
_PURE: Final = (
    *(abs, all, any, bool, divmod, float, frozenset, max, min, ord, chr, pow, round),
    *(builtins.set, slice, sum, builtins.tuple),
)


def function(called: Any) -> Any:
    """A function, or a class, before it is called."""
    if not in_run():
        return called
    for original, instead in _INSTEAD:
        if called is original:
            return instead
    if called in _PURE or _is_code(called):
        return called
    raise NotUnderstoodError(f"a call of {getattr(called, '__name__', type(called).__name__)}")


def _is_code(called: Any) -> bool:
    """Whether it is of the code under proof, or stands in for something."""
    if isinstance(called, type):
        frozen = getattr(called, "__dataclass_params__", None)
        return issubclass(called, BaseException) or bool(frozen and frozen.frozen)
    known = isinstance(called, FunctionType)
    lifted = known and RUNTIME in called.__globals__
    return lifted or (known and called.__module__.startswith("mqprove."))


def method(owner: Any, name: str) -> Any:
    """A method, before it is called. Ordinary lists and dictionaries are not asked in a turn."""
    found = getattr(owner, name)
    if not in_run() or isinstance(owner, _UNCHANGING) or owner in _PURE:
        return found
    if not turn() and isinstance(owner, builtins.list | dict | builtins.set):
        return found
    frozen = getattr(type(owner), "__dataclass_params__", None)
    if frozen and frozen.frozen:
        return function(found)
    raise NotUnderstoodError(f"{name} of a {type(owner).__name__}")


def stored(place: Any, value: Any) -> Any:
    """A value, before it is written to a place of something."""
    if in_run() and turn() and not isinstance(place, Collected):
        raise NotUnderstoodError(f"a place of a {type(place).__name__}, written in a loop")
    return value


def container(value: Any) -> Any:
    """What something is looked for in: an iterator would be used up by that."""
    if not in_run() or isinstance(value, (*_UNCHANGING, builtins.list, dict, builtins.set)):
        return value
    raise NotUnderstoodError(f"whether something is in a {type(value).__name__}")


def len_(value: Any) -> Any:
    match value:
        case Listing():
            piece = value.pieces[0] if len(value.pieces) == 1 else None
            is_plain = isinstance(piece, Piece) and not piece.choice and piece.is_plain
            return Number(piece.stop if piece and is_plain else value.length())
        case Ids() | Points():
            return Number(value.length)
        case Range():
            return Number(value.count())
        case _:
            return builtins.len(value)


def range_(*given: Any) -> Any:
    if not any(isinstance(each, Number) for each in given):
        return builtins.range(*given)
    start, stop = (0, given[0]) if builtins.len(given) == 1 else given[:2]
    step = whole(given[2]) if builtins.len(given) == 3 else ONE
    if decide(step == 0):
        raise ValueError("range() arg 3 must not be zero")
    return Range(whole(start), whole(stop), step, down=decide(step < 0))


def list_(*given: Any) -> Any:
    match given:
        case (Listing() as listing,):
            listing.look()
            return Listing(listing.pieces)
        case (IdTuple() as ids,):
            return Ids(ids.length)
        case (Ids() as ids,):
            return ids.copy()
        case (Points() as points,):
            return Points(points.circle, points.start, points.length)
        case (Once(over=Listing()) as once,):
            return list_(once.take())
        case _:
            return builtins.list(*given)


def tuple_(*given: Any) -> Any:
    match given:
        case (Listing() as listing,):
            listing.look()
            return ListingTuple(listing.pieces)
        case (Ids() as ids,) if type(ids) in (Ids, IdTuple):
            return IdTuple(ids.length)
        case _:
            return builtins.tuple(*given)


def enumerate_(given: Any, start: Any = 0) -> Any:
    over = gone_over(given)
    if is_symbolic(over) and not isinstance(over, Turns):
        return Once(Numbered(over, whole(start)), over)
    return Once([*builtins.enumerate(over, start)], over)


def zip_(*given: Any, strict: bool = False) -> Any:
    parts = [gone_over(each) for each in given]
    if not any(isinstance(part, Cycled) or is_symbolic(part) for part in parts):
        return Once([*builtins.zip(*parts, strict=strict)], *parts)
    if strict or not builtins.all(isinstance(part, PLACED) for part in parts):
        raise NotUnderstoodError("lists side by side that may not be as long")
    if builtins.all(isinstance(part, Cycled) for part in parts):
        raise NotUnderstoodError("a cycle without an end")
    return Once(Zipped(parts), *parts)


def cycle_(given: Any) -> Any:
    over = gone_over(given)
    if not isinstance(over, PLACED) or isinstance(over, Cycled):
        raise NotUnderstoodError(f"a cycle of a {type(over).__name__}")
    return Once(Cycled(over), over)


def islice_(given: Any, *bounds: Any) -> Any:
    part, over = slice(*bounds), gone_over(given)
    if not isinstance(over, Listing):
        raise NotUnderstoodError(f"islice of a {type(over).__name__}")
    for bound, least in ((part.start, 0), (part.stop, 0), (part.step, 1)):
        if bound is not None and decide(whole(bound) < least):
            raise ValueError("islice() takes no negative bounds")
    return Once(over[part], over)


def chain_(*given: Any) -> Any:
    parts = [gone_over(each) for each in given]
    if not builtins.all(isinstance(part, Listing) for part in parts):
        raise NotUnderstoodError("a chain of something else than lists of queues")
    return Once(Listing(piece for part in parts for piece in list_(part).pieces), *parts)


def reversed_(given: Any) -> Any:
    match given:
        case Listing():
            return Once(given[::-1], given)
        case Range():
            return Once(given.backwards())
        case builtins.list() | builtins.tuple() | builtins.range() | str():
            return Once([*builtins.reversed(given)], given)
        case _:
            raise NotUnderstoodError(f"reversed of a {type(given).__name__}")


def min_(*given: Any, **how: Any) -> Any:
    return _end_of(given, how, 0, builtins.min)


def max_(*given: Any, **how: Any) -> Any:
    return _end_of(given, how, -1, builtins.max)


def _end_of(given: Sequence[Any], how: Any, end: int, original: Callable[..., Any]) -> Any:
    """The least or greatest, which of points in their order is the first or last."""
    over = given[0] if builtins.len(given) == 1 else None
    points = Points(over.circle) if isinstance(over, Ring) else over
    if not isinstance(points, Points) or how.keys() - {"default"}:
        return original(*given, **how)
    if points:
        return points[end]
    if "default" in how:
        return how["default"]
    raise ValueError("min() or max() of nothing")


def int_(*given: Any) -> Any:
    if builtins.len(given) != 1 or not isinstance(given[0], Number | Truth):
        return int(*given)
    number = term(given[0])
    if number.is_real():
        raise NotUnderstoodError("the whole part of a float")
    return Number(number)


# By what is called, whatever it is named there.
_INSTEAD: Final[Sequence[tuple[Any, Callable[..., Any]]]] = (
    (int, int_),
    (min, min_),
    (max, max_),
    (reversed, reversed_),
    (zip, zip_),
    (itertools.chain, chain_),
    (itertools.cycle, cycle_),
    (itertools.islice, islice_),
)


def sorted_(given: Any, **how: Any) -> Any:
    given = given.take() if isinstance(given, Once) else given
    turns = goes_over(given)
    if isinstance(turns, Turns):
        _, each = turns.any_turn(z3.FreshInt("turn"))
        if how.get("key"):
            how["key"](each)  # which must not raise; the order itself is not known anyway
        return turns
    if isinstance(given, Ring) and not how:
        return Points(given.circle)
    if is_symbolic(given) or isinstance(given, Ring):
        raise NotUnderstoodError("a list in another order")
    return builtins.sorted(given, **how)


def str_(*given: Any) -> Any:
    if given and isinstance(given[0], Queue):
        return Text("str(queue)", given[0].rank)
    return builtins.str(*given)


def summary(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in for a function on symbolic input; on ordinary input it runs itself."""

    def hash_ring(cid_all: Any, *others: Any) -> Any:
        return Ring(cid_all) if type(cid_all) in (Ids, FewerIds) else original(cid_all, *others)

    def bisect_left(points: Any, value: Any) -> Any:
        if not isinstance(points, Points):
            return bisect.bisect_left(points, value)
        if not points.length.eq(points.circle.size):
            raise NotUnderstoodError("a place among some of the points")
        at, facts = points.circle.first_at_or_after(whole(value))
        for each in facts:
            fact(each)
        return Number(at)

    def string_order(text: Any) -> Any:
        return Text("string_order") if isinstance(text, Unknown) else original(text)

    stand_ins: dict[str, Callable[..., Any]] = {
        "string_order": string_order,
        "hash_ring": hash_ring,
        "bisect_left": bisect_left,
    }
    return stand_ins[name]
