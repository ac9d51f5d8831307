"""What is judged by group: who owned each queue, and what is known of members beforehand.

Spark brings together, by run, what members did that is no work at a queue (joins, assignments,
subscriptions, ends), and the seats: a row a member and queue, with counts. It is little, however
much was sent.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import (
    NEVER,
    NIL,
    Flags,
    Groups,
    Whole,
    anywhere,
    below,
    combined,
    joined,
    most,
    numbers,
    ordered,
    paired,
    texts,
)
from mqaudit.history_checks import NO_OWNER, SETTLED_NS, TWO_OWNERS
from mqaudit.judged import Cases, Row, batches, told
from mqaudit.part import Facts
from mqrules import EventKind

SEAT: Final = "seat"

# What `by_group` reads, in Spark's words. Of a seat: how many events there are, how many joins,
# those besides membership, and messages stored; the positions of the first assignment (or seek),
# of the last acknowledgement, and of the last request that its broker answered; the span and the
# sum of positions, and the last time.
INPUT: Final = """
    run string, process string, seq long, time_ns long, kind string, went_ok boolean,
    consumer_group string, client_id string, topic string, broker string, queue_id long,
    tag string, peer string, source string, source_seq long,
    events long, joins long, others long, sent long, first_assigned long, last_acked long,
    last_answered long, least long, greatest long, total long, last_ns long
"""
_TEXTS: Final = (
    "run", "process", "kind", "consumer_group", "client_id", "topic", "broker", "tag", "peer",
    "source",
)  # fmt: skip
_NUMBERS: Final = (
    "seq", "time_ns", "queue_id", "source_seq", "events", "joins", "others", "sent",
    "first_assigned", "last_acked", "last_answered", "least", "greatest", "total", "last_ns",
)  # fmt: skip
_GONE: Final = (EventKind.LEAVE.value, EventKind.CRASH.value)
_BROKERS: Final = (EventKind.CRASH.value, EventKind.RESTART.value)


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


def judge(arrived: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What is said of owners in some runs: rows of `judged.SCHEMA`, and seats with their facts.

    A seat leaves as `Row.SEAT`, its facts as JSON in `outcome`.
    """
    kept = [*arrived]
    if not any(map(len, kept)):
        return
    runs = Runs(pa.Table.from_batches(kept))
    yield from _seats(runs)
    owners = Owners(runs)
    yield from owners.told()


def _seats(runs: Runs) -> Iterator[pa.RecordBatch]:
    """What is known of each member at each queue of its group."""
    rows = np.flatnonzero(
        runs.is_seat & (runs["topic"] > 0) & (runs["broker"] > 0) & (runs["queue_id"] != NIL)
    )
    group, first = runs.group
    tenured = runs.tenured
    member, _ = combined(group, runs["process"], runs["client_id"])
    members = int(member.max(initial=-1)) + 1
    acking = runs["last_acked"][tenured] > runs["first_assigned"][tenured]
    is_member = anywhere(member[tenured], members, np.ones(len(tenured), bool))[member[rows]]
    acks = anywhere(member[tenured], members, acking)[member[rows]]
    group_acks = anywhere(group[tenured], len(first), acking)[group[rows]]
    incomplete = runs.incomplete[group[rows]]

    wanted = _subscribed(runs, ("run", "consumer_group", "topic"))
    own = _subscribed(runs, ("run", "consumer_group", "topic", "process", "client_id"))
    crashes = _crashes(runs)
    crashed_runs = {run for run, _ in crashes}
    read_after, read_before = _read(runs, rows)
    keys = ("run", "consumer_group", "topic", "process", "client_id", "broker")
    facts = [
        Facts(
            is_member=is_member,
            acks=acks,
            group_acks=group_acks,
            incomplete=incomplete,
            wanted=wanted.get(tuple(key[:3])),
            own=own.get(tuple(key[:5])),
            read_after=after,
            read_before=before,
            crashes=crashes.get((key[0], key[5]), ()),
            run_crashed=key[0] in crashed_runs,
        )
        for is_member, acks, group_acks, incomplete, after, before, *key in zip(
            *(column.tolist() for column in (is_member, acks, group_acks, incomplete)),
            *(column.tolist() for column in (read_after, read_before)),
            *(column.tolist() for column in runs.columns(keys, rows)),
            strict=True,
        )
    ]
    names = ("run", "process", "consumer_group", "topic", "broker", "client_id")
    yield from batches(
        len(rows),
        {
            "row": Row.SEAT,
            "outcome": pa.array([json.dumps(asdict(one)) for one in facts], pa.string()),
            "queue_id": runs["queue_id"][rows],
            **{name: runs.text[name].take(rows) for name in names},
        },
    )


def _read(runs: Runs, seats: Whole) -> tuple[Whole, Whole]:
    """Between which of its requests a broker has read all that a seat's member sent to it.

    A connection keeps the order: what was sent before a request that was answered was read, unless
    another connection was made between, which may be where one of the two started again or left.
    """
    same = ("run", "process", "client_id", "broker")
    link, first = combined(*runs.columns(same, seats))
    before = most(link, len(first), runs["last_answered"][seats])
    breaks = np.flatnonzero(runs.kind(*_GONE, *_BROKERS, EventKind.JOIN.value))
    of_member = breaks[runs["client_id"][breaks] > 0]
    of_broker = breaks[runs["client_id"][breaks] == 0]
    after = np.full(len(first), -1)
    for names, others, events in (
        (same[:3], same[:3], of_member),
        (("run", "process", "broker"), ("run", "process", "peer"), of_broker),
    ):
        one, event = paired(runs.columns(names, seats[first]), runs.columns(others, events))
        seq = runs["seq"][events[event]]
        kept = seq < before[one]
        after = np.maximum(after, most(one[kept], len(first), seq[kept]))
    return after[link], before.clip(0)[link]


def _subscribed(runs: Runs, names: Sequence[str]) -> dict[tuple[int, ...], list[str]]:
    """The expressions of subscriptions, by the codes of some columns."""
    rows = np.flatnonzero(runs.kind(EventKind.SUBSCRIBE.value))
    keys = runs.columns((*names, "tag"), rows)
    _, first = combined(*keys)
    tags = runs.text["tag"].known.to_pylist()
    found: dict[tuple[int, ...], set[str]] = defaultdict(set)
    for *key, tag in zip(*(column[first].tolist() for column in keys), strict=True):
        found[tuple(key)].add((tags[tag] or "").strip(" ") or "*")
    return {key: sorted(expressions) for key, expressions in found.items()}


def _crashes(runs: Runs) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """By run and broker its crashes: (recorder, position)."""
    rows = np.flatnonzero(runs.kind(EventKind.CRASH.value) & (runs["client_id"] == 0))
    processes = runs.text["process"].known.to_pylist()
    found: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    for run, broker, process, seq in zip(
        *(column.tolist() for column in runs.columns(("run", "peer", "process", "seq"), rows)),
        strict=True,
    ):
        found[run, broker].append((processes[process], seq))
    return {key: sorted(crashes) for key, crashes in found.items()}


class Owners:
    """Who owned each queue, as each recorder saw it."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.queues = _Queues(runs)
        self.holds = _Holds(runs)
        self._stretch()

    def told(self) -> Iterator[pa.RecordBatch]:
        """The checks of owners."""
        owners, calm, sharing = self.owners, self.calm_ns, self.sharing
        settled = calm > SETTLED_NS
        group = self.queues.group[self.queue]

        several = np.flatnonzero((owners > 1) | (owners == 1) & self.closing)
        cases = Cases.of(
            (owners == 1, "one"),
            (settled & (sharing > 1), "settled"),
            (settled, "unshared"),
            otherwise="passing",
        )
        yield from told(TWO_OWNERS, cases[several], lambda found: self._place(several[found]))

        nobody = np.flatnonzero((owners == 0) | self.closing)
        cases = Cases.of(
            (owners > 0, "owned"),
            (self.runs.incomplete[group] | self.runs.scattered[group], "incomplete"),
            (sharing == 0, "unshared"),
            (settled, "settled"),
            otherwise="passing",
        )
        yield from told(NO_OWNER, cases[nobody], lambda found: self._place(nobody[found]))
        stretches = {"n": owners, "attempt": sharing, "value": calm, "row": Row.STRETCH}
        yield from batches(len(owners), stretches | self._place(np.arange(len(owners))))
        yield from self._across()

    def _place(self, rows: Whole) -> dict[str, Any]:
        return self.queues.place(self.queue[rows]) | {"seq": self.seq[rows]}

    def _stretch(self) -> None:
        """Stretches of time, a row a queue: how many owned it from event `seq` on.

        `closing`: the last stretch before something changed for the group, or before the
        recording ended. `calm_ns`: how long nothing had changed at its end. `sharing`: how many
        are to share the topic, as they subscribed to it. Who subscribed to other topics only is
        no member here; who subscribed to none, as one whose user assigns it queues, may be one.
        """
        runs, queues, holds = self.runs, self.queues, self.holds
        changes = [holds.changes(queues), *_member_changes(runs, queues)]

        events = np.flatnonzero(runs.kind(*_BROKERS) & (runs["client_id"] == 0))
        changes.append(_disturbance(runs, queues, events, ("run", "process"), ("broker", "peer")))
        events = np.flatnonzero(runs.kind(EventKind.SUBSCRIBE.value))
        same = ("run", "process", "consumer_group", "topic")
        changes.append(_disturbance(runs, queues, events, same))

        seats = np.flatnonzero(runs.is_seat)
        recorder, first = combined(runs["run"][seats], runs["process"][seats])
        end = most(recorder, len(first), runs["greatest"][seats]) + 1
        end_ns = most(recorder, len(first), runs["last_ns"][seats])
        queue, of = paired(
            queues.columns(("run", "process")), runs.columns(("run", "process"), seats[first])
        )
        changes.append(_changes(queue, end[of], end_ns[of], disturbed=True))

        queue, seq, time_ns, owners, members, sharing, disturbed = (
            np.concatenate(columns) for columns in zip(*changes, strict=True)
        )
        order = ordered(queue, seq)
        queue, seq, time_ns, owners, members, sharing, disturbed = (
            column[order] for column in (queue, seq, time_ns, owners, members, sharing, disturbed)
        )
        moments = Groups.of(queue, seq).firsts
        queue, seq = queue[moments], seq[moments]
        if len(moments):
            time_ns = np.minimum.reduceat(time_ns, moments)
            owners, members, sharing, disturbed = (
                np.add.reduceat(column, moments) for column in (owners, members, sharing, disturbed)
            )
        groups = Groups.of(queue)
        owners, members, sharing = (groups.sum(c) for c in (owners, members, sharing))
        disturbed_ns = groups.latest(np.where(disturbed > 0, time_ns, NIL))
        until_ns = groups.after(time_ns)
        kept = (until_ns != NIL) & ((members > 0) | (owners > 0))
        self.queue, self.seq = queue[kept], seq[kept]
        self.owners, self.sharing = owners[kept], sharing[kept]
        self.closing = groups.after(disturbed)[kept] > 0
        calm_ns = np.where(disturbed_ns == NIL, NIL, until_ns - disturbed_ns)
        self.calm_ns = calm_ns[kept]

    def _across(self) -> Iterator[pa.RecordBatch]:
        """Pairs of holds of one queue, recorded by two processes, and what `cause` says of them.

        `calm_ns`: by its own clock no moment of one of the holds was so long after the last
        change.
        """
        runs, queues = self.runs, self.queues
        hold = self.holds
        one, other = paired([queues.shared[hold.queue]], [queues.shared[hold.queue]])
        process = queues["process"][hold.queue]
        kept = process[one] < process[other]
        one, other = one[kept], other[kept]
        if not len(one):
            return
        # The greatest calm of the stretches within each hold.
        which, stretch = paired([hold.queue], [self.queue])
        within = (self.seq[stretch] >= hold.since[which]) & (self.seq[stretch] < hold.until[which])
        calm = most(which[within], len(hold.queue), self.calm_ns[stretch[within]])
        calm_one, calm_other = calm[one], calm[other]
        calm_ns = np.where(
            (calm_one == NIL) | (calm_other == NIL),
            np.maximum(calm_one, calm_other),
            np.minimum(calm_one, calm_other),
        )

        edges = _Edges(runs)
        run = queues["run"][hold.queue[one]]
        a, b = process[one], process[other]
        since_a, until_a, since_b, until_b = (
            hold.since[one], hold.until[one], hold.since[other], hold.until[other],
        )  # fmt: skip
        apart = (edges.reached(run, a, b, until_a) <= since_b) | (
            edges.reached(run, b, a, until_b) <= since_a
        )
        together = (edges.reached(run, a, b, since_a) <= until_b) & (
            edges.reached(run, b, a, since_b) <= until_a
        )
        cases = Cases.of(
            (together & (calm_ns <= SETTLED_NS) & (calm_ns != NIL), "passing"),
            (together, "lasting"),
            (apart, "apart"),
            otherwise="unordered",
        )
        yield from told(
            TWO_OWNERS,
            cases,
            lambda found: queues.place(hold.queue[one[found]]) | {"seq": since_a[found]},
        )


_Changes = tuple[Whole, Whole, Whole, Whole, Whole, Whole, Whole]


def _changes(
    queue: Whole,
    seq: Whole,
    time_ns: Whole,
    owners: Whole | int = 0,
    members: Whole | int = 0,
    sharing: Whole | int = 0,
    disturbed: bool = False,
) -> _Changes:
    """Changes at queues: of how many own it, are members, and are to share it."""
    none = np.zeros(len(queue), np.int64)
    return (queue, seq, time_ns, none + owners, none + members, none + sharing, none + disturbed)


def _disturbance(runs: Runs, queues: _Queues, events: Whole, *same: Any) -> _Changes:
    """Events that change nothing at once, and whatever follows them is calm from then on."""
    (names, *more) = same
    here = [*names, *(name for name, _ in more)]
    there = [*names, *(name for _, name in more)]
    queue, event = paired(queues.columns(here), runs.columns(there, events))
    event = events[event]
    return _changes(queue, runs["seq"][event], runs["time_ns"][event], disturbed=True)


class _Queues:
    """Each queue as each recorder saw it for a group: owned by a member, or stored in."""

    def __init__(self, runs: Runs) -> None:
        tenured = runs.tenured
        names = ("run", "process", "consumer_group", "topic", "broker", "queue_id")
        owned = runs.columns(names, tenured)
        # A queue that something was stored in belongs to each group that has its topic.
        stored = np.flatnonzero(runs.is_seat & (runs["sent"] > 0) & (runs["queue_id"] != NIL))
        seat, queue = paired(
            runs.columns(("run", "topic"), tenured), runs.columns(("run", "topic"), stored)
        )
        sent = [
            *runs.columns(names[:4], tenured[seat]),
            *runs.columns(names[4:], stored[queue]),
        ]
        every = [np.concatenate(both) for both in zip(owned, sent, strict=True)]
        _, first = combined(*every)
        self._column = {name: column[first] for name, column in zip(names, every, strict=True)}
        self._runs = runs
        found = joined(
            self.columns(("run", "consumer_group")),
            runs.columns(("run", "consumer_group"), runs.group[1]),
        )
        self.group = found
        self.shared, _ = combined(*(self[name] for name in names if name != "process"))
        self.names = names

    def __getitem__(self, name: str) -> Whole:
        return self._column[name]

    def columns(self, names: Iterable[str]) -> list[Whole]:
        return [self[name] for name in names]

    def place(self, queues: Whole) -> dict[str, Any]:
        text = self._runs.text
        return {
            name: text[name].known.take(pa.array(self[name][queues]))
            for name in self.names
            if name in text
        } | {"queue_id": self["queue_id"][queues]}


def _leaving(runs: Runs, mine: Whole) -> tuple[Whole, Whole]:
    """Pairs of rows of members and the events by which these left or crashed.

    One without a group ends its membership of all.
    """
    gone = np.flatnonzero(runs.kind(*_GONE) & (runs["client_id"] > 0))
    same = ("run", "process", "client_id")
    row, event = paired(runs.columns(same, mine), runs.columns(same, gone))
    event = gone[event]
    group = runs["consumer_group"][event]
    kept = (group == 0) | (group == runs["consumer_group"][mine[row]])
    return row[kept], event[kept]


class _Holds:
    """Changes of who owns a queue, and the spans between them."""

    def __init__(self, runs: Runs) -> None:
        kinds = (EventKind.ASSIGN.value, EventKind.REVOKE.value)
        events = np.flatnonzero(runs.kind(*kinds) & (runs["client_id"] > 0))
        names = ("run", "process", "consumer_group", "topic", "broker", "queue_id", "client_id")
        hold, first = combined(*runs.columns(names, events))
        left, leaving = _leaving(runs, events[first])
        hold = np.concatenate([hold, left])
        row = np.concatenate([events, leaving])
        owns = np.concatenate(
            [runs.kind(EventKind.ASSIGN.value)[events], np.zeros(len(left), bool)]
        ).astype(np.int64)

        order = ordered(hold, runs["seq"][row])
        hold, row, owns = hold[order], row[order], owns[order]
        delta = owns - Groups.of(hold).before(owns, 0)
        kept = delta != 0
        self._hold, self._row, self._delta = hold[kept], row[kept], delta[kept]
        self._key = runs.columns(names[:6], events[first])
        self._runs = runs

    def changes(self, queues: _Queues) -> _Changes:
        """Whoever leaves or crashes owns nothing."""
        queue = joined(self._key, queues.columns(queues.names))
        self._spans(queue)
        seq, time_ns = self._runs["seq"][self._row], self._runs["time_ns"][self._row]
        return _changes(queue[self._hold], seq, time_ns, owners=self._delta)

    def _spans(self, queue: Whole) -> None:
        seq = self._runs["seq"][self._row]
        until = Groups.of(self._hold).after(seq, NEVER)
        begins = self._delta > 0
        self.queue = queue[self._hold[begins]]
        self.since, self.until = seq[begins], until[begins]


def _member_changes(runs: Runs, queues: _Queues) -> Iterator[_Changes]:
    """Changes of a group's members. A member that owns a queue has joined."""
    kinds = (EventKind.JOIN.value, EventKind.ASSIGN.value)
    events = np.flatnonzero(runs.kind(*kinds) & (runs["client_id"] > 0))
    names = ("run", "process", "consumer_group", "client_id")
    member, first = combined(*runs.columns(names, events))
    of_member = events[first]
    left, leaving = _leaving(runs, of_member)
    joins = runs.went_ok[events]
    member = np.concatenate([member[joins], left])
    row = np.concatenate([events[joins], leaving])
    joined_ = np.repeat([1, 0], [int(joins.sum()), len(left)])
    order = ordered(member, runs["seq"][row])
    member, row, joined_ = member[order], row[order], joined_[order]
    delta = joined_ - Groups.of(member).before(joined_, 0)
    kept = delta != 0
    member, row, delta = member[kept], row[kept], delta[kept]

    queue, change = paired(
        queues.columns(("run", "process", "consumer_group")), runs.columns(names[:3], row)
    )
    subscribed = np.flatnonzero(runs.kind(EventKind.SUBSCRIBE.value) & (runs["client_id"] > 0))
    _, once = combined(*runs.columns((*names, "topic"), subscribed))
    topics = runs.columns((*names, "topic"), subscribed[once])
    _, once = combined(*topics[:4])
    who = [column[of_member][member[change]] for column in (runs[name] for name in names)]
    has_any = joined(who, [column[once] for column in topics[:4]]) >= 0
    to_topic = joined([*who, queues["topic"][queue]], topics) >= 0
    is_retry = np.array(
        [bool(name) and name.startswith("%RETRY%")
         for name in runs.text["topic"].known.to_pylist()]
    )  # fmt: skip
    to_share = to_topic | has_any & is_retry[queues["topic"][queue]]
    delta = delta[change]
    yield _changes(
        queue,
        runs["seq"][row[change]],
        runs["time_ns"][row[change]],
        members=np.where(~has_any | to_share, delta, 0),
        sharing=np.where(to_share, delta, 0),
        disturbed=True,
    )


class _Edges:
    """What one recorder knew of another, by `cause`."""

    def __init__(self, runs: Runs) -> None:
        rows = np.flatnonzero((runs["source"] > 0) & (runs["source_seq"] != NIL) & ~runs.is_seat)
        names = ("run", "source", "process", "source_seq")
        rows = rows[ordered(*runs.columns(names, rows))]
        self._pair = runs.columns(names[:3], rows)
        self._at, first = combined(*self._pair) if len(rows) else (rows, rows)
        self._first = [column[first] for column in self._pair]
        self._source_seq = runs["source_seq"][rows]
        # The earliest that is reached from here on or later.
        backwards = Groups.of(self._at[::-1])
        self._earliest = -backwards.highest(-runs["seq"][rows][::-1])[::-1]

    def reached(self, run: Whole, source: Whole, target: Whole, since: Whole) -> Whole:
        """The first event of the target that knew of an event of the source at or after `since`."""
        if not len(self._at):
            return np.full(len(run), NEVER + 1)
        pair = joined([run, source, target], self._first)
        last_before = below(self._at, self._source_seq, pair, since)
        start = np.searchsorted(self._at, pair)
        at = np.where(last_before >= 0, last_before + 1, start)
        inside = (pair >= 0) & (at < len(self._at))
        inside &= self._at[at.clip(0, len(self._at) - 1)] == pair
        return np.where(inside, self._earliest[at.clip(0, len(self._at) - 1)], NEVER + 1)
