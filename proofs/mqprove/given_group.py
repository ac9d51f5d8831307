"""A group of one size, and the numbers that a claim speaks of: the same code on ordinary lists.

Rooms, hash functions, inner strategies and configured lists are drawn, by a seed. What a claim asks
of them is told from how they were drawn, and not from what `allocate` made of them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from types import ModuleType

import z3

from mqprove.group import (
    CONFIG,
    CONSISTENT_HASH,
    GROUP_NAME,
    MACHINE_ROOM,
    NEARBY,
    RING_NODES,
    ROOM,
    Configuration,
    Member,
    strategy_of,
)
from mqprove.symbolic import Term
from mqspec.core.types import MessageQueue

NEAR_NAMES = (f"{ROOM}@broker", f"{ROOM}@broker@@")  # of brokers, as Java's split reads them
FAR_NAMES = (
    *("elsewhere@broker", ROOM, f"{ROOM}@broker@more", f"@{ROOM}", f"{ROOM}@", "", "@"),
    *(f"{ROOM.lower()}@broker", f" {ROOM}@broker"),
)
STRANGE_HEADS = (" ", "\U0001f600", "\ufb01")  # of ids, in Java's order, which is not Python's
ROOMS = 3  # that queues and members are drawn from, for MACHINE_ROOM_NEARBY


class NoMemberError(Exception):
    """A claim comes to a position at which nobody is."""


class NothingSaidError(Exception):
    """A claim says nothing of these numbers."""


class NoFunctionError(Exception):
    """`allocate` itself raised, on ordinary lists, where it must not; or changed these."""


@dataclass(frozen=True, slots=True)
class _GivenMember:
    position: Term
    taken: list[int]
    refusal: str | None = None
    next_on_ring: frozenset[int] = frozenset()
    first_place: int = -1
    room_number: int = -1
    config: frozenset[int] = frozenset()

    @property
    def first(self) -> Term:
        return z3.IntVal(self.first_place)

    def refused(self, message: str) -> z3.BoolRef:
        return z3.BoolVal(self.refusal == message)

    def takes(self, queue: Term) -> z3.BoolRef:
        return z3.BoolVal(_int(queue) in self.taken)

    def takes_twice(self, queue: Term) -> z3.BoolRef:
        return z3.BoolVal(self.taken.count(_int(queue)) > 1)

    @property
    def count(self) -> Term:
        return z3.IntVal(len(self.taken))

    def stands_next(self, queue: Term) -> z3.BoolRef:
        return z3.BoolVal(_int(queue) in self.next_on_ring)

    @property
    def room(self) -> Term:
        return z3.IntVal(self.room_number)

    def configured(self, queue: Term) -> z3.BoolRef:
        return z3.BoolVal(_int(queue) in self.config)


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
    seed: int = 0  # what else is drawn is drawn by
    strange: bool = False  # whether ids are such as Java and Python have in another order
    left: int | None = None  # the position of a member that has left the list since
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

    def staying(self, member: Member, leaver: Member) -> Member:
        place, gone = _int(member.position), _int(leaver.position)
        if place == gone:
            raise NothingSaidError
        return replace(self, left=gone)._run(place - (gone < place), f"{place} then")

    def __str__(self) -> str:
        head = f"n={self.queue_count} c={len(self.ids)}"
        named = "".join(f" {name}={self.numbers[name]}" for name in self.asked)
        is_plain = len(set(self.ids)) == len(self.ids) and not self.strange
        ids = "" if is_plain else f" ids={self._cids()}"
        more = "" if self.name == GROUP_NAME else f" group={self.name!r}"
        if self.strategy == MACHINE_ROOM:
            more += f" near={self._near_queues()}"
        if self.strategy == NEARBY:
            rooms = [self._room_of_queue(queue) for queue in range(self.queue_count)]
            more += f" rooms={rooms} members in {[self._room_of_id(cid) for cid in self._cids()]}"
        if self.strategy in (CONSISTENT_HASH, CONFIG):
            more += f" seed={self.seed}"
        return f"{head}{named}{ids}{more}: {', '.join(self.story)}"

    # Of one strategy each

    def falls_to(self, queue: Term, fewer: int = 0) -> Term:
        falls_to = self.allocation.FALLS_TO[self.strategy]
        try:
            return z3.IntVal(falls_to(_int(queue), self.queue_count, len(self.ids) - fewer))
        except Exception as error:
            self.story.append(f"where {queue} falls to raises {type(error).__name__}: {error}")
            raise NoFunctionError from error

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

    def room(self, queue: Term) -> Term:
        return z3.IntVal(self._room_of_queue(_int(queue)))

    def has_member(self, room: Term) -> z3.BoolRef:
        return z3.BoolVal(_int(room) in map(self._room_of_id, self._cids()))

    def inner_owner_position(self, queue: Term) -> Term:
        room = self._room_of_queue(_int(queue))
        within = [q for q in range(self.queue_count) if self._room_of_queue(q) == room]
        near = [cid for cid in self._cids() if self._room_of_id(cid) == room]
        queues = [self._queue(q) for q in within]
        owner = self._inner_owner(self.name, queues, near or self._cids())
        return z3.IntVal(self._cids().index(owner[within.index(_int(queue))]))

    def _draw(self, what: str, count: int) -> int:
        """One of many functions to the numbers below `count`."""
        return zlib.crc32(f"{self.seed} {what}".encode()) % count

    def _room_of_queue(self, queue: int) -> int:
        return self._draw(f"queue {queue}", ROOMS)

    def _room_of_id(self, cid: str) -> int:
        return self._draw(f"member {cid}", ROOMS)

    def _inner_owner(self, group: str, mq_all: list[MessageQueue], cid_all: list[str]) -> list[str]:
        """Whom a strategy that partitions gives each queue of a group: by its place, or anyhow."""
        if self.seed % 2:
            first, members = self._draw(group, len(cid_all)), len(cid_all)
            places = (place * members // len(mq_all) for place in range(len(mq_all)))
            return [cid_all[(first + place) % members] for place in places]
        return [cid_all[self._draw(f"{mq} of {group} {cid_all}", len(cid_all))] for mq in mq_all]

    def _configured(self, position: int) -> frozenset[int]:
        return frozenset(q for q in range(self.queue_count) if self._draw(f"{position} has {q}", 2))

    def _near_queues(self) -> list[int]:
        return [queue for queue in range(self.queue_count) if self.rooms >> queue & 1]

    def _hash(self, text: str) -> int:
        """One of many hash functions, with few values, so that points collide and wrap."""
        return self._draw(text, 7)

    def _queue(self, number: int) -> MessageQueue:
        names = NEAR_NAMES if self.rooms >> number & 1 else FAR_NAMES
        return MessageQueue("topic", names[number % len(names)], number)

    def _next_owner(self, queue: int) -> str:
        """Told from the ring as it is drawn: walk on from the queue's hash."""
        stands: dict[int, str] = {}
        for cid in self._cids():
            had = list(stands.values()).count(cid)  # of an id that comes again: numbered on
            for replica in range(had, had + RING_NODES):
                stands[self._hash(f"{cid}-{replica}")] = cid
        start = self._hash(str(self._queue(queue)))
        return next(stands[p % 7] for p in range(start, start + 7) if p % 7 in stands)

    def _cids(self) -> list[str]:
        """Texts in the order of the numbers that Z3 has for ids; which is Java's."""
        values = sorted(set(self.ids))
        heads = STRANGE_HEADS if self.strange else ("id",)
        names = {
            value: f"{heads[rank * len(heads) // len(values)]}{rank}"
            for rank, value in enumerate(values)
        }
        return [names[value] for at, value in enumerate(self.ids) if at != self.left]

    def _run(self, position: int, name: str, cid: str | None = None) -> Member:
        mq_all = self._topic()
        cid_all = self._cids()
        cid = cid_all[position] if cid is None else cid
        strategy = strategy_of(self.allocation, self.strategy, self._how(position))
        try:
            taken = self.allocation.allocate(strategy, self.name, cid, mq_all, cid_all)
        except Exception as error:
            self.story.append(f"member {name} raises {type(error).__name__}: {error}")
            if self.empty and isinstance(error, self.allocation.AllocationError):
                return _GivenMember(z3.IntVal(position), [], str(error))
            raise NoFunctionError from error
        if (mq_all, cid_all) != (self._topic(), self._cids()):
            self.story.append(f"member {name} changes the lists that it is given")
            raise NoFunctionError
        numbers = [mq.queue_id for mq in taken]
        self.story.append(f"member {name} takes {numbers}")
        ring: frozenset[int] = frozenset()
        if self.strategy == CONSISTENT_HASH and self.ids:
            ring = frozenset(q for q in range(self.queue_count) if self._next_owner(q) == cid)
        return _GivenMember(
            z3.IntVal(position),
            numbers,
            next_on_ring=ring,
            first_place=cid_all.index(cid) if cid in cid_all else -1,
            room_number=self._room_of_id(cid),
            config=self._configured(position),
        )

    def _topic(self) -> list[MessageQueue]:
        """Its queues; a queue that CONFIG names need not be one."""
        known = [*range(self.queue_count)]
        if self.strategy == CONFIG:
            known = [q for q in known if self._draw(f"{q} exists", 3)] or known
        return [self._queue(number) for number in known]

    def _how(self, position: int) -> Configuration:
        """What the strategies are configured with, at the member at this position."""

        def partition(
            group: str, cid: str, mq_all: list[MessageQueue], cid_all: list[str]
        ) -> list[MessageQueue]:
            if cid not in cid_all:
                return mq_all  # nothing is promised of such a client
            owners = zip(mq_all, self._inner_owner(group, mq_all, cid_all), strict=True)
            return [mq for mq, owner in owners if owner == cid]

        return Configuration(
            self._hash,
            lambda mq: f"room {self._room_of_queue(mq.queue_id)}",
            lambda cid: f"room {self._room_of_id(cid)}",
            partition,
            [self._queue(queue) for queue in sorted(self._configured(position))],
        )


def _int(value: Term) -> int:
    return int(z3.simplify(value).as_long())
