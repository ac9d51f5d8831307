"""Lock: which member of a group may consume a queue in order. Twin of Lock.tla.

A member that consumes in order locks each of its queues on the queue's broker, renews the locks
every 20 s, and believes in one for 30 s after the broker last granted it; the broker keeps it
for 60 s. What is promised is that the broker grants a lock to one member at a time (LOCK-001),
and that a lock whose holder is silent is free again in the end (LOCK-004). Nothing looks at a
lock when it matters: pulls, commits and send-backs are served without it (LOCK-007), there is
no fencing token, and a broker that starts again has forgotten all of them (LOCK-008). That one
member alone consumes the queue therefore holds only as long as clocks and listeners keep to
those times.

Facts: broker/client/rebalance/RebalanceLockManager.java, AdminBrokerProcessor.java (5.3.3);
each seen on 5.3.3 over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import ClientId, Group, MessageQueue


@dataclass(frozen=True, slots=True)
class LockEntry:
    """Who holds a queue, and since when: the last time that it was granted, in ms."""

    client_id: ClientId | None  # None: the request named nobody, and is granted all the same
    last_update_ms: int


@dataclass(slots=True)
class LockState:
    """The locks of one broker; nothing of them survives the broker's end."""

    mq_lock_table: dict[Group, Mapping[MessageQueue, LockEntry]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LockBatch:
    """A member asks for queues, or gives them up. Any name will do: nothing is looked up."""

    group: Group
    client_id: ClientId | None
    mq_set: tuple[MessageQueue, ...]


def try_lock_batch(state: LockState, event: LockBatch, now_ms: int, max_live_time_ms: int) -> Step:
    """Lock!TryLockBatch. Of each queue: its holder renews it, and whoever asks gets one that is
    free, or whose holder has been silent for longer than the lock lives (LOCK-004).

    Result: the queues that the member holds now; what it was refused is not among them.
    """
    locks = dict(state.mq_lock_table.get(event.group, {}))
    granted = []
    for mq in dict.fromkeys(event.mq_set):  # each once, also where it is asked for twice
        entry = locks.get(mq)
        if (
            entry is None
            or entry.client_id == event.client_id
            or _is_expired(entry, now_ms, max_live_time_ms)
        ):
            locks[mq] = LockEntry(event.client_id, now_ms)
            granted.append(mq)
    change = Change("mq_lock_table", event.group, locks)
    return Step((change,) if granted else (), result=tuple(granted))


def unlock_batch(state: LockState, event: LockBatch) -> Step:
    """Lock!UnlockBatch. The holder gives queues up; of others nothing is taken (LOCK-003)."""
    locks = state.mq_lock_table.get(event.group, {})
    given_up = {mq for mq in event.mq_set if mq in locks and locks[mq].client_id == event.client_id}
    if not given_up:
        return Step()
    rest = {mq: entry for mq, entry in locks.items() if mq not in given_up}
    return Step((Change("mq_lock_table", event.group, rest or REMOVED),))


def is_lock_all_expired(state: LockState, group: Group, now_ms: int, max_live_time_ms: int) -> bool:
    """Whether no member holds any queue of the group. While one does the group counts as one
    that consumes in order, for which nothing is tried again later (RETRY-008)."""
    locks = state.mq_lock_table.get(group, {})
    return all(_is_expired(entry, now_ms, max_live_time_ms) for entry in locks.values())


def _is_expired(entry: LockEntry, now_ms: int, max_live_time_ms: int) -> bool:
    return now_ms - entry.last_update_ms > max_live_time_ms  # strictly: 60.01 s were seen
