"""How producers are asked what became of a half message: 39, one-way
(AbstractTransactionalMessageCheckListener.java, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqspec.core.conversation import CheckBack, Producers
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.record import encode_record
from mqspec.core.transaction import message_key
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def producers(broker: Broker, ask: Producers) -> list[Connection]:
    """The members of a producer group that can be asked."""
    return [
        channel
        for channel in broker.groups.producer_table.get(ask.group, ())
        if isinstance(channel, Connection) and not channel.is_closed
    ]


def check_back(broker: Broker, ask: CheckBack) -> None:
    """One of them is asked."""
    assert isinstance(ask.channel, Connection)
    half, key = ask.half, message_key(ask.half)
    fields = {
        "topic": HALF_TOPIC,
        "tranStateTableOffset": str(half.queue_offset),
        "commitLogOffset": str(half.physical_offset),
        "msgId": key,
        "transactionId": key,
        "offsetMsgId": ask.message_id,
        "bname": broker.config.broker_name,
    }
    ask.channel.oneway(
        RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, fields, encode_record(half))
    )
