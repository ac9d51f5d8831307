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

import numpy as np
import pyarrow as pa

from mqaudit.columns import NIL, Whole, anywhere, combined, most, paired
from mqaudit.ids import equal_ids
from mqaudit.judged import Row, batches
from mqaudit.owners import Owners
from mqaudit.part import Facts
from mqaudit.runs import BROKERS, GONE, Runs
from mqaudit.views import views
from mqrules import EventKind


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
    yield from equal_ids(runs, owners)
    yield from views(runs)


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
    breaks = np.flatnonzero(runs.kind(*GONE, *BROKERS, EventKind.JOIN.value))
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
