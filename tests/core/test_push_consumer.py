"""What a pull's answer means to a client, and which messages it wants."""

from __future__ import annotations

import pytest

from mqspec.core.metadata import Perm
from mqspec.core.offset_commit import (
    ConsumerState,
    add_message_queue,
    drop,
    held,
    reset_offset,
)
from mqspec.core.push_consumer import (
    PULL_AGAIN_DELAY_MS,
    PullStatus,
    acknowledged,
    first_expired,
    is_wanted,
    pull_status,
    subscribe_queues,
)
from mqspec.core.record import string_hash
from mqspec.core.route import QueueData, TopicRouteData
from mqspec.core.step import apply
from mqspec.core.subscription import build_subscription_data
from mqspec.core.types import MessageQueue


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, PullStatus.FOUND),
        (19, PullStatus.NO_NEW_MSG),
        (20, PullStatus.NO_MATCHED_MSG),
        (21, PullStatus.OFFSET_ILLEGAL),
        (215, PullStatus.FLOW_CONTROL),
        (1, PullStatus.FAILED),
        (25, PullStatus.FAILED),
        (9999, PullStatus.FAILED),
    ],
)
def test_what_a_code_means(code: int, status: PullStatus) -> None:
    assert pull_status(code) is status


def test_every_answer_but_an_illegal_offset_is_followed_by_a_pull() -> None:
    assert PULL_AGAIN_DELAY_MS.keys() == set(PullStatus) - {PullStatus.OFFSET_ILLEGAL}


def test_the_readable_queues_are_subscribed_to() -> None:
    route = TopicRouteData((QueueData("a", 2, 9, Perm.READ), QueueData("b", 2, 9, Perm.WRITE)))
    assert subscribe_queues("T", route) == (MessageQueue("T", "a", 0), MessageQueue("T", "a", 1))


def test_tags_that_collide_are_told_apart() -> None:
    assert string_hash("Aa") == string_hash("BB")
    subscription = build_subscription_data("T", "BB")
    assert is_wanted(subscription, "BB")
    assert not is_wanted(subscription, "Aa")
    assert not is_wanted(subscription, None)


def test_a_subscription_to_all_wants_messages_without_a_tag() -> None:
    assert is_wanted(build_subscription_data("T", "*"), None)


@pytest.mark.parametrize(
    ("success", "ack_index", "count"),
    [(True, None, 3), (True, 0, 1), (True, 9, 3), (True, -1, 0), (False, 2, 0), (False, None, 0)],
)
def test_how_many_of_three_messages_are_consumed(
    success: bool, ack_index: int | None, count: int
) -> None:
    assert acknowledged(3, success=success, ack_index=ack_index) == count


@pytest.mark.parametrize(
    ("tree", "started", "expired"),
    [
        ((), {}, None),
        ((5, 6), {}, None),  # the listener does not have it yet
        ((5, 6), {5: 0}, None),
        ((5, 6), {5: -1}, 5),
        ((5, 6), {5: 0, 6: -99}, None),  # the later one holds nothing back
    ],
)
def test_what_the_listener_has_for_too_long(
    tree: tuple[int, ...], started: dict[int, int], expired: int | None
) -> None:
    assert first_expired(tree, started, timeout_ms=100, now_ms=100) == expired


def test_a_reset_lets_go_of_the_queues_that_are_held() -> None:
    held_mq, other = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
    state = ConsumerState()
    apply(state, add_message_queue(state, held_mq, 7, 7, now_ms=0).changes)
    apply(state, drop(state, held_mq).changes)
    assert held(state, held_mq, 1) is None
    assert held_mq in state.process_queue_table
    assert not drop(state, other).changes
    step = reset_offset(state, {held_mq: 3, other: 4}, "G")
    assert step.result == (held_mq,)
    assert [(send.mq, send.commit_offset) for send in step.sends] == [(held_mq, 3)]
    apply(state, step.changes)
    assert not state.process_queue_table
    assert not state.offset_store


def test_when_a_queue_is_pulled_again() -> None:
    """At once, unless the broker is busy or nobody answers; after an illegal offset not at all."""
    at_once = {PullStatus.FOUND, PullStatus.NO_NEW_MSG, PullStatus.NO_MATCHED_MSG}
    assert {
        **dict.fromkeys(at_once, 0),
        PullStatus.FLOW_CONTROL: 20,
        PullStatus.FAILED: 1_000,
    } == PULL_AGAIN_DELAY_MS
