"""What a busy server says."""

from __future__ import annotations

import pytest

from mqspec.core import flow_control
from mqspec.core.flow_control import ADMIN, CONSUMER_MANAGE, SEND, WAITING_BYTES_MAX
from mqspec.core.response import ResponseCode


@pytest.mark.parametrize(
    ("waiting", "waiting_bytes", "is_full"),
    [
        (0, 0, False),
        (9_999, WAITING_BYTES_MAX, False),
        (10_000, 0, True),
        (0, WAITING_BYTES_MAX + 1, True),
    ],
)
def test_a_pool_holds_so_many(waiting: int, waiting_bytes: int, is_full: bool) -> None:
    refusal = flow_control.submit(SEND, waiting, waiting_bytes)
    assert (refusal is not None) == is_full
    if refusal:
        assert refusal.code == ResponseCode.SYSTEM_BUSY
        assert refusal.remark == "[OVERLOAD]system busy, start flow control for a while"


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
