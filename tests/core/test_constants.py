"""Codes, flags and constants are those of 5.3.3, as its own classes have them
(tests/interop/record_defaults.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from pathlib import Path

import pytest

from mqspec.core import (
    check_transaction,
    consume_orderly,
    consumer_filter,
    delay,
    group,
    index,
    lite_pull_consumer,
    metadata,
    offset_commit,
    pop_order,
    push_consumer,
    rebalance,
    retry,
    route,
)
from mqspec.core.extra_info import ORDER_REVIVE_QUEUE
from mqspec.core.metadata import Perm
from mqspec.core.pull import PullSysFlag
from mqspec.core.push_consumer import PULL_AGAIN_DELAY_MS, PullStatus
from mqspec.core.record import COMPRESSION_TYPE, SysFlag
from mqspec.core.response import ResponseCode
from mqspec.wire.codes import RequestCode

REAL = json.loads((Path(__file__).parent / "real_defaults.json").read_text())

# Ours, the real class, and what its names begin with.
SAME_NAMES: tuple[tuple[type[IntEnum] | type[IntFlag], str, str], ...] = (
    (RequestCode, "RequestCode", ""),
    (ResponseCode, "ResponseCode", ""),
    (Perm, "PermName", "PERM_"),
)

# The real name, and ours.
OTHER_NAMES = {
    "ConsumeMessageOrderlyService.MAX_TIME_CONSUME_CONTINUOUSLY": (
        consume_orderly.MAX_TIME_CONSUME_CONTINUOUSLY_MS
    ),
    "ConsumerFilterManager.MS_24_HOUR": consumer_filter.CLEAN_TIME_SPAN_MS,
    "ConsumerOrderInfoManager.CLEAN_SPAN_FROM_LAST": pop_order.CLEAN_SPAN_MS,
    "AbstractSendMessageProcessor.DLQ_NUMS_PER_GROUP": retry.DLQ_NUMS_PER_GROUP,
    "DefaultLitePullConsumerImpl.PULL_TIME_DELAY_MILLS_ON_EXCEPTION": (
        lite_pull_consumer.START_AGAIN_DELAY_MS
    ),
    "DefaultMQPushConsumerImpl.BROKER_SUSPEND_MAX_TIME_MILLIS": (
        push_consumer.BROKER_SUSPEND_MAX_TIME_MS
    ),
    "DefaultMQPushConsumerImpl.CONSUMER_TIMEOUT_MILLIS_WHEN_SUSPEND": (
        push_consumer.CONSUMER_TIMEOUT_MS_WHEN_SUSPEND
    ),
    "DefaultMQPushConsumerImpl.PULL_TIME_DELAY_MILLS_WHEN_BROKER_FLOW_CONTROL": (
        PULL_AGAIN_DELAY_MS[PullStatus.FLOW_CONTROL]
    ),
    "DefaultMQPushConsumerImpl.PULL_TIME_DELAY_MILLS_WHEN_CACHE_FLOW_CONTROL": (
        offset_commit.FLOW_CONTROL_DELAY_MS
    ),
    "DefaultMQPushConsumerImpl.PULL_TIME_DELAY_MILLS_WHEN_SUSPEND": push_consumer.PAUSED_DELAY_MS,
    "IndexFile.hashSlotSize": index.SLOT_BYTES,
    "IndexFile.indexSize": index.ENTRY_BYTES,
    "IndexHeader.INDEX_HEADER_SIZE": index.HEADER_BYTES,
    "KeyBuilder.POP_ORDER_REVIVE_QUEUE": ORDER_REVIVE_QUEUE,
    "MessageSysFlag.BORNHOST_V6_FLAG": SysFlag.BORN_HOST_V6,
    "MessageSysFlag.COMPRESSED_FLAG": SysFlag.COMPRESSED,
    "MessageSysFlag.COMPRESSION_LZ4_TYPE": SysFlag.LZ4,
    "MessageSysFlag.COMPRESSION_TYPE_COMPARATOR": COMPRESSION_TYPE,
    "MessageSysFlag.COMPRESSION_ZLIB_TYPE": SysFlag.ZLIB,
    "MessageSysFlag.COMPRESSION_ZSTD_TYPE": SysFlag.ZSTD,
    "MessageSysFlag.INNER_BATCH_FLAG": SysFlag.INNER_BATCH,
    "MessageSysFlag.MULTI_TAGS_FLAG": SysFlag.MULTI_TAGS,
    "MessageSysFlag.NEED_UNWRAP_FLAG": SysFlag.NEED_UNWRAP,
    "MessageSysFlag.STOREHOSTADDRESS_V6_FLAG": SysFlag.STORE_HOST_V6,
    "MessageSysFlag.TRANSACTION_COMMIT_TYPE": SysFlag.COMMIT,
    "MessageSysFlag.TRANSACTION_PREPARED_TYPE": SysFlag.PREPARED,
    "MessageSysFlag.TRANSACTION_ROLLBACK_TYPE": SysFlag.ROLLBACK,
    "ProcessQueue.PULL_MAX_IDLE_TIME": rebalance.PULL_MAX_IDLE_TIME_MS,
    "ProcessQueue.REBALANCE_LOCK_INTERVAL": consume_orderly.REBALANCE_LOCK_INTERVAL_MS,
    "ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME": consume_orderly.REBALANCE_LOCK_MAX_LIVE_TIME_MS,
    "ProducerManager.CHANNEL_EXPIRED_TIMEOUT": group.CHANNEL_EXPIRED_TIMEOUT_MS,
    "PullSysFlag.FLAG_CLASS_FILTER": PullSysFlag.CLASS_FILTER,
    "PullSysFlag.FLAG_COMMIT_OFFSET": PullSysFlag.COMMIT_OFFSET,
    "PullSysFlag.FLAG_LITE_PULL_MESSAGE": PullSysFlag.LITE_PULL,
    "PullSysFlag.FLAG_SUBSCRIPTION": PullSysFlag.SUBSCRIPTION,
    "PullSysFlag.FLAG_SUSPEND": PullSysFlag.SUSPEND,
    "RebalancePushImpl.UNLOCK_DELAY_TIME_MILLS": rebalance.UNLOCK_DELAY_TIME_MS,
    "RebalanceService.minInterval": rebalance.MIN_INTERVAL_MS,
    "RebalanceService.waitInterval": rebalance.WAIT_INTERVAL_MS,
    "RouteInfoManager.DEFAULT_BROKER_CHANNEL_EXPIRED_TIME": route.BROKER_EXPIRED_MS,
    "ScheduleMessageService.DELAY_FOR_A_WHILE": delay.DELIVER_INTERVAL_MS,
    "TransactionalMessageServiceImpl.OP_MSG_PULL_NUMS": check_transaction._OPS_AT_A_TIME,
    "Validators.CHARACTER_MAX_LENGTH": metadata.GROUP_CHARS_MAX,
    "Validators.TOPIC_MAX_LENGTH": metadata.TOPIC_CHARS_MAX,
}


def others(ours: type[IntEnum] | type[IntFlag], real: str, begins: str) -> Iterator[str]:
    """The members that the real class does not have, or with another value; also those of a value
    that another has, which are no members of their own."""
    for name, member in ours.__members__.items():
        value = REAL[real].get(begins + name)
        if value != member:
            yield f"{name} is {member.value}, in 5.3.3 {value}"


@pytest.mark.parametrize(("ours", "real", "begins"), SAME_NAMES, ids=[n for _, n, _ in SAME_NAMES])
def test_what_has_the_same_name_has_the_same_value(
    ours: type[IntEnum] | type[IntFlag], real: str, begins: str
) -> None:
    assert list(others(ours, real, begins)) == []


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_what_has_another_name_has_the_same_value(name: str) -> None:
    real, _, field = name.partition(".")
    assert REAL[real][field] == OTHER_NAMES[name]


def test_a_wrong_code_and_an_unknown_one_are_told() -> None:
    class Made(IntEnum):
        SYSTEM_BUSY = 3
        BUSY = 2
        TRANSACTION_FAILED = 3

    assert list(others(Made, "ResponseCode", "")) == [
        "SYSTEM_BUSY is 3, in 5.3.3 2",
        "BUSY is 2, in 5.3.3 None",
        "TRANSACTION_FAILED is 3, in 5.3.3 4",
    ]
