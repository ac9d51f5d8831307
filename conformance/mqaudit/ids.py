"""The check of client ids: one member of a group has each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from mqaudit.columns import NEVER, Flags, Groups, Whole, anywhere, combined, joined, most, paired
from mqaudit.history_checks import EQUAL_IDS
from mqaudit.judged import Cases, told
from mqaudit.owners import Holds, Owners
from mqaudit.runs import Runs

_GROUP = ("run", "process", "consumer_group")


class _Stays:
    """From when to when each member was one of its group, by its recorder."""

    def __init__(self, runs: Runs) -> None:
        members = runs.members
        seq = runs["seq"][members.row]
        begins = members.delta > 0
        self.row = members.row[begins]  # of the join
        self.since = seq[begins]
        self.until = Groups.of(members.member).after(seq, NEVER)[begins]
        self.group = runs.columns(_GROUP, self.row)
        self.client = runs["client_id"][self.row]
        self.id = runs.id_of[self.client]


def equal_ids(runs: Runs, owners: Owners) -> Iterator[pa.RecordBatch]:
    """Members that joined while another one of their id was there."""
    stays = _Stays(runs)
    cases = Cases.of(
        (_shares(runs, owners, stays), "shared"),
        (_at_once(stays), "at once"),
        (_elsewhere(runs, stays), "elsewhere"),
        otherwise="own",
    )

    def place(found: Whole) -> dict[str, pa.Array]:
        rows = stays.row[found]
        names = (*_GROUP, "client_id")
        return {name: runs.text[name].take(rows) for name in names} | {"seq": runs["seq"][rows]}

    yield from told(EQUAL_IDS, cases, place)


def _at_once(stays: _Stays) -> Flags:
    key = [*stays.group, stays.id]
    one, other = paired(key, key)
    later = _begins_within(stays, one, other) & (stays.client[one] != stays.client[other])
    return anywhere(one, len(stays.row), later)


def _shares(runs: Runs, owners: Owners, stays: _Stays) -> Flags:
    """Another one of the id worked on at a queue that the member owned by then as well."""
    holds, queues = owners.holds, owners.queues
    of_id = runs.id_of[holds.client]
    one, other = paired([holds.queue, of_id], [holds.queue, of_id])
    kept = holds.client[one] != holds.client[other]
    one, other = one[kept], other[kept]

    at_queue = ("run", "process", "consumer_group", "topic", "broker", "queue_id")
    seats = runs.tenured
    seat = joined(
        [*(queues[name][holds.queue[other]] for name in at_queue), holds.client[other]],
        runs.columns((*at_queue, "client_id"), seats),
    )
    worked = runs["last_worked"][seats[seat]] > holds.since[one]
    kept = worked & _begins_within(holds, one, other)
    one = one[kept]

    member = [*(queues[name][holds.queue[one]] for name in _GROUP), holds.client[one]]
    stay, hold = paired([*stays.group, stays.client], member)
    since = holds.since[one][hold]
    during = (stays.since[stay] <= since) & (since < stays.until[stay])
    return anywhere(stay, len(stays.row), during)


def _elsewhere(runs: Runs, stays: _Stays) -> Flags:
    """Another process recorded a member of the same id, be it the same one or another."""
    run, process, group = stays.group
    key, first = combined(run, group, stays.client)
    least = -most(key, len(first), -process)
    return np.asarray(process > least[key], bool)


def _begins_within(spans: _Stays | Holds, one: Whole, other: Whole) -> Flags:
    """Whether one of two spans began while the other one lasted; no two begin at once."""
    at = spans.since[one]
    return np.asarray((spans.since[other] < at) & (at < spans.until[other]), bool)
