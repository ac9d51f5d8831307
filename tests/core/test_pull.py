"""What a broker checks before it reads a queue, and how it answers."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import pytest

from mqspec.core.consumer_filter import ConsumerFilterData, ConsumerFilterState, FilterKey
from mqspec.core.group import (
    ClientChannelInfo,
    ConsumeFromWhere,
    ConsumerGroupInfo,
    ConsumeType,
    GroupState,
    MessageModel,
    SubscriptionData,
)
from mqspec.core.log import GetMessageStatus
from mqspec.core.metadata import (
    BrokerConfig,
    MetadataState,
    Perm,
    SubscriptionGroupConfig,
    TopicConfig,
)
from mqspec.core.pull import STATUS_CODES, Pull, check_pull, is_suspended, response_code
from mqspec.core.response import Refusal, ResponseCode
from mqspec.core.subscription import build_subscription_data

NOW_MS = 1_700_000_000_000
PULL = Pull("G", "T", 0, 0, 32, 4, 0, 0, "*", 0, "TAG", "127.0.0.1:5000")
BY_HEARTBEAT = replace(PULL, sys_flag=0, sub_version=5)
STATE = MetadataState(
    {
        "T": TopicConfig("T", 2, 4),
        "WriteOnly": TopicConfig("WriteOnly", perm=Perm.WRITE),
    },
    subscription_group_table={
        "G": SubscriptionGroupConfig("G"),
        "Off": SubscriptionGroupConfig("Off", consume_enable=False),
        "NoBroadcast": SubscriptionGroupConfig("NoBroadcast", consume_broadcast_enable=False),
    },
)
FILTERS = ConsumerFilterState()


def members(
    *subscriptions: SubscriptionData, group: str = "G", model: str = "CLUSTERING"
) -> GroupState:
    info = ConsumerGroupInfo(
        {},
        {wanted.topic: wanted for wanted in subscriptions},
        ConsumeType.CONSUME_PASSIVELY,
        MessageModel(model),
        ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    )
    return GroupState({group: info})


def test_a_pull_may_carry_its_subscription() -> None:
    pull = replace(PULL, subscription="A || B")
    wanted = check_pull(STATE, GroupState(), FILTERS, BrokerConfig(), pull, NOW_MS).result
    assert wanted == build_subscription_data("T", "A || B")


def test_a_pull_may_refer_to_the_heartbeat() -> None:
    wanted = build_subscription_data("T", "A", sub_version=5)
    assert (
        check_pull(STATE, members(wanted), FILTERS, BrokerConfig(), BY_HEARTBEAT, NOW_MS).result
        == wanted
    )


def test_a_group_that_may_not_broadcast_may_share() -> None:
    wanted = build_subscription_data("T", "A", sub_version=5)
    pull = replace(BY_HEARTBEAT, group="NoBroadcast")
    sharing = members(wanted, group="NoBroadcast")
    assert check_pull(STATE, sharing, FILTERS, BrokerConfig(), pull, NOW_MS).result == wanted


def test_a_pull_makes_its_group() -> None:
    step = check_pull(
        STATE, GroupState(), FILTERS, BrokerConfig(), replace(PULL, group="new"), NOW_MS
    )
    assert isinstance(step.result, SubscriptionData)
    assert ("subscription_group_table", "new") in {(c.variable, c.key) for c in step.changes}


NEWER = members(build_subscription_data("T", "A", sub_version=4))
BROADCASTING = members(group="NoBroadcast", model="BROADCASTING")


@pytest.mark.parametrize(
    ("pull", "groups", "code", "fields"),
    [
        (replace(PULL, group="b d"), GroupState(), 26, {}),
        (replace(PULL, group="Off"), GroupState(), 16, {"forbiddenType": "2"}),
        (replace(PULL, topic="nosuch"), GroupState(), 17, {}),
        (replace(PULL, topic="WriteOnly"), GroupState(), 16, {"forbiddenType": "3"}),
        (replace(PULL, queue_id=-1), GroupState(), 29, {}),
        (replace(PULL, queue_id=2), GroupState(), 29, {}),
        (replace(PULL, subscription="||"), GroupState(), 23, {}),
        (replace(PULL, expression_type="SQL92"), GroupState(), 1, {}),
        (replace(PULL, expression_type="tag"), GroupState(), 1, {}),
        (BY_HEARTBEAT, GroupState(), 24, {}),
        (BY_HEARTBEAT, members(), 24, {}),
        (BY_HEARTBEAT, NEWER, 25, {}),
        (replace(BY_HEARTBEAT, group="NoBroadcast"), BROADCASTING, 16, {"forbiddenType": "4"}),
    ],
)
def test_a_refused_pull(pull: Pull, groups: GroupState, code: int, fields: dict[str, str]) -> None:
    refusal = check_pull(STATE, groups, FILTERS, BrokerConfig(), pull, NOW_MS).result
    assert isinstance(refusal, Refusal)
    assert (refusal.code, refusal.ext_fields) == (code, fields)


@pytest.mark.parametrize(
    ("kept_version", "found"), [(None, 27), (4, 28), (5, "a = 1"), (9, "a = 1")]
)
def test_a_pull_is_filtered_by_what_is_kept(kept_version: int | None, found: object) -> None:
    """Not by what the members want now, where that is of another type than tags."""
    filters = ConsumerFilterState()
    if kept_version is not None:
        kept = ConsumerFilterData("a = 1", "SQL92", kept_version, born_time=1)
        filters.filter_data[FilterKey("T", "G")] = kept
    groups = members(build_subscription_data("T", "a = 2", 5, "SQL92"))
    config = BrokerConfig(enable_property_filter=True)
    wanted = check_pull(STATE, groups, filters, config, BY_HEARTBEAT, NOW_MS).result
    assert (wanted.code if isinstance(wanted, Refusal) else wanted.sub_string) == found


@pytest.mark.parametrize(
    ("consume_type", "is_member", "is_served"),
    [
        (ConsumeType.CONSUME_PASSIVELY, False, True),
        (ConsumeType.CONSUME_PASSIVELY, True, True),
        (ConsumeType.CONSUME_ACTIVELY, False, False),
        (ConsumeType.CONSUME_ACTIVELY, True, True),
    ],
)
def test_where_who_pulls_by_himself_is_rejected_members_are_served(
    consume_type: ConsumeType, is_member: bool, is_served: bool
) -> None:
    config = BrokerConfig(reject_pull_consumer_enable=True)
    channels: dict[Hashable, ClientChannelInfo] = {}
    if is_member:
        channels["c"] = ClientChannelInfo("id", "JAVA", 0, NOW_MS)
    (info,) = members().consumer_table.values()
    info = replace(info, channel_info_table=channels, consume_type=consume_type)
    groups = GroupState({"G": info})
    result = check_pull(STATE, groups, FILTERS, config, replace(PULL, channel="c"), NOW_MS).result
    assert isinstance(result, Refusal) is not is_served


def test_the_first_failed_check_answers() -> None:
    pull = replace(PULL, group="Off", topic="nosuch", queue_id=-1, subscription="||")
    refusal = check_pull(STATE, GroupState(), FILTERS, BrokerConfig(), pull, NOW_MS).result
    assert isinstance(refusal, Refusal)
    assert refusal.code == ResponseCode.NO_PERMISSION


def test_every_status_has_its_code() -> None:
    assert STATUS_CODES.keys() == set(GetMessageStatus)


@pytest.mark.parametrize(("offset", "code"), [(0, 19), (5, 21), (-1, 21)])
def test_an_empty_queue(offset: int, code: int) -> None:
    assert response_code(GetMessageStatus.NO_MESSAGE_IN_QUEUE, offset) == code


@pytest.mark.parametrize("code", set(STATUS_CODES.values()))
def test_only_a_pull_that_asks_for_it_and_found_nothing_yet_is_held(code: ResponseCode) -> None:
    assert is_suspended(code, replace(PULL, sys_flag=6)) is (code == ResponseCode.PULL_NOT_FOUND)
    assert not is_suspended(code, PULL)
