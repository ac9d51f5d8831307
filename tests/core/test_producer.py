"""Which queue a producer takes, and what it tries again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqspec.core.metadata import Perm
from mqspec.core.producer import (
    RETRY_RESPONSE_CODES,
    STORED,
    FaultItem,
    ProducerState,
    check_batch,
    check_message,
    is_tried_again,
    not_available_duration,
    publish_queues,
    select_by_hash,
    select_one_message_queue,
    update_fault_item,
)
from mqspec.core.record import string_hash
from mqspec.core.response import ResponseCode
from mqspec.core.route import BrokerData, QueueData, TopicRouteData
from mqspec.core.step import Step, apply
from mqspec.core.types import MessageQueue

ROUTE = TopicRouteData(
    queue_datas=(
        QueueData("b", 4, 2, Perm.READ | Perm.WRITE),
        QueueData("a", 4, 1, Perm.WRITE),
        QueueData("read-only", 4, 4, Perm.READ),
        QueueData("slave-only", 4, 4, Perm.READ | Perm.WRITE),
    ),
    broker_datas=(
        BrokerData("C", "a", {0: "h:1"}),
        BrokerData("C", "b", {0: "h:2", 1: "h:3"}),
        BrokerData("C", "read-only", {0: "h:4"}),
        BrokerData("C", "slave-only", {1: "h:5"}),
    ),
)
QUEUES = A0, B0, B1 = tuple(MessageQueue("T", *place) for place in (("a", 0), ("b", 0), ("b", 1)))


def test_only_writable_queues_of_masters_are_published_to() -> None:
    assert publish_queues("T", ROUTE) == [A0, B0, B1]


def test_of_a_template_no_more_queues_are_made_than_asked_for() -> None:
    assert publish_queues("T", ROUTE, queues_max=1) == [A0, B0]


def select(
    state: ProducerState, last: str | None = None, now_ms: int | None = None
) -> MessageQueue:
    step = select_one_message_queue(state, QUEUES, last, now_ms)
    apply(state, step.changes)
    queue: MessageQueue = step.result
    return queue


def refused(state: ProducerState, broker: str) -> Step:
    return update_fault_item(state, broker, 5, now_ms=0, isolation=True, reachable=False)


def test_queues_take_turns() -> None:
    state = ProducerState()
    assert [select(state) for _ in range(4)] == [A0, B0, B1, A0]


def test_a_queue_that_is_passed_over_has_had_its_turn() -> None:
    state = ProducerState({"T": 0})  # A0 was the last one
    assert select(state, last="b") == A0
    assert select(state) == B0


@given(st.integers(-1, 100), st.sampled_from(["a", "b"]))
def test_after_a_failure_it_is_another_brokers_turn(turn: int, last: str) -> None:
    assert select(ProducerState({"T": turn}), last).broker_name != last


def test_with_one_broker_a_failure_is_tried_on_it_again() -> None:
    step = select_one_message_queue(ProducerState(), [B0, B1], "b")
    assert step.result == B0


def test_a_slow_broker_is_avoided_for_as_long_as_the_table_says() -> None:
    state = ProducerState()
    apply(state, update_fault_item(state, "b", latency_ms=600, now_ms=1000).changes)
    assert [select(state, now_ms=2999) for _ in range(2)] == [A0, A0]
    assert select(state, now_ms=3000) == B0
    assert select(state) == B1  # without latency-fault avoidance nothing is avoided


def test_where_all_are_slow_one_that_is_reachable_goes_first() -> None:
    state = ProducerState()
    apply(state, refused(state, "a").changes)
    apply(state, update_fault_item(state, "b", 600, now_ms=0).changes)
    assert [select(state, now_ms=1) for _ in range(3)] == [B0, B1, B0]
    assert state.fault_item_table["a"] == FaultItem(5, 10_000, reachable=False)


def test_a_broker_that_did_not_answer_is_reachable_and_avoided_until_time_ends_that() -> None:
    state = ProducerState()
    step = update_fault_item(state, "b", latency_ms=3_000, now_ms=1_000, isolation=True)
    apply(state, step.changes)
    assert state.fault_item_table["b"] == FaultItem(3_000, 11_000, reachable=True)
    apply(state, update_fault_item(state, "b", latency_ms=5, now_ms=2_000).changes)
    assert [select(state, now_ms=10_999) for _ in range(2)] == [A0, A0]
    assert select(state, now_ms=11_000) == B0


def test_where_none_is_reachable_turns_are_taken_all_the_same() -> None:
    state = ProducerState()
    for broker in "ab":
        apply(state, refused(state, broker).changes)
    assert {select(state, now_ms=1) for _ in range(9)} == {A0, B0, B1}


@pytest.mark.parametrize(
    ("latency_ms", "avoided_ms"),
    [
        (0, 0),
        (50, 0),
        (549, 0),
        (550, 2000),
        (1800, 5000),
        (3000, 6000),
        (5000, 10000),
        (99999, 30000),
    ],
)
def test_for_how_long_a_broker_is_avoided(latency_ms: int, avoided_ms: int) -> None:
    assert not_available_duration(latency_ms) == avoided_ms


@given(st.text(max_size=20))
def test_a_key_has_one_queue(key: str) -> None:
    assert select_by_hash(QUEUES, key) == select_by_hash(QUEUES, key)


def test_a_negative_hash_has_a_queue_too() -> None:
    key = "polygenelubricants"  # whose hash in Java is the smallest int: abs keeps it negative
    assert string_hash(key) == -(1 << 31)
    assert select_by_hash(QUEUES, key) == QUEUES[2]  # 2**31 % 3


def test_what_is_stored_is_not_tried_again() -> None:
    assert not STORED & RETRY_RESPONSE_CODES


@pytest.mark.parametrize(
    ("topic", "body", "why"),
    [
        ("", b"x", "letters, digits"),
        ("a b", b"x", "letters, digits"),
        ("t" * 128, b"x", "1 to 127"),
        ("SCHEDULE_TOPIC_XXXX", b"x", "the broker's own"),
        ("T", b"", "the body is empty"),
        ("T", b"xxx", "3 bytes, at most 2"),
    ],
)
def test_what_a_producer_refuses(topic: str, body: bytes, why: str) -> None:
    assert why in str(check_message(topic, body, 2))


def test_what_a_producer_sends() -> None:
    assert check_message("%RETRY%g|1_-" + "t" * 115, b"xx", 2) is None


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ([], "no message"),
        ([("T", {}), ("T", {"DELAY": "1"})], "no delayed"),
        ([("%RETRY%G", {})], "retry topic"),
        ([("T", {}), ("U", {})], "one topic"),
        ([("T", {"WAIT": "true"}), ("T", {"WAIT": "false"})], "wait for the disk"),
        ([("T", {"WAIT": "false"}), ("T", {"WAIT": "true"})], "wait for the disk"),
        ([("%RETRY%G", {}), ("T", {})], "not sent to a retry topic"),
    ],
)
def test_what_is_no_batch(batch: list[tuple[str, dict[str, str]]], why: str) -> None:
    assert why in str(check_batch(batch))


def test_what_is_a_batch() -> None:
    assert check_batch([("T", {"WAIT": "true"}), ("T", {"WAIT": "true", "KEYS": "k"})]) is None


def test_what_is_stored_is_not_sent_again_unless_less_safely_and_asked_for() -> None:
    assert not any(is_tried_again(code) for code in STORED)
    again = {code for code in STORED if is_tried_again(code, retries_not_store_ok=True)}
    assert again == STORED - {ResponseCode.SUCCESS}


def test_what_is_not_answered_or_refused_for_now_is_sent_again() -> None:
    assert is_tried_again(None)
    assert all(is_tried_again(code) for code in RETRY_RESPONSE_CODES)
    assert not is_tried_again(ResponseCode.MESSAGE_ILLEGAL)
