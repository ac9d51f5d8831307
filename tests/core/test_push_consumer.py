"""What a pull's answer means to a client, and which messages it wants."""

from __future__ import annotations

import pytest

from mqspec.core.metadata import Perm
from mqspec.core.push_consumer import (
    PULL_AGAIN_DELAY_MS,
    PullStatus,
    is_wanted,
    pull_status,
    subscribe_queues,
)
from mqspec.core.record import string_hash
from mqspec.core.route import QueueData, TopicRouteData
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
