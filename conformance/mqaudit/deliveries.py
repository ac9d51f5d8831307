"""The checks of deliveries: repeated, and out of order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from mqaudit.columns import (
    NEVER,
    NIL,
    Flags,
    Groups,
    Whole,
    combined,
    least,
    most,
    ordered,
    other_least,
    other_most,
)
from mqaudit.history_checks import OUT_OF_ORDER, REPEATED, UNSUBSCRIBED
from mqaudit.judged import Cases, Known, Row, batches, told
from mqaudit.part import Did, Part, Tenured, Went

RETRY: Final = "%RETRY%"

# Which of several deliveries from one place came first is not always known: the one that is
# easiest to explain counts as the first.
_EASIEST: Final = ("window", "unordered", "put back", "sought", "below", "stale", "again")


def repeated(part: Part) -> Iterator[pa.RecordBatch]:
    """Messages that came to a group more than once from one place; the first ones leave.

    A message that was given back is another one from then on: `attempt` counts how often.
    """
    t = part.tenured
    at, attempt = _tries(t)
    tenure, copy = t.tenure[at], t.copy[at]
    again = Groups.of(tenure, copy, attempt).nth > 0
    how = _how(t, at, again)

    epoch = t["store_epoch"][at].clip(0)
    group = t["consumer_group"][at]
    place, _ = combined(copy, group, attempt, epoch)
    several = np.flatnonzero(np.bincount(place)[place] > 1) if len(place) else place
    order = several[
        ordered(
            place[several],
            how.codes[several],
            t["process"][at[several]],
            t["seq"][at[several]],
        )
    ]
    is_first = np.ones(len(at), bool)
    is_first[order] = Groups.of(place[order]).begins

    rest = np.flatnonzero(~is_first)
    yield from told(REPEATED, how[rest], lambda found: part.place(t.rows[at[rest[found]]]))

    first = at[is_first]
    evidence = part.evidence
    known = evidence.known
    code = evidence.of(t.rows[first])
    crashed = part.known("run_crashed", part.facts_of_hold[t.hold[first]])
    seen, _ = combined(place, t["process"][at])
    came = least(seen, int(seen.max(initial=-1)) + 1, t["seq"][at])[seen]
    yield from batches(
        len(first),
        part.place(t.rows[first])
        | {
            "row": Row.DELIVERY,
            "n": 1,
            "store_epoch": epoch[is_first],
            "attempt": attempt[is_first],
            "value": came[is_first],
            "known": known[code] | np.where(crashed, Known.RUN_CRASHED, 0),
        },
    )

    # What was done with a message that no member was given there is evidence all the same.
    delivered = np.zeros(len(known), bool)
    delivered[code] = True
    rest = np.flatnonzero(~delivered & (known > 0))
    yield from batches(
        len(rest),
        part.place(evidence.rows[rest]) | {"row": Row.EVIDENCE, "n": 1, "known": known[rest]},
    )


def out_of_order(part: Part) -> Iterator[pa.RecordBatch]:
    """Messages received after a later one of their queue."""
    t = part.tenured
    rows = np.flatnonzero(t.did == Did.RECEIVE)
    rows = rows[ordered(t.tenure[rows], t.copy[rows])]
    rows = rows[Groups.of(t.tenure[rows], t.copy[rows]).begins]  # each message once
    rows = rows[ordered(t.tenure[rows], t["store_epoch"][rows], t["seq"][rows])]
    offset = t["at"][rows]
    queues = Groups.of(t.tenure[rows], t["store_epoch"][rows])
    before = queues.before(queues.highest(offset))

    rows, offset, before = (column[before != NIL] for column in (rows, offset, before))
    cases = Cases.of((offset < before, "behind"), otherwise="in order")
    yield from told(OUT_OF_ORDER, cases, lambda found: part.place(t.rows[rows[found]]))


def unsubscribed(part: Part) -> Iterator[pa.RecordBatch]:
    """Messages that a member got though its own subscription names other tags."""
    t = part.tenured
    rows = np.flatnonzero(t.did == Did.RECEIVE)
    facts = part.facts_of_hold[t.hold[rows]]
    names_tags = np.array([known.own is not None and "*" not in known.own for known in part.facts])
    rows, facts = rows[names_tags[facts]], facts[names_tags[facts]]

    # Its tag is what its producer gave it.
    tag = most(part.copy[part.stored], part.copies, part["tag"][part.stored]).clip(0)
    tags = tag[t.copy[rows]] if len(rows) else rows
    is_sql = np.array(
        [any(_is_sql(expression) for expression in known.own or ()) for known in part.facts]
    )
    cases = Cases.of(
        (is_sql[facts], "expression"),
        (tags == 0, "untagged"),
        (part.member_wants(facts, tags), "wanted"),
        otherwise="unwanted",
    )
    yield from told(UNSUBSCRIBED, cases, lambda found: part.place(t.rows[rows[found]]))


def _is_sql(expression: str) -> bool:
    """Whether an expression may be one of properties: no list of tags reads so."""
    return any(one in expression for one in "=<>()' ") and "||" not in expression


CHECKS: Final[tuple[Callable[[Part], Iterator[pa.RecordBatch]], ...]] = (
    repeated,
    out_of_order,
    unsubscribed,
)


def _tries(t: Tenured) -> tuple[Whole, Whole]:
    """What members received, by tenure and message, and how often each had been given back.

    Where nobody counted, by what the member recorded.
    """
    rows = np.flatnonzero((t.did == Did.RECEIVE) | (t.did == Did.ACK))
    rows = rows[ordered(t.tenure[rows], t.copy[rows])]  # and in the order of events
    given_back = (t.did[rows] == Did.ACK) & (t["went"][rows] == Went.FAILED)
    counted = Groups.of(t.tenure[rows], t.copy[rows]).count(given_back)
    is_retry = np.array(
        [
            bool(name) and name.startswith(RETRY)
            for name in t.part.seats.text["topic"].known.to_pylist()
        ]
    )
    counted = counted + is_retry[t["topic"][rows]]
    attempt = np.where(t["attempt"][rows] != NIL, t["attempt"][rows], counted)

    received = t.did[rows] == Did.RECEIVE
    rows, attempt = rows[received], attempt[received]
    order = ordered(t.tenure[rows], t.copy[rows], attempt)
    return rows[order], attempt[order]


def _how(t: Tenured, at: Whole, again: Flags) -> Cases:
    """What explains each delivery, were it a repeat."""
    part = t.part
    offset, recorder, group_queue = t["at"][at], t.recorder_queue[at], t.group_queue[at]
    start = t.first_value(t.did == Did.QUERY_OFFSET)[t.tenure[at]]
    kept = _kept(t)[t.tenure[at]]
    one_way = least(
        part.group_queue,
        part.group_queues,
        part["at"],
        (part.did == Did.COMMIT) & (part.went == Went.UNKNOWN) & part.has_group,
    )[group_queue]
    one_way = np.where(one_way == NIL, NEVER, one_way)

    # Progress that was answered to other recorders, in no known order.
    answered = (part.did == Did.COMMIT) & (part.went == Went.OK) & part.has_group
    smallest = least(part.recorder_queue, part.recorder_queues, part["at"], answered)
    greatest = most(part.recorder_queue, part.recorder_queues, part["at"], answered)
    others_least = other_least(part.group_queue_of, np.where(smallest == NIL, NEVER, smallest))[
        recorder
    ]
    others_most = other_most(part.group_queue_of, greatest)[recorder]

    is_kept = (offset < kept) & (offset < one_way)
    cases = Cases.of(
        (again, "again"),
        (offset < start, "below"),
        (t.sought[at] & (is_kept | ~t.own_start[at]), "sought"),
        (is_kept & (others_least <= offset), "put back"),
        (is_kept, "stale"),
        (others_most > offset, "unordered"),
        otherwise="window",
    )
    easiest = np.array([_EASIEST.index(name) for name in cases.names])
    return Cases(_EASIEST, easiest[cases.codes])


def _kept(t: Tenured) -> Whole:
    """The progress that the broker is known to have held when each tenure began.

    A crash may take it back: then nothing is known until the next answer.
    """
    part = t.part
    told_rows = np.flatnonzero(
        ((part.did == Did.COMMIT) | (part.did == Did.QUERY_OFFSET))
        & (part.went == Went.OK)
        & ~part.is_seek
        & part.has_group
    )
    begins = (t.did == Did.ASSIGN) | (t.did == Did.QUERY_OFFSET)
    began_at = least(t.tenure, t.count, t["seq"], begins)
    crash_queue, crash_seq = crashes(part)

    recorder = np.concatenate(
        [part.recorder_queue[told_rows], crash_queue, t.of_tenure(t.recorder_queue)]
    )
    seq = np.concatenate([part["seq"][told_rows], crash_seq, began_at])
    sizes = (len(told_rows), len(crash_seq), t.count)
    what = np.repeat([0, 1, 2], sizes)
    value = np.concatenate([part["at"][told_rows], np.full(sizes[1] + sizes[2], NIL)])

    # A tenure that begins as its member asks has not been answered yet.
    order = ordered(recorder, seq, -what)
    recorder, what, value = recorder[order], what[order], value[order]
    lives = Groups.of(recorder).count(what == 1)
    held = Groups.of(recorder, lives).latest(value)

    kept = np.full(t.count, NIL)
    kept[order[what == 2] - sizes[0] - sizes[1]] = held[what == 2]
    return kept


def crashes(part: Part) -> tuple[Whole, Whole]:
    """The crashes of brokers, by each recorder's queue whose recorder saw one: (queue, seq)."""
    process = {name: code for code, name in enumerate(part.seats.text["process"].known.to_pylist())}
    queues, seqs = [], []
    facts = part.facts_of_group_queue[part.group_queue_of]
    for code, known in enumerate(part.facts):
        for name, seq in known.crashes:
            saw = np.flatnonzero((facts == code) & (part.process_of == process.get(name, -1)))
            queues.append(saw)
            seqs.append(np.full(len(saw), seq))
    if not queues:
        return np.array([], np.int64), np.array([], np.int64)
    return np.concatenate(queues), np.concatenate(seqs)
