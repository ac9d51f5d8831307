"""Allocation: which member of a group consumes which queues of a topic. Twin of Allocation.tla.

Nobody hands out queues. Each member sorts the queues of the topic and the ids of the group,
runs the group's strategy on them for its own id, and takes what comes out. That the slices of
all members are disjoint and cover the topic is promised, but nothing enforces what it rests
on: ids are unique, and all members have the same queues, the same ids and the same strategy
(ALLOC-001, ALLOC-002; broken in scenarios A and C').

Facts: client/consumer/rebalance/*.java and common/consistenthash/*.java, 5.3.3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import TypeAlias, TypeVar

from mqspec.core.types import ClientId, Group, MessageQueue, string_order

T = TypeVar("T")

VIRTUAL_NODES = 10  # of a client on the ring, unless told otherwise


class AllocationError(ValueError):
    """A strategy refuses its input. The member keeps what it has, and tries again later."""


Take: TypeAlias = Callable[
    [Group, ClientId, list[MessageQueue], list[ClientId]], list[MessageQueue]
]
"""(group, current_cid, mq_all, cid_all) -> what the member current_cid takes.

The signature of AllocateMessageQueueStrategy.allocate. None of the six looks at the group; a
strategy of the user's own may.
"""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to allocate, by the name that RocketMQ gives it."""

    name: str
    take: Take
    checked: bool = True  # whether it looks at its input before it computes


def allocate(
    strategy: Strategy,
    group: Group,
    current_cid: ClientId,
    mq_all: list[MessageQueue],
    cid_all: list[ClientId],
) -> list[MessageQueue]:
    """What the member `current_cid` takes of `mq_all`; both lists sorted by the caller.

    A member that is not in `cid_all` takes nothing, without an error (ALLOC-006). Raises
    AllocationError, with the real message, for an empty id or an empty list (ALLOC-007).
    """
    if strategy.checked and not _check(current_cid, mq_all, cid_all):
        return []
    return strategy.take(group, current_cid, mq_all, cid_all)


def _check(current_cid: ClientId, mq_all: list[MessageQueue], cid_all: list[ClientId]) -> bool:
    """AbstractAllocateMessageQueueStrategy.check: whether there is something to compute."""
    if not current_cid:
        raise AllocationError("currentCID is empty")
    if not mq_all:
        raise AllocationError("mqAll is null or mqAll empty")
    if not cid_all:
        raise AllocationError("cidAll is null or cidAll empty")
    return current_cid in cid_all


def average_slice(queues: int, members: int, index: int) -> tuple[int, int]:
    """The slice [start, stop) of the member at `index`: the first ones take the remainder."""
    share = queues // members
    remainder = queues % members
    start = share * index + min(index, remainder)
    size = share + 1 if index < remainder else share
    return start, start + size


def averagely(
    group: Group, current_cid: ClientId, mq_all: list[MessageQueue], cid_all: list[ClientId]
) -> list[MessageQueue]:
    """Contiguous slices, in the order of the ids; the default."""
    index = cid_all.index(current_cid)
    start, stop = average_slice(len(mq_all), len(cid_all), index)
    return mq_all[start:stop]


def averagely_by_circle(
    group: Group, current_cid: ClientId, mq_all: list[MessageQueue], cid_all: list[ClientId]
) -> list[MessageQueue]:
    """One queue to each member in turn, round and round."""
    return mq_all[cid_all.index(current_cid) :: len(cid_all)]


AVG = Strategy("AVG", averagely)
AVG_BY_CIRCLE = Strategy("AVG_BY_CIRCLE", averagely_by_circle)


def by_config(queues: Sequence[MessageQueue]) -> Strategy:
    """The configured queues, whatever the topic and the group are: nothing is looked at.

    Each member has a configuration of its own: slices may overlap, and queues be nobody's.
    """
    return Strategy("CONFIG", lambda group, cid, mq_all, cid_all: list(queues), checked=False)


def by_machine_room(consumer_idcs: Iterable[str]) -> Strategy:
    """Only queues whose broker is named ROOM@NAME with ROOM in `consumer_idcs`.

    Equal shares first, then one of the remainder each; queues of other rooms are nobody's.
    """
    idcs = frozenset(consumer_idcs)

    def take(
        group: Group, current_cid: ClientId, mq_all: list[MessageQueue], cid_all: list[ClientId]
    ) -> list[MessageQueue]:
        near = [mq for mq in mq_all if _room(mq.broker_name) in idcs]
        index, members = cid_all.index(current_cid), len(cid_all)
        share, remainder = divmod(len(near), members)
        taken = near[share * index : share * (index + 1)]
        return [*taken, near[share * members + index]] if index < remainder else taken

    return Strategy("MACHINE_ROOM", take)


def _room(broker_name: str) -> str | None:
    """ROOM of ROOM@NAME. Java's split drops empty parts at the end: ROOM@NAME@ is one too."""
    parts = broker_name.split("@")
    while parts and not parts[-1]:
        parts.pop()
    return parts[0] if len(parts) == 2 else None


def machine_room_nearby(
    inner: Strategy,
    broker_room: Callable[[MessageQueue], str | None],
    consumer_room: Callable[[ClientId], str | None],
) -> Strategy:
    """The queues of a room to the members of that room, by `inner`; of a room without members
    to all members, by `inner`.

    Raises AllocationError where a room is unknown (None or empty).
    """

    def take(
        group: Group, current_cid: ClientId, mq_all: list[MessageQueue], cid_all: list[ClientId]
    ) -> list[MessageQueue]:
        queues = _by_room(mq_all, broker_room, "mq")
        members = _by_room(cid_all, consumer_room, "consumer id")
        own = consumer_room(current_cid)
        taken: list[MessageQueue] = []
        for room in sorted(queues, key=lambda room: (room != own, string_order(room))):
            if room == own or room not in members:
                cids = members.get(room, cid_all)
                taken += allocate(inner, group, current_cid, queues[room], cids)
        return taken

    return Strategy(f"MACHINE_ROOM_NEARBY-{inner.name}", take)


def _by_room(
    items: Iterable[T], room_of: Callable[[T], str | None], what: str
) -> dict[str, list[T]]:
    rooms: dict[str, list[T]] = {}
    for item in items:
        room = room_of(item)
        if not room:
            raise AllocationError(f"Machine room is null for {what} {item}")
        rooms.setdefault(room, []).append(item)
    return rooms


def md5_hash(key: str) -> int:
    """The first four bytes of the MD5 of `key`, big-endian: a point of the ring, 0 to 2^32 - 1."""
    return int.from_bytes(md5(key.encode("utf-8", "replace")).digest()[:4], "big")


def consistent_hash(
    virtual_nodes: int = VIRTUAL_NODES, hash_key: Callable[[str], int] = md5_hash
) -> Strategy:
    """A queue to the first point of the ring at or after its own hash, round the end.

    Every client id has `virtual_nodes` points; with none, nobody takes anything. Raises
    AllocationError for a negative number.
    """
    if virtual_nodes < 0:
        raise AllocationError(f"illegal virtualNodeCnt :{virtual_nodes}")

    def take(
        group: Group, current_cid: ClientId, mq_all: list[MessageQueue], cid_all: list[ClientId]
    ) -> list[MessageQueue]:
        ring = hash_ring(cid_all, virtual_nodes, hash_key)
        points = sorted(ring)

        def owner(mq: MessageQueue) -> ClientId:
            return ring[points[bisect_left(points, hash_key(str(mq))) % len(points)]]

        return [mq for mq in mq_all if owner(mq) == current_cid] if ring else []

    return Strategy("CONSISTENT_HASH", take)


def hash_ring(
    cid_all: Iterable[ClientId], virtual_nodes: int, hash_key: Callable[[str], int]
) -> dict[int, ClientId]:
    """Who stands at each point (ConsistentHashRouter). Of two at one point the later wins.

    An id that comes twice gets more points: its second ones are numbered on from the first.
    """
    ring: dict[int, ClientId] = {}
    for cid in cid_all:
        first = sum(owner == cid for owner in ring.values())
        for replica in range(first, first + virtual_nodes):
            ring[hash_key(f"{cid}-{replica}")] = cid
    return ring


STRATEGIES: Mapping[str, Strategy] = {
    strategy.name: strategy for strategy in (AVG, AVG_BY_CIRCLE, consistent_hash())
}
"""The strategies that need no configuration."""


def falls_to_averagely(place: int, queues: int, members: int) -> int:
    """The position of `members` to which averagely gives the queue at `place` of `queues`."""
    share, remainder = divmod(queues, members)
    longer = remainder * (share + 1)  # the queues of the positions with one more
    if place < longer:
        return place // (share + 1)
    return remainder + (place - longer) // share


def falls_to_by_circle(place: int, queues: int, members: int) -> int:
    """The position of `members` to which the circle gives the queue at `place`."""
    return place % members


FALLS_TO: Mapping[str, Callable[[int, int, int], int]] = {
    AVG.name: falls_to_averagely,
    AVG_BY_CIRCLE.name: falls_to_by_circle,
}
"""By strategy where a queue falls to: a member takes it if, and only if, that is the first position
of its id in its own list of ids. Proved of `allocate`, whatever ids and lists are: so two members
of one id take what falls to its first position, and what falls to its others is nobody's."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What of its list of ids decides what a member takes."""

    members: int  # how many ids its list has
    first: int | None  # the first position of its own; None: it is not there

    @classmethod
    def of(cls, cid: ClientId, cid_all: Sequence[ClientId]) -> Seat:
        """The seat of a member that was told this list."""
        return cls(len(cid_all), cid_all.index(cid) if cid in cid_all else None)


@dataclass(frozen=True, slots=True)
class Uneven:
    """How many queues have not one owner."""

    shared: int  # several take them
    nobodys: int
    most: int  # owners of one queue


def uneven(strategy: str, queues: int, seats: Iterable[Seat]) -> Uneven:
    """What becomes of `queues` that all members see alike, whatever ids they have and whichever
    lists of ids they were told. `strategy` is one of FALLS_TO.

    The queue at a place is taken from each seat to whose position it falls among that seat's list.
    """
    falls_to = FALLS_TO[strategy]
    sitting = Counter((seat.members, seat.first) for seat in seats)
    sizes = {members for members, _ in sitting}
    owners_at = [
        sum(sitting[members, falls_to(place, queues, members)] for members in sizes)
        for place in range(queues)
    ]
    return Uneven(
        shared=sum(number > 1 for number in owners_at),
        nobodys=sum(number == 0 for number in owners_at),
        most=max(owners_at, default=0),
    )


Owners: TypeAlias = Mapping[MessageQueue, Sequence[ClientId]]
"""Who takes each queue: nobody, one member, or several, an id for each of them."""


@dataclass(frozen=True, slots=True)
class Move:
    """A queue whose owners change."""

    queue: MessageQueue
    before: tuple[ClientId, ...]
    after: tuple[ClientId, ...]


def owners(
    mq_all: Iterable[MessageQueue],
    taken: Iterable[tuple[ClientId, Iterable[MessageQueue]]],
) -> Owners:
    """Who takes each queue of `mq_all`, from what each member takes."""
    found: dict[MessageQueue, list[ClientId]] = {mq: [] for mq in mq_all}
    for cid, queues in taken:
        for mq in queues:
            found.setdefault(mq, []).append(cid)
    return found


def moves(before: Owners, after: Owners) -> list[Move]:
    """The queues whose owners change from `before` to `after`, in their order."""
    changes = (
        Move(mq, tuple(before.get(mq, ())), tuple(after.get(mq, ())))
        for mq in sorted({*before, *after})
    )
    return [move for move in changes if move.before != move.after]
