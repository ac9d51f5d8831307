"""FlowControl: a server that has more to do than it can says so, and at once.

Requests wait for the server in pools, a kind of request a pool. One that finds its pool full
is refused, and so is one that has waited so long that its client has given it up, or soon
will. SYSTEM_BUSY says in either case that nothing was done: a producer tries another broker.

Facts: BrokerFastFailure.java, BrokerConfig.java, NettyRemotingAbstract.java (5.3.3). The limit
on bytes is ours: in the real broker as many requests wait as its memory holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mqspec.core.response import Refusal, ResponseCode

WAITING_BYTES_MAX: Final = 64 * 1024 * 1024  # of the bodies of requests in all pools
GO_AWAY_ABOVE: Final = 475  # MQVersion.V5_3_1: clients up to it do not know the answer


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Requests of a kind: how many may wait, and how long."""

    name: str
    capacity: int
    wait_ms: int | None = None  # None: until it is worked on


SEND: Final = Pool("send", 10_000, 200)
PULL: Final = Pool("pull", 100_000, 5_000)
LITE_PULL: Final = Pool("litePull", 100_000, 5_000)
ACK: Final = Pool("ack", 100_000, 3_000)
REPLY: Final = Pool("reply", 10_000)
QUERY: Final = Pool("query", 20_000)
HEARTBEAT: Final = Pool("heartbeat", 50_000, 31_000)
CLIENT_MANAGE: Final = Pool("clientManage", 1_000_000)
CONSUMER_MANAGE: Final = Pool("consumerManage", 1_000_000)
END_TRANSACTION: Final = Pool("endTransaction", 100_000, 3_000)
LOAD_BALANCE: Final = Pool("loadBalance", 100_000)
ADMIN: Final = Pool("adminBroker", 10_000, 5_000)
"""The pools of a broker."""

NAMESRV_CLIENT: Final = Pool("clientRequest", 50_000)
NAMESRV_DEFAULT: Final = Pool("default", 10_000)
"""The pools of a nameserver (NamesrvConfig.java)."""


def submit(pool: Pool, waiting: int, waiting_bytes: int) -> Refusal | None:
    """A request arrives and cannot be worked on yet, with so many in its pool before it and so
    many bytes in all. None: it may wait."""
    if waiting < pool.capacity and waiting_bytes <= WAITING_BYTES_MAX:
        return None
    return _busy("[OVERLOAD]system busy, start flow control for a while")


def reject_request() -> Refusal:
    """A request arrives that the store could not take now: it has no buffers left."""
    return _busy("[REJECTREQUEST]system busy, start flow control for a while")


def clean_expired_request(pool: Pool, waiting: int, arrived_ms: int, now_ms: int) -> Refusal | None:
    """It is a request's turn, with so many of its pool behind it. None: it is worked on."""
    waited_ms = now_ms - arrived_ms
    if pool.wait_ms is None or waited_ms < pool.wait_ms:
        return None
    return _busy(
        "[TIMEOUT_CLEAN_QUEUE]broker busy, start flow control for a while, "
        f"period in queue: {waited_ms}ms, size of queue: {waiting}"
    )


def go_away(version: int) -> Refusal | None:
    """A request arrives at a server that will end soon: its client is to look for another one,
    and to come back on another connection. None: the client is too old to understand."""
    if version <= GO_AWAY_ABOVE:
        return None
    return Refusal(ResponseCode.GO_AWAY, "please go away")


def _busy(remark: str) -> Refusal:
    return Refusal(ResponseCode.SYSTEM_BUSY, remark)
