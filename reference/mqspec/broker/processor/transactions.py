"""Transactions: 37 and 323, and the op messages that are written for them
(EndTransactionProcessor.java, AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqspec.broker.conversing import converse, served, served_at_once
from mqspec.core import end_transaction as end
from mqspec.core.check_transaction import HALF_QUEUE, OP_QUEUE
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.transaction import OP_TOPIC, EndTransaction, TransactionState
from mqspec.service import Served, clock_ms
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import boolean, integer, long

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def load(broker: Broker) -> TransactionState:
    """Where the checks had come when the offsets were last written."""
    table = broker.offsets.offset_table
    return TransactionState(
        table.get(HALF_QUEUE, broker.store.min_offset(HALF_TOPIC, 0)),
        table.get(OP_QUEUE, broker.store.min_offset(OP_TOPIC, 0)),
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
