"""Assignment by the broker as Apache 5.3.3 was seen to compute it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from mqspec.core.assignment import (
    AssignmentState,
    MessageRequestMode,
    QueryAssignment,
    SetMessageRequestMode,
    check_request_mode,
    do_load_balance,
    message_request_mode,
    set_message_request_mode,
)
from mqspec.core.group import MessageModel
from mqspec.core.metadata import BrokerConfig, MetadataState, TopicConfig
from mqspec.core.response import Refusal
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

QUERY = QueryAssignment("T", "G", MessageModel.CLUSTERING, "c1", "AVG")
PULL = SetMessageRequestMode("T", "G")
POP = SetMessageRequestMode("T", "G", MessageRequestMode.POP)
FOUR = ("c4", "c2", "c3", "c1")


def queues(count: int, *brokers: str) -> list[MessageQueue]:
    return [
        MessageQueue("T", broker, queue_id)
        for broker in brokers or ("broker-a",)
        for queue_id in range(count)
    ]


def told(
    event: QueryAssignment,
    mode: SetMessageRequestMode,
    mq_all: list[MessageQueue] | None,
    cid_all: Sequence[str | None] | None,
) -> list[MessageQueue] | None:
    found = do_load_balance(event, mode, mq_all, cid_all)
    assert found is None or {assignment.mode for assignment in found} <= {mode.mode}
    return None if found is None else [assignment.message_queue for assignment in found]


def test_members_share_averagely_in_the_order_of_their_ids() -> None:
    mq_all = queues(2, "broker-b", "broker-a")
    shares = [told(replace(QUERY, client_id=cid), PULL, mq_all, FOUR) for cid in sorted(FOUR)]
    assert shares == [[mq] for mq in sorted(mq_all)]
    assert told(replace(QUERY, client_id="zz"), PULL, mq_all, FOUR) == []
    assert told(QUERY, PULL, mq_all, ["c1", None]) == sorted(mq_all)


@pytest.mark.parametrize(
    ("event", "has_route", "cid_all"),
    [
        (QUERY, False, FOUR),
        (QUERY, True, None),
        (replace(QUERY, strategy_name="CONSISTENT_HASH"), True, FOUR),
        (replace(QUERY, strategy_name=None), True, FOUR),
        (replace(QUERY, client_id=""), True, FOUR),
        (replace(QUERY, message_model=MessageModel.BROADCASTING), False, FOUR),
    ],
)
def test_what_cannot_be_computed(
    event: QueryAssignment, has_route: bool, cid_all: Sequence[str] | None
) -> None:
    assert told(event, PULL, queues(2) if has_route else None, cid_all) is None


def test_in_broadcasting_all_queues_are_for_each() -> None:
    event = replace(QUERY, message_model=MessageModel.BROADCASTING, strategy_name=None)
    assert told(event, PULL, queues(3), None) == queues(3)


@pytest.mark.parametrize("share", [-1, 0, 3, 99])
def test_who_pops_has_all_queues_of_each_broker(share: int) -> None:
    mq_all = queues(2, "broker-a", "broker-b")
    everywhere = [MessageQueue("T", broker, -1) for broker in ("broker-a", "broker-b")]
    assert told(QUERY, replace(POP, pop_share_queue_num=share), mq_all, FOUR) == everywhere


@pytest.mark.parametrize(
    ("count", "share", "client_id", "expected"),
    [
        (2, 1, "c1", [0]),
        (2, 1, "c4", [1]),
        (6, 1, "c1", [0, 1, 2, 3]),
        (6, 1, "c4", [5, 0, 1]),
        (6, 2, "c3", [4, 5, 0, 1]),
        (6, 1, "zz", []),
    ],
)
def test_who_pops_shares_queues_with_the_next(
    count: int, share: int, client_id: str, expected: list[int]
) -> None:
    event = replace(QUERY, client_id=client_id)
    found = told(event, replace(POP, pop_share_queue_num=share), queues(count), FOUR)
    assert found == [MessageQueue("T", "broker-a", queue_id) for queue_id in expected]


def test_a_group_pulls_until_it_is_told_to_pop() -> None:
    state = AssignmentState()
    assert message_request_mode(state, "T", "G") == PULL
    apply(state, set_message_request_mode(state, POP).changes)
    other = replace(POP, consumer_group="H")
    apply(state, set_message_request_mode(state, other).changes)
    assert message_request_mode(state, "T", "G") == POP
    assert message_request_mode(state, "U", "G").mode is MessageRequestMode.PULL
    apply(state, set_message_request_mode(state, PULL).changes)
    assert message_request_mode(state, "T", "G") == PULL
    assert message_request_mode(state, "T", "H") == other


def test_for_whom_a_mode_may_be_set() -> None:
    metadata, config = MetadataState({"T": TopicConfig("T")}), BrokerConfig()
    closed = BrokerConfig(auto_create_subscription_group=False)

    def code(event: SetMessageRequestMode, config: BrokerConfig) -> int:
        step = check_request_mode(metadata, config, event, 7)
        apply(metadata, step.changes)
        return step.result.code if isinstance(step.result, Refusal) else 0

    assert code(replace(POP, topic="%RETRY%G"), config) == 16
    assert code(replace(POP, topic="U"), config) == 17
    assert code(POP, closed) == 26
    assert metadata.subscription_group_table == {}
    assert code(POP, config) == 0
    assert "G" in metadata.subscription_group_table
