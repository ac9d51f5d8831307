"""Ends of transactions as conversations: a producer commits a half message, or rolls it back.

Facts: EndTransactionProcessor.java, TransactionalMessageServiceImpl.java,
AdminBrokerProcessor.resumeCheckHalfMessage (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from typing import Final

from mqspec.core import transaction
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Append, Carry, Conversation, Look, Put, Store
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.log import PutResult
from mqspec.core.publish import PUT_CODES, put_refusal, when_stored
from mqspec.core.record import Record, SysFlag, position_of
from mqspec.core.response import NOT_SET, Answer, Refusal, ResponseCode
from mqspec.core.transaction import OP_PROPERTIES, OP_TOPIC, EndTransaction, PutFinal

UNKNOWN: Final = 0  # the producer does not know yet
COMMIT: Final = int(SysFlag.COMMIT)
ROLLBACK: Final = int(SysFlag.ROLLBACK)


def end_transaction(
    broker: BrokerStates, event: EndTransaction, kind: int, now_ms: int
) -> Conversation[Answer | None]:
    """Request 37, of one of the three kinds. A producer that does not know yet gets no answer
    (TX-009)."""
    if kind not in (UNKNOWN, COMMIT, ROLLBACK):
        return Answer(ResponseCode.SYSTEM_ERROR, "commitOrRollback field wrong")
    if kind == UNKNOWN:
        return None
    half: Record | None = yield Look(event.commit_log_offset)
    step = transaction.end_transaction(broker.transactions, broker.config, event, half, now_ms)
    if isinstance(step.result, Refusal):
        return step.result

    final: PutFinal | None = next((send for send in step.sends), None)
    put: PutResult | None = None
    if final:
        put = yield Put(final.message)
        if put.status not in PUT_CODES:
            return put_refusal(broker.config, put.status)
    yield Carry(broker.transactions, step)
    if transaction.is_batch_full(broker.transactions, broker.config):
        yield from write_ops(broker, now_ms)

    if final and put:
        # Also where it was not flushed in time the message is stored, and will be seen.
        yield from when_stored(broker.sync_flush, put, final.message.properties)
        return Answer()
    return Answer(remark=None if event.is_commit else NOT_SET)


def write_ops(broker: BrokerStates, now_ms: int) -> Conversation[None]:
    """What was noted of ended halves is written to the op queue."""
    step = transaction.batch_send_op_message(broker.transactions)
    if not step.result:
        return
    record = Record(
        OP_TOPIC,
        step.result,
        OP_PROPERTIES,
        born_timestamp=now_ms,
        born_host=broker.store_host,
        store_host=broker.store_host,
    )
    put: PutResult = yield Append(record)
    if put.status in PUT_CODES:
        yield Carry(broker.transactions, step)


def resume_check_half_message(broker: BrokerStates, message_id: str) -> Conversation[Answer]:
    """Request 323: a half that was given up is checked again."""
    try:
        position = position_of(message_id)
    except ValueError:
        position = -1
    found: Record | None = yield Look(position)
    if found is None:
        remark = f"Exception was thrown when putting message back to {HALF_TOPIC}."
        return Answer(ResponseCode.SYSTEM_ERROR, remark)
    put: PutResult = yield Store(transaction.resume_check(found))
    if put.status not in PUT_CODES:
        remark = f"Put message back to {HALF_TOPIC} failed."
        return Answer(ResponseCode.SYSTEM_ERROR, remark)
    return Answer()
