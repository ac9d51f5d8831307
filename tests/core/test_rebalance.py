"""A member's rebalance: when it is due, what it drops and starts on, and where it begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqspec.core.allocation import AVG
from mqspec.core.consume_orderly import lock
from mqspec.core.group import ConsumeFromWhere, MessageModel
from mqspec.core.offset_commit import (
    NOT_FOUND,
    ConsumerState,
    UpdateConsumerOffset,
    add_message_queue,
)
from mqspec.core.rebalance import (
    MIN_INTERVAL_MS,
    PULL_MAX_IDLE_TIME_MS,
    WAIT_INTERVAL_MS,
    Member,
    PullFrom,
    Rebalanced,
    RebalanceState,
    View,
    compute_pull_from_where,
    do_rebalance,
    next_rebalance_ms,
    notify_consumer_ids_changed,
    rebalance_by_topic,
    rebalanced,
    update_process_queue_table,
)
from mqspec.core.step import Step, apply
from mqspec.core.types import MessageQueue

QUEUES = tuple(MessageQueue("T", "broker-a", i) for i in range(4))
LAST = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
TIMESTAMP = ConsumeFromWhere.CONSUME_FROM_TIMESTAMP


def rebalance(
    state: ConsumerState, me: str, *ids: str, queues: tuple[MessageQueue, ...] | None = QUEUES
) -> Step:
    view = View("T", queues, ids or None)
    return rebalance_by_topic(state, Member("G", me, AVG), view, now_ms=0)


@pytest.fixture
def alone() -> ConsumerState:
    """The only member, on all four queues from offset 7."""
    state = ConsumerState()
    for mq in QUEUES:
        apply(state, add_message_queue(state, mq, 7, 7, 0).changes)
    return state


def test_a_first_member_starts_on_every_queue() -> None:
    step = rebalance(ConsumerState(), "b", "b")
    assert step.result == Rebalanced(balanced=True, added=QUEUES)
    assert step.changes == ()


def test_ids_and_queues_are_sorted_before_they_are_used(alone: ConsumerState) -> None:
    step = rebalance(alone, "10", "2", "10", queues=QUEUES[::-1])
    assert step.result.removed == QUEUES[2:]  # "10" comes before "2"


def test_a_queue_taken_away_is_dropped_and_reported_for_the_last_time(
    alone: ConsumerState,
) -> None:
    step = rebalance(alone, "b", "a", "b")
    assert step.result == Rebalanced(balanced=True, removed=QUEUES[:2])
    assert step.sends == tuple(UpdateConsumerOffset("G", mq, 7) for mq in QUEUES[:2])
    apply(alone, step.changes)
    assert set(alone.process_queue_table) == set(alone.offset_store) == set(QUEUES[2:])


def test_a_member_that_its_own_list_does_not_name_drops_everything(alone: ConsumerState) -> None:
    assert rebalance(alone, "b", "a").result == Rebalanced(balanced=True, removed=QUEUES)


@pytest.mark.parametrize(("ids", "queues"), [((), QUEUES), (("a", "b"), None)])
def test_without_a_list_or_a_route_nothing_changes(
    alone: ConsumerState, ids: tuple[str, ...], queues: tuple[MessageQueue, ...] | None
) -> None:
    assert rebalance(alone, "b", *ids, queues=queues) == Step(result=Rebalanced(balanced=True))


def test_where_the_strategy_refuses_nothing_changes_and_it_is_tried_again_soon(
    alone: ConsumerState,
) -> None:
    assert rebalance(alone, "b", "b", queues=()) == Step(result=Rebalanced(balanced=False))


def test_a_queue_not_pulled_for_two_minutes_is_dropped_and_started_on_anew(
    alone: ConsumerState,
) -> None:
    view = View("T", QUEUES, ("a",))
    member = Member("G", "a", AVG)
    assert rebalance_by_topic(alone, member, view, PULL_MAX_IDLE_TIME_MS).result.removed == ()
    late = rebalance_by_topic(alone, member, view, PULL_MAX_IDLE_TIME_MS + 1)
    assert late.result.removed == late.result.added == QUEUES


def test_other_topics_are_left_alone(alone: ConsumerState) -> None:
    other = View("U", (MessageQueue("U", "broker-a", 0),), ("a",))
    step = rebalance_by_topic(alone, Member("G", "a", AVG), other, 0)
    assert step.changes == ()
    assert step.result.added == other.mq_all


def test_it_is_due_at_once_then_after_twenty_seconds_then_after_a_notice() -> None:
    state = RebalanceState()
    assert next_rebalance_ms(state) == 0
    apply(state, do_rebalance(state).changes)
    apply(state, rebalanced(state, True, 100).changes)
    assert next_rebalance_ms(state) == 100 + WAIT_INTERVAL_MS
    apply(state, notify_consumer_ids_changed(state).changes)
    assert next_rebalance_ms(state) == 100 + MIN_INTERVAL_MS


def test_it_is_due_soon_where_it_did_not_balance() -> None:
    state = RebalanceState()
    apply(state, do_rebalance(state).changes)
    apply(state, rebalanced(state, False, 100).changes)
    assert next_rebalance_ms(state) == 100 + MIN_INTERVAL_MS


def test_a_notice_during_a_rebalance_is_for_the_next_one() -> None:
    state = RebalanceState()
    apply(state, do_rebalance(state).changes)
    apply(state, notify_consumer_ids_changed(state).changes)
    apply(state, rebalanced(state, True, 100).changes)
    assert next_rebalance_ms(state) == 100 + MIN_INTERVAL_MS


# RebalancePushImplTest pins the first column of each policy, and the retry topics.
@pytest.mark.parametrize(
    ("policy", "normal", "retry"),
    [
        (LAST, PullFrom.MAX_OFFSET, PullFrom.ZERO),
        (FIRST, PullFrom.ZERO, PullFrom.ZERO),
        (TIMESTAMP, PullFrom.TIMESTAMP, PullFrom.MAX_OFFSET),
    ],
)
def test_where_a_group_begins(policy: ConsumeFromWhere, normal: PullFrom, retry: PullFrom) -> None:
    assert compute_pull_from_where(policy, "T", NOT_FOUND) is normal
    assert compute_pull_from_where(policy, "%RETRY%G", NOT_FOUND) is retry
    assert compute_pull_from_where(policy, "T", 0) is PullFrom.STORED


def test_a_broadcasting_member_takes_every_queue() -> None:
    member = replace(Member("G", "a", AVG), message_model=MessageModel.BROADCASTING)
    step = rebalance_by_topic(ConsumerState(), member, View("T", QUEUES, None), now_ms=0)
    assert set(step.result.added) == set(QUEUES)


def test_a_queue_that_an_orderly_listener_works_on_waits_until_it_is_forced() -> None:
    state = ConsumerState()
    apply(state, add_message_queue(state, QUEUES[0], 7, 7, now_ms=0).changes)
    apply(state, lock(state, [QUEUES[0]], now_ms=1000).changes)
    first = give_up(state, now_ms=30_000)
    assert first.result.removed == ()
    assert [send.commit_offset for send in first.sends] == [7]
    apply(state, first.changes)
    assert state.process_queue_table[QUEUES[0]].dropped
    assert give_up(state, now_ms=21_000).result.removed == ()
    forced = give_up(state, now_ms=21_001)
    assert forced.result.removed == (QUEUES[0],)
    apply(state, forced.changes)
    assert not state.process_queue_table


def test_a_dropped_queue_that_is_wanted_again_is_not_balanced() -> None:
    state = ConsumerState()
    apply(state, add_message_queue(state, QUEUES[0], 7, 7, now_ms=0).changes)
    apply(state, give_up(state, now_ms=0).changes)
    step = update_process_queue_table(
        state, "G", "T", QUEUES[:1], 0, consuming=frozenset(QUEUES[:1])
    )
    assert step.result == Rebalanced(balanced=False)


def give_up(state: ConsumerState, now_ms: int) -> Step:
    """Nothing of the topic is the member's any more, and its listener is at work."""
    return update_process_queue_table(state, "G", "T", (), now_ms, consuming=frozenset(QUEUES))
