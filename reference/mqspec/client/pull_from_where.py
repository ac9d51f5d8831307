"""Where a consumer begins on a queue: where it was, or, where nothing is stored, where its
configuration says.

Facts: client/impl/consumer/RebalancePushImpl.java (computePullFromWhereWithException), 5.3.3.
"""

from __future__ import annotations

from typing import Final

from mqspec.client.instance import AnswerError, ClientInstance
from mqspec.client.offset_store import ask_offset
from mqspec.core.group import ConsumeFromWhere
from mqspec.core.rebalance import PullFrom, compute_pull_from_where
from mqspec.core.types import MessageQueue
from mqspec.wire.codes import RequestCode

CONSUME_TIMESTAMP_AGO_MS: Final = 30 * 60 * 1000  # before the start, where no time is configured


async def pull_from_where(
    instance: ClientInstance,
    policy: ConsumeFromWhere,
    mq: MessageQueue,
    stored: int,
    timestamp_ms: int,
) -> int:
    """The offset to begin at, where `stored` is what the offset store has. Raises what a request
    raises, AnswerError where a broker tells no offset."""
    offset = stored
    match compute_pull_from_where(policy, mq.topic, stored):
        case PullFrom.ZERO:
            offset = 0
        case PullFrom.MAX_OFFSET:
            offset = await ask_offset(instance, RequestCode.GET_MAX_OFFSET, mq, {})
        case PullFrom.TIMESTAMP:
            fields = {"timestamp": str(timestamp_ms)}
            code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            offset = await ask_offset(instance, code, mq, fields)
    if offset < 0:
        raise AnswerError(f"{mq} begins at {offset}")
    return offset
