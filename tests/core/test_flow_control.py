"""What a busy server says."""

from __future__ import annotations

import pytest

from mqspec.core import flow_control
from mqspec.core.flow_control import ADMIN, CONSUMER_MANAGE, SEND, Pool
from mqspec.core.response import ResponseCode

WAITING_BYTES = 67_108_864  # 64 MiB


@pytest.mark.parametrize(
    ("waiting", "waiting_bytes", "is_full"),
    [
        (0, 0, False),
        (9_999, WAITING_BYTES, False),
        (10_000, 0, True),
        (0, WAITING_BYTES + 1, True),
    ],
)
def test_a_pool_holds_so_many(waiting: int, waiting_bytes: int, is_full: bool) -> None:
    refusal = flow_control.submit(SEND, waiting, waiting_bytes)
    assert (refusal is not None) == is_full
    if refusal:
        assert refusal.code == ResponseCode.SYSTEM_BUSY
        assert refusal.remark == "[OVERLOAD]system busy, start flow control for a while"


def test_pools_are_as_large_as_in_5_3_3() -> None:
    """BrokerConfig.java, NamesrvConfig.java: requests that may wait, and for how many ms."""
    pools = {pool.name: pool for pool in vars(flow_control).values() if isinstance(pool, Pool)}
    assert {name: (pool.capacity, pool.wait_ms) for name, pool in pools.items()} == {
        "send": (10_000, 200),
        "pull": (100_000, 5_000),
        "litePull": (100_000, 5_000),
        "ack": (100_000, 3_000),
        "reply": (10_000, None),
        "query": (20_000, None),
        "heartbeat": (50_000, 31_000),
        "clientManage": (1_000_000, None),
        "consumerManage": (1_000_000, None),
        "endTransaction": (100_000, 3_000),
        "loadBalance": (100_000, None),
        "adminBroker": (10_000, 5_000),
        "clientRequest": (50_000, None),
        "default": (10_000, None),
    }


@pytest.mark.parametrize(
    ("pool", "waited_ms", "is_expired"),
    [(SEND, 199, False), (SEND, 200, True), (ADMIN, 4_999, False), (ADMIN, 5_000, True),
     (CONSUMER_MANAGE, 10**9, False)],
)  # fmt: skip
def test_a_request_waits_so_long(pool: flow_control.Pool, waited_ms: int, is_expired: bool) -> None:
    refusal = flow_control.clean_expired_request(pool, 3, 1_000, 1_000 + waited_ms)
    assert (refusal is not None) == is_expired
    if refusal:
        assert refusal.code == ResponseCode.SYSTEM_BUSY
        assert refusal.remark == (
            "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
            f"period in queue: {waited_ms}ms, size of queue: 3"
        )


def test_old_clients_are_not_sent_away() -> None:
    assert flow_control.go_away(475) is None
    refusal = flow_control.go_away(476)
    assert refusal is not None
    assert refusal.code == ResponseCode.GO_AWAY
