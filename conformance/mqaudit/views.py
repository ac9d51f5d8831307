"""The check of views: all members of a group are told the same list of its members."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from mqaudit.columns import NIL, Groups, Whole, combined, ordered, paired
from mqaudit.history_checks import SETTLED_NS, VIEWS
from mqaudit.judged import Cases, told
from mqaudit.owners import distinct
from mqaudit.runs import BROKERS, GONE, Runs, leaving
from mqrules import EventKind

_RECORDER = ("run", "process")
_GROUP = (*_RECORDER, "consumer_group")
_DISTURBS = {EventKind.JOIN.value, *GONE, *BROKERS}

# Of changes in groups: which group, when, how many more members have a list, of how many more
# kinds; and whether the group changed.
_Changes = tuple[Whole, Whole, Whole, Whole, Whole, Whole]


def views(runs: Runs) -> Iterator[pa.RecordBatch]:
    """Stretches of time in which several members have a list, by group and recorder."""
    rows = np.flatnonzero(runs.kind(EventKind.VIEW.value))
    group, first = combined(*runs.columns(_GROUP, rows))
    of_group = rows[first]
    changes = (_views(runs, rows, group), _disturbances(runs, of_group), _ends(runs, of_group))
    group, seq, time_ns, have, kinds, changed = (
        np.concatenate(column) for column in zip(*changes, strict=True)
    )
    order = ordered(group, seq)
    group, seq, time_ns, have, kinds, changed = (
        column[order] for column in (group, seq, time_ns, have, kinds, changed)
    )
    groups = Groups.of(group)
    have, kinds = groups.sum(have), groups.sum(kinds)
    changed_ns = groups.latest(np.where(changed > 0, time_ns, NIL))
    until_seq, until_ns = groups.after(seq), groups.after(time_ns)

    # What changes by one event is over when the next one comes.
    stretch = np.flatnonzero((until_seq > seq) & (have > 1))
    calm = (until_ns - changed_ns > SETTLED_NS) & (changed_ns != NIL)
    cases = Cases.of((kinds == 1, "equal"), (calm, "settled"), otherwise="passing")

    def place(found: Whole) -> dict[str, pa.Array | Whole]:
        at = stretch[found]
        names = {name: runs.text[name].take(of_group[group[at]]) for name in _GROUP}
        return names | {"seq": seq[at]}

    yield from told(VIEWS, cases[stretch], place)


def _views(runs: Runs, rows: Whole, group: Whole) -> _Changes:
    """A member's list is its own until it is told another, or is gone."""
    member, first = combined(group, runs["client_id"][rows])
    left, ends = leaving(runs, rows[first])
    member = np.concatenate([member, left])
    row = np.concatenate([rows, ends])
    view = np.concatenate([runs["tag"][rows], np.zeros(len(ends), np.int64)])
    order = ordered(member, runs["seq"][row])
    member, row, view = member[order], row[order], view[order]
    former = Groups.of(member).before(view, 0)

    view, delta = np.concatenate([former, view]), np.repeat([-1, 1], len(row))
    member, row = np.tile(member, 2), np.tile(row, 2)
    kept = view > 0
    view, delta, member, row = (column[kept] for column in (view, delta, member, row))
    of_group, seq = group[first][member], runs["seq"][row]
    kinds = distinct(of_group, view, seq, delta)
    return of_group, seq, runs["time_ns"][row], delta, kinds, np.zeros(len(row), np.int64)


def _disturbances(runs: Runs, of_group: Whole) -> _Changes:
    """Who comes or goes changes its group; a broker, or who names no group, all of them."""
    events = np.flatnonzero(runs.kind(*_DISTURBS))
    pairs = []
    for mine, names in (
        (events[runs["consumer_group"][events] > 0], _GROUP),
        (events[runs["consumer_group"][events] == 0], _RECORDER),
    ):
        group, event = paired(runs.columns(names, of_group), runs.columns(names, mine))
        pairs.append((group, mine[event]))
    group, row = (np.concatenate(column) for column in zip(*pairs, strict=True))
    none = np.zeros(len(row), np.int64)
    return group, runs["seq"][row], runs["time_ns"][row], none, none, none + 1


def _ends(runs: Runs, of_group: Whole) -> _Changes:
    """When each group's recorder wrote for the last time."""
    recorders, seq, time_ns = runs.ends
    group, of = paired(runs.columns(_RECORDER, of_group), runs.columns(_RECORDER, recorders))
    none = np.zeros(len(group), np.int64)
    return group, seq[of], time_ns[of], none, none, none
