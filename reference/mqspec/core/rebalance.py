"""Rebalance: how a member comes by its queues. Twin of Rebalance.tla.

Each member alone, when it starts, when a broker notifies it, and every 20 s, reads the list of
members from any one broker of the topic, computes its slice and changes what it holds to it.
Nobody tells the others: a queue may have two owners for a while, or none (REBAL-002, REBAL-003).
What is promised is that after the last change every queue ends with one owner (REBAL-001).

Facts: client/impl/consumer/{RebalanceService,RebalanceImpl,RebalancePushImpl}.java, 5.3.3.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mqspec.core.allocation import AllocationError, Strategy, allocate
from mqspec.core.group import ConsumeFromWhere, MessageModel
from mqspec.core.offset_commit import (
    ConsumerState,
    UpdateConsumerOffset,
    drop,
    remove_unnecessary_message_queue,
)
from mqspec.core.step import Change, Step
from mqspec.core.types import ClientId, Group, MessageQueue, Topic, string_order

WAIT_INTERVAL_MS: Final = 20_000  # between two rebalances of a balanced member
MIN_INTERVAL_MS: Final = 1_000  # between any two, and between two of a member not balanced
PULL_MAX_IDLE_TIME_MS: Final = 120_000  # a queue not pulled for longer is taken as lost
FIRST_PULL_DELAY_MS: Final = 500  # of a queue just added
UNLOCK_DELAY_TIME_MS: Final = 20_000  # since the last lock: then no listener is waited for

RETRY_TOPIC_PREFIX: Final = "%RETRY%"


@dataclass(slots=True)
class RebalanceState:
    """A client's RebalanceService: when to rebalance next."""

    has_notified: bool = True  # a start wakes it up
    balanced: bool = True
    last_rebalance_ms: int = -MIN_INTERVAL_MS  # the first one waits for nothing


@dataclass(frozen=True, slots=True)
class Member:
    """Who rebalances, and how; the same in every member of a group (ALLOC, scenario C')."""

    group: Group
    client_id: ClientId
    strategy: Strategy
    message_model: MessageModel = MessageModel.CLUSTERING
    orderly: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """What a member knows of one topic as it rebalances.

    `mq_all` comes from the route, `cid_all` from any one of the topic's brokers: other members
    may see others. None: not known. `consuming` are the queues on whose messages a listener
    of an orderly member works.
    """

    topic: Topic
    mq_all: tuple[MessageQueue, ...] | None
    cid_all: tuple[ClientId, ...] | None
    consuming: frozenset[MessageQueue] = frozenset()


@dataclass(frozen=True, slots=True)
class Rebalanced:
    """What a rebalance of a topic came to."""

    balanced: bool  # unless one of `added` cannot be started
    removed: tuple[MessageQueue, ...] = ()
    added: tuple[MessageQueue, ...] = ()  # to start on, each at its computed offset


class PullFrom(Enum):
    """Where a member that starts on a queue begins, and what it asks a broker for."""

    STORED = "the offset that is stored for the group"
    ZERO = "0; if the queue begins later, the first pull is told so"
    MAX_OFFSET = "the end of the queue: request 30"
    TIMESTAMP = "the first message stored at the consumer's time stamp or later: request 29"


# computePullFromWhere: (policy, whether a %RETRY% topic) -> where nothing is stored.
_NOTHING_STORED: Final = {
    **{
        (policy, is_retry): where
        for policy in (
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST,
            ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET,
            ConsumeFromWhere.CONSUME_FROM_MAX_OFFSET,
        )
        for is_retry, where in ((False, PullFrom.MAX_OFFSET), (True, PullFrom.ZERO))
    },
    (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, False): PullFrom.ZERO,
    (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, True): PullFrom.ZERO,
    (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, False): PullFrom.TIMESTAMP,
    (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, True): PullFrom.MAX_OFFSET,
}


def compute_pull_from_where(policy: ConsumeFromWhere, topic: Topic, stored: int) -> PullFrom:
    """Where to begin on a queue, `stored` being what the broker answered (NOT_FOUND: nothing).

    Where the broker did not answer at all, the queue is not started on in this round.
    """
    if stored >= 0:
        return PullFrom.STORED
    return _NOTHING_STORED[policy, topic.startswith(RETRY_TOPIC_PREFIX)]


def notify_consumer_ids_changed(state: RebalanceState) -> Step:
    """Rebalance!NotifyConsumerIdsChanged. A notice, of whatever group, wakes the client.

    One that comes while a rebalance is running is not lost: it is for the next one (REBAL-004).
    """
    return Step((Change("has_notified", None, True),))


def next_rebalance_ms(
    state: RebalanceState, wait_ms: int = WAIT_INTERVAL_MS, min_ms: int = MIN_INTERVAL_MS
) -> int:
    """When the next rebalance is due: at once or 1 s after the last one, else 20 s."""
    soon = state.has_notified or not state.balanced
    return state.last_rebalance_ms + (min_ms if soon else wait_ms)


def do_rebalance(state: RebalanceState) -> Step:
    """Rebalance!DoRebalance. A rebalance begins: notices so far are what it is about."""
    return Step((Change("has_notified", None, False),))


def rebalanced(state: RebalanceState, balanced: bool, now_ms: int) -> Step:
    """A rebalance of all topics ended, balanced where each of them was."""
    return Step((Change("balanced", None, balanced), Change("last_rebalance_ms", None, now_ms)))


def rebalance_by_topic(state: ConsumerState, member: Member, view: View, now_ms: int) -> Step:
    """Rebalance!RebalanceByTopic. Compute the slice and drop what is not in it.

    A broadcasting member's slice is every queue. Result: Rebalanced; the shell starts on each
    queue of `added` once its offset is computed (OffsetCommit!AddMessageQueue). Where the queues
    or the ids are not known nothing changes, and that counts as balanced; where the strategy
    refuses, it does not.
    """
    if view.mq_all is None:
        return Step(result=Rebalanced(balanced=True))
    if member.message_model is MessageModel.BROADCASTING:
        return update_process_queue_table(state, member.group, view.topic, view.mq_all, now_ms)
    if view.cid_all is None:
        return Step(result=Rebalanced(balanced=True))
    mq_all = sorted(view.mq_all)
    cid_all = sorted(view.cid_all, key=string_order)
    try:
        taken = allocate(member.strategy, member.group, member.client_id, mq_all, cid_all)
    except AllocationError:
        return Step(result=Rebalanced(balanced=view.topic.startswith(RETRY_TOPIC_PREFIX)))
    consuming = view.consuming if member.orderly else None
    return update_process_queue_table(
        state, member.group, view.topic, taken, now_ms, consuming=consuming
    )


def update_process_queue_table(
    state: ConsumerState,
    group: Group,
    topic: Topic,
    taken: Sequence[MessageQueue],
    now_ms: int,
    *,
    consuming: Collection[MessageQueue] | None = None,
) -> Step:
    """Drop the queues of `topic` that are not taken, or not pulled for 120 s.

    A queue whose pull expired is dropped and, being taken still, started on anew. An orderly
    member, for which `consuming` is given, reports the progress of a queue that a listener works
    on and keeps it, dropped, until the listener is done or 20 s have passed since the last lock:
    then it is removed all the same, and unlocked, like the others in `removed` (scenario J).
    """
    wanted = frozenset(taken)
    gone = tuple(
        mq
        for mq, queue in state.process_queue_table.items()
        if mq.topic == topic
        and (mq not in wanted or now_ms - queue.last_pull_ms > PULL_MAX_IDLE_TIME_MS)
    )

    def waits(mq: MessageQueue) -> bool:
        queue = state.process_queue_table[mq]
        forced = queue.dropped and now_ms > queue.last_lock_ms + UNLOCK_DELAY_TIME_MS
        return mq in (consuming or ()) and not forced

    removed = tuple(mq for mq in gone if not waits(mq))
    kept = state.process_queue_table.keys() - set(removed)
    added = tuple(mq for mq in dict.fromkeys(taken) if mq not in kept)
    steps = [
        _drop_and_report(state, mq, group)
        if waits(mq)
        else remove_unnecessary_message_queue(state, mq, group)
        for mq in gone
    ]
    stuck = {mq for mq in kept & wanted if mq in gone or state.process_queue_table[mq].dropped}
    return Step(
        tuple(change for step in steps for change in step.changes),
        tuple(send for step in steps for send in step.sends),
        Rebalanced(balanced=not stuck, removed=removed, added=added),
    )


def _drop_and_report(state: ConsumerState, mq: MessageQueue, group: Group) -> Step:
    offset = state.offset_store.get(mq)
    sends = () if offset is None else (UpdateConsumerOffset(group, mq, offset),)
    return Step(drop(state, mq).changes, sends)
