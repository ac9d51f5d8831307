"""Send-backs as Apache 5.3.3 was seen to treat them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from mqspec.core.metadata import BrokerConfig, MetadataState, Perm, SubscriptionGroupConfig
from mqspec.core.record import Record, decode_properties, encode_properties
from mqspec.core.response import Refusal
from mqspec.core.retry import (
    RetrySend,
    SendBack,
    check_send_back,
    consumer_send_msg_back,
    handle_retry_and_dlq,
)
from mqspec.core.step import Step, apply

GROUP = SubscriptionGroupConfig("GS6", retry_queue_nums=2)
PROPERTIES = encode_properties({"KEYS": "k", "TAGS": "A"}).encode()
MESSAGE = Record("TS6", b"1", PROPERTIES, born_timestamp=5, physical_offset=2168574)
BACK = SendBack("GS6", 2168574, delay_level=0, version=479)


def state() -> MetadataState:
    return MetadataState(subscription_group_table={"GS6": GROUP})


def carried(state: MetadataState, step: Step) -> object:
    apply(state, step.changes)
    return step.result


def sent_back(event: SendBack = BACK, tries: int = 0, message: Record = MESSAGE) -> Record:
    step = consumer_send_msg_back(
        state(), event, GROUP, structs.replace(message, reconsume_times=tries), 7
    )
    assert isinstance(step.result, Record)
    return step.result


def test_the_first_send_back_makes_the_group_and_its_retry_topic() -> None:
    metadata, config = MetadataState(), BrokerConfig()
    group = carried(metadata, check_send_back(metadata, config, BACK, 7))
    assert group == SubscriptionGroupConfig("GS6")
    topic = metadata.topic_config_table["%RETRY%GS6"]
    assert (topic.write_queue_nums, topic.perm) == (1, Perm.READ | Perm.WRITE)
    closed = BrokerConfig(auto_create_subscription_group=False)
    refusal = check_send_back(MetadataState(), closed, BACK, 7).result
    assert isinstance(refusal, Refusal)
    assert refusal.code == 26


def test_a_retry_topic_that_may_not_be_written_refuses() -> None:
    metadata, config = state(), BrokerConfig()
    carried(metadata, check_send_back(metadata, config, BACK, 7))
    topic = metadata.topic_config_table["%RETRY%GS6"]
    metadata.topic_config_table["%RETRY%GS6"] = replace(topic, perm=Perm.READ)
    refusal = check_send_back(metadata, config, BACK, 7).result
    assert isinstance(refusal, Refusal)
    assert refusal.code == 16


def test_a_group_without_retry_queues_wants_nothing_again() -> None:
    metadata = MetadataState(subscription_group_table={"GS6": replace(GROUP, retry_queue_nums=0)})
    assert check_send_back(metadata, BrokerConfig(), BACK, 7) == Step()


@pytest.mark.parametrize(("tries", "level"), [(0, "3"), (1, "4"), (15, "18")])
def test_the_delay_grows_with_the_tries(tries: int, level: str) -> None:
    copy = sent_back(tries=tries)
    assert (copy.topic, copy.reconsume_times) == ("%RETRY%GS6", tries + 1)
    assert decode_properties(copy.properties)["DELAY"] == level
    assert (copy.body, copy.born_timestamp) == (b"1", 5)


def test_a_level_that_is_asked_for_is_taken() -> None:
    copy = sent_back(replace(BACK, delay_level=100, random=3))
    assert decode_properties(copy.properties)["DELAY"] == "100"
    assert copy.queue_id == 1


def test_what_a_chain_of_tries_keeps() -> None:
    first = sent_back()
    second = sent_back(tries=1, message=structs.replace(first, physical_offset=99))
    properties = decode_properties(second.properties)
    assert properties.items() >= {"KEYS": "k", "TAGS": "A", "RETRY_TOPIC": "TS6"}.items()
    assert properties["ORIGIN_MESSAGE_ID"] == MESSAGE.message_id


@pytest.mark.parametrize(
    ("event", "tries", "dead"),
    [
        (BACK, 15, False),
        (BACK, 16, True),
        (replace(BACK, delay_level=-1), 0, True),
        (replace(BACK, max_reconsume_times=0), 0, True),
        (replace(BACK, max_reconsume_times=3), 2, False),
        (replace(BACK, max_reconsume_times=3), 3, True),
        (replace(BACK, max_reconsume_times=0, version=120), 0, False),
        (replace(BACK, max_reconsume_times=0, version=121), 0, True),
    ],
)
def test_when_a_message_is_given_up(event: SendBack, tries: int, dead: bool) -> None:
    copy = sent_back(event, tries)
    assert copy.topic == ("%DLQ%GS6" if dead else "%RETRY%GS6")
    if dead:
        assert (copy.queue_id, decode_properties(copy.properties)["DELAY"]) == (0, "0")


def test_nothing_at_the_offset_is_refused() -> None:
    refusal = consumer_send_msg_back(state(), BACK, GROUP, None, 7).result
    assert refusal == Refusal(refusal.code, "look message by offset failed, 2168574")


@pytest.mark.parametrize(
    ("tries", "maximum", "holds_none", "dead"),
    [
        (1, 3, True, False),
        (3, 3, True, False),
        (4, 3, True, True),
        (16, None, True, False),
        (17, None, True, True),
        (1, 3, False, True),
    ],
)
def test_a_direct_retry(tries: int, maximum: int | None, holds_none: bool, dead: bool) -> None:
    metadata = state()
    message = structs.replace(MESSAGE, topic="%RETRY%GS6", queue_id=1, reconsume_times=tries)
    event = RetrySend(message, maximum, 479)
    step = handle_retry_and_dlq(metadata, event, is_lock_all_expired=holds_none, now_ms=7)
    stored = carried(metadata, step)
    assert isinstance(stored, Record)
    if not dead:
        assert stored == message
        return
    assert (stored.topic, stored.queue_id) == ("%DLQ%GS6", 0)
    assert decode_properties(stored.properties)["DELAY"] == "-1"
    assert metadata.topic_config_table["%DLQ%GS6"].write_queue_nums == 1
