"""Orderly consumption: one message after the other, under a lock that expires. Twin of
ConsumeOrderly.tla, with offset_commit.

A member asks the broker to lock a queue (request 41) for 60 s, renews that every 20 s, and
believes in it for 30 s. While it believes, it takes messages out of the process queue, lets
the listener work on them, and then either finishes them or puts them back. Nothing stops a
listener that works for longer than the lock lasts, and no broker looks at the lock when a
message is pulled or progress reported: two members may work on a queue at once (scenario J).

Facts: client/impl/consumer/{ConsumeMessageOrderlyService,ProcessQueue}.java, 5.3.3.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from mqspec.core.offset_commit import ConsumerState, ProcessQueue, held, update_offset
from mqspec.core.step import Change, Step
from mqspec.core.types import MessageQueue

REBALANCE_LOCK_MAX_LIVE_TIME_MS: Final = 30_000  # half of what the broker keeps it for
REBALANCE_LOCK_INTERVAL_MS: Final = 20_000
LOCK_FIRST_DELAY_MS: Final = 1_000
REBALANCE_LATER_MS: Final = 500  # after a lock that the broker refused
LOCK_AGAIN_DELAY_MS: Final = 3_000  # of a queue whose lock is lost while messages wait
MAX_TIME_CONSUME_CONTINUOUSLY_MS: Final = 60_000  # then other queues have their turn
SUSPEND_CURRENT_QUEUE_TIME_MS: Final = 1_000
SUSPEND_MIN_MS: Final = 10
SUSPEND_MAX_MS: Final = 30_000
MAX_RECONSUME_TIMES: Final = (1 << 31) - 1  # unless configured: an orderly queue waits for good


def is_locked(queue: ProcessQueue, now_ms: int) -> bool:
    """Whether the member believes that the queue is locked for it (LOCK-021)."""
    return queue.locked and now_ms - queue.last_lock_ms <= REBALANCE_LOCK_MAX_LIVE_TIME_MS


def lock(state: ConsumerState, mqs: Collection[MessageQueue], now_ms: int) -> Step:
    """The broker locked these queues for the member."""
    return Step(
        tuple(
            Change("process_queue_table", mq, replace(queue, locked=True, last_lock_ms=now_ms))
            for mq in mqs
            if (queue := state.process_queue_table.get(mq)) is not None
        )
    )


def refuse_lock(state: ConsumerState, mqs: Collection[MessageQueue]) -> Step:
    """The broker did not lock these queues. Where it did not answer, only time ends a lock."""
    return Step(
        tuple(
            Change("process_queue_table", mq, replace(queue, locked=False))
            for mq in mqs
            if (queue := state.process_queue_table.get(mq)) is not None
        )
    )


def take_messages(state: ConsumerState, mq: MessageQueue, generation: int, count: int) -> Step:
    """ConsumeOrderly!TakeMessages. The first `count` messages go to the listener (LOCK-022).
    Result: their offsets."""
    queue = held(state, mq, generation)
    if queue is None or not queue.msg_tree_map:
        return Step(result=())
    taken = queue.msg_tree_map[:count]
    left = replace(
        queue,
        msg_tree_map=queue.msg_tree_map[count:],
        consuming_msg_orderly_tree_map=queue.consuming_msg_orderly_tree_map + taken,
    )
    return Step((Change("process_queue_table", mq, left),), result=taken)


def commit(state: ConsumerState, mq: MessageQueue, generation: int, size_bytes: int) -> Step:
    """ConsumeOrderly!Commit. The messages taken, `size_bytes` of bodies, are finished: progress
    is the one after the last of them, even where that is less than it was (LOCK-023)."""
    queue = held(state, mq, generation)
    if queue is None or not queue.consuming_msg_orderly_tree_map:
        return Step()
    progress = queue.consuming_msg_orderly_tree_map[-1] + 1
    left = replace(
        queue, consuming_msg_orderly_tree_map=(), size_bytes=queue.size_bytes - size_bytes
    )
    updated = update_offset(state, mq, progress, increase_only=False)
    return Step((Change("process_queue_table", mq, left), *updated.changes))


def make_message_to_consume_again(state: ConsumerState, mq: MessageQueue, generation: int) -> Step:
    """ConsumeOrderly!MakeMessageToConsumeAgain. The messages taken go back, to be taken again."""
    queue = held(state, mq, generation)
    if queue is None:
        return Step()
    back = tuple(sorted(queue.consuming_msg_orderly_tree_map + queue.msg_tree_map))
    whole = replace(queue, msg_tree_map=back, consuming_msg_orderly_tree_map=())
    return Step((Change("process_queue_table", mq, whole),))


def suspend_ms(asked_ms: int | None) -> int:
    """For how long a queue is left alone whose messages are to be consumed again."""
    wanted = SUSPEND_CURRENT_QUEUE_TIME_MS if asked_ms is None else asked_ms
    return min(max(wanted, SUSPEND_MIN_MS), SUSPEND_MAX_MS)
