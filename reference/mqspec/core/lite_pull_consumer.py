"""The lite-pull consumer: what it gives to its user, and what it reports of that. Twin of
LitePullConsumer.tla.

Queues are pulled ahead, in turn, into their process queues. What `poll` returns leaves them at
once; how far that is, is reported only when the user commits, or every 5 s by itself as the
user polls again. So what was polled last before a crash comes again, and what was polled and
committed does not, whether the user was done with it or not.

Facts: client/impl/consumer/{DefaultLitePullConsumerImpl,AssignedMessageQueue}.java,
client/consumer/DefaultLitePullConsumer.java, 5.3.3.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from mqspec.core.offset_commit import (
    Consumed,
    ConsumerState,
    ProcessQueue,
    Pulled,
    held,
    pull_message,
    remove_message,
    update_offset,
)
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import MessageQueue

PULL_BATCH_SIZE: Final = 10
POLL_TIMEOUT_MS: Final = 5_000
BROKER_SUSPEND_MAX_TIME_MS: Final = 20_000  # how long a broker may hold a pull
START_AGAIN_DELAY_MS: Final = 3_000  # of a queue of which nobody told where to begin
AUTO_COMMIT_INTERVAL_MS: Final = 5_000
PULL_THRESHOLD_FOR_ALL: Final = 10_000  # messages of all queues: strictly more hold pulls back


@dataclass(slots=True)
class LitePullState(ConsumerState):
    """What a lite-pull consumer holds; AssignedMessageQueue.java is the part beside its process
    queues."""

    consume_offset: dict[MessageQueue, int] = field(default_factory=dict)  # after the last poll
    paused: dict[MessageQueue, bool] = field(default_factory=dict)
    next_auto_commit_ms: int = 0


def poll(state: LitePullState, event: Consumed) -> Step:
    """LitePullConsumer!Poll. Messages go to the user. Result: whether the queue is held still, and
    they do."""
    queue = held(state, event.mq, event.generation)
    if queue is None:
        return Step(result=False)
    left, offset = remove_message(queue, event)
    changes = (
        Change("process_queue_table", event.mq, left),
        Change("consume_offset", event.mq, offset),
    )
    return Step(changes, result=True)


def auto_commit(state: LitePullState, now_ms: int, interval_ms: int) -> Step:
    """Commit all, if it is time to. It is looked at before a poll, and at no other moment."""
    if now_ms < state.next_auto_commit_ms:
        return Step()
    committed = commit(state, state.consume_offset)
    next_time = Change("next_auto_commit_ms", None, now_ms + interval_ms)
    return Step((*committed.changes, next_time))


def commit(state: LitePullState, mqs: Collection[MessageQueue]) -> Step:
    """LitePullConsumer!Commit. How far the user polled is to be reported, even where that is less
    than it was (LITE-001)."""
    polled = {mq: state.consume_offset[mq] for mq in mqs if mq in state.consume_offset}
    return commit_offset(state, polled)


def commit_offset(state: LitePullState, offsets: Mapping[MessageQueue, int]) -> Step:
    """LitePullConsumer!CommitOffset. The user says itself how far it is, of queues that are held:
    whatever it says is to be reported (LITE-003)."""
    steps = (
        update_offset(state, mq, offset, increase_only=False)
        for mq, offset in offsets.items()
        if mq in state.process_queue_table
    )
    return Step(tuple(change for step in steps for change in step.changes))


def seek(state: LitePullState, mq: MessageQueue, offset: int, now_ms: int) -> Step:
    """LitePullConsumer!Seek. The user goes on elsewhere in a queue that is held: what was pulled of
    it is dropped, and another process queue begins there (LITE-004). Result: that one."""
    made = ProcessQueue(state.generation + 1, offset, now_ms)
    changes = (
        Change("process_queue_table", mq, made),
        Change("generation", None, made.generation),
        Change("consume_offset", mq, offset),
    )
    return Step(changes, result=made)


def offset_illegal(
    state: LitePullState, mq: MessageQueue, generation: int, next_offset: int, now_ms: int
) -> Step:
    """The broker called the pull's offset illegal and names another: pulls go on there, and what
    was pulled before may be polled still. Where that is a step back, as the queue lost its end,
    what is not polled is pulled anew. Result: the process queue that is to be pulled from now
    on, where it is a new one.

    The real client goes back as well, and gives what it pulled before together with that.
    """
    queue = held(state, mq, generation)
    if queue is None:
        return Step()
    if next_offset >= queue.next_offset:
        return Step(pull_message(state, Pulled(mq, generation, next_offset, now_ms)).changes)
    begin = min((next_offset, *queue.msg_tree_map[:1]))
    made = ProcessQueue(state.generation + 1, begin, now_ms)
    changes = (
        Change("process_queue_table", mq, made),
        Change("generation", None, made.generation),
    )
    return Step(changes, result=made)


def release(mq: MessageQueue) -> Step:
    """The queue is not the consumer's any more."""
    return Step((Change("consume_offset", mq, REMOVED), Change("paused", mq, REMOVED)))


def must_wait_for_all(state: ConsumerState, limit: int = PULL_THRESHOLD_FOR_ALL) -> bool:
    """Whether all queues together hold so many messages that no pull goes out."""
    return sum(queue.msg_count for queue in state.process_queue_table.values()) > limit
