"""A group of any size: lists without a length, members without a number.

What is not known of it stands as Z3's terms, and what is known as hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from types import ModuleType

import z3

from mqprove import rooms
from mqprove.given_group import GivenGroup
from mqprove.group import CONFIG, GROUP_NAME, Configuration, Member, strategy_of
from mqprove.lifting import lift
from mqprove.lists import (
    Base,
    FewerIds,
    Id,
    Ids,
    Listing,
    Text,
    all_queues,
    any_listing,
    forget_bases,
    known_bases,
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
from mqprove.loops import ordinary_state
from mqprove.ring import ALL, STAYING, Circle, hash_of, next_stays, without
from mqprove.symbolic import (
    NotUnderstoodError,
    Number,
    Opaque,
    Path,
    Term,
    choice,
    explore,
    term,
)

_ZERO = z3.IntVal(0)


@dataclass(frozen=True, slots=True)
class _AnyMember:
    group: AnyGroup
    position: Term
    cid: Id
    paths: Sequence[Path]
    circle: Circle = ALL

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

    def takes_twice(self, queue: Term) -> z3.BoolRef:
        self.takes(queue)  # which takes what is known of the queue
        return choice(
            self.paths, lambda taken: _listing(taken).contains_twice(queue), z3.BoolVal(False)
        )

    @property
    def count(self) -> Term:
        return choice(self.paths, lambda taken: _listing(taken).length(), _ZERO)

    def stands_next(self, queue: Term) -> z3.BoolRef:
        self.group.on_ring(queue, self.circle)
        return z3.And(self.circle.size > 0, self.circle.next_owner(queue) == self.cid.term)

    @property
    def room(self) -> Term:
        return rooms.ROOM_OF_ID(self.cid.term)

    def configured(self, queue: Term) -> z3.BoolRef:
        base = _configured(self.cid).only().base
        self.group.hypotheses += base.facts(queue)
        return base.inside(queue)


def _configured(cid: Id) -> Listing:
    """The list that CONFIG has for a member: any, of any queues."""
    return any_listing(f"configured for {cid.term}")


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
    few: tuple[z3.BoolRef, ...] = ()  # those of them that may be enough, and are tried first


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
    leaver: Term | None = None  # the id that has left, where one has
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

    def staying(self, member: Member, leaver: Member) -> Member:
        assert self.unique
        assert isinstance(member, _AnyMember)
        fewer = FewerIds(self.members, leaver.position)
        self.hypotheses.append(member.position != leaver.position)
        self.leaver = _id_at(leaver.position)
        return self._run(fewer.moved(member.position), member.cid, fewer)

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

    def _run(self, position: Term, cid: Id, fewer: FewerIds | None = None) -> Member:
        ids = Ids(self.members) if fewer is None else fewer
        lifted = lift(self.allocation)
        configured = _configured(cid) if self.strategy == CONFIG else None
        how = Configuration(
            hash_of, rooms.room_of_queue, rooms.room_of_id, rooms.partition, configured
        )

        def call() -> object:
            queues = all_queues(self.queues)
            pieces = [*queues.pieces]
            strategy = strategy_of(lifted, self.strategy, how)
            taken = lifted.allocate(strategy, self.name, cid, queues, ids)
            if queues.pieces != pieces:
                raise NotUnderstoodError("the list of queues that it is given is changed")
            return taken

        before = ordinary_state(vars(lifted))
        paths = explore(call, self.hypotheses)
        if ordinary_state(vars(lifted)) != before:
            raise NotUnderstoodError("something that is kept from one call to the next")
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
        return _AnyMember(self, position, cid, paths, ALL if fewer is None else STAYING)

    # Of one strategy each

    def falls_to(self, queue: Term, fewer: int = 0) -> Term:
        falls_to = lift(self.allocation).FALLS_TO[self.strategy]
        sizes = (Number(self.queues), Number(self.members - fewer))
        paths = explore(lambda: falls_to(Number(queue), *sizes), self.hypotheses)
        for path in paths:
            if path.error:
                self._oblige(f"never raises {path.error}", z3.Not(path.condition))
            self.opaque += path.opaque
            self.hypotheses += path.facts
        self._oblige("the paths cover all cases", z3.Or([path.condition for path in paths]))
        return choice(paths, term, _ZERO)

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

    def on_ring(self, queue: Term, circle: Circle = ALL) -> None:
        """Take what is known of a queue's place on a ring; what has to be shown first is owed."""
        lemma = circle.round_the_end(queue)
        self.obligations.append(Obligation("round the end of the ring", (), lemma))
        self.hypotheses += [*circle.next_facts(queue), lemma]
        if circle is STAYING and self.leaver is not None:
            self.on_ring(queue)
            known = (*ALL.next_facts(queue), *STAYING.next_facts(queue), *without(self.leaver))
            lemma = next_stays(queue, self.leaver)
            self.obligations.append(Obligation("who stays is next as before", known, lemma))
            self.hypotheses.append(lemma)

    def next_owner_position(self, queue: Term) -> Term:
        """Who is first in the list of those who stand there: a ring has ids of the list only."""
        owner = ALL.next_owner(queue)
        position = _first(owner)
        self.on_ring(queue)
        self.hypotheses += [
            ALL.size > 0,
            _listed(owner),
            position >= 0,
            position < self.members,
            _id_at(position) == owner,
        ]
        return position

    def room(self, queue: Term) -> Term:
        return rooms.ROOM_OF_QUEUE(queue)

    def has_member(self, room: Term) -> z3.BoolRef:
        members = rooms.members_by_room(self.members)
        self.hypotheses += members.facts_of_room(room)
        return members.has(room)

    def inner_owner_position(self, queue: Term) -> Term:
        owner, facts = rooms.inner_owner(queue, self.queues, self.has_member(self.room(queue)))
        self.hypotheses += facts
        position = _first(owner)
        self.hypotheses += [position >= 0, position < self.members, _id_at(position) == owner]
        self.hypotheses += rooms.members_by_room(self.members).facts_of_item(position)
        return position

    def _oblige(self, what: str, goal: z3.BoolRef) -> None:
        self.obligations.append(Obligation(what, tuple(self.hypotheses), goal))
