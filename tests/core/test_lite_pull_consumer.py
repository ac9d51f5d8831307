"""What a lite-pull consumer reports of what it gave to its user."""

from __future__ import annotations

import pytest

from mqspec.core.lite_pull_consumer import (
    LitePullState,
    auto_commit,
    commit,
    commit_offset,
    must_wait_for_all,
    offset_illegal,
    poll,
    release,
    seek,
)
from mqspec.core.offset_commit import NOT_FOUND, Consumed, Pulled, add_message_queue, pull_message
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

MQ = MessageQueue("T", "a", 0)


def holding(*offsets: int) -> LitePullState:
    state = LitePullState()
    apply(state, add_message_queue(state, MQ, 0, NOT_FOUND, now_ms=0).changes)
    event = Pulled(MQ, 1, offsets[-1] + 1, 0, offsets, 10 * len(offsets))
    apply(state, pull_message(state, event).changes)
    return state


def test_what_was_polled_is_reported_once_it_is_committed() -> None:
    state = holding(3, 5, 6)
    apply(state, poll(state, Consumed(MQ, 1, (3, 5), 20)).changes)
    assert state.offset_store == {}
    apply(state, commit(state, [MQ]).changes)
    assert state.offset_store == {MQ: 6}
    assert state.process_queue_table[MQ].size_bytes == 10


def test_a_queue_that_is_not_held_gives_and_commits_nothing() -> None:
    state = holding(3)
    assert poll(state, Consumed(MQ, 2, (3,), 10)).result is False
    assert not commit(state, [MQ, MessageQueue("T", "a", 1)]).changes


def test_a_user_says_itself_how_far_it_is() -> None:
    state = holding(3, 4, 5)
    apply(state, poll(state, Consumed(MQ, 1, (3, 4), 20)).changes)
    other = MessageQueue("T", "a", 1)
    for offset in (4, 3):  # it may be less than before
        apply(state, commit_offset(state, {MQ: offset, other: 7}).changes)
        assert state.offset_store == {MQ: offset}


def test_it_commits_by_itself_every_so_often() -> None:
    state = holding(3, 4)
    apply(state, auto_commit(state, 1000, 5000).changes)
    apply(state, poll(state, Consumed(MQ, 1, (3,), 10)).changes)
    apply(state, auto_commit(state, 5999, 5000).changes)
    assert state.offset_store == {}
    apply(state, auto_commit(state, 6000, 5000).changes)
    assert state.offset_store == {MQ: 4}
    assert state.next_auto_commit_ms == 11_000


def test_after_a_seek_what_was_pulled_is_no_more() -> None:
    state = holding(3, 4)
    apply(state, seek(state, MQ, 1, now_ms=7).changes)
    queue = state.process_queue_table[MQ]
    assert (queue.generation, queue.next_offset, queue.msg_count) == (2, 1, 0)
    assert not pull_message(state, Pulled(MQ, 1, 9, 0)).result
    apply(state, commit(state, [MQ]).changes)
    assert state.offset_store == {MQ: 1}


def test_what_was_pulled_before_the_offset_was_illegal_may_be_polled_still() -> None:
    state = holding(3, 4)
    step = offset_illegal(state, MQ, 1, next_offset=90, now_ms=7)
    apply(state, step.changes)
    queue = state.process_queue_table[MQ]
    assert (queue.generation, queue.next_offset, queue.msg_tree_map) == (1, 90, (3, 4))
    assert step.result is None
    assert state.consume_offset == {}


@pytest.mark.parametrize(("next_offset", "begins"), [(4, 3), (3, 3), (1, 1)])
def test_where_a_queue_lost_its_end_what_is_not_polled_is_pulled_anew(
    next_offset: int, begins: int
) -> None:
    state = holding(2, 3, 4)
    apply(state, poll(state, Consumed(MQ, 1, (2,), 10)).changes)
    step = offset_illegal(state, MQ, 1, next_offset, now_ms=7)
    apply(state, step.changes)
    queue = state.process_queue_table[MQ]
    assert (queue.generation, queue.next_offset, queue.msg_count) == (2, begins, 0)
    assert step.result is queue
    assert state.consume_offset == {MQ: 3}
    assert not offset_illegal(state, MQ, 1, 0, now_ms=7).changes


def test_a_released_queue_leaves_nothing_behind() -> None:
    state = holding(3)
    state.paused[MQ] = True
    apply(state, poll(state, Consumed(MQ, 1, (3,), 10)).changes)
    apply(state, release(MQ).changes)
    assert (state.consume_offset, state.paused) == ({}, {})


def test_all_queues_together_hold_pulls_back() -> None:
    assert must_wait_for_all(holding(3, 4), limit=1)
    assert not must_wait_for_all(holding(3, 4), limit=2)
