"""Who owned each queue, as each recorder saw it: the checks of two owners and of none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from mqaudit.columns import (
    NEVER,
    NIL,
    Flags,
    Groups,
    Whole,
    below,
    combined,
    joined,
    most,
    ordered,
    paired,
)
from mqaudit.history_checks import NO_OWNER, SETTLED_NS, TWO_OWNERS
from mqaudit.judged import Cases, Row, batches, told
from mqaudit.runs import BROKERS, Members, Runs, leaving
from mqrules import EventKind
from mqspec.core.allocation import FALLS_TO, Seat, uneven
from mqspec.core.types import ClientId, string_order


class Owners:
    """Who owned each queue, as each recorder saw it."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.queues = _Queues(runs)
        self.holds = Holds(runs)
        self._stretch()

    def told(self) -> Iterator[pa.RecordBatch]:
        """The checks of owners."""
        owners, calm, sharing = self.owners, self.calm_ns, self.sharing
        settled = calm > SETTLED_NS
        group = self.queues.group[self.queue]

        several = np.flatnonzero((owners > 1) | (owners == 1) & self.closing)
        cases = Cases.of(
            (owners == 1, "one"),
            (settled & (self.ids == 1), "one id"),
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
            (settled & (self.doubled > 0) & self._beyond_ids(settled), "beyond ids"),
            (settled & (self.doubled > 0), "one id"),
            (settled, "settled"),
            otherwise="passing",
        )
        yield from told(NO_OWNER, cases[nobody], lambda found: self._left(nobody[found]))
        stretches = {"n": owners, "attempt": sharing, "value": calm, "row": Row.STRETCH}
        yield from batches(len(owners), stretches | self._place(np.arange(len(owners))))
        yield from self._across()

    def _beyond_ids(self, settled: Flags) -> Flags:
        """Stretches without an owner as whose begins more of the topic's queues have none than
        equal ids leave, by the condition of the core. Queues that nobody saw could only be some of
        those that are left."""
        wanted = np.flatnonzero(settled & (self.doubled > 0) & (self.owners == 0))
        found = np.zeros(len(self.owners), bool)
        if not len(wanted):
            return found
        of_topic, _ = combined(*self.queues.columns(("run", "process", "consumer_group", "topic")))
        topic = of_topic[self.queue]
        until = Groups.of(self.queue).after(self.seq, NEVER)
        sizes = np.bincount(of_topic)
        for row in wanted.tolist():
            now = (self.seq <= self.seq[row]) & (self.seq[row] < until)
            without = int((now & (topic == topic[row]) & (self.owners == 0)).sum())
            ids = self._ids_at(row)
            left = max(
                uneven(strategy, int(sizes[topic[row]]), [Seat.of(cid, ids) for cid in ids]).nobodys
                for strategy in FALLS_TO
            )
            found[row] = without > left
        return found

    def _ids_at(self, row: int) -> list[ClientId]:
        """The ids of those who share the queue of a stretch as it begins, as their clients sort
        them."""
        queue, client, at, delta = self._sharers
        so_far = (queue == self.queue[row]) & (at <= self.seq[row])
        number = np.bincount(client[so_far], delta[so_far])
        ids = self.runs.ids
        return sorted((ids[one] for one in np.flatnonzero(number > 0)), key=string_order)

    @cached_property
    def _sharers(self) -> tuple[Whole, Whole, Whole, Whole]:
        """Changes of who shares the topic of a queue: the queue, the client, when, by how many."""
        queue, row, client, delta, to_share, _ = _membership(self.runs, self.queues)
        return queue[to_share], client[to_share], self.runs["seq"][row[to_share]], delta[to_share]

    def _place(self, rows: Whole) -> dict[str, Any]:
        return self.queues.place(self.queue[rows]) | {"seq": self.seq[rows]}

    def _left(self, rows: Whole) -> dict[str, Any]:
        """Where stretches are, and what was left of the queue if the recording ended in one."""
        is_last = self.is_last[rows] & (self.owners[rows] == 0)
        return self._place(rows) | {
            "value": np.where(is_last, self.queues.left[self.queue[rows]], NIL)
        }

    def _stretch(self) -> None:
        """Stretches of time, a row a queue: how many owned it from event `seq` on.

        `closing`: the last stretch before something changed for the group, or before the
        recording ended. `calm_ns`: how long nothing had changed at its end. `sharing`: how many
        are to share the topic, as they subscribed to it. Who subscribed to other topics only is
        no member here; who subscribed to none, as one whose user assigns it queues, may be one.
        """
        runs, queues, holds = self.runs, self.queues, self.holds
        changes = [holds.changes(queues), *_member_changes(runs, queues)]

        events = np.flatnonzero(runs.kind(*BROKERS) & (runs["client_id"] == 0))
        changes.append(_disturbance(runs, queues, events, ("run", "process"), ("broker", "peer")))
        events = np.flatnonzero(runs.kind(EventKind.SUBSCRIBE.value))
        same = ("run", "process", "consumer_group", "topic")
        changes.append(_disturbance(runs, queues, events, same))

        recorders, end, end_ns = runs.ends
        recorder = ("run", "process")
        queue, of = paired(queues.columns(recorder), runs.columns(recorder, recorders))
        changes.append(_changes(queue, end[of], end_ns[of], disturbed=True))

        every = {name: np.concatenate([one[name] for one in changes]) for name in _CHANGES}
        order = ordered(every["queue"], every["seq"])
        queue, seq, time_ns = (every[name][order] for name in ("queue", "seq", "time_ns"))
        moments = Groups.of(queue, seq).firsts
        queue, seq = queue[moments], seq[moments]
        counts = {name: every[name][order] for name in _COUNTS}
        if len(moments):
            time_ns = np.minimum.reduceat(time_ns, moments)
            counts = {name: np.add.reduceat(column, moments) for name, column in counts.items()}
        groups = Groups.of(queue)
        disturbed = counts.pop("disturbed")
        owners, ids, members, sharing, doubled = map(groups.sum, counts.values())
        disturbed_ns = groups.latest(np.where(disturbed > 0, time_ns, NIL))
        until_ns = groups.after(time_ns)
        kept = (until_ns != NIL) & ((members > 0) | (owners > 0))
        self.queue, self.seq = queue[kept], seq[kept]
        self.owners, self.sharing = owners[kept], sharing[kept]
        self.ids, self.doubled = ids[kept], doubled[kept]
        self.is_last = (groups.after(until_ns) == NIL)[kept]
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


# Of changes at queues: where and when, and by how many there are more or fewer that own it, their
# ids, the members of its group, those that are to share it, those of an id that another one has;
# and whether anything changed at all.
_COUNTS: Final = ("owners", "ids", "members", "sharing", "doubled", "disturbed")
_CHANGES: Final = ("queue", "seq", "time_ns", *_COUNTS)
_Changes: TypeAlias = Mapping[str, Whole]


def _changes(queue: Whole, seq: Whole, time_ns: Whole, **counts: Whole | int) -> _Changes:
    """Changes at queues; what is not named does not change."""
    none = np.zeros(len(queue), np.int64)
    told = {name: none + counts.get(name, 0) for name in _COUNTS}
    return {"queue": queue, "seq": seq, "time_ns": time_ns} | told


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

    @cached_property
    def left(self) -> Whole:
        """How many messages were left of each queue as the recording ended; NIL where none was
        seen stored. Of a group of which no progress was recorded these are all that were."""
        runs = self._runs
        place = ("run", "topic", "broker", "queue_id")
        seats = np.flatnonzero(runs.is_seat & (runs["queue_id"] != NIL))
        code, first = combined(*runs.columns(place, seats))
        at = joined(self.columns(place), runs.columns(place, seats[first]))
        end = most(code, len(first), runs["last_stored"][seats])[at] + 1
        sent = np.bincount(code, runs["sent"][seats].clip(0), len(first)).astype(np.int64)[at]

        of_group = ("consumer_group", *place)
        code, first = combined(*runs.columns(of_group, seats))
        at = joined(self.columns(of_group), runs.columns(of_group, seats[first]))
        reached = np.append(most(code, len(first), runs["reached"][seats]), NIL)[at]
        return np.where(sent == 0, NIL, np.where(reached == NIL, sent, (end - reached).clip(0)))

    def place(self, queues: Whole) -> dict[str, Any]:
        text = self._runs.text
        return {
            name: text[name].known.take(pa.array(self[name][queues]))
            for name in self.names
            if name in text
        } | {"queue_id": self["queue_id"][queues]}


class Holds:
    """Changes of who owns a queue, and the spans between them."""

    def __init__(self, runs: Runs) -> None:
        kinds = (EventKind.ASSIGN.value, EventKind.REVOKE.value)
        events = np.flatnonzero(runs.kind(*kinds) & (runs["client_id"] > 0))
        names = ("run", "process", "consumer_group", "topic", "broker", "queue_id", "client_id")
        hold, first = combined(*runs.columns(names, events))
        left, ends = leaving(runs, events[first])
        hold = np.concatenate([hold, left])
        row = np.concatenate([events, ends])
        owns = np.concatenate(
            [runs.kind(EventKind.ASSIGN.value)[events], np.zeros(len(left), bool)]
        ).astype(np.int64)

        order = ordered(hold, runs["seq"][row])
        hold, row, owns = hold[order], row[order], owns[order]
        delta = owns - Groups.of(hold).before(owns, 0)
        kept = delta != 0
        self._hold, self._row, self._delta = hold[kept], row[kept], delta[kept]
        self._key = runs.columns(names[:6], events[first])
        self._client = runs["client_id"][events[first]]
        self._runs = runs

    def changes(self, queues: _Queues) -> _Changes:
        """Whoever leaves or crashes owns nothing."""
        queue = joined(self._key, queues.columns(queues.names))
        self._spans(queue)
        seq, time_ns = self._runs["seq"][self._row], self._runs["time_ns"][self._row]
        ids = distinct(
            queue[self._hold], self._runs.id_of[self._client[self._hold]], seq, self._delta
        )
        return _changes(queue[self._hold], seq, time_ns, owners=self._delta, ids=ids)

    def _spans(self, queue: Whole) -> None:
        seq = self._runs["seq"][self._row]
        until = Groups.of(self._hold).after(seq, NEVER)
        begins = self._delta > 0
        self.queue = queue[self._hold[begins]]
        self.client = self._client[self._hold[begins]]
        self.since, self.until = seq[begins], until[begins]


def distinct(place: Whole, kind: Whole, seq: Whole, delta: Whole) -> Whole:
    """Of changes of how many there are at places, the changes of how many kinds of them there
    are: the first of a kind, and the last."""
    order = ordered(place, kind, seq)
    groups = Groups.of(place[order], kind[order])
    there = (groups.sum(delta[order]) > 0).astype(np.int64)
    found = np.empty(len(order), np.int64)
    found[order] = there - groups.before(there, 0)
    return found


def _membership(runs: Runs, queues: _Queues) -> tuple[Whole, Whole, Whole, Whole, Flags, Flags]:
    """Changes of who is a member of a queue's group: the queue, the row, the client, by how many;
    whether it is to share the topic, and whether it may be by the user's own assignment."""
    members, names = runs.members, Members.KEY
    of_member, member, row, delta = members.of, members.member, members.row, members.delta
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
    client = runs["client_id"][of_member][member[change]]
    return queue, row[change], client, delta[change], to_share, ~has_any | to_share


def _member_changes(runs: Runs, queues: _Queues) -> Iterator[_Changes]:
    queue, row, client, delta, to_share, may_share = _membership(runs, queues)
    ids = distinct(queue, runs.id_of[client], runs["seq"][row], delta)
    yield _changes(
        queue,
        runs["seq"][row],
        runs["time_ns"][row],
        members=np.where(may_share, delta, 0),
        sharing=np.where(to_share, delta, 0),
        doubled=delta - ids,
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
