"""A rebalance counts as done where all that it took is held, and a topic that fails stops none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mqspec.client.member_config import MemberConfig
from mqspec.client.member_trace import MemberTrace
from mqspec.client.rebalance_service import RebalanceService
from mqspec.core.group import MessageModel
from mqspec.core.offset_commit import ConsumerState
from mqspec.core.step import Step
from mqspec.core.types import MessageQueue

QUEUES = tuple(MessageQueue("T", "broker-a", number) for number in range(2))


class Everything:
    """A member to which every queue belongs, and which can begin with some of them."""

    group, client_id = "G", "c@1"
    is_broadcasting, is_orderly = True, False
    consuming: frozenset[MessageQueue] = frozenset()

    def __init__(self, *starts: bool) -> None:
        self.state = ConsumerState()
        self.trace = MemberTrace(None, "c@1")
        self.starts = dict(zip(QUEUES, starts, strict=False))
        self.announced = 0

    def subscribed_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        if topic != "T":
            raise LookupError(topic)
        return tuple(self.starts)

    async def carry_out(self, step: Step) -> None:
        pass

    async def forget(self, removed: object) -> None:
        pass

    async def start_on(self, mq: MessageQueue) -> bool:
        return self.starts[mq]

    async def announce_change(self) -> None:
        self.announced += 1


def rebalanced(member: Any, topic: str) -> bool:
    config = MemberConfig(message_model=MessageModel.BROADCASTING)
    return asyncio.run(RebalanceService(member, config)._try_topic(topic))


@pytest.mark.parametrize(
    ("starts", "is_balanced", "announced"),
    [
        ((True, True), True, 1),
        ((True, False), False, 1),
        ((False, False), False, 0),
        ((), True, 0),
    ],
)
def test_a_member_is_balanced_once_it_holds_all_that_it_takes(
    starts: tuple[bool, ...], is_balanced: bool, announced: int
) -> None:
    member = Everything(*starts)
    assert rebalanced(member, "T") is is_balanced
    assert member.announced == announced


def test_a_topic_that_fails_is_tried_again_unless_it_is_one_of_retries() -> None:
    """RebalanceImpl.doRebalance, 5.3.3."""
    assert not rebalanced(Everything(), "U")
    assert rebalanced(Everything(), "%RETRY%G")
