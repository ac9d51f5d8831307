"""The rows of some queues as columns: what the checks that judge by queue read.

Of many queues at once; with a `seat` for each member that was at one, which says what is known of
it, its group and its brokers by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import (
    NIL,
    Flags,
    Groups,
    Whole,
    anywhere,
    combined,
    least,
    most,
    nullable,
    numbers,
    ordered,
    texts,
)
from mqaudit.judged import Known


class Did(IntEnum):
    """What a row says that was done. `SEAT`: nothing, but what is known of a member."""

    SEND = 1  # these three name a message's offset
    RECEIVE = 2
    ACK = 3
    COMMIT = 4
    QUERY_OFFSET = 5
    ASSIGN = 6
    REVOKE = 7
    LOCK = 8
    UNLOCK = 9
    SEAT = 10


class Went(IntEnum):
    """How it ended."""

    INVOKED = 1
    OK = 2
    FAILED = 3
    UNKNOWN = 4


# What a part is made from, in Spark's words. `at` is an offset: of the message, or that of the
# commit or the answer; of a lock it is the time in ns. What a row belongs to is told by `seat`, a
# hash of which the rows that are seats have the names, as JSON in `about`; no two seats share one,
# which is checked. `message_hash` tells apart what was given one offset, and nothing else. What is
# `marked` of the answers where to begin is a seek, and of the commits what a pull carried.
INPUT: Final = """
    queue long, seat long, seq long, did int, went int, marked boolean, at long,
    store_epoch long, attempt long, tag string, message string, message_hash long, about string
"""
_NUMBERS: Final = (
    "seat", "seq", "did", "went", "at", "store_epoch", "attempt", "message_hash",
)  # fmt: skip
_SEAT: Final = ("run", "topic", "broker", "queue_id", "consumer_group", "process", "client_id")
_TEXTS: Final = (*(name for name in _SEAT if name != "queue_id"), "facts")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a member at a queue before the queue is looked at. Sent as JSON."""

    is_member: bool = False  # it owned some queue of the group
    acks: bool = False  # it records what it has finished
    group_acks: bool = False  # some member of its group does
    incomplete: bool = False  # a member of its group, or a part of the run, was not recorded
    wanted: Sequence[str] | None = None  # what the group subscribed to of the topic
    own: Sequence[str] | None = None  # what the member did
    # What the member sent its broker between these two, the broker has read: it answered what
    # the member asked at the second, over a connection that had not ended since the first.
    read_after: int = 0
    read_before: int = 0
    crashes: Sequence[tuple[str, int]] = ()  # of the broker: (process, seq)
    run_crashed: bool = False  # a broker of the run crashed


class Seats:
    """Who was at which queue: little, and what all rows are told apart by.

    A `queue` is numbered; so is a queue as a group sees it (`group_queue`), as one recorder saw
    it for a group (`recorder_queue`), and a member's `hold` of it.
    """

    def __init__(self, hashes: Whole, about: pa.Array) -> None:
        order = np.argsort(hashes)
        self.hashes = hashes[order]
        said = [json.loads(text) for text in about.take(pa.array(order)).to_pylist()]
        self.text = {
            name: texts(pa.chunked_array([[one.get(name) for one in said]], pa.string()))
            for name in _TEXTS
        }
        self.queue_id = np.array([one["queue_id"] for one in said], np.int64)
        self.queue, first = combined(
            *(self.text[name].codes for name in ("run", "topic", "broker")), self.queue_id
        )
        self.queues = len(first)
        self.group_queue, first = combined(self.queue, self["consumer_group"])
        self.group_queues = len(first)
        self.queue_of, self.group_of = self.queue[first], self["consumer_group"][first]
        self.recorder_queue, first = combined(self.group_queue, self["process"])
        self.recorder_queues = len(first)
        self.group_queue_of, self.process_of = self.group_queue[first], self["process"][first]
        self.hold, first = combined(self.recorder_queue, self["client_id"])
        self.holds = len(first)
        self.facts = [
            Facts(**json.loads(text)) if text else Facts()
            for text in self.text["facts"].known.to_pylist()
        ]

    def __getitem__(self, name: str) -> Whole:
        return self.text[name].codes

    def facts_of(self, code: Whole, size: int) -> Whole:
        """The number of what is known at each hold, or queue; 0 where nothing is."""
        return most(code, size, self["facts"])


class Part:
    """The rows of some queues as columns, and the seats that they belong to."""

    def __init__(self, columns: Mapping[str, pa.ChunkedArray]) -> None:
        self._number = {name: numbers(columns[name]) for name in _NUMBERS}
        self.did, self.went = self._number["did"], self._number["went"]
        is_seat = np.flatnonzero(self.did == Did.SEAT)
        self.seats = Seats(self._number["seat"][is_seat], columns["about"].take(pa.array(is_seat)))
        self.seat = np.searchsorted(self.seats.hashes, self._number.pop("seat"))
        marked: Flags = columns["marked"].fill_null(False).to_numpy()
        self.is_seek: Flags = marked & (self.did == Did.QUERY_OFFSET)
        self.is_carried: Flags = marked & (self.did == Did.COMMIT)
        self.tag = texts(columns["tag"])
        self.message = columns["message"].combine_chunks()

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Part | None:
        """All rows of some batches; none where there are none."""
        kept = [batch for batch in batches if batch.num_rows]
        if not kept:
            return None
        table = pa.Table.from_batches(kept)
        return cls({name: table[name] for name in table.column_names})

    def __getitem__(self, name: str) -> Whole:
        """A number of each row, or the code of a text of its seat."""
        if name in self._number:
            return self._number[name]
        return self.tag.codes if name == "tag" else self._of_seat(self.seats[name])

    def _of_seat(self, column: Whole) -> Whole:
        return column[self.seat]

    @cached_property
    def has_group(self) -> Flags:
        return (self.seats["consumer_group"] > 0)[self.seat]

    @cached_property
    def queue(self) -> Whole:
        return self._of_seat(self.seats.queue)

    @cached_property
    def group_queue(self) -> Whole:
        return self._of_seat(self.seats.group_queue)

    @cached_property
    def recorder_queue(self) -> Whole:
        return self._of_seat(self.seats.recorder_queue)

    @cached_property
    def hold(self) -> Whole:
        return self._of_seat(self.seats.hold)

    @property
    def group_queues(self) -> int:
        return self.seats.group_queues

    @property
    def recorder_queues(self) -> int:
        return self.seats.recorder_queues

    @property
    def holds(self) -> int:
        return self.seats.holds

    @property
    def queue_of(self) -> Whole:
        """The queue of each group's queue."""
        return self.seats.queue_of

    @property
    def group_of(self) -> Whole:
        """The group of each group's queue."""
        return self.seats.group_of

    @property
    def group_queue_of(self) -> Whole:
        """The group's queue of each recorder's."""
        return self.seats.group_queue_of

    @property
    def process_of(self) -> Whole:
        """The recorder of each recorder's queue."""
        return self.seats.process_of

    @property
    def facts(self) -> Sequence[Facts]:
        """By number; the first is of whom nothing is known."""
        return self.seats.facts

    @cached_property
    def facts_of_hold(self) -> Whole:
        """The number of what is known of each member's hold."""
        return self.seats.facts_of(self.seats.hold, self.holds)

    @cached_property
    def facts_of_group_queue(self) -> Whole:
        """That of some member at each group's queue."""
        return self.seats.facts_of(self.seats.group_queue, self.group_queues)

    @cached_property
    def facts_of_queue(self) -> Whole:
        """That of some member at each queue."""
        return self.seats.facts_of(self.seats.queue, self.seats.queues)

    def known(self, name: str, codes: Whole) -> Any:
        """A flag of the facts with these codes."""
        return np.array([getattr(facts, name) for facts in self.facts])[codes]

    # Messages: by the offset and the message that were given to each other in a queue.

    @cached_property
    def placed(self) -> Whole:
        """The rows that name an offset, in the order of queue, offset and message."""
        rows = np.flatnonzero(self.did <= Did.ACK)
        rows = rows[ordered(self.queue[rows], self["at"][rows])]
        slots = Groups.of(self.queue[rows], self["at"][rows])
        message = self["message_hash"][rows]
        # Most offsets were given to one message only: the others are put in order by theirs.
        differs = message != message[slots.start]
        mixed = anywhere(slots.number, len(slots.firsts), differs)[slots.number]
        few = np.flatnonzero(mixed)
        rows[few] = rows[few[ordered(slots.number[few], message[few])]]
        return rows

    @cached_property
    def _copies(self) -> Groups:
        rows = self.placed
        return Groups.of(self.queue[rows], self["at"][rows], self["message_hash"][rows])

    @cached_property
    def copy(self) -> Whole:
        """By row, the number of its message at its offset, in the order of offsets; else -1."""
        found = np.full(len(self.did), -1)
        found[self.placed] = self._copies.number
        return found

    @cached_property
    def copies(self) -> int:
        return len(self._copies.firsts)

    @cached_property
    def slot_of(self) -> Whole:
        """The number of each copy's offset, likewise: several copies may share one."""
        rows = self.placed[self._copies.firsts]
        return Groups.of(self.queue[rows], self["at"][rows]).number

    @cached_property
    def stored(self) -> Whole:
        """The rows of messages that a broker said it had stored, in the order of offsets."""
        placed = self.placed
        return np.asarray(placed[self.did[placed] == Did.SEND], np.int64)

    def wants(self, facts: Whole, tags: Whole) -> tuple[Flags, Flags]:
        """Whether some, and whether all expressions of subscriptions have a tag.

        `facts` names the group's. Where nothing is known of a subscription both are up.
        """
        return self._wants(facts, tags, "wanted")

    def member_wants(self, facts: Whole, tags: Whole) -> Flags:
        """Whether some expression of a member's own subscriptions has a tag, likewise."""
        return self._wants(facts, tags, "own")[0]

    def _wants(self, facts: Whole, tags: Whole, whose: str) -> tuple[Flags, Flags]:
        code, rows = combined(facts, tags)
        known = self.tag.known
        pairs = [
            [_wants(expression, known[tag].as_py()) for expression in wanted]
            if (wanted := getattr(self.facts[fact], whose)) is not None
            else [True]
            for fact, tag in zip(facts[rows].tolist(), tags[rows].tolist(), strict=True)
        ]
        some = np.array([any(pair) for pair in pairs], bool)
        each = np.array([all(pair) for pair in pairs], bool)
        return some[code], each[code]

    def place(self, rows: Whole, group: Whole | None = None) -> dict[str, Any]:
        """The columns that name where something was done; `group` is by code, if not the row's."""
        seat = self.seat[rows]
        group = self.seats["consumer_group"][seat] if group is None else group
        offset = nullable(self["at"][rows])
        return {
            **{name: self.seats.text[name].take(seat) for name in _TEXTS if name != "facts"},
            "consumer_group": self.seats.text["consumer_group"].known.take(pa.array(group)),
            "queue_id": self.seats.queue_id[seat],
            "seq": self["seq"][rows],
            "queue_offset": offset,
            "value": offset,
            "message": self.message.take(pa.array(rows)),
        }

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence(self)

    @cached_property
    def tenured(self) -> Tenured:
        return Tenured.of(self)


def _wants(expression: str, tag: str | None) -> bool:
    """Whether an expression has the tag; a message without one is had by '*' alone."""
    return expression == "*" or tag in [one.strip(" ") for one in expression.split("||")]


class Evidence:
    """What is known of each message at an offset and each group that got it there."""

    def __init__(self, part: Part) -> None:
        events = np.flatnonzero(
            ((part.did == Did.RECEIVE) | (part.did == Did.ACK)) & part.has_group
        )
        self._events, self._part = events, part
        self._groups = part.seats.text["consumer_group"].count
        self._code, first = combined(
            part.copy[events] * self._groups + part["consumer_group"][events]
        )
        self.rows = events[first]  # one of each message and group

        facts = part.facts_of_hold[part.hold[events]]
        member, acks = part.known("is_member", facts), part.known("acks", facts)
        finished = (part.did[events] == Did.ACK) & acks
        unsaid = member & ~acks
        failed = part.went[events] == Went.FAILED
        handled = finished & ~failed | unsaid & ~part.known("group_acks", facts)
        self.known = np.zeros(len(first), np.int64)  # flags of Known
        for flags, what in (
            (handled, Known.HANDLED),
            (unsaid, Known.UNSAID),
            (finished & failed, Known.GIVEN_BACK),
            (~member, Known.ELSEWHERE),
        ):
            self.known[anywhere(self._code, len(first), flags)] |= what

    def of(self, rows: Whole) -> Whole:
        """The number of the message and group of rows that tell of one."""
        found = np.full(len(self._part.did), -1)
        found[self._events] = self._code
        return found[rows]

    def is_handled(self, copy: Whole, group: Whole) -> Flags:
        """Whether a group has handled a message at an offset."""
        handled = np.zeros(self._part.copies * self._groups, bool)
        rows = self.rows[self.known & Known.HANDLED > 0]
        handled[self._part.copy[rows] * self._groups + self._part["consumer_group"][rows]] = True
        return np.asarray(handled[copy * self._groups + group], bool)


@dataclass(frozen=True)
class Tenured:
    """What members did at queues that they had been assigned, in the order in which they did.

    A tenure begins with an assignment; a member that asks where to begin just before it is
    assigned the queue asks for that assignment. A seek begins a tenure as well, which is
    `sought`; the member may repeat its `former` commit, of the tenure before, until it commits
    anew. One by which a member begins for which its broker keeps no offset is its `own_start`.
    """

    part: Part
    rows: Whole  # rows of the part
    tenures: Groups
    sought: Flags
    own_start: Flags
    former: Flags
    _by_column: dict[str, Whole] = field(default_factory=dict)

    @classmethod
    def of(cls, part: Part) -> Tenured:
        did, went = part.did, part.went
        rows = np.flatnonzero(
            (did >= Did.RECEIVE)
            & (did <= Did.REVOKE)
            & (
                (went == Went.OK)
                | (went == Went.UNKNOWN)
                | (went == Went.FAILED) & (did == Did.ACK)
            )
            & part.has_group
            & (part["client_id"] > 0)
        )
        rows = rows[ordered(part.hold[rows], part["seq"][rows])]
        did, hold, seek, at = did[rows], part.hold[rows], part.is_seek[rows], part["at"][rows]
        holds = Groups.of(hold)
        asks = (did == Did.QUERY_OFFSET) & ~seek
        early = asks & (holds.after(did, 0) == Did.ASSIGN) & (holds.before(did, 0) != Did.ASSIGN)
        tenure = holds.count((did == Did.ASSIGN) | seek) + early
        committed = holds.before(holds.latest(np.where(did == Did.COMMIT, at, NIL)))
        number = np.arange(len(rows))
        asked = holds.latest(np.where(asks, number, NIL))
        read = holds.before(holds.latest(np.where((did == Did.RECEIVE) | seek, number, NIL)))
        starts = seek & (asked > read) & (at[asked.clip(0)] == NIL)

        kept = tenure > 0
        rows, did, seek, at, committed, starts = (
            column[kept] for column in (rows, did, seek, at, committed, starts)
        )
        tenures = Groups.of(hold[kept], tenure[kept])
        sought = tenures.count(seek) > 0
        reached = tenures.highest(_reach(did, at))
        former = (
            sought & (did == Did.COMMIT) & (at == committed) & (at > reached) & (reached != NIL)
        )
        return cls(part, rows, tenures, sought, tenures.count(starts) > 0, former)

    def __getitem__(self, name: str) -> Whole:
        if name not in self._by_column:
            self._by_column[name] = self.part[name][self.rows]
        return self._by_column[name]

    @cached_property
    def did(self) -> Whole:
        return self["did"]

    @cached_property
    def is_ok(self) -> Flags:
        return np.asarray(self["went"] == Went.OK, bool)

    @cached_property
    def is_seek(self) -> Flags:
        return self.part.is_seek[self.rows]

    @cached_property
    def asks(self) -> Flags:
        """A member asks its broker where to begin."""
        return np.asarray((self.did == Did.QUERY_OFFSET) & ~self.is_seek, bool)

    @cached_property
    def hold(self) -> Whole:
        return self.part.hold[self.rows]

    @cached_property
    def recorder_queue(self) -> Whole:
        return self.part.recorder_queue[self.rows]

    @cached_property
    def group_queue(self) -> Whole:
        return self.part.group_queue[self.rows]

    @cached_property
    def copy(self) -> Whole:
        return self.part.copy[self.rows]

    @cached_property
    def tenure(self) -> Whole:
        """Which tenure, of all, in the order of the rows."""
        return self.tenures.number

    @property
    def count(self) -> int:
        """How many tenures there are."""
        return len(self.tenures.firsts)

    @cached_property
    def reach(self) -> Whole:
        """How far a row shows that its member had come."""
        return _reach(self.did, self["at"])

    @cached_property
    def acks(self) -> Flags:
        """Whether the row's member records what it has finished."""
        acks: Flags = self.part.known("acks", self.part.facts_of_hold[self.hold])
        return acks

    @cached_property
    def in_order_of_recorders(self) -> Whole:
        """The rows by recorder and queue, in the order in which it saw them."""
        return ordered(self.recorder_queue, self["seq"])

    def first_value(self, when: Flags) -> Whole:
        """Of each tenure the value of its first row of some kind; NIL where there is none."""
        row = least(self.tenure, self.count, np.arange(len(self.rows)), when)
        return np.where(row != NIL, self["at"][row.clip(0)], NIL)

    def of_tenure(self, column: Whole) -> Whole:
        """A column of what all rows of a tenure share, by tenure."""
        return column[self.tenures.firsts]


def _reach(did: Whole, at: Whole) -> Whole:
    asked = np.where(did == Did.QUERY_OFFSET, at, NIL)
    return np.where(did == Did.RECEIVE, at + 1, asked)
