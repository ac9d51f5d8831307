"""Transactions: 37 and 323, and the clocks that check halves back and write op messages
(EndTransactionProcessor.java, TransactionalMessageServiceImpl.java, AdminBrokerProcessor.java,
5.3.3)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from mqspec.broker.carrying import carry
from mqspec.broker.conversing import converse, served, served_at_once
from mqspec.broker.stored import is_log_on_disk, put
from mqspec.core import end_transaction as end
from mqspec.core import transaction
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.log import GetMessageStatus, PutResult, Span
from mqspec.core.metadata import create_topic_in_send_message_back
from mqspec.core.offset_commit import OffsetKey, commit_offset
from mqspec.core.publish import PUT_CODES
from mqspec.core.record import Record, encode_record, position_of
from mqspec.core.transaction import (
    CONSUMER_GROUP,
    OP_TOPIC,
    CheckRound,
    EndTransaction,
    OpMessages,
    Park,
    PutBack,
    TransactionState,
)
from mqspec.service import Served, clock_ms
from mqspec.transport import Connection
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.headers import boolean, integer, long

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

_HALF_QUEUE: Final = OffsetKey(HALF_TOPIC, CONSUMER_GROUP, 0)
_OP_QUEUE: Final = OffsetKey(OP_TOPIC, CONSUMER_GROUP, 0)
_AT_A_TIME: Final = 100  # halves, before others get their turn
_OPS_AT_A_TIME: Final = 32


def load(broker: Broker) -> TransactionState:
    """Where the checks had come when the offsets were last written."""
    table = broker.offsets.offset_table
    return TransactionState(
        table.get(_HALF_QUEUE, broker.store.min_offset(HALF_TOPIC, 0)),
        table.get(_OP_QUEUE, broker.store.min_offset(OP_TOPIC, 0)),
    )


def end_transaction(broker: Broker, _: Connection, request: RemotingCommand) -> Served:
    """37."""
    kind = integer(request, "commitOrRollback")
    event = EndTransaction(
        request.ext_fields.get("producerGroup"),
        long(request, "tranStateTableOffset"),
        long(request, "commitLogOffset"),
        kind == end.COMMIT,
        boolean(request, "fromTransactionCheck"),
    )
    talk = end.end_transaction(broker, event, kind, clock_ms())
    return served(broker, request, talk)


def resume_check_half_message(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand | None:
    """323."""
    talk = end.resume_check_half_message(broker, request.ext_fields.get("msgId", ""))
    return served_at_once(broker, request, talk)


def write_ops(broker: Broker) -> None:
    """Write what was noted of ended halves to the op queue."""
    converse(broker, end.write_ops(broker, clock_ms()))


async def check(broker: Broker) -> None:
    """Check back, or park, what has no end for too long."""
    state, store = broker.transactions, broker.store
    end = store.max_offset(HALF_TOPIC, 0)
    ops = OpMessages(max(state.op_offset, store.min_offset(OP_TOPIC, 0)))
    while state.half_offset < end and await _read_ops(broker, ops):
        event = CheckRound(
            ops,
            state.op_batch,
            Span(store.min_offset(HALF_TOPIC, 0), min(end, state.half_offset + _AT_A_TIME)),
            lambda offset: _half(broker, offset),
            broker.store.config.file_reserved_time * 3_600_000,
            clock_ms(),
        )
        step = transaction.check(state, broker.config, event)
        failed = next((send for send in step.sends if not _is_put(broker, send)), None)
        if failed:  # the round ends before its half, which is looked at again the next time
            before = event.half_queue._replace(max=failed.message.queue_offset)
            step = transaction.check(state, broker.config, replace(event, half_queue=before))
        carry(broker, "transactions", step)
        carry(broker, "offsets", commit_offset(broker.offsets, _HALF_QUEUE, state.half_offset))
        carry(broker, "offsets", commit_offset(broker.offsets, _OP_QUEUE, state.op_offset))
        ops.forget(state.op_offset)
        if failed or not step.result:
            return
        await asyncio.sleep(0)


def _is_put(broker: Broker, send: Park | PutBack) -> bool:
    """Whether a half that is checked is stored where it goes."""
    return _put_back(broker, send) if isinstance(send, PutBack) else _park(broker, send.message)


def _park(broker: Broker, half: Record) -> bool:
    """The topic of those that are given up is made for the first of them."""
    carry(
        broker,
        "metadata",
        create_topic_in_send_message_back(broker.metadata, half.topic, 1, clock_ms()),
    )
    return broker.store.put(half).status in PUT_CODES


async def _read_ops(broker: Broker, ops: OpMessages) -> bool:
    """Read the op messages that came. Returns whether these are all, once it was waited for: the
    ends that another one names would be missed (TX-014)."""
    while await _sees_ops(broker):
        following = ops.offset + len(ops.messages)
        found = broker.store.get(OP_TOPIC, 0, following, _OPS_AT_A_TIME)
        if found.status is not GetMessageStatus.FOUND:
            return True
        for message in decode_messages(b"".join(found.records)):
            ops.add(transaction.ended_halves(message.body))
        await asyncio.sleep(0)
    return False


async def _sees_ops(broker: Broker) -> bool:
    store = broker.store
    if store.is_all_visible(OP_TOPIC, 0):
        return True
    return await is_log_on_disk(broker) and store.is_all_visible(OP_TOPIC, 0)


def _half(broker: Broker, offset: int) -> Record | None:
    for unit in broker.store.units(HALF_TOPIC, 0, offset, 1):
        return broker.store.look_message_by_offset(unit.position)
    return None


def _put_back(broker: Broker, send: PutBack) -> bool:
    done = put(broker, send.message)
    is_put = done.status in PUT_CODES
    if is_put and send.is_checked:
        _ask_producer(broker, send, done)
    return is_put


def _ask_producer(broker: Broker, send: PutBack, put: PutResult) -> None:
    """39, one-way, to one member of the group; the check counts also where there is none."""
    producers = [
        channel
        for channel in broker.groups.producer_table.get(send.group, ())
        if isinstance(channel, Connection) and not channel.is_closed
    ]
    if not producers:
        return
    step = transaction.next_producer(broker.transactions, len(producers))
    carry(broker, "transactions", step)
    position = position_of(put.message_ids)
    key = transaction.message_key(send.message)
    fields = {
        "topic": HALF_TOPIC,
        "tranStateTableOffset": str(put.queue_offset),
        "commitLogOffset": str(position),
        "msgId": key,
        "transactionId": key,
        "offsetMsgId": put.message_ids,
        "bname": broker.config.broker_name,
    }
    seen = msgspec.structs.replace(
        transaction.as_producer_sees_it(send.message),
        queue_offset=put.queue_offset,
        physical_offset=position,
        store_timestamp=put.store_timestamp,
    )
    request = RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, fields, encode_record(seen))
    producers[step.result].oneway(request)
