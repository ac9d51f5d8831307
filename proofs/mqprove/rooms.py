"""What rooms are to a proof: a dictionary of lists, by the room that each item is in.

A loop that puts every item of a list to its room is known by that: of any room, which items are in
it. The items keep their order within a room. A loop over the rooms is tried on one of them, any;
what it takes of each is put together by the room that a queue is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import z3

from mqprove.group import GROUP_NAME
from mqprove.iterables import Collected, Filled, Turns
from mqprove.lists import (
    Base,
    Choice,
    Id,
    Ids,
    Listing,
    Piece,
    Queue,
    Text,
    Unknown,
    first_at,
    id_at,
    is_listed,
    known_bases,
)
from mqprove.symbolic import NotUnderstoodError, Number, Term, Truth, decide, effects, fact, turn

NONE, EMPTY = z3.IntVal(0), z3.IntVal(1)  # what may stand in place of a room; rooms are above
ROOM_OF_QUEUE: Final = z3.Function("room of queue", z3.IntSort(), z3.IntSort())
ROOM_OF_ID: Final = z3.Function("room of id", z3.IntSort(), z3.IntSort())

T = TypeVar("T")


class Room(Unknown):
    """The name of a room, or None, or an empty text."""

    def __init__(self, term: Term) -> None:
        self.term = term
        self.is_none = term == NONE

    def __bool__(self) -> bool:
        return decide(self.term > EMPTY)

    def __eq__(self, other: object) -> Any:
        match other:
            case Room():
                return Truth(self.term == other.term)
            case None:
                return Truth(self.term == NONE)
            case "":
                return Truth(self.term == EMPTY)
            case _:
                raise NotUnderstoodError(f"a room compared with {other!r}")


def room_of_queue(queue: object) -> Room:
    """Any function that knows a room for every queue."""
    if not isinstance(queue, Queue) or queue.base.parent is not None:
        raise NotUnderstoodError("the room of something else than a queue of the topic")
    return _known(ROOM_OF_QUEUE(queue.rank))


def room_of_id(cid: object) -> Room:
    """Any function that knows a room for every client id."""
    if not isinstance(cid, Id):
        raise NotUnderstoodError("the room of something else than a client id")
    return _known(ROOM_OF_ID(cid.term))


def _known(room: Term) -> Room:
    fact(room > EMPTY)
    return Room(room)


# Items by their room


@dataclass
class Grouping:
    """The items of a list by room: `key` tells the room of the item at a position."""

    of: object  # what a turn of the loop was given: a queue or an id
    key: Callable[[Term], Term]
    length: Term  # of the list

    def __post_init__(self) -> None:
        self.name = f"by {self.key(z3.Int('item'))}"  # so that equal ones are one to Z3
        self._has = z3.Function(f"has: {self.name}", z3.IntSort(), z3.BoolSort())
        self._size = z3.Function(f"size: {self.name}", z3.IntSort(), z3.IntSort())
        self._some = z3.Function(f"some: {self.name}", z3.IntSort(), z3.IntSort())
        self._rank = z3.Function(f"rank: {self.name}", z3.IntSort(), z3.IntSort())

    def has(self, room: Term) -> z3.BoolRef:
        """Whether anything is in the room."""
        return self._has(room)

    def size(self, room: Term) -> Term:
        """How many items are in it."""
        return self._size(room)

    def rank(self, position: Term) -> Term:
        """Which of its room's items the one at a position is."""
        return self._rank(position)

    def facts_of_room(self, room: Term) -> list[z3.BoolRef]:
        """Where something is in a room, some position has an item of it."""
        some = self._some(room)
        return [
            self.size(room) >= 0,
            self.has(room) == (self.size(room) > 0),
            z3.Implies(
                self.has(room), z3.And(some >= 0, some < self.length, self.key(some) == room)
            ),
        ]

    def facts_of_item(self, position: Term) -> list[z3.BoolRef]:
        """An item is in its room, at a place before the room's size."""
        room, rank = self.key(position), self.rank(position)
        inside = z3.And(position >= 0, position < self.length)
        told = z3.And(self.has(room), rank >= 0, rank < self.size(room))
        return [*self.facts_of_room(room), z3.Implies(inside, told)]

    def items(self, room: Term) -> Listing | Ids:
        """What is in a room, as a list."""
        for each in self.facts_of_room(room):
            fact(each)
        if isinstance(self.of, Id):
            return RoomIds(self, room)
        return Listing([Piece(self._base(room), z3.IntVal(0), self.size(room), z3.IntVal(1))])

    def _base(self, room: Term) -> Base:
        name = f"{self.name} of {room}"
        parent = known_bases()["all"]
        made = _RoomBase(
            name,
            self.size(room),
            lambda queue: z3.And(parent.inside(queue), self.key(queue) == room),
            self.rank,
            parent=parent,
        )
        made.grouping, made.room = self, room
        return known_bases().setdefault(name, made)


@dataclass
class _RoomBase(Base):
    """The queues of a room."""

    grouping: Grouping = field(init=False)
    room: Term = field(init=False)

    def facts(self, queue: Term) -> list[z3.BoolRef]:
        return [*super().facts(queue), *self.grouping.facts_of_item(queue)]


class RoomIds(Ids):
    """The ids of a room, in the order of the list."""

    def __init__(self, grouping: Grouping, room: Term) -> None:
        super().__init__(grouping.size(room))
        self.grouping, self.room = grouping, room

    def holds(self, cid: Id) -> z3.BoolRef:
        position = first_at(cid.term)
        for each in self.grouping.facts_of_item(position):
            fact(z3.Implies(is_listed(cid.term), each))
        return z3.And(is_listed(cid.term), self.grouping.key(position) == self.room)

    def at(self, place: Term) -> Id:
        raise NotUnderstoodError("a position among the ids of a room")

    def place(self, cid: Id) -> Term:
        return self.grouping.rank(first_at(cid.term))

    def copy(self) -> Ids:
        return RoomIds(self.grouping, self.room)


class Map(dict[Any, Any], Collected):
    """A dictionary. What a loop's turn does to it is known where every turn adds its own item to
    the list of a room; anything else in a turn is refused."""

    def __init__(self, *given: Any, makes_lists: bool = False) -> None:
        super().__init__(*given)
        self.makes_lists = makes_lists  # as a defaultdict(list) does
        self.grouping: Grouping | None = None
        self.depth = turn()
        self._known: dict[str, bool] = {}  # in a turn, by room: whether it is there
        self._known_in: object = None  # which turn

    # In a turn

    def _here(self) -> dict[str, bool]:
        if self._known_in is not effects():
            self._known_in, self._known = effects(), {}
        return self._known

    def _in_turn(self) -> bool:
        return self.depth < turn() and self.grouping is None

    def _slot(self, key: object) -> _Slot:
        if not isinstance(key, Room) or dict.__len__(self):
            raise NotUnderstoodError("a dictionary that a loop fills by something else than rooms")
        return _Slot(self, key.term)

    def over_turns(self, added: Sequence[tuple[Choice, Any]], given: object, each: object) -> None:
        """What all turns did: each put what it was given to its room."""
        rooms = {str(z3.simplify(room)): room for _, (room, _) in added}
        if len(rooms) != 1 or any(item is not each for _, (_, item) in added):
            raise NotUnderstoodError("items that a loop puts to rooms of others")
        (room,) = rooms.values()
        at = added[0][0].turn

        def key(position: Term) -> Term:
            return z3.substitute(room, (at, position))

        self.grouping = Grouping(each, key, _whole_length(given))

    def turns(self) -> Turns | None:
        """Its rooms, where a loop filled it."""
        return Rooms(self.grouping) if self.grouping else None

    # As a dictionary

    def __contains__(self, key: object) -> bool:
        if self._in_turn():
            room = self._slot(key).room
            self._here()[str(room)] = decide(z3.FreshBool("put there by another turn"))
            return self._here()[str(room)]
        if self.grouping and isinstance(key, Room):
            return decide(self._has(key.term))
        return super().__contains__(_ordinary(key))

    def _has(self, room: Term) -> z3.BoolRef:
        assert self.grouping
        for each in self.grouping.facts_of_room(room):
            fact(each)
        if isinstance(self.grouping.of, Id) and room.decl().eq(ROOM_OF_ID):
            # The room of an id that is in the list has a member.
            cid = room.arg(0)
            for each in self.grouping.facts_of_item(first_at(cid)):
                fact(z3.Implies(is_listed(cid), each))
            fact(z3.Implies(is_listed(cid), id_at(first_at(cid)) == cid))
        return self.grouping.has(room)

    def __getitem__(self, key: object) -> Any:
        if self._in_turn():
            slot = self._slot(key)
            if not self.makes_lists and self._here().get(str(slot.room)) is not True:
                raise NotUnderstoodError("a room that a turn does not know to be there")
            return slot
        if self.grouping and isinstance(key, Room):
            if not decide(self._has(key.term)):
                if self.makes_lists:
                    raise NotUnderstoodError("a room that is made by looking at it")
                raise KeyError(key)
            return self.grouping.items(key.term)
        return super().__getitem__(_ordinary(key))

    def __setitem__(self, key: object, value: object) -> None:
        if self.grouping:
            raise NotUnderstoodError("a room that is given another list")
        if not self._in_turn():
            super().__setitem__(_ordinary(key), value)
            return
        slot = self._slot(key)
        if isinstance(value, _WithOne) and value.map is self and value.room.eq(slot.room):
            slot.append(value.item)
            return
        is_absent = self._here().get(str(slot.room)) is False
        if not is_absent or not isinstance(value, Listing) or value.pieces:
            raise NotUnderstoodError("a room that a turn gives another list")
        self._here()[str(slot.room)] = True

    def setdefault(self, key: object, default: Any = None) -> Any:
        if self.grouping:
            raise NotUnderstoodError("a room that may be made after the loop")
        if not self._in_turn():
            return super().setdefault(_ordinary(key), default)
        if not isinstance(default, Listing) or default.pieces:
            raise NotUnderstoodError("a room that does not begin empty")
        return self._slot(key)

    def get(self, key: object, default: Any = None) -> Any:
        if self._in_turn():
            if not isinstance(default, Listing) or default.pieces:
                raise NotUnderstoodError("what earlier turns put to a room")
            return _Earlier(self, self._slot(key).room)
        if key not in self:
            return default
        return self[key]

    def items(self) -> Any:
        return Rooms(self.grouping, with_items=True) if self.grouping else super().items()

    def keys(self) -> Any:
        return Rooms(self.grouping) if self.grouping else super().keys()

    def __iter__(self) -> Iterator[Any]:
        if self.grouping:
            raise NotUnderstoodError("rooms, one by one")
        return super().__iter__()

    def _refused(self, *_: object, **__: object) -> Any:
        raise NotUnderstoodError("what is done to a dictionary here")

    def __len__(self) -> int:
        if self.grouping or self._in_turn():
            raise NotUnderstoodError("how many rooms there are")
        return super().__len__()

    __eq__ = __ne__ = copy = fromkeys = __reversed__ = _refused
    __delitem__ = pop = popitem = clear = update = values = __or__ = __ior__ = _refused


def _ordinary(key: T) -> T:
    if isinstance(key, Unknown | Number):
        raise NotUnderstoodError(f"a {type(key).__name__.lower()} in an ordinary dictionary")
    return key


@dataclass(frozen=True, slots=True)
class _Slot(Filled):
    """The list of one room, in a turn."""

    map: Map
    room: Term

    def append(self, item: object) -> None:
        effects().append((self.map, (self.room, item)))


@dataclass(frozen=True, slots=True)
class _Earlier(Filled):
    """What earlier turns put to a room, in a turn: a list that may not be the room's own."""

    map: Map
    room: Term

    def with_one(self, item: object) -> Any:
        return _WithOne(self.map, self.room, item)


@dataclass(frozen=True, slots=True)
class _WithOne(Filled):
    """That, and one item more, which the turn may put to the room."""

    map: Map
    room: Term
    item: object


def _whole_length(given: object) -> Term:
    """The length of a list that a loop went through, which must be a whole one."""
    if type(given) is Ids:
        return given.length
    piece = given.only() if isinstance(given, Listing) else None
    if piece is None or not piece.is_plain or not piece.stop.eq(piece.base.length):
        raise NotUnderstoodError("rooms of a part of a list")
    return piece.stop


# Loops over rooms


@dataclass(frozen=True, eq=False, repr=False)
class Rooms(Turns):
    """The rooms of a dictionary, in any order."""

    grouping: Grouping
    with_items: bool = False

    def any_turn(self, room: Term) -> tuple[z3.BoolRef, object]:
        """When a turn is one, and what it is given."""
        for each in self.grouping.facts_of_room(room):
            fact(each)
        name = Room(room)
        given = (name, self.grouping.items(room)) if self.with_items else name
        return self.grouping.has(room), given

    def over_turns(self, piece: Any, choice: Choice) -> InRooms:
        """What one turn takes of its room, over all rooms."""
        base = getattr(piece, "base", None)
        if not isinstance(base, _RoomBase) or not self._is_own(base, choice.turn):
            raise NotUnderstoodError("queues that a room's turn takes of others")
        return InRooms(self.grouping, piece, choice)

    def _is_own(self, base: _RoomBase, turn_room: Term) -> bool:
        return base.grouping.name == self.grouping.name and base.room.eq(turn_room)


@dataclass(frozen=True, slots=True)
class InRooms:
    """Of every room what a turn takes of it."""

    grouping: Grouping
    piece: Piece
    choice: Choice

    def contains(self, queue: Term) -> tuple[z3.BoolRef, list[z3.BoolRef]]:
        """Whether it holds a queue, and facts that the answer rests on."""
        holds, facts = self.piece.contains(queue)
        here = (self.choice.turn, self.grouping.key(queue))
        facts = [*facts, *self.choice.facts]
        holds = z3.And(holds, self.choice.condition, self.grouping.has(self.choice.turn))
        return z3.substitute(holds, here), [z3.substitute(each, here) for each in facts]

    def count(self) -> Term:
        raise NotUnderstoodError("how many are taken of all rooms")


# Any strategy within a room


_OWNER: Final = z3.Function(
    "owner within", z3.IntSort(), z3.IntSort(), z3.IntSort(), z3.IntSort()
)  # room of the queues, room of the ids, place in the list -> id
_STRANGER: Final = z3.Function(
    "taken without being asked", *[z3.IntSort()] * 4, z3.BoolSort()
)  # the same, and the client that is not among the ids
ALL_IDS: Final = z3.IntVal(-1)  # in place of a room: all ids of the group


def partition(group: object, current_cid: Id, mq_all: Listing, cid_all: Ids) -> Listing:
    """Any strategy that gives every queue of a list to exactly one of the ids that it is given: it
    is no more than a function from the list, the ids and the place to that id, which may look at
    the group's name, as long as that is handed on. What a client takes that is not among the ids
    is anybody's guess."""
    if not isinstance(group, Text) or group.name != GROUP_NAME:
        raise NotUnderstoodError("a strategy within a room, of another group")
    piece = mq_all.only()
    base = piece.base
    if not isinstance(base, _RoomBase) or not piece.is_plain or not piece.stop.eq(base.length):
        raise NotUnderstoodError("a strategy within a room, of other queues than a room's")
    room = cid_all.room if isinstance(cid_all, RoomIds) else ALL_IDS
    at = z3.FreshInt("place")
    owner = _OWNER(base.room, room, at)
    facts = _owner_facts(owner, room, z3.And(at >= 0, at < base.length, cid_all.length > 0))
    taken = z3.If(
        cid_all.holds(current_cid),
        owner == current_cid.term,
        _STRANGER(base.room, room, at, current_cid.term),
    )
    chosen = Choice(at, taken, facts)
    return Listing([Piece(base, piece.start, piece.stop, piece.step, chosen)])


def _owner_facts(owner: Term, room: Term, inside: z3.BoolRef) -> tuple[z3.BoolRef, ...]:
    known = is_listed(owner) if room is ALL_IDS else z3.And(is_listed(owner), _is_in(owner, room))
    return (z3.Implies(inside, known),)


def _is_in(cid: Term, room: Term) -> z3.BoolRef:
    return z3.And(ROOM_OF_ID(cid) == room, id_at(first_at(cid)) == cid)


def members_by_room(length: Term) -> Grouping:
    """The ids of a list, by room."""
    return Grouping(Id(z3.Int("any id")), lambda position: ROOM_OF_ID(id_at(position)), length)


def inner_owner(
    queue: Term, queues: Term, has_member: z3.BoolRef
) -> tuple[Term, Sequence[z3.BoolRef]]:
    """Whom the strategy within gives a queue, of its room's members, or of all if there is none;
    and what is known of that."""
    room = ROOM_OF_QUEUE(queue)
    by_room = Grouping(None, ROOM_OF_QUEUE, queues)
    near, far = (_OWNER(room, ids, by_room.rank(queue)) for ids in (room, ALL_IDS))
    facts = [
        *by_room.facts_of_item(queue),
        *_owner_facts(near, room, has_member),
        *_owner_facts(far, ALL_IDS, z3.BoolVal(True)),
    ]
    return z3.If(has_member, near, far), facts


# Python's own

BUILTINS: Final = ("dict", "defaultdict")


def dict_(*given: Any, **named: Any) -> Any:
    return dict(*given, **named) if given or named else Map()


def defaultdict_(factory: Any = None, *given: Any) -> Any:
    # Under proof `list` is the stand-in for it.
    if getattr(factory, "__name__", "") not in ("list", "list_") or given:
        raise NotUnderstoodError("a defaultdict of something else than lists")
    return Map(makes_lists=True)
