"""Which queue a producer takes, and what it tries again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mqspec.core.metadata import Perm
from mqspec.core.producer import (
    RETRY_RESPONSE_CODES,
    STORED,
    publish_queues,
    select_one_message_queue,
)
from mqspec.core.route import BrokerData, QueueData, TopicRouteData
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
A0, B0, B1 = (MessageQueue("T", *place) for place in (("a", 0), ("b", 0), ("b", 1)))


def test_only_writable_queues_of_masters_are_published_to() -> None:
    assert publish_queues("T", ROUTE) == [A0, B0, B1]


def test_of_a_template_no_more_queues_are_made_than_asked_for() -> None:
    assert publish_queues("T", ROUTE, queues_max=1) == [A0, B0]


def test_queues_take_turns() -> None:
    queues = publish_queues("T", ROUTE)
    assert [select_one_message_queue(queues, turn, None) for turn in range(4)] == [A0, B0, B1, A0]


@given(st.integers(0, 100), st.sampled_from(["a", "b"]))
def test_after_a_failure_it_is_another_brokers_turn(turn: int, last: str) -> None:
    assert select_one_message_queue([A0, B0, B1], turn, last).broker_name != last


def test_with_one_broker_a_failure_is_tried_on_it_again() -> None:
    assert select_one_message_queue([B0, B1], 1, "b") == B1


def test_what_is_stored_is_not_tried_again() -> None:
    assert not STORED & RETRY_RESPONSE_CODES
