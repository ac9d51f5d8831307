"""A group of consumers, of any size or of one given size, whose members run `allocate`.

A claim is written once, about an `AnyGroup`; with the numbers of a counterexample the same
claim is asked of a `GivenGroup`, where the same code runs on ordinary lists. Each member that
a claim names computes its own allocation in its own run of `allocate`: nothing in here says
who owns what.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import ModuleType
from typing import Any, Protocol

import z3

from mqprove.lifting import lift
from mqprove.lists import (
    RING_SIZE,
    Base,
    Id,
    Ids,
    Listing,
    Text,
    all_queues,
    forget_bases,
    hash_of,
    known_bases,
    next_owner,
    ring_facts,
    round_the_end,
)
from mqprove.lists import (
    first_at as _first,
)
from mqprove.lists import (
    id_at as _id_at,
)
from mqprove.lists import (
    is_listed as _listed,
)
from mqprove.symbolic import (
    NotUnderstoodError,
    Opaque,
    Path,
    Term,
    choice,
    explore,
)
from mqspec.core.types import MessageQueue

GROUP_NAME = "group"
RING_NODES = 2  # points of each member, where a group is given


class NoMemberError(Exception):
    """A claim comes to a position at which nobody is."""


class AllocateRaisedError(Exception):
    """`allocate` itself raised, on ordinary lists, where it must not."""


class Member(Protocol):
    """A position in the id list, and what the client there takes."""

    @property
    def position(self) -> Term: ...

    @property
    def first(self) -> Term:
        """The first position of its id, which is its own where ids are unique."""
        ...

    def takes(self, queue: Term) -> z3.BoolRef:
        """Whether it takes the queue at this position of the queue list."""
        ...

    @property
    def count(self) -> Term:
        """How many queues it takes."""
        ...

    def stands_next(self, queue: Term) -> z3.BoolRef:
        """Of CONSISTENT_HASH: whether it stands at the first point of the ring at or after the
        queue's hash, round the end."""
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

    def near(self, queue: Term) -> z3.BoolRef:
        """Of MACHINE_ROOM: whether the queue is in a room of its list."""
        ...

    def near_place(self, queue: Term) -> Term:
        """The queue's place among those."""
        ...

    @property
    def near_count(self) -> Term:
        """How many there are of those."""
        ...

    def next_owner_position(self, queue: Term) -> Term:
        """Of CONSISTENT_HASH: the position of whoever stands next on the ring."""
        ...


ANY = "any strategy that looks at its input"
MACHINE_ROOM, CONSISTENT_HASH = "MACHINE_ROOM", "CONSISTENT_HASH"
ROOM = "r1"  # the room that MACHINE_ROOM is configured with
NEAR_NAMES = (f"{ROOM}@broker", f"{ROOM}@broker@@")  # of brokers, as Java's split reads them
FAR_NAMES = ("elsewhere@broker", ROOM, f"{ROOM}@broker@more", f"@{ROOM}", f"{ROOM}@", "", "@")


def strategy_of(allocation: ModuleType, name: str, hash_key: Callable[[Any], Any]) -> Any:
    """A strategy by its name; ANY: one whose computation must never be reached."""
    match name:
        case "MACHINE_ROOM":
            return allocation.by_machine_room((ROOM,))
        case "CONSISTENT_HASH":
            return allocation.consistent_hash(RING_NODES, hash_key)
        case _ if name == ANY:

            def never(*_: object) -> None:
                raise NotUnderstoodError("what any strategy computes")

            return allocation.Strategy(ANY, never)
        case _:
            return allocation.STRATEGIES[name]


# --- Any group: lists without a length, members without a number --------------------------

_ZERO = z3.IntVal(0)


@dataclass(frozen=True, slots=True)
class _AnyMember:
    group: AnyGroup
    position: Term
    cid: Id
    paths: Sequence[Path]

    @property
    def first(self) -> Term:
        return _first(self.cid.term)

    def refused(self, message: str) -> z3.BoolRef:
        return z3.Or([path.condition for path in self.paths if str(path.error) == message])

    def takes(self, queue: Term) -> z3.BoolRef:
        def holds(taken: object) -> z3.BoolRef:
            found, facts = _listing(taken).contains(queue)
            self.group.hypotheses += facts
            return found

        return choice(self.paths, holds, z3.BoolVal(False))

    @property
    def count(self) -> Term:
        return choice(self.paths, lambda taken: _listing(taken).length(), _ZERO)

    def stands_next(self, queue: Term) -> z3.BoolRef:
        self.group.on_ring(queue)
        return z3.And(RING_SIZE > 0, next_owner(queue) == self.cid.term)


def _listing(value: object) -> Listing:
    if isinstance(value, Listing):
        return value
    if value == []:
        return Listing()
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
    not_understood: str = ""  # what could not be read, with its line

    def __post_init__(self) -> None:
        forget_bases()
        self.name = Text(GROUP_NAME)
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
        return self._run(z3.IntVal(-1), Id(own_id))

    def anonymous(self) -> Member:
        return self._run(z3.IntVal(-1), Id(z3.Int("anonymous"), empty=True))

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
        names = [text for text, term in self.name.equals.items() if z3.is_true(model.eval(term))]
        return GivenGroup(
            self.allocation,
            self.strategy,
            value(self.queues),
            ids,
            numbers,
            self.empty,
            name=names[0] if names else GROUP_NAME,
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
        return self._run(position, Id(own_id))

    def _in_order(self, one: Term, other: Term) -> z3.BoolRef:
        """The ids at two positions are in order; and differ, where ids are unique."""
        inside = z3.And(one >= 0, one < self.members, other >= 0, other < self.members)
        before, after = _id_at(one) < _id_at(other), _id_at(one) > _id_at(other)
        if self.unique:
            return z3.Implies(inside, z3.And((one < other) == before, (one > other) == after))
        return z3.Implies(
            inside, z3.And(z3.Implies(before, one < other), z3.Implies(after, one > other))
        )

    def _run(self, position: Term, cid: Id) -> Member:
        lifted = lift(self.allocation)

        def call() -> object:
            return lifted.allocate(
                strategy_of(lifted, self.strategy, hash_of),
                self.name,
                cid,
                all_queues(self.queues),
                Ids(self.members),
            )

        paths = explore(call, self.hypotheses)
        self.paths += len(paths)
        for path in paths:
            self.opaque += path.opaque
            self.hypotheses += path.facts
        for path in paths:
            refused = self.empty and isinstance(path.error, lifted.AllocationError)
            if isinstance(path.error, NotUnderstoodError):
                self.not_understood = str(path.error)
            if path.error and not refused:
                what = f"{type(path.error).__name__}: {path.error}"
                self._oblige(f"never raises {what}", z3.Not(path.condition))
            for what, goal in path.owed:
                self._oblige(f"never raises {what}", z3.Implies(path.condition, goal))
        self._oblige("the paths cover all cases", z3.Or([path.condition for path in paths]))
        return _AnyMember(self, position, cid, paths)

    # Of MACHINE_ROOM, and of CONSISTENT_HASH

    def near(self, queue: Term) -> z3.BoolRef:
        base = self._near()
        self.hypotheses += base.facts(queue) if base else []
        return base.inside(queue) if base else z3.BoolVal(True)

    def near_place(self, queue: Term) -> Term:
        base = self._near()
        self.hypotheses += base.facts(queue) if base else []
        return base.rank(queue) if base else queue

    @property
    def near_count(self) -> Term:
        base = self._near()
        return base.length if base else self.queues

    def _near(self) -> Base | None:
        """What the strategy's own condition leaves of the queues: the last that it made."""
        if "all" not in known_bases():
            self.member("some")  # a run makes it
        found = [base for base in known_bases().values() if base.parent]
        return found[-1] if found else None

    def on_ring(self, queue: Term) -> None:
        """Take what is known of a queue's place on the ring; what has to be shown first is owed."""
        lemma = round_the_end(queue)
        self.obligations.append(Obligation("round the end of the ring", (), lemma))
        self.hypotheses += [*ring_facts(queue), lemma]

    def next_owner_position(self, queue: Term) -> Term:
        """Who is first in the list of those who stand there: a ring has ids of the list only."""
        owner = next_owner(queue)
        position = _first(owner)
        self.on_ring(queue)
        self.hypotheses += [
            RING_SIZE > 0,
            _listed(owner),
            position >= 0,
            position < self.members,
            _id_at(position) == owner,
        ]
        return position

    def _oblige(self, what: str, goal: z3.BoolRef) -> None:
        self.obligations.append(Obligation(what, tuple(self.hypotheses), goal))


# --- A given group: the same code on ordinary lists ---------------------------------------


@dataclass(frozen=True, slots=True)
class _GivenMember:
    position: Term
    taken: list[int]
    refusal: str | None = None
    next_on_ring: frozenset[int] = frozenset()
    first_place: int = -1

    @property
    def first(self) -> Term:
        return z3.IntVal(self.first_place)

    def refused(self, message: str) -> z3.BoolRef:
        return z3.BoolVal(self.refusal == message)

    def takes(self, queue: Term) -> z3.BoolRef:
        return z3.BoolVal(_int(queue) in self.taken)

    @property
    def count(self) -> Term:
        return z3.IntVal(len(self.taken))

    def stands_next(self, queue: Term) -> z3.BoolRef:
        return z3.BoolVal(_int(queue) in self.next_on_ring)


@dataclass
class GivenGroup:
    """A group of one size, and the numbers that a claim speaks of."""

    allocation: ModuleType
    strategy: str
    queue_count: int
    ids: list[int]
    numbers: dict[str, int]
    empty: bool = False
    name: str = GROUP_NAME
    rooms: int = -1  # of MACHINE_ROOM: by bits, which queues are in its room
    seed: int = 0  # of CONSISTENT_HASH: which hash function
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
        more = "" if self.name == GROUP_NAME else f" group={self.name!r}"
        if self.strategy == MACHINE_ROOM:
            more += f" near={self._near_queues()}"
        if self.strategy == CONSISTENT_HASH:
            more += f" hash seed={self.seed}"
        return f"{head}{named}{ids}{more}: {', '.join(self.story)}"

    # Of MACHINE_ROOM, and of CONSISTENT_HASH

    def near(self, queue: Term) -> z3.BoolRef:
        return z3.BoolVal(_int(queue) in self._near_queues())

    def near_place(self, queue: Term) -> Term:
        return z3.IntVal(sum(near < _int(queue) for near in self._near_queues()))

    @property
    def near_count(self) -> Term:
        return z3.IntVal(len(self._near_queues()))

    def next_owner_position(self, queue: Term) -> Term:
        owner = self._next_owner(_int(queue))
        return z3.IntVal(self._cids().index(owner) if owner in self._cids() else -1)

    def _near_queues(self) -> list[int]:
        return [queue for queue in range(self.queue_count) if self.rooms >> queue & 1]

    def _hash(self, text: str) -> int:
        """One of many hash functions, with few values, so that points collide and wrap."""
        return zlib.crc32(f"{self.seed} {text}".encode()) % 7

    def _queue(self, number: int) -> MessageQueue:
        names = NEAR_NAMES if self.rooms >> number & 1 else FAR_NAMES
        return MessageQueue("topic", names[number % len(names)], number)

    def _next_owner(self, queue: int) -> str:
        """Told from the ring as it is drawn: walk on from the queue's hash."""
        stands: dict[int, str] = {}
        for cid in self._cids():
            for replica in range(RING_NODES):
                stands[self._hash(f"{cid}-{replica}")] = cid
        start = self._hash(str(self._queue(queue)))
        return next(stands[p % 7] for p in range(start, start + 7) if p % 7 in stands)

    def _cids(self) -> list[str]:
        """Texts in the order of the numbers that Z3 has for ids."""
        ranks = {value: rank for rank, value in enumerate(sorted(set(self.ids)))}
        return [f"id{ranks[value]}" for value in self.ids]

    def _run(self, position: int, name: str, cid: str | None = None) -> Member:
        mq_all = [self._queue(number) for number in range(self.queue_count)]
        cid_all = self._cids()
        cid = cid_all[position] if cid is None else cid
        strategy = strategy_of(self.allocation, self.strategy, self._hash)
        try:
            taken = self.allocation.allocate(strategy, self.name, cid, mq_all, cid_all)
        except Exception as error:
            self.story.append(f"member {name} raises {type(error).__name__}: {error}")
            if self.empty and isinstance(error, self.allocation.AllocationError):
                return _GivenMember(z3.IntVal(position), [], str(error))
            raise AllocateRaisedError from error
        numbers = [mq.queue_id for mq in taken]
        self.story.append(f"member {name} takes {numbers}")
        ring: frozenset[int] = frozenset()
        if self.strategy == CONSISTENT_HASH and self.ids:
            ring = frozenset(q for q in range(self.queue_count) if self._next_owner(q) == cid)
        first = cid_all.index(cid) if cid in cid_all else -1
        return _GivenMember(z3.IntVal(position), numbers, next_on_ring=ring, first_place=first)


def _int(value: Term) -> int:
    return int(z3.simplify(value).as_long())
