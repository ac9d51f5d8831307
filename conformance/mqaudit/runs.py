"""What comes together of a run to judge its groups: rows, seats and members, as columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import (
    NIL,
    Flags,
    Groups,
    Whole,
    anywhere,
    combined,
    most,
    numbers,
    ordered,
    paired,
    texts,
)
from mqrules import SECOND, EventKind

SEAT: Final = "seat"

# What is read of them, in Spark's words. Of a seat: how many events there are, how many joins,
# those besides membership, and messages stored; the positions of the first assignment (or seek),
# of the last acknowledgement, of the last request that its broker answered, and of the last work
# at it; the last offset that was stored, and the greatest that was committed or told; the span and
# the sum of positions, and the last time.
INPUT: Final = """
    run string, process string, seq long, time_ns long, kind string, went_ok boolean,
    consumer_group string, client_id string, topic string, broker string, queue_id long,
    tag string, peer string, source string, source_seq long,
    events long, joins long, others long, sent long, first_assigned long, last_acked long,
    last_answered long, last_worked long, last_stored long, reached long, least long,
    greatest long, total long, last_ns long
"""
_TEXTS: Final = (
    "run", "process", "kind", "consumer_group", "client_id", "topic", "broker", "tag", "peer",
    "source",
)  # fmt: skip
_NUMBERS: Final = (
    "seq", "time_ns", "queue_id", "source_seq", "events", "joins", "others", "sent",
    "first_assigned", "last_acked", "last_answered", "last_worked", "last_stored", "reached",
    "least", "greatest", "total", "last_ns",
)  # fmt: skip
_RANK: Final = re.compile(rf"{SECOND}\d+$")  # of another client of one id
GONE: Final = (EventKind.LEAVE.value, EventKind.CRASH.value)
BROKERS: Final = (EventKind.CRASH.value, EventKind.RESTART.value)


class Runs:
    """The rows of some runs, as columns. Peers are brokers here, sources recorders."""

    def __init__(self, table: pa.Table) -> None:
        # Names that are compared share their codes.
        size = table.num_rows
        self.number = {name: numbers(table[name]) for name in _NUMBERS}
        self.text = {name: texts(table[name]) for name in _TEXTS}
        for one, other in (("broker", "peer"), ("process", "source")):
            both = texts(pa.chunked_array([*table[one].chunks, *table[other].chunks]))
            self.text[one] = type(both)(both.codes[:size], both.known)
            self.text[other] = type(both)(both.codes[size:], both.known)
        self.went_ok = table["went_ok"].fill_null(False).to_numpy()
        self.is_seat = self.kind(SEAT)

    def __getitem__(self, name: str) -> Whole:
        return self.text[name].codes if name in self.text else self.number[name]

    def kind(self, *kinds: str) -> Flags:
        """Whether a row is of one of the kinds."""
        text = self.text["kind"]
        return text.where([name in kinds for name in text.known.to_pylist()])

    def columns(self, names: Iterable[str], rows: Whole) -> list[Whole]:
        return [self[name][rows] for name in names]

    @cached_property
    def id_of(self) -> Whole:
        """By the code of a client a number for its id, which is that of others of one id."""
        codes: dict[str, int] = {}
        return np.array([codes.setdefault(one, len(codes)) for one in self.ids])

    @cached_property
    def ids(self) -> list[str]:
        """The id of each client, by its code."""
        names = self.text["client_id"].known.to_pylist()
        return [_RANK.sub("", name or "") for name in names]

    # Seats that were owned, and what is known of groups.

    @cached_property
    def tenured(self) -> Whole:
        """The seats of members at queues that they had been assigned."""
        return np.flatnonzero(
            self.is_seat
            & (self["first_assigned"] != NIL)
            & (self["consumer_group"] > 0)
            & (self["client_id"] > 0)
            & (self["topic"] > 0)
        )

    @cached_property
    def members(self) -> Members:
        return Members.of_runs(self)

    @cached_property
    def torn(self) -> Flags:
        """Runs of which rows are missing, by the code of the run."""
        seats = np.flatnonzero(self.is_seat)
        code, first = combined(self["run"][seats], self["process"][seats])
        size = len(first)
        n, total = np.zeros(size, np.int64), np.zeros(size, np.int64)
        np.add.at(n, code, self["events"][seats])
        np.add.at(total, code, self["total"][seats])
        span = most(code, size, self["greatest"][seats]) + 1
        starts = -most(code, size, -self["least"][seats])
        whole = (starts == 0) & (n == span) & (2 * total == n * (n - 1))
        return anywhere(self["run"][seats[first]], self.text["run"].count, ~whole)

    @cached_property
    def ends(self) -> tuple[Whole, Whole, Whole]:
        """A row of each recorder, and when it wrote for the last time: the position behind that,
        and its clock."""
        seats = np.flatnonzero(self.is_seat)
        code, first = combined(self["run"][seats], self["process"][seats])
        behind = most(code, len(first), self["greatest"][seats]) + 1
        return seats[first], behind, most(code, len(first), self["last_ns"][seats])

    @cached_property
    def group(self) -> tuple[Whole, Whole]:
        """Each row's group of a run, and a row of each."""
        return combined(self["run"], self["consumer_group"])

    @cached_property
    def incomplete(self) -> Flags:
        """Groups of which the history does not hold everything, by code."""
        code, first = self.group
        found = anywhere(code[self.tenured], len(first), self.torn[self["run"][self.tenured]])
        # A member that joined and recorded nothing else.
        seats = np.flatnonzero(
            self.is_seat & (self["consumer_group"] > 0) & (self["client_id"] > 0)
        )
        member, of = combined(code[seats], self["client_id"][seats])
        joins = most(member, len(of), self["joins"][seats]) > 0
        others = most(member, len(of), self["others"][seats]) > 0
        return found | anywhere(code[seats[of]], len(first), joins & ~others)

    @cached_property
    def scattered(self) -> Flags:
        """Groups whose members are recorded by more than one process, by code."""
        code, first = self.group
        mine, process = code[self.tenured], self["process"][self.tenured]
        lowest = -most(mine, len(first), -process)
        several = most(mine, len(first), process) != lowest
        return np.asarray(several & (lowest != -NIL), bool)


@dataclass(frozen=True)
class Members:
    """Changes of who is a member of a group: a member that owns a queue has joined."""

    of: Whole  # a row of each member
    member: Whole  # of each change
    row: Whole
    delta: Whole

    KEY: ClassVar = ("run", "process", "consumer_group", "client_id")

    @classmethod
    def of_runs(cls, runs: Runs) -> Members:
        kinds = (EventKind.JOIN.value, EventKind.ASSIGN.value)
        events = np.flatnonzero(runs.kind(*kinds) & (runs["client_id"] > 0))
        member, first = combined(*runs.columns(cls.KEY, events))
        of_member = events[first]
        left, ends = leaving(runs, of_member)
        joins = runs.went_ok[events]
        member = np.concatenate([member[joins], left])
        row = np.concatenate([events[joins], ends])
        joined_ = np.repeat([1, 0], [int(joins.sum()), len(left)])
        order = ordered(member, runs["seq"][row])
        member, row, joined_ = member[order], row[order], joined_[order]
        delta = joined_ - Groups.of(member).before(joined_, 0)
        kept = delta != 0
        return cls(of_member, member[kept], row[kept], delta[kept])


def leaving(runs: Runs, mine: Whole) -> tuple[Whole, Whole]:
    """Pairs of rows of members and the events by which these left or crashed.

    One without a group ends its membership of all.
    """
    gone = np.flatnonzero(runs.kind(*GONE) & (runs["client_id"] > 0))
    same = ("run", "process", "client_id")
    row, event = paired(runs.columns(same, mine), runs.columns(same, gone))
    event = gone[event]
    group = runs["consumer_group"][event]
    kept = (group == 0) | (group == runs["consumer_group"][mine[row]])
    return row[kept], event[kept]
