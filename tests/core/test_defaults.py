"""Defaults are those of 5.3.3, as its own classes hold them (tests/interop/record_defaults.py).

An option that has another name there, or stands elsewhere in the real code, is named below, with
its value: so that one more option cannot be forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Any

import pytest

from mqspec.client.lite_pull_consumer import LitePullConfig
from mqspec.client.producer import ProducerConfig
from mqspec.client.push_work import ConsumerConfig
from mqspec.core import lite_pull_consumer, push_consumer
from mqspec.core.index import IndexHeader
from mqspec.core.log import Limits
from mqspec.core.metadata import (
    BrokerConfig,
    CustomizedRetryPolicy,
    ExponentialRetryPolicy,
    SubscriptionGroupConfig,
)
from mqspec.nameserver.config import NamesrvConfig
from mqspec.store.message_store import StoreConfig

REAL = json.loads((Path(__file__).parent / "real_defaults.json").read_text())

# Ours, and the real classes that have its options.
SAME: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (BrokerConfig(), ("BrokerConfig", "MessageStoreConfig")),
    (Limits(), ("MessageStoreConfig", "BrokerConfig")),
    (StoreConfig(), ("MessageStoreConfig",)),
    (NamesrvConfig(), ("NamesrvConfig",)),
    (SubscriptionGroupConfig("G"), ("SubscriptionGroupConfig",)),
    (CustomizedRetryPolicy(), ("CustomizedRetryPolicy",)),
    (ExponentialRetryPolicy(), ("ExponentialRetryPolicy",)),
    (ConsumerConfig(), ("DefaultMQPushConsumer",)),
    (LitePullConfig(), ("DefaultLitePullConsumer",)),
    (ProducerConfig(), ("DefaultMQProducer",)),
)

# Of ours: its value, and where the real code has it.
ELSEWHERE = {
    "enable_shutdown_gracefully": (False, "system property, BrokerStartup"),
    "shutdown_wait_time_seconds": (30.0, "system property, BrokerStartup"),
    "authentication_enabled": (False, "AuthConfig"),
    "users": ([], "AuthConfig.initAuthenticationUser, which names none"),
    "rebalance_lock_max_live_time_ms": (60_000, "RebalanceLockManager"),
    "segment_size": (1 << 30, "MessageStoreConfig.mappedFileSizeCommitLog"),
    "consume_queue_units": (300_000, "MessageStoreConfig.mappedFileSizeConsumeQueue, of 20 bytes"),
    "sync_flush": (False, "MessageStoreConfig.flushDiskType"),
    "persist_first_delay_ms": (10_000, "MQClientInstance.startScheduledTask"),
    "rebalance_wait_interval_ms": (20_000, "RebalanceService"),
    "rebalance_min_interval_ms": (1_000, "RebalanceService"),
    "orderly": (False, "the kind of the listener"),
    "consume_threads": (20, "DefaultMQPushConsumer.consumeThreadMin"),
    "consume_timeout_ms": (15 * 60_000, "DefaultMQPushConsumer.consumeTimeout, in minutes"),
    "consume_again_delay_ms": (
        5_000,
        "ConsumeMessageConcurrentlyService.submitConsumeRequestLater",
    ),
    "first_pull_delay_ms": (500, "RebalancePushImpl.dispatchPullRequest"),
    "lock_interval_ms": (20_000, "ProcessQueue.REBALANCE_LOCK_INTERVAL"),
    "lock_first_delay_ms": (1_000, "ConsumeMessageOrderlyService.start"),
    "reset_offset_wait_ms": (10_000, "MQClientInstance.resetOffset"),
    "start_again_delay_ms": (3_000, "DefaultLitePullConsumerImpl"),
}


def departures(ours: Any, real: Sequence[str]) -> Iterator[str]:
    """The numbers and booleans of ours, and the rows of them, that are not the real ones."""
    for field in fields(ours):
        value = getattr(ours, field.name)
        if not isinstance(value, int | float | tuple):
            continue
        if isinstance(value, tuple):
            value = list(value)  # as JSON has it
        expected = _expected(field.name, real)
        if expected is None:
            yield f"{field.name}: 5.3.3 has none of that name; say in ELSEWHERE where it is from"
        elif value != expected:
            yield f"{field.name} is {value}, in 5.3.3 {expected}"


def _expected(name: str, real: Sequence[str]) -> Any:
    if name in ELSEWHERE:
        return ELSEWHERE[name][0]
    first, *others = name.split("_")
    camel = first + "".join(word.title() for word in others)
    bare = re.sub("Ms$", "", camel)
    spelled = (camel, bare, f"{bare}Millis")
    return next((REAL[each][one] for each in real for one in spelled if one in REAL[each]), None)


@pytest.mark.parametrize(("ours", "real"), SAME, ids=[type(ours).__name__ for ours, _ in SAME])
def test_defaults_are_the_real_ones(ours: Any, real: Sequence[str]) -> None:
    assert list(departures(ours, real)) == []


def test_a_wrong_default_and_an_unknown_option_are_told() -> None:
    made = make_dataclass("Made", [("pull_batch_size", int, 33), ("pull_batches", int, 1)])
    assert list(departures(made(), ("DefaultMQPushConsumer",))) == [
        "pull_batch_size is 33, in 5.3.3 32",
        "pull_batches: 5.3.3 has none of that name; say in ELSEWHERE where it is from",
    ]
    assert list(departures(CustomizedRetryPolicy((1,)), ("CustomizedRetryPolicy",)))


def test_nothing_stands_elsewhere_that_is_not_ours() -> None:
    ours = {field.name for each, _ in SAME for field in fields(each)}
    assert ELSEWHERE.keys() <= ours


def test_constants_of_a_lite_pull_are_its_defaults() -> None:
    real = REAL["DefaultLitePullConsumer"]
    assert real["pollTimeoutMillis"] == lite_pull_consumer.POLL_TIMEOUT_MS
    assert real["brokerSuspendMaxTimeMillis"] == lite_pull_consumer.BROKER_SUSPEND_MAX_TIME_MS


def test_a_new_index_file_begins_with_nothing() -> None:
    """IndexHeader.java, 5.3.3: all 0, but the next entry is the first that is used."""
    assert IndexHeader() == (0, 0, 0, 0, 0, 1)


def test_what_settings_of_a_push_consumer_may_be() -> None:
    """DefaultMQPushConsumerImpl.checkConfig, 5.3.3."""
    ranges = {"consume_message_batch_max_size": (1, 1024), "pull_batch_size": (1, 1024)}
    assert ranges == push_consumer.CONFIG_RANGES
