"""Send-backs: 36 (AbstractSendMessageProcessor.consumerSendMsgBack, 5.3.3)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from msgspec import structs

from mqspec.broker.carrying import carry
from mqspec.broker.stored import put_message, when_stored
from mqspec.core.log import PutStatus
from mqspec.core.record import decode_properties
from mqspec.core.response import Refusal, ResponseCode
from mqspec.core.retry import SendBack, check_send_back, consumer_send_msg_back
from mqspec.service import Served, clock_ms, refused
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import boolean, integer, long, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def send_back(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """36. A message that is stored but not as safely as asked counts as failed (RETRY-014)."""
    event = SendBack(
        text(request, "group"),
        long(request, "offset"),
        integer(request, "delayLevel"),
        integer(request, "maxReconsumeTimes", None),
        request.version,
        random.randrange(1 << 31),
        boolean(request, "unitMode"),
    )
    now_ms = clock_ms()
    checked = check_send_back(broker.metadata, broker.config, event, now_ms)
    group = carry(broker, "metadata", checked).result
    if group is None:
        return request.response()
    if isinstance(group, Refusal):
        return refused(request, group)
    message = broker.store.look_message_by_offset(event.offset)
    step = consumer_send_msg_back(broker.metadata, event, group, message, now_ms)
    copy = carry(broker, "metadata", step).result
    if isinstance(copy, Refusal):
        return refused(request, copy)
    copy = structs.replace(copy, store_host=broker.store_host)
    origin = decode_properties(copy.properties)["RETRY_TOPIC"]
    body_bytes = len(copy.body)

    def answer(status: PutStatus) -> RemotingCommand:
        if status is not PutStatus.PUT_OK:
            return request.response(ResponseCode.SYSTEM_ERROR, status)
        broker.stats.sent_back[origin, event.group].add(1, body_bytes)
        return request.response()

    served = when_stored(broker, put_message(broker, copy), answer, copy.properties)
    return broker.registrar.once_registered(
        checked.changes + step.changes, connection, request, served
    )
