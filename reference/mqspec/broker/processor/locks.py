"""Locks of queues that are consumed in order: 41 and 42 (AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqspec.broker.carrying import carry, note_told
from mqspec.core.lock import LockBatch, try_lock_batch, unlock_batch
from mqspec.service import clock_ms
from mqspec.transport import Connection
from mqspec.wire.bodies import BodyError, LockBatchBody, dumps, from_body, to_plain
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def lock_batch_mq(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """41. What was refused is missing from the answer, whose code is 0 all the same."""
    batch, now_ms = _batch(request), clock_ms()
    if batch.mq_set and batch.client_id is None:
        raise BodyError("the batch of queues has no clientId")
    max_live_time_ms = broker.config.rebalance_lock_max_live_time_ms
    step = carry(broker, "locks", try_lock_batch(broker.locks, batch, now_ms, max_live_time_ms))
    if broker.trace:
        for mq in (mq for mq in batch.mq_set if mq not in step.result):
            note_told(broker, "Lock", "mq_lock_table", (batch.group, batch.client_id, mq), now_ms)
    return request.response(body=dumps({"lockOKMQSet": to_plain(step.result)}))


def unlock_batch_mq(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """42. The answer is 0, whoever holds the queues."""
    carry(broker, "locks", unlock_batch(broker.locks, _batch(request)))
    return request.response()


def _batch(request: RemotingCommand) -> LockBatch:
    if not request.body:
        raise BodyError("the batch of queues has no body")
    body = from_body(LockBatchBody, request.body)
    if body.consumer_group is None and (body.mq_set or request.code == RequestCode.UNLOCK_BATCH_MQ):
        raise BodyError("the batch of queues has no consumerGroup")
    return LockBatch(body.consumer_group or "", body.client_id, body.mq_set)
