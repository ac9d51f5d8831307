"""Membership as Apache 5.3.3 was seen to keep it, in experiments over the wire."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqspec.core.group import (
    CHANNEL_EXPIRED_TIMEOUT_MS,
    ClientChannelInfo,
    Close,
    ConsumeFromWhere,
    GroupState,
    MessageModel,
    NotifyConsumerIdsChanged,
    RegisterConsumer,
    RegisterProducer,
    SubscriptionData,
    close_channel,
    consumer_id_list,
    note_heartbeat,
    register_consumer,
    register_producer,
    scan_not_active_channel,
    subscription,
    unregister_consumer,
    unregister_producer,
)
from mqspec.core.step import Step, apply

GROUP = "GH"
TOPIC = "THB"


def heartbeat(channel: str, client_id: str, *, time_ms: int = 0) -> RegisterConsumer:
    info = ClientChannelInfo(client_id, "JAVA", 479, time_ms)
    return RegisterConsumer(GROUP, channel, info, (SubscriptionData(TOPIC, sub_version=5),))


def take(state: GroupState, step: Step) -> set[str]:
    """Apply a step; the channels that are notified."""
    apply(state, step.changes)
    return {str(s.channel) for s in step.sends if isinstance(s, NotifyConsumerIdsChanged)}


@pytest.fixture
def group() -> GroupState:
    """X@1 on channel X and Y@1 on channel Y."""
    state = GroupState()
    take(state, register_consumer(state, heartbeat("X", "X@1")))
    take(state, register_consumer(state, heartbeat("Y", "Y@1")))
    return state


def test_a_new_channel_notifies_all_and_itself() -> None:
    state = GroupState()
    assert take(state, register_consumer(state, heartbeat("X", "X@1"))) == {"X"}
    assert take(state, register_consumer(state, heartbeat("Y", "Y@1"))) == {"X", "Y"}
    assert consumer_id_list(state, GROUP) == ["X@1", "Y@1"]


def test_a_heartbeat_again_notifies_nobody(group: GroupState) -> None:
    assert take(group, register_consumer(group, heartbeat("X", "X@1", time_ms=9))) == set()


def test_another_id_on_a_known_channel_replaces_it_and_notifies_nobody(group: GroupState) -> None:
    assert take(group, register_consumer(group, heartbeat("Y", "Y@2"))) == set()
    assert consumer_id_list(group, GROUP) == ["X@1", "Y@2"]


def test_two_channels_of_one_id_are_two_members(group: GroupState) -> None:
    assert take(group, register_consumer(group, heartbeat("W", "X@1"))) == {"X", "Y", "W"}
    assert consumer_id_list(group, GROUP) == ["X@1", "Y@1", "X@1"]
    assert take(group, unregister_consumer(group, GROUP, "W")) == {"X", "Y"}
    assert consumer_id_list(group, GROUP) == ["X@1", "Y@1"]


def test_a_heartbeat_without_an_id_counts(group: GroupState) -> None:
    event = heartbeat("N", "")
    take(group, register_consumer(group, replace(event, info=replace(event.info, client_id=None))))
    assert consumer_id_list(group, GROUP) == ["X@1", "Y@1", None]


def test_topics_that_come_or_go_notify_all_and_newer_versions_do_not(group: GroupState) -> None:
    old = heartbeat("X", "X@1")
    newer = SubscriptionData(TOPIC, "tag1", sub_version=6)
    more = (newer, SubscriptionData("THC", sub_version=1))
    assert take(group, register_consumer(group, replace(old, subscriptions=(newer,)))) == set()
    assert subscription(group, GROUP, TOPIC) == newer
    assert take(group, register_consumer(group, old)) == set()
    assert subscription(group, GROUP, TOPIC) == newer  # the newest version stays
    assert take(group, register_consumer(group, replace(old, subscriptions=more))) == {"X", "Y"}
    assert take(group, register_consumer(group, old)) == {"X", "Y"}
    assert subscription(group, GROUP, "THC") is None  # one heartbeat without it takes it away


def test_a_heartbeat_without_subscriptions_leaves_them_alone(group: GroupState) -> None:
    event = replace(heartbeat("V", "V@1"), subscriptions=None)
    assert take(group, register_consumer(group, event)) == {"X", "Y", "V"}
    assert subscription(group, GROUP, TOPIC) is not None


def test_the_last_heartbeat_says_what_the_group_is(group: GroupState) -> None:
    first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
    event = replace(heartbeat("X", "X@1"), consume_from_where=first)
    take(group, register_consumer(group, event))
    assert group.consumer_table[GROUP].consume_from_where is first


def test_a_broadcasting_group_is_never_notified(group: GroupState) -> None:
    event = replace(heartbeat("Z", "Z@1"), message_model=MessageModel.BROADCASTING)
    assert take(group, register_consumer(group, event)) == set()
    assert take(group, close_channel(group, "Z")) == set()
    assert take(group, unregister_consumer(group, GROUP, "X")) == set()
    assert consumer_id_list(group, GROUP) == ["Y@1"]


def test_a_closed_channel_leaves_every_group_and_the_rest_is_notified(group: GroupState) -> None:
    other = replace(heartbeat("Y", "Y@1"), group="other")
    take(group, register_consumer(group, other))
    assert take(group, close_channel(group, "Y")) == {"X"}
    assert consumer_id_list(group, GROUP) == ["X@1"]
    assert consumer_id_list(group, "other") is None


def test_a_group_without_members_is_forgotten(group: GroupState) -> None:
    take(group, unregister_consumer(group, GROUP, "X"))
    assert take(group, unregister_consumer(group, GROUP, "Y")) == set()
    assert consumer_id_list(group, GROUP) is None
    assert subscription(group, GROUP, TOPIC) is None
    assert unregister_consumer(group, GROUP, "Y") == Step()


def test_an_expired_channel_is_closed_and_nobody_is_notified(group: GroupState) -> None:
    take(group, register_consumer(group, heartbeat("X", "X@1", time_ms=1)))
    assert scan_not_active_channel(group, CHANNEL_EXPIRED_TIMEOUT_MS) == Step()
    step = scan_not_active_channel(group, CHANNEL_EXPIRED_TIMEOUT_MS + 1)
    assert step.sends == (Close("Y"),)
    apply(group, step.changes)
    assert consumer_id_list(group, GROUP) == ["X@1"]
    assert close_channel(group, "Y") == Step()  # the later event finds nothing


def test_producers_come_and_go_without_notice() -> None:
    state = GroupState()
    for channel in ("P", "Q"):
        info = ClientChannelInfo(f"{channel}@1", "JAVA", 479, 0)
        assert take(state, register_producer(state, RegisterProducer("PG", channel, info))) == set()
    take(state, unregister_producer(state, "PG", "P"))
    assert set(state.producer_table["PG"]) == {"Q"}
    assert unregister_producer(state, "PG", "P") == Step()
    step = scan_not_active_channel(state, CHANNEL_EXPIRED_TIMEOUT_MS + 1)
    assert step.sends == (Close("Q"),)
    take(state, step)
    assert state.producer_table == {}


def test_the_last_fingerprint_of_a_group_is_kept() -> None:
    state = GroupState()
    for fingerprint, is_sub_change in ((7, False), (7, False), (8, True), (0, True), (0, True)):
        step = note_heartbeat(state, [GROUP, GROUP], fingerprint)
        apply(state, step.changes)
        assert step.result is is_sub_change
        assert state.heartbeat_table == {GROUP: fingerprint}
    assert note_heartbeat(state, ["other"], 9).result is False
    assert note_heartbeat(state, ["other", GROUP], 9).result is True
