"""An orderly member's process queue and its lock."""

from __future__ import annotations

import pytest

from mqspec.core.consume_orderly import (
    REBALANCE_LOCK_MAX_LIVE_TIME_MS,
    commit,
    is_locked,
    lock,
    make_message_to_consume_again,
    refuse_lock,
    suspend_ms,
    take_messages,
)
from mqspec.core.offset_commit import (
    NOT_FOUND,
    ConsumerState,
    FlowControl,
    ProcessQueue,
    Pulled,
    add_message_queue,
    correct_tags_offset,
    must_wait,
    pull_message,
)
from mqspec.core.step import Step, apply
from mqspec.core.types import MessageQueue

MQ = MessageQueue("T", "a", 0)


def holding(*offsets: int) -> tuple[ConsumerState, int]:
    """A member that pulled these, 10 bytes each; the process queue's generation."""
    state = ConsumerState()
    do(state, add_message_queue(state, MQ, 0, NOT_FOUND, now_ms=0))
    event = Pulled(MQ, 1, offsets[-1] + 1, 0, offsets, 10 * len(offsets))
    do(state, pull_message(state, event))
    return state, 1


def do(state: ConsumerState, step: Step) -> object:
    apply(state, step.changes)
    return step.result


def queue(state: ConsumerState) -> ProcessQueue:
    return state.process_queue_table[MQ]


def test_messages_are_taken_in_order_and_finished_together() -> None:
    state, generation = holding(3, 5, 6)
    assert do(state, take_messages(state, MQ, generation, 2)) == (3, 5)
    assert queue(state).msg_tree_map == (6,)
    assert queue(state).msg_count == 3
    do(state, commit(state, MQ, generation, size_bytes=20))
    assert state.offset_store[MQ] == 6
    assert queue(state).msg_count == 1
    assert queue(state).size_bytes == 10


def test_what_is_put_back_is_taken_first() -> None:
    state, generation = holding(3, 5, 6)
    do(state, take_messages(state, MQ, generation, 2))
    do(state, make_message_to_consume_again(state, MQ, generation))
    assert queue(state).msg_tree_map == (3, 5, 6)
    assert MQ not in state.offset_store
    assert do(state, take_messages(state, MQ, generation, 1)) == (3,)


def test_progress_may_go_back() -> None:
    state, generation = holding(3)
    state.offset_store[MQ] = 99
    do(state, take_messages(state, MQ, generation, 1))
    do(state, commit(state, MQ, generation, size_bytes=10))
    assert state.offset_store[MQ] == 4


def test_what_is_at_the_listener_is_not_finished() -> None:
    state, generation = holding(3)
    do(state, take_messages(state, MQ, generation, 1))
    assert not correct_tags_offset(state, Pulled(MQ, generation, 9, 0)).changes


def test_nothing_is_taken_of_nothing_and_nothing_finished() -> None:
    state, generation = holding(3)
    do(state, take_messages(state, MQ, generation, 1))
    assert do(state, take_messages(state, MQ, generation, 1)) == ()
    do(state, commit(state, MQ, generation, size_bytes=10))
    assert not commit(state, MQ, generation, size_bytes=0).changes


def test_a_process_queue_that_was_dropped_is_left_alone() -> None:
    state, generation = holding(3)
    other = generation + 1
    assert take_messages(state, MQ, other, 1).result == ()
    assert not commit(state, MQ, other, 10).changes
    assert not make_message_to_consume_again(state, MQ, other).changes


def test_a_lock_is_believed_in_for_30_s() -> None:
    state, _ = holding(3)
    assert not is_locked(queue(state), 0)
    do(state, lock(state, [MQ, MessageQueue("T", "a", 9)], now_ms=5))
    assert is_locked(queue(state), 5 + REBALANCE_LOCK_MAX_LIVE_TIME_MS)
    assert not is_locked(queue(state), 6 + REBALANCE_LOCK_MAX_LIVE_TIME_MS)
    do(state, refuse_lock(state, [MQ, MessageQueue("T", "a", 9)]))
    assert not is_locked(queue(state), 5)


@pytest.mark.parametrize(("asked", "got"), [(None, 1000), (1, 10), (500, 500), (99_999, 30_000)])
def test_for_how_long_a_queue_is_suspended(asked: int | None, got: int) -> None:
    assert suspend_ms(asked) == got


def test_flow_control_counts_what_the_listener_has_and_no_span() -> None:
    state, generation = holding(0, 5000)
    assert must_wait(queue(state))
    assert not must_wait(queue(state), FlowControl(consume_concurrently_max_span=None))
    do(state, take_messages(state, MQ, generation, 2))
    limits = FlowControl(pull_threshold_for_queue=1)
    assert must_wait(queue(state), limits)
