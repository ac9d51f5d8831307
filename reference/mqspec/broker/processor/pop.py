"""POP: 200050, 200051, 200151 and 200053 to 200056 (PopMessageProcessor.java,
AckMessageProcessor.java, ChangeInvisibleTimeProcessor.java, NotificationProcessor.java,
PollingInfoProcessor.java, 5.3.3)."""

from __future__ import annotations

import random
from base64 import b64decode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from mqspec.broker.conversing import served_at_once
from mqspec.broker.pop_polling import HeldPop
from mqspec.core import ack_message, pop, pop_messages
from mqspec.core.ack_message import AckMessage
from mqspec.core.conversation import Conversation
from mqspec.core.extra_info import HandleError, ReceiptHandle, real_topic
from mqspec.core.java import INT_BITS, LONG_BITS, java_number
from mqspec.core.log import Span
from mqspec.core.pop import Pop, PopState
from mqspec.core.pop_messages import ROLLED_BACK, Notification, Peek
from mqspec.core.pop_polling import ALL_QUEUES, PollingKey
from mqspec.core.response import Answer
from mqspec.core.revive_log import revive_topic
from mqspec.core.subscription import TAG
from mqspec.service import answered, clock_ms
from mqspec.transport import Answer as Answered
from mqspec.transport import Connection
from mqspec.wire.bodies import BodyError, loads
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError, boolean, integer, long, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def load(broker: Broker) -> PopState:
    """Where the revive log is to be read on."""
    topic, store = revive_topic(broker.config.cluster_name), broker.store
    queues = {
        revive_qid: Span(store.min_offset(topic, revive_qid), store.max_offset(topic, revive_qid))
        for revive_qid in range(broker.config.revive_queue_num)
    }
    return pop.restart(broker.offsets, broker.config, queues)


# Pop


def pop_message(broker: Broker, connection: Connection, request: RemotingCommand) -> Answered:
    """200050. None where the pop is held."""
    return _pop(broker, connection, request, _born_time(request))


def _born_time(request: RemotingCommand) -> int:
    """When a request says that it was made, ms; now, where it says nothing, or 0."""
    is_said = request.ext_fields.get("bornTime", "0") != "0"
    return long(request, "bornTime", 0) if is_said else clock_ms()


def pop_again(broker: Broker, held: HeldPop) -> Answered:
    """A held pop, once more."""
    return _pop(broker, held.connection, held.request, held.born_time)


def _pop(
    broker: Broker, connection: Connection, request: RemotingCommand, born_time: int
) -> Answered:
    event = Pop(
        group=text(request, "consumerGroup"),
        topic=text(request, "topic"),
        queue_id=integer(request, "queueId", 0),
        max_msg_nums=integer(request, "maxMsgNums", 0),
        invisible_time=long(request, "invisibleTime", 0),
        poll_time=long(request, "pollTime", 0),
        born_time=born_time,
        init_mode=integer(request, "initMode", 0),
        exp_type=request.ext_fields.get("expType", TAG),
        exp=request.ext_fields.get("exp", ""),
        order=boolean(request, "order"),
        attempt_id=request.ext_fields.get("attemptId"),
        consumer=connection.peer,
    )
    token = (connection, request)
    talk = pop_messages.pop_messages(broker, event, token, random.randrange(100), clock_ms())
    return served_at_once(broker, request, talk)


# Acknowledgement and change of invisible time


def ack(broker: Broker, connection: Connection, request: RemotingCommand) -> Answered:
    """200051."""
    talk = ack_message.ack(
        broker,
        (text(request, "topic"), integer(request, "queueId")),
        request.ext_fields.get("consumerGroup", "null"),
        long(request, "offset"),
        request.ext_fields.get("extraInfo"),
        connection.peer,
        clock_ms(),
    )
    return _of_a_handle(broker, request, talk)


def batch_ack(broker: Broker, connection: Connection, request: RemotingCommand) -> Answered:
    """200151."""
    body = loads(request.body) if request.body else {}
    acks = body.get("acks") if isinstance(body, Mapping) else None
    events = (_read_batch_ack(one, str(body.get("brokerName"))) for one in acks or ())
    talk = ack_message.batch_ack(broker, events, connection.peer, clock_ms())
    return served_at_once(broker, request, talk)


def change_message_invisible_time(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> Answered:
    """200053."""
    talk = ack_message.change_message_invisible_time(
        broker,
        (text(request, "topic"), integer(request, "queueId")),
        request.ext_fields.get("consumerGroup", "null"),
        long(request, "offset"),
        request.ext_fields.get("extraInfo"),
        long(request, "invisibleTime"),
        connection.peer,
        clock_ms(),
    )
    return _of_a_handle(broker, request, talk)


def _of_a_handle(broker: Broker, request: RemotingCommand, talk: Conversation[Answer]) -> Answered:
    """The answer to a request that shows a receipt handle."""
    try:
        return served_at_once(broker, request, talk)
    except HandleError as error:
        raise HeaderError(f"java.lang.IllegalArgumentException: {error}") from None


_BATCH_ACK_NAMES: Final = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}
"""Both names are read."""


def _read_batch_ack(entry: Mapping[str, Any], broker_name: str) -> AckMessage:
    try:
        values = {_BATCH_ACK_NAMES.get(name, name): value for name, value in entry.items()}
        start_offset, pop_time, invisible_time = (_long(values, n) for n in ("so", "pt", "it"))
        revive_qid, queue_id = (_long(values, name, INT_BITS) for name in ("rq", "q"))
        group, topic_flag = str(values.get("c", "null")), str(values["r"])
        handle = ReceiptHandle(
            start_offset,
            pop_time,
            invisible_time,
            revive_qid,
            topic_flag,
            broker_name,
            queue_id,
            -1,
        )
        topic = real_topic(str(values["t"]), group, topic_flag)
        offsets = tuple(start_offset + bit for bit in _bits(values["b"]))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BodyError(f"an acknowledgement that cannot be read: {error!r}") from None
    return AckMessage(topic, group, queue_id, offsets, handle)


def _long(values: Mapping[str, Any], name: str, bits: int = LONG_BITS) -> int:
    """A number of a body; one that is not there is 0, as Java's are before they are set."""
    value = values.get(name)
    if value is None or value == "":
        return 0
    return java_number(str(value), bits)


def _bits(bit_set: str | list[int]) -> Iterable[int]:
    """The bits of a Java BitSet that are set, ascending."""
    octets = b64decode(bit_set) if isinstance(bit_set, str) else bytes(n & 0xFF for n in bit_set)
    number = int.from_bytes(octets, "little")
    return (bit for bit in range(number.bit_length()) if number >> bit & 1)


def pop_rollback(_: Broker, __: Connection, request: RemotingCommand) -> RemotingCommand:
    """200056."""
    return answered(request, ROLLED_BACK)


# Notification and polling info


def notification(broker: Broker, connection: Connection, request: RemotingCommand) -> Answered:
    """200054. None where it is held."""
    return _notify(broker, connection, request, _born_time(request))


def notify_again(broker: Broker, held: HeldPop) -> Answered:
    """A held notification, once more."""
    return _notify(broker, held.connection, held.request, held.born_time)


def _notify(
    broker: Broker, connection: Connection, request: RemotingCommand, born_time: int
) -> Answered:
    event = Notification(
        text(request, "topic"),
        text(request, "consumerGroup"),
        integer(request, "queueId", 0),
        long(request, "pollTime", 0),
        born_time,
        boolean(request, "order"),
        request.ext_fields.get("attemptId"),
        connection.peer,
    )
    token = (connection, request)
    return served_at_once(
        broker, request, pop_messages.notification(broker, event, token, clock_ms())
    )


def polling_info(broker: Broker, connection: Connection, request: RemotingCommand) -> Answered:
    """200055."""
    event = _peek(connection, request)
    key = PollingKey(event.topic, event.group, max(event.queue_id, ALL_QUEUES))
    number = broker.pops.polling_num(key)
    return served_at_once(
        broker, request, pop_messages.polling_info(broker, event, number, clock_ms())
    )


def peek_message(broker: Broker, connection: Connection, request: RemotingCommand) -> Answered:
    """200052."""
    most = integer(request, "maxMsgNums", 0)
    event = replace(_peek(connection, request), max_msg_nums=most)
    talk = pop_messages.peek_message(broker, event, random.randrange(100), clock_ms())
    return served_at_once(broker, request, talk)


def _peek(connection: Connection, request: RemotingCommand) -> Peek:
    return Peek(
        text(request, "topic"),
        text(request, "consumerGroup"),
        integer(request, "queueId", 0),
        connection.peer,
    )
