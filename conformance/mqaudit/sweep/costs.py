"""What a release costs a group: computed by the core's allocation, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import md5
from math import ceil

from mqaudit.sweep.wanted import Case, Wanted, asked, placed
from mqspec.commands.plan import Plan, between_stayers, strategy_of, through, topics_of
from mqspec.core.types import ClientId, string_order

_ID_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one release.

    `moved` are changes of an owner, `between` those of them between members that stay; `spike` is
    the most queues that a member has at any time, over an equal share of them for all that there
    are before; `unowned_s` is in seconds of queues; `repeats` are the messages to expect twice.
    """

    moved: int
    between: int
    spike: float
    unowned_s: float
    repeats: float


def cost(case: Case, wanted: Wanted) -> Cost:
    """What a case costs. Raises UserError where its strategy refuses its input.

    - A queue that goes from one member to another has no owner for `handover_s`; one that nobody
      takes has none until the next step. In the last state it counts for one step.
    - Of a queue that is taken from a member which can still commit, what its listeners have in
      hand comes again: rate x process_s. Of one that was killed, also what it was done with since
      its last commit, half of rate x commit_s on average.
    """
    plan = released(case, wanted)
    moved = between = handed = 0
    repeats = 0.0
    for before, after, moves in plan.changes():
        moved += len(moves)
        between += between_stayers(before, after, moves)
        stayed = set(after.members)
        for move in moves:
            if not move.before:
                continue
            handed += bool(move.after)
            is_killed = wanted.stop == "killed" and not stayed & set(move.before)
            in_hand = wanted.process_s + (wanted.commit_s / 2 if is_killed else 0)
            repeats += wanted.rate * in_hand

    allocations = [allocation for _, allocation in plan.states]
    nobodys = sum(len(one.nobodys) for one in allocations[1:])
    most = max(len(taken) for one in allocations for taken in one.taken)
    share = ceil(len(allocations[0].queues) / case.members)
    return Cost(
        moved=moved,
        between=between,
        spike=most / share,
        unowned_s=handed * wanted.handover_s + nobodys * wanted.step_s,
        repeats=repeats,
    )


def released(case: Case, wanted: Wanted) -> Plan:
    """The states of a group as it is released."""
    options = asked(wanted, case)
    strategy = strategy_of(case.strategy, options)
    groups = [*groups_of(case, wanted)]
    ids = {cid for _, group in groups for cid in group}
    return through(groups, case.strategy, topics_of(options), dict.fromkeys(ids, strategy))


def groups_of(case: Case, wanted: Wanted) -> Iterator[tuple[str, list[ClientId]]]:
    """The members at each time, sorted, by what has happened."""
    old = [_id(wanted, 0, number) for number in range(case.members)]
    new = [_id(wanted, 1, number) for number in range(case.members)]
    group = old
    yield "before", _sorted(group)
    for first in range(0, case.members, case.at_once):
        go = old[first : first + case.at_once]
        come = go if case.release == "restart" else new[first : first + case.at_once]
        stay = [cid for cid in group if cid not in go]
        between = group + come if case.release == "surge" else stay
        group = stay + come
        yield f"{first} released, and in the next step", _sorted(between)
        yield f"{min(first + case.at_once, case.members)} released", _sorted(group)


def _id(wanted: Wanted, generation: int, number: int) -> ClientId:
    """An id whose place among the others is as by chance, and the same each time."""
    name = md5(f"{generation} {number}".encode()).hexdigest()[:_ID_DIGITS]
    return placed(wanted, number, name)


def _sorted(group: list[ClientId]) -> list[ClientId]:
    return sorted(group, key=string_order)
