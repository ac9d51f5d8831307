"""What a claim can ask of a group of consumers whose members run `allocate`.

A claim is written once. It is asked of a group of any size (`any_group`) to be proved, and of one
given size (`given_group`), where the same code runs on ordinary lists, to be refuted with numbers.
Each member that a claim names computes its own allocation in its own run of `allocate`: nothing in
here says who owns what.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import z3

from mqprove.symbolic import NotUnderstoodError, Term

GROUP_NAME = "group"
RING_NODES = 2  # points of each member, where a group is given


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

    def takes_twice(self, queue: Term) -> z3.BoolRef:
        """Whether it has the queue more than once in what it takes."""
        ...

    @property
    def count(self) -> Term:
        """How many queues it takes."""
        ...

    def stands_next(self, queue: Term) -> z3.BoolRef:
        """Of CONSISTENT_HASH: whether it stands at the first point of the ring at or after the
        queue's hash, round the end."""
        ...

    @property
    def room(self) -> Term:
        """Of MACHINE_ROOM_NEARBY: the room that its id is in."""
        ...

    def configured(self, queue: Term) -> z3.BoolRef:
        """Of CONFIG: whether the queue is in its list."""
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

    def staying(self, member: Member, leaver: Member) -> Member:
        """A member once another has left the list, in its run of then; ids are unique, and nothing
        is said where both are one."""
        ...

    def falls_to(self, queue: Term, fewer: int = 0) -> Term:
        """Of AVG and AVG_BY_CIRCLE: the position that the core says the queue falls to, also of
        `fewer` members."""
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

    def room(self, queue: Term) -> Term:
        """Of MACHINE_ROOM_NEARBY: the room that the queue is in."""
        ...

    def has_member(self, room: Term) -> z3.BoolRef:
        """Whether a member is in the room."""
        ...

    def inner_owner_position(self, queue: Term) -> Term:
        """The position of whom the inner strategy gives the queue, of the members of the queue's
        room, or of all where there is none."""
        ...


ANY = "any strategy that looks at its input"
MACHINE_ROOM, CONSISTENT_HASH = "MACHINE_ROOM", "CONSISTENT_HASH"
NEARBY, CONFIG = "MACHINE_ROOM_NEARBY", "CONFIG"
ROOM = "Room1"  # the room that MACHINE_ROOM is configured with


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the strategies that need one are configured with: symbolic, or drawn."""

    hash_key: Callable[[Any], Any]
    broker_room: Callable[[Any], Any]
    consumer_room: Callable[[Any], Any]
    partition: Callable[..., Any]  # what MACHINE_ROOM_NEARBY has within
    configured: Any  # the list of CONFIG


def strategy_of(allocation: ModuleType, name: str, how: Configuration) -> Any:
    """A strategy by its name; ANY: one whose computation must never be reached."""
    match name:
        case "MACHINE_ROOM":
            return allocation.by_machine_room((ROOM,))
        case "MACHINE_ROOM_NEARBY":
            # Not even that it looks at its input is taken as given.
            inner = allocation.Strategy("INNER", how.partition, checked=False)
            return allocation.machine_room_nearby(inner, how.broker_room, how.consumer_room)
        case "CONFIG":
            return allocation.by_config(how.configured)
        case "CONSISTENT_HASH":
            return allocation.consistent_hash(RING_NODES, how.hash_key)
        case _ if name == ANY:

            def never(*_: object) -> None:
                raise NotUnderstoodError("what any strategy computes")

            return allocation.Strategy(ANY, never)
        case _:
            return allocation.STRATEGIES[name]
