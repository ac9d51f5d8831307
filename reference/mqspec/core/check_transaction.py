"""Checks of halves as a conversation: what has no end for too long is asked about, or parked.

A round looks at some halves, in the order of their age. What becomes of them is stored before the
round is carried, so that a half which cannot be stored is looked at again; and before each round
all op messages are read, or an end that one of them names would be missed (TX-014).

Facts: TransactionalMessageServiceImpl.java, AbstractTransactionalMessageCheckListener.java (5.3.3).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from msgspec import structs

from mqspec.core import transaction
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import (
    Append,
    Carry,
    CheckBack,
    Conversation,
    Get,
    IsAllVisible,
    LogOnDisk,
    Look,
    Now,
    OthersTurn,
    Producers,
    ReadSpan,
    Store,
    Units,
)
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.log import GetMessageStatus, GetResult, PutResult, Span, Unit
from mqspec.core.metadata import create_topic_in_send_message_back
from mqspec.core.offset_commit import OffsetKey, commit_offset
from mqspec.core.publish import PUT_CODES
from mqspec.core.record import Record, decode_record, position_of
from mqspec.core.transaction import CONSUMER_GROUP, OP_TOPIC, CheckRound, OpMessages, Park, PutBack

HALF_QUEUE: Final = OffsetKey(HALF_TOPIC, CONSUMER_GROUP, 0)
OP_QUEUE: Final = OffsetKey(OP_TOPIC, CONSUMER_GROUP, 0)
PARKED_QUEUE_NUM: Final = 1
_AT_A_TIME: Final = 100  # halves, before others get their turn
_OPS_AT_A_TIME: Final = 32


def check(broker: BrokerStates, file_reserved_ms: int) -> Conversation[None]:
    """Check back, or park, what has no end for too long. Halves as old as files are kept, in ms,
    are parked."""
    state = broker.transactions
    halves: Span = yield ReadSpan(HALF_TOPIC, 0)
    op_queue: Span = yield ReadSpan(OP_TOPIC, 0)
    ops = OpMessages(max(state.op_offset, op_queue.min))
    while state.half_offset < halves.max and (yield from _read_ops(ops)):
        if not (yield from _check_some(broker, ops, halves.max, file_reserved_ms)):
            return
        yield OthersTurn()


def _read_ops(ops: OpMessages) -> Conversation[bool]:
    """Read the op messages that came. Returns whether these are all, once it was waited for."""
    while (yield from _sees_all_ops()):
        following = ops.offset + len(ops.messages)
        found: GetResult = yield Get(OP_TOPIC, 0, following, _OPS_AT_A_TIME)
        if found.status is not GetMessageStatus.FOUND:
            return True
        for data in found.records:
            record = decode_record(data)
            # What cannot be read names nothing, and counts as a message all the same.
            body = record.body if isinstance(record, Record) else b""
            ops.add(transaction.ended_halves(body))
        yield OthersTurn()
    return False


def _sees_all_ops() -> Conversation[bool]:
    sees_all: bool = yield IsAllVisible(OP_TOPIC, 0)
    if not sees_all and (yield LogOnDisk()):
        sees_all = yield IsAllVisible(OP_TOPIC, 0)
    return sees_all


def _check_some(
    broker: BrokerStates, ops: OpMessages, end: int, file_reserved_ms: int
) -> Conversation[bool]:
    """One round, over halves before an offset. Whether there may be more to look at."""
    state, config = broker.transactions, broker.config
    half_queue: Span = yield ReadSpan(HALF_TOPIC, 0)
    half_queue = Span(half_queue.min, min(end, state.half_offset + _AT_A_TIME))
    first = max(state.half_offset, half_queue.min)
    noted = frozenset(state.op_batch)
    halves = yield from _read_halves(
        offset
        for offset in range(first, half_queue.max)
        if offset not in noted and offset not in ops
    )
    event = CheckRound(
        ops, state.op_batch, half_queue, halves.get, file_reserved_ms, now_ms=(yield Now())
    )
    step = transaction.check(state, config, event)

    failed: Park | PutBack | None = None
    for send in step.sends:
        if not (yield from _is_put(broker, send)):
            failed = send
            break
    if failed:  # the round ends before its half, which is looked at again the next time
        before = half_queue._replace(max=failed.message.queue_offset)
        step = transaction.check(state, config, replace(event, half_queue=before))

    yield Carry(state, step)
    yield Carry(broker.offsets, commit_offset(broker.offsets, HALF_QUEUE, state.half_offset))
    yield Carry(broker.offsets, commit_offset(broker.offsets, OP_QUEUE, state.op_offset))
    ops.forget(state.op_offset)
    return bool(step.result) and not failed


def _read_halves(offsets: Iterable[int]) -> Conversation[dict[int, Record | None]]:
    """By queue offset: the halves that are still there."""
    halves: dict[int, Record | None] = {}
    for offset in offsets:
        units: list[Unit] = yield Units(HALF_TOPIC, 0, offset, 1)
        for unit in units:
            halves[offset] = yield Look(unit.position)
    return halves


def _is_put(broker: BrokerStates, send: Park | PutBack) -> Conversation[bool]:
    """Whether a half that is checked is stored where it goes."""
    if isinstance(send, Park):
        return (yield from _park(broker, send.message))
    put: PutResult = yield Store(send.message)
    is_put = put.status in PUT_CODES
    if is_put and send.is_checked:
        yield from _ask_producer(broker, send, put)
    return is_put


def _park(broker: BrokerStates, half: Record) -> Conversation[bool]:
    """The topic of those that are given up is created for the first of them."""
    created = create_topic_in_send_message_back(
        broker.metadata, half.topic, PARKED_QUEUE_NUM, (yield Now())
    )
    yield Carry(broker.metadata, created)
    put: PutResult = yield Append(half)
    return put.status in PUT_CODES


def _ask_producer(broker: BrokerStates, send: PutBack, put: PutResult) -> Conversation[None]:
    """One member of the group is asked; the check counts also where there is none."""
    producers: Sequence[Hashable] = yield Producers(send.group)
    if not producers:
        return
    step = transaction.next_producer(broker.transactions, len(producers))
    turn: int = yield Carry(broker.transactions, step)
    seen = structs.replace(
        transaction.as_producer_sees_it(send.message),
        queue_offset=put.queue_offset,
        physical_offset=position_of(put.message_ids),
        store_timestamp=put.store_timestamp,
    )
    yield CheckBack(producers[turn], seen, put.message_ids)
