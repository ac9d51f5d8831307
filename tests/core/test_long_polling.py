"""Held pulls: what wakes them, and what does not."""

from __future__ import annotations

from mqspec.core.log import TopicQueue
from mqspec.core.long_polling import (
    CHECK_INTERVAL_MS,
    LongPollingState,
    PullRequest,
    check_hold_request,
    forget_pull_requests,
    notify_message_arriving,
    suspend_pull_request,
)
from mqspec.core.push_consumer import BROKER_SUSPEND_MAX_TIME_MS, CONSUMER_TIMEOUT_MS_WHEN_SUSPEND
from mqspec.core.record import tags_code
from mqspec.core.step import apply
from mqspec.core.subscription import build_subscription_data

QUEUE: TopicQueue = ("T", 0)
OTHER: TopicQueue = ("T", 1)
DEADLINE_MS = 1000


def holding(
    *tokens: str, expression: str = "A", expression_type: str = "TAG", queue: TopicQueue = QUEUE
) -> LongPollingState:
    state = LongPollingState()
    wanted = build_subscription_data("T", expression, expression_type=expression_type)
    for token in tokens:
        request = PullRequest(token, 3, wanted, DEADLINE_MS)
        apply(state, suspend_pull_request(state, queue, request).changes)
    return state


def arrive(state: LongPollingState, tag: str, max_offset: int = 4) -> tuple[str, ...]:
    step = notify_message_arriving(state, QUEUE, max_offset, tags_code(tag), now_ms=0)
    apply(state, step.changes)
    woken: tuple[str, ...] = step.result
    return woken


def test_a_message_wakes_every_pull_that_wants_it() -> None:
    state = holding("one", "two")
    assert arrive(state, "A") == ("one", "two")
    assert state.pull_request_table == {}


def test_a_message_that_is_not_wanted_wakes_nobody() -> None:
    state = holding("one")
    assert arrive(state, "B") == ()
    assert arrive(state, "A") == ("one",), "and the pull is still held"


def test_a_message_before_the_pulls_offset_wakes_nobody() -> None:
    assert arrive(holding("one"), "A", max_offset=3) == ()


def test_a_pull_by_properties_is_woken_by_those_that_it_wants_and_by_unknown_ones() -> None:
    for properties, woken in (("a\x011", ("one",)), ("a\x012", ()), ("", ()), (None, ("one",))):
        state = holding("one", expression="a = '1'", expression_type="SQL92")
        step = notify_message_arriving(state, QUEUE, 4, None, now_ms=0, properties=properties)
        assert step.result == woken, properties


def test_a_message_of_another_queue_wakes_nobody() -> None:
    assert arrive(holding("one", queue=OTHER), "A") == ()


def test_the_check_finds_what_arrived_unnoticed() -> None:
    step = check_hold_request(holding("one", expression="B"), lambda _: 4, now_ms=0)
    assert step.result == ("one",), "a tag that nobody knows passes"


def test_the_check_ends_what_is_due_and_nothing_else() -> None:
    state = holding("one")
    assert check_hold_request(state, lambda _: 3, DEADLINE_MS - 1).result == ()
    assert check_hold_request(state, lambda _: 3, DEADLINE_MS).result == ("one",)


def test_pulls_of_a_closed_connection_are_forgotten() -> None:
    state = holding("one", "two")
    apply(state, forget_pull_requests(state, lambda token: token == "one").changes)
    assert arrive(state, "A") == ("two",)
    state = holding("one")
    apply(state, forget_pull_requests(state, lambda _: True).changes)
    assert state.pull_request_table == {}


def test_the_times_have_the_order_that_the_model_gives_them() -> None:
    assert CHECK_INTERVAL_MS < BROKER_SUSPEND_MAX_TIME_MS
    longest_ms = BROKER_SUSPEND_MAX_TIME_MS + CHECK_INTERVAL_MS
    assert longest_ms < CONSUMER_TIMEOUT_MS_WHEN_SUSPEND  # PULL-015
