"""The theorems about allocation: each a statement, and the function that says it of a group.

They are about `mqspec.core.allocation.allocate` as it runs, from its checks to the slice that
it returns, for every number of queues and of members. Positions in the two lists are counted
from 0. What they take as given is how Python's lists slice, count and find, and that all
members have the same lists in the same order.
"""

from __future__ import annotations

import z3

from mqprove.group import ANY, CONFIG, CONSISTENT_HASH, MACHINE_ROOM, NEARBY, Group
from mqprove.prover import Theorem
from mqprove.symbolic import Term


def disjoint(group: Group) -> z3.BoolRef:
    """No queue is taken by two members, each in its own run, nor twice by one."""
    one, other = group.member("i"), group.member("j")
    queue = group.number("k", below=group.queues)
    apart = z3.Not(z3.And(one.takes(queue), other.takes(queue)))
    return z3.And(z3.Implies(one.position != other.position, apart), z3.Not(one.takes_twice(queue)))


def covers(group: Group) -> z3.BoolRef:
    """Any queue is taken by a member that can be named, in the run of that member."""
    queue = group.number("k", below=group.queues)
    return group.member_at(group.falls_to(queue)).takes(queue)


def falls_to_first(group: Group) -> z3.BoolRef:
    """A member takes a queue if, and only if, the first position of its id is the queue's."""
    member = group.member("i")
    queue = group.number("k", below=group.queues)
    return member.takes(queue) == (group.falls_to(queue) == member.first)


def balanced(group: Group) -> z3.BoolRef:
    """No member takes two queues more than another."""
    return group.member("i").count - group.member("j").count <= 1


def earlier_takes_no_less(group: Group) -> z3.BoolRef:
    """Of two members the earlier takes as many queues, or more."""
    one, other = group.member("i"), group.member("j")
    return z3.Implies(one.position < other.position, one.count >= other.count)


def contiguous(group: Group) -> z3.BoolRef:
    """What lies between two queues of a member is its own; an earlier member's come first."""
    one, other = group.member("i"), group.member("j")
    first, last = (group.number(name, below=group.queues) for name in ("k", "m"))
    between = group.number("l", below=group.queues)
    return z3.And(
        z3.Implies(
            z3.And(one.takes(first), one.takes(last), first < between, between < last),
            one.takes(between),
        ),
        z3.Implies(
            z3.And(one.position < other.position, one.takes(first), other.takes(last)),
            first < last,
        ),
    )


def as_in_java(group: Group) -> z3.BoolRef:
    """What AllocateMessageQueueAveragely computes (5.3.3), with its own steps and cases."""
    member = group.member("i")
    queue = group.number("k", below=group.queues)
    mod = group.queues % group.members
    extra = z3.And(mod > 0, member.position < mod)
    quotient = group.queues / group.members
    size = z3.If(group.queues <= group.members, 1, z3.If(extra, quotient + 1, quotient))
    start = member.position * size + z3.If(extra, 0, mod)
    room = group.queues - start
    length = z3.If(size < room, size, room)
    return member.takes(queue) == z3.And(start <= queue, queue < start + length)


def dealt(group: Group) -> z3.BoolRef:
    """The member takes a queue if, and only if, it is its turn."""
    member = group.member("i")
    queue = group.number("k", below=group.queues)
    return member.takes(queue) == (queue % group.members == member.position)


def strangers_take_nothing(group: Group) -> z3.BoolRef:
    """A client that is not in the list takes no queue, and is not refused."""
    queue = group.number("k", below=group.queues)
    return z3.Not(group.stranger().takes(queue))


def refusals(group: Group) -> z3.BoolRef:
    """Empty input is refused: the id first, then the queues, then the ids."""
    no_id, stranger = group.anonymous(), group.stranger()

    def only(message: str, where: z3.BoolRef) -> z3.BoolRef:
        return stranger.refused(message) == where

    no_queues: Term = group.queues == 0
    return z3.And(
        no_id.refused("currentCID is empty"),
        only("currentCID is empty", z3.BoolVal(False)),
        only("mqAll is null or mqAll empty", no_queues),
        only("cidAll is null or cidAll empty", z3.And(z3.Not(no_queues), group.members == 0)),
    )


def members_are_refused(group: Group) -> z3.BoolRef:
    """A member is refused if there is no queue, and only then."""
    member = group.member("i")
    return member.refused("mqAll is null or mqAll empty") == (group.queues == 0)


def room_covers(group: Group) -> z3.BoolRef:
    """A queue of the strategy's rooms is taken by a member that can be named, by its place among
    those: equal shares first, then one of the rest each."""
    queue = group.number("k", below=group.queues)
    place, share = group.near_place(queue), group.near_count / group.members
    shared = share * group.members
    position = z3.If(place < shared, place / share, place - shared)
    is_near = group.near(queue)
    return z3.Implies(is_near, group.member_at(z3.If(is_near, position, 0)).takes(queue))


def only_near(group: Group) -> z3.BoolRef:
    """What a member takes is of the strategy's rooms."""
    member = group.member("i")
    queue = group.number("k", below=group.queues)
    return z3.Implies(member.takes(queue), group.near(queue))


def next_on_the_ring(group: Group) -> z3.BoolRef:
    """A member takes a queue if, and only if, it stands at the first point of the ring at or after
    the queue's hash, round the end."""
    member = group.member("i")
    queue = group.number("k", below=group.queues)
    return member.takes(queue) == member.stands_next(queue)


def ring_covers(group: Group) -> z3.BoolRef:
    """Any queue is taken: by whoever stands next."""
    queue = group.number("k", below=group.queues)
    return group.member_at(group.next_owner_position(queue)).takes(queue)


def only_the_leavers_move(group: Group) -> z3.BoolRef:
    """Who stays keeps what it has, and gets of the leaver's what it stands next to then."""
    staying, leaver = group.member("i"), group.member("j")
    queue = group.number("k", below=group.queues)
    then = group.staying(staying, leaver)
    return z3.And(
        z3.Implies(staying.takes(queue), then.takes(queue)),
        z3.Implies(then.takes(queue), z3.Or(staying.takes(queue), leaver.takes(queue))),
        z3.Implies(leaver.takes(queue), then.takes(queue) == then.stands_next(queue)),
    )


def stays_with_its_own(group: Group) -> z3.BoolRef:
    """Who stays keeps what it has."""
    staying, leaver = group.member("i"), group.member("j")
    queue = group.number("k", below=group.queues)
    return z3.Implies(staying.takes(queue), group.staying(staying, leaver).takes(queue))


def moves_by_positions(group: Group) -> z3.BoolRef:
    """Before and after a leave a queue is taken at the position that it falls to, and who stood
    behind the leaver stands one position earlier then."""
    staying, leaver = group.member("i"), group.member("j")
    queue = group.number("k", below=group.queues)
    then = group.staying(staying, leaver)
    position = z3.If(leaver.position < staying.position, staying.position - 1, staying.position)
    return z3.And(
        staying.takes(queue) == (group.falls_to(queue) == staying.position),
        then.takes(queue) == (group.falls_to(queue, fewer=1) == position),
    )


def inner_covers(group: Group) -> z3.BoolRef:
    """Any queue is taken: by whom the inner strategy gives it."""
    queue = group.number("k", below=group.queues)
    return group.member_at(group.inner_owner_position(queue)).takes(queue)


def rooms_are_kept(group: Group) -> z3.BoolRef:
    """What a member takes is of its own room, or of a room that nobody is in."""
    member = group.member("i")
    queue = group.number("k", below=group.queues)
    room = group.room(queue)
    near_or_free = z3.Or(room == member.room, z3.Not(group.has_member(room)))
    return z3.Implies(member.takes(queue), near_or_free)


def takes_as_configured(group: Group) -> z3.BoolRef:
    """A client takes what is in its list, whether it is a member or not."""
    queue = group.number("k", below=group.queues)
    return z3.And(
        [
            client.takes(queue) == client.configured(queue)
            for client in (group.member("i"), group.stranger())
        ]
    )


AVG, CIRCLE = "AVG", "AVG_BY_CIRCLE"

THEOREMS = (
    Theorem(
        "averagely-disjoint",
        ("ALLOC-001",),
        "No two members take the same queue, and none takes one twice.",
        AVG,
        disjoint,
    ),
    Theorem(
        "averagely-covers",
        ("ALLOC-002",),
        "Every queue is taken.",
        AVG,
        covers,
    ),
    Theorem(
        "averagely-balanced",
        ("ALLOC-003",),
        "No member takes two queues more than another.",
        AVG,
        balanced,
    ),
    Theorem(
        "averagely-earlier-no-less",
        ("ALLOC-004",),
        "An earlier member takes no fewer queues.",
        AVG,
        earlier_takes_no_less,
    ),
    Theorem(
        "averagely-contiguous",
        ("ALLOC-005",),
        "A member takes neighbours, and an earlier member the earlier ones.",
        AVG,
        contiguous,
    ),
    Theorem(
        "averagely-as-in-java",
        ("ALLOC-016",),
        "The slice is the one that the real client's formula gives.",
        AVG,
        as_in_java,
    ),
    Theorem(
        "circle-disjoint",
        ("ALLOC-008",),
        "No two members take the same queue, and none takes one twice.",
        CIRCLE,
        disjoint,
    ),
    Theorem(
        "circle-covers",
        ("ALLOC-008",),
        "Every queue is taken.",
        CIRCLE,
        covers,
    ),
    Theorem(
        "circle-balanced",
        ("ALLOC-003",),
        "No member takes two queues more than another.",
        CIRCLE,
        balanced,
    ),
    Theorem(
        "circle-earlier-no-less",
        ("ALLOC-004",),
        "An earlier member takes no fewer queues.",
        CIRCLE,
        earlier_takes_no_less,
    ),
    Theorem(
        "circle-dealt",
        ("ALLOC-009",),
        "The queue at p goes to the member at p mod (number of members).",
        CIRCLE,
        dealt,
    ),
    Theorem(
        "machine-room-disjoint",
        ("ALLOC-019",),
        "No two members take the same queue, whatever rooms there are.",
        MACHINE_ROOM,
        disjoint,
    ),
    Theorem(
        "machine-room-covers",
        ("ALLOC-019",),
        "Every queue of the rooms in the list is taken.",
        MACHINE_ROOM,
        room_covers,
    ),
    Theorem(
        "machine-room-takes-nothing-else",
        ("ALLOC-019",),
        "No queue of another room is taken.",
        MACHINE_ROOM,
        only_near,
    ),
    Theorem(
        "nearby-disjoint",
        ("ALLOC-017",),
        "No two members take the same queue, whatever inner strategy partitions.",
        NEARBY,
        disjoint,
    ),
    Theorem(
        "nearby-covers",
        ("ALLOC-017",),
        "Every queue is taken, whatever inner strategy partitions.",
        NEARBY,
        inner_covers,
    ),
    Theorem(
        "nearby-keeps-to-rooms",
        ("ALLOC-018",),
        "A member takes queues of its own room, and of rooms that nobody is in.",
        NEARBY,
        rooms_are_kept,
    ),
    Theorem(
        "config-takes-what-it-is-told",
        ("ALLOC-020",),
        "A client takes the queues of its list, whatever the topic and the members are.",
        CONFIG,
        takes_as_configured,
    ),
    Theorem(
        "config-disjoint",
        ("ALLOC-022",),
        "No two members take the same queue, whatever their lists.",
        CONFIG,
        disjoint,
        holds=False,
    ),
    Theorem(
        "consistent-hash-disjoint",
        ("ALLOC-012",),
        "No two members take the same queue, whatever the hash function.",
        CONSISTENT_HASH,
        disjoint,
    ),
    Theorem(
        "consistent-hash-covers",
        ("ALLOC-012",),
        "Every queue is taken, whatever the hash function, if the ring has a point.",
        CONSISTENT_HASH,
        ring_covers,
    ),
    Theorem(
        "consistent-hash-takes-what-is-next",
        ("ALLOC-012",),
        "A queue goes to whose id stands at the first point at or after its hash, round the end.",
        CONSISTENT_HASH,
        next_on_the_ring,
        unique=False,
    ),
    Theorem(
        "consistent-hash-moves-the-leavers-only",
        ("ALLOC-011",),
        "After a leave who stays keeps its queues, and gets the leaver's that it stands next to.",
        CONSISTENT_HASH,
        only_the_leavers_move,
    ),
    Theorem(
        "averagely-moves-by-positions",
        ("ALLOC-002",),
        "After a leave, who stood behind the leaver takes what falls one position earlier.",
        AVG,
        moves_by_positions,
    ),
    Theorem(
        "circle-moves-by-positions",
        ("ALLOC-009",),
        "After a leave, who stood behind the leaver takes what falls one position earlier.",
        CIRCLE,
        moves_by_positions,
    ),
    Theorem(
        "averagely-moves-the-leavers-only",
        ("ALLOC-010",),
        "Who stays keeps its queues after a leave.",
        AVG,
        stays_with_its_own,
        holds=False,
    ),
    Theorem(
        "stranger-takes-nothing",
        ("ALLOC-006",),
        "A client that is not in the list takes nothing, without an error.",
        ANY,
        strangers_take_nothing,
    ),
    Theorem(
        "refusals",
        ("ALLOC-007",),
        "An empty id or list is refused, in the real order and with the real messages.",
        ANY,
        refusals,
        empty=True,
    ),
    Theorem(
        "members-are-refused",
        ("ALLOC-007",),
        "A member is refused if there is no queue, and only then.",
        AVG,
        members_are_refused,
        empty=True,
    ),
    Theorem(
        "averagely-whatever-the-ids",
        ("ALLOC-001", "ALLOC-002"),
        "All who have the id at a queue's position take it; nobody, if the id comes before too.",
        AVG,
        falls_to_first,
        unique=False,
    ),
    Theorem(
        "circle-whatever-the-ids",
        ("ALLOC-008",),
        "All who have the id at a queue's position take it; nobody, if the id comes before too.",
        CIRCLE,
        falls_to_first,
        unique=False,
    ),
    Theorem(
        "averagely-disjoint-whatever-the-ids",
        ("ALLOC-014",),
        "No two members take the same queue, even if they have one id.",
        AVG,
        disjoint,
        unique=False,
        holds=False,
    ),
)
