"""A group of consumers, of any size or of one given size, whose members run `allocate`.

A claim is written once, about an `AnyGroup`; with the numbers of a counterexample the same
claim is asked of a `GivenGroup`, where the same code runs on ordinary lists. Each member that
a claim names computes its own allocation in its own run of `allocate`: nothing in here says
who owns what.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from types import ModuleType
from typing import Any, Protocol
from unittest.mock import patch

import z3

from mqprove.symbolic import (
    NotUnderstoodError,
    Number,
    Opaque,
    Path,
    Term,
    certain,
    choice,
    decide,
    explore,
    whole,
)
from mqspec.core.types import MessageQueue

GROUP_NAME = "group"


class NoMemberError(Exception):
    """A claim comes to a position at which nobody is."""


class AllocateRaisedError(Exception):
    """`allocate` itself raised, on ordinary lists, where it must not."""


class Member(Protocol):
    """A position in the id list, and what the client there takes."""

    @property
    def position(self) -> Term: ...

    def takes(self, queue: Term) -> z3.BoolRef:
        """Whether it takes the queue at this position of the queue list."""
        ...

    @property
    def count(self) -> Term:
        """How many queues it takes."""
        ...

    def refused(self, message: str) -> z3.BoolRef:
        """Whether it is refused, with this message."""
        ...


class Group(Protocol):
    """Members that see the same queues and the same ids, and use the same strategy."""

    @property
    def queues(self) -> Term: ...

    @property
    def members(self) -> Term: ...

    def number(self, name: str, below: Term) -> Term:
        """Any whole number from 0 up to `below`."""
        ...

    def member(self, name: str) -> Member:
        """Any member."""
        ...

    def member_at(self, position: Term) -> Member:
        """The member at a position, which the claim shows to be one."""
        ...

    def stranger(self) -> Member:
        """A client that is not in the id list; its position is -1."""
        ...

    def anonymous(self) -> Member:
        """A client whose id is empty."""
        ...


ANY = "any strategy that looks at its input"


def strategy_of(allocation: ModuleType, name: str) -> Any:
    """A strategy by its name; ANY: one whose computation must never be reached."""
    if name != ANY:
        return allocation.STRATEGIES[name]

    def never(*_: object) -> None:
        raise NotUnderstoodError("what any strategy computes")

    return allocation.Strategy(ANY, never)


# --- Any group: lists without a length, members without a number --------------------------


_id_at = z3.Function("id_at", z3.IntSort(), z3.IntSort())  # position -> id
_first = z3.Function("first", z3.IntSort(), z3.IntSort())  # id -> its first position
_listed = z3.Function("listed", z3.IntSort(), z3.BoolSort())  # id -> whether it is in the list


@dataclass(frozen=True, slots=True)
class _Id:
    """A client id."""

    term: Term
    empty: bool = False

    def __bool__(self) -> bool:
        return not self.empty


@dataclass(frozen=True, slots=True)
class _Ids:
    """The id list: what Python's list does for `in`, `index`, `not` and `len`."""

    length: Term

    def __bool__(self) -> bool:
        return decide(self.length != 0)

    def __contains__(self, cid: _Id) -> bool:
        return decide(_listed(cid.term))

    def index(self, cid: _Id) -> Number:
        if not decide(_listed(cid.term)):
            raise ValueError("not in list")
        return Number(_first(cid.term))


@dataclass(frozen=True, slots=True)
class _Taken:
    """A slice of the queue list: its positions."""

    start: Term
    stop: Term
    step: Term

    def contains(self, queue: Term) -> z3.BoolRef:
        in_step = z3.BoolVal(True) if self.step.eq(_ONE) else (queue - self.start) % self.step == 0
        return z3.And(self.start <= queue, queue < self.stop, in_step)

    def count(self) -> Term:
        span = self.stop - self.start
        steps = span if self.step.eq(_ONE) else (span - 1) / self.step + 1
        return z3.If(span > 0, steps, _ZERO)


_ZERO, _ONE = z3.IntVal(0), z3.IntVal(1)
_NOTHING = _Taken(_ZERO, _ZERO, _ONE)


@dataclass(frozen=True, slots=True)
class _Queues:
    """The queue list: what Python's list does for slices, `not` and `len`."""

    length: Term

    def __bool__(self) -> bool:
        return decide(self.length != 0)

    def __getitem__(self, where: slice) -> _Taken:
        if not isinstance(where, slice):
            raise NotUnderstoodError("a single queue by its position")
        step = _ONE if where.step is None else whole(where.step)
        if decide(step == 0):
            raise ValueError("slice step cannot be zero")
        if decide(step < 0):
            raise NotUnderstoodError("a slice that goes backwards")
        start = _ZERO if where.start is None else self._bound(whole(where.start))
        stop = self.length if where.stop is None else self._bound(whole(where.stop))
        return _Taken(start, stop, step)

    def _bound(self, bound: Term) -> Term:
        """Python counts a negative bound from the end, and clips both ends."""
        if not certain(bound >= 0):
            from_end = bound + self.length
            bound = z3.If(bound >= 0, bound, z3.If(from_end >= 0, from_end, _ZERO))
        if not certain(bound <= self.length):
            bound = z3.If(bound <= self.length, bound, self.length)
        return bound


def _len(value: Any) -> Any:
    return Number(value.length) if isinstance(value, _Ids | _Queues) else builtins.len(value)


@contextmanager
def _symbolic_len(module: ModuleType) -> Iterator[None]:
    """`len` must answer an int: the module under proof gets one that answers a Number."""
    with patch.object(module, "len", _len, create=True):
        yield


@dataclass(frozen=True, slots=True)
class _AnyMember:
    position: Term
    paths: Sequence[Path]

    def refused(self, message: str) -> z3.BoolRef:
        return z3.Or([path.condition for path in self.paths if str(path.error) == message])

    def takes(self, queue: Term) -> z3.BoolRef:
        return choice(self.paths, lambda taken: _slice(taken).contains(queue), z3.BoolVal(False))

    @property
    def count(self) -> Term:
        return choice(self.paths, lambda taken: _slice(taken).count(), _ZERO)


def _slice(value: object) -> _Taken:
    if isinstance(value, _Taken):
        return value
    if value == []:
        return _NOTHING
    raise NotUnderstoodError(f"{value!r} as what a member takes")


@dataclass(frozen=True, slots=True)
class Obligation:
    """What has to be shown on the way to a claim, and under which hypotheses."""

    what: str
    hypotheses: tuple[z3.BoolRef, ...]
    goal: z3.BoolRef


@dataclass
class AnyGroup:
    """Any number of queues and members; sorted ids, and what the hypotheses say."""

    allocation: ModuleType  # mqspec.core.allocation, or a mutant of it
    strategy: str
    unique: bool = True
    empty: bool = False  # whether the lists may be, and a client may be refused
    queues: Term = field(default_factory=lambda: z3.Int("n"))
    members: Term = field(default_factory=lambda: z3.Int("c"))
    numbers: dict[str, Term] = field(default_factory=dict)
    paths: int = 0  # of all runs together
    positions: list[Term] = field(default_factory=list)  # in the id list
    opaque: list[Opaque] = field(default_factory=list)
    bounds: list[z3.BoolRef] = field(default_factory=list)  # of the numbers
    hypotheses: list[z3.BoolRef] = field(default_factory=list)
    obligations: list[Obligation] = field(default_factory=list)

    def __post_init__(self) -> None:
        least = 0 if self.empty else 1
        self.hypotheses += [self.queues >= least, self.members >= least]

    def number(self, name: str, below: Term) -> Term:
        value = z3.Int(name)
        self.numbers[name] = value
        self.bounds += [value >= 0, value < below]
        self.hypotheses += self.bounds[-2:]
        return value

    def member(self, name: str) -> Member:
        return self._listed_member(self.number(name, self.members))

    def member_at(self, position: Term) -> Member:
        inside = z3.And(position >= 0, position < self.members)
        self._oblige("the position is a member's", inside)
        self.hypotheses.append(inside)
        return self._listed_member(position)

    def stranger(self) -> Member:
        own_id = z3.Int("stranger")
        self.hypotheses.append(z3.Not(_listed(own_id)))
        return self._run(z3.IntVal(-1), _Id(own_id))

    def anonymous(self) -> Member:
        return self._run(z3.IntVal(-1), _Id(z3.Int("anonymous"), empty=True))

    def small(self, queues_max: int, members_max: int) -> list[z3.BoolRef]:
        """Bounds, within which the id list is spelled out, so that a model is a real group."""
        bounds = [self.queues <= queues_max, self.members <= members_max]
        if self.unique:
            return bounds  # every id is at its own place, and which ids they are is all one
        places = [z3.IntVal(place) for place in range(members_max)]
        firsts = [
            z3.Implies(place < _first(_id_at(position)), _id_at(place) != _id_at(position))
            for position in self.positions
            for place in places
        ]
        order = [self._in_order(one, other) for one, other in combinations(places, 2)]
        order += [self._in_order(one, other) for one in places for other in self.positions]
        return [*bounds, *firsts, *order]

    def given(self, model: z3.ModelRef) -> GivenGroup:
        """The group of a model, as ordinary lists."""

        def value(of: Term) -> int:
            return int(model.eval(of, model_completion=True).as_long())

        places = range(value(self.members))
        ids = list(places) if self.unique else [value(_id_at(z3.IntVal(p))) for p in places]
        numbers = {name: value(number) for name, number in self.numbers.items()}
        return GivenGroup(
            self.allocation, self.strategy, value(self.queues), ids, numbers, self.empty
        )

    def others(self, model: z3.ModelRef) -> z3.BoolRef:
        """That it is not the group of this model again."""
        numbers = [self.queues, self.members, *self.numbers.values()]
        return z3.Or([n != model.eval(n, model_completion=True) for n in numbers])

    def _listed_member(self, position: Term) -> Member:
        own_id = _id_at(position)
        first = _first(own_id)
        self.hypotheses += [
            # A member's id is in the list, and `index` finds its first place.
            _listed(own_id),
            first >= 0,
            first <= position,
            _id_at(first) == own_id,
        ]
        for new in (position, first):
            self.hypotheses += [self._in_order(new, other) for other in self.positions]
            self.positions.append(new)
        self.hypotheses.append(self._in_order(first, position))
        return self._run(position, _Id(own_id))

    def _in_order(self, one: Term, other: Term) -> z3.BoolRef:
        """The ids at two positions are in order; and differ, where ids are unique."""
        inside = z3.And(one >= 0, one < self.members, other >= 0, other < self.members)
        before, after = _id_at(one) < _id_at(other), _id_at(one) > _id_at(other)
        if self.unique:
            return z3.Implies(inside, z3.And((one < other) == before, (one > other) == after))
        return z3.Implies(
            inside, z3.And(z3.Implies(before, one < other), z3.Implies(after, one > other))
        )

    def _run(self, position: Term, cid: _Id) -> Member:
        def call() -> object:
            return self.allocation.allocate(
                strategy_of(self.allocation, self.strategy),
                GROUP_NAME,
                cid,
                _Queues(self.queues),
                _Ids(self.members),
            )

        with _symbolic_len(self.allocation):
            paths = explore(call, self.hypotheses)
        self.paths += len(paths)
        for path in paths:
            self.opaque += path.opaque
            refused = self.empty and isinstance(path.error, self.allocation.AllocationError)
            if path.error and not refused:
                what = f"{type(path.error).__name__}: {path.error}"
                self._oblige(f"never raises {what}", z3.Not(path.condition))
        self._oblige("the paths cover all cases", z3.Or([path.condition for path in paths]))
        return _AnyMember(position, paths)

    def _oblige(self, what: str, goal: z3.BoolRef) -> None:
        self.obligations.append(Obligation(what, tuple(self.hypotheses), goal))


# --- A given group: the same code on ordinary lists ---------------------------------------


@dataclass(frozen=True, slots=True)
class _GivenMember:
    position: Term
    taken: list[int]
    refusal: str | None = None

    def refused(self, message: str) -> z3.BoolRef:
        return z3.BoolVal(self.refusal == message)

    def takes(self, queue: Term) -> z3.BoolRef:
        return z3.BoolVal(_int(queue) in self.taken)

    @property
    def count(self) -> Term:
        return z3.IntVal(len(self.taken))


@dataclass
class GivenGroup:
    """A group of one size, and the numbers that a claim speaks of."""

    allocation: ModuleType
    strategy: str
    queue_count: int
    ids: list[int]
    numbers: dict[str, int]
    empty: bool = False
    asked: list[str] = field(default_factory=list)  # the numbers that the claim came to
    story: list[str] = field(default_factory=list)

    @property
    def queues(self) -> Term:
        return z3.IntVal(self.queue_count)

    @property
    def members(self) -> Term:
        return z3.IntVal(len(self.ids))

    def number(self, name: str, below: Term) -> Term:
        self.asked.append(name)
        return z3.IntVal(self.numbers[name])

    def member(self, name: str) -> Member:
        self.asked.append(name)
        return self._run(self.numbers[name], f"{name}={self.numbers[name]}")

    def member_at(self, position: Term) -> Member:
        place = _int(position)
        if not 0 <= place < len(self.ids):
            self.story.append(f"nobody is at {place}")
            raise NoMemberError
        return self._run(place, str(place))

    def stranger(self) -> Member:
        return self._run(-1, "of no group", "stranger")

    def anonymous(self) -> Member:
        return self._run(-1, "without an id", "")

    def __str__(self) -> str:
        head = f"n={self.queue_count} c={len(self.ids)}"
        named = "".join(f" {name}={self.numbers[name]}" for name in self.asked)
        ids = "" if len(set(self.ids)) == len(self.ids) else f" ids={self._cids()}"
        return f"{head}{named}{ids}: {', '.join(self.story)}"

    def _cids(self) -> list[str]:
        """Texts in the order of the numbers that Z3 has for ids."""
        ranks = {value: rank for rank, value in enumerate(sorted(set(self.ids)))}
        return [f"id{ranks[value]}" for value in self.ids]

    def _run(self, position: int, name: str, cid: str | None = None) -> Member:
        mq_all = [MessageQueue("topic", "broker", number) for number in range(self.queue_count)]
        cid_all = self._cids()
        cid = cid_all[position] if cid is None else cid
        strategy = strategy_of(self.allocation, self.strategy)
        try:
            taken = self.allocation.allocate(strategy, GROUP_NAME, cid, mq_all, cid_all)
        except Exception as error:
            self.story.append(f"member {name} raises {type(error).__name__}: {error}")
            if self.empty and isinstance(error, self.allocation.AllocationError):
                return _GivenMember(z3.IntVal(position), [], str(error))
            raise AllocateRaisedError from error
        numbers = [mq.queue_id for mq in taken]
        self.story.append(f"member {name} takes {numbers}")
        return _GivenMember(z3.IntVal(position), numbers)


def _int(value: Term) -> int:
    return int(z3.simplify(value).as_long())
