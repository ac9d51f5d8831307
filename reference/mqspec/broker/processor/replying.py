"""Replies to requests: 324 and 325 (ReplyMessageProcessor.java, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from mqspec.broker.carrying import carry
from mqspec.broker.processor.relay import TIMEOUT_MS
from mqspec.broker.processor.sending import SendHeader, SendHeaderV2, born_host, to_send
from mqspec.broker.stored import put_message, when_stored
from mqspec.core import reply
from mqspec.core.publish import Send, check_send, refused_send
from mqspec.core.record import Record
from mqspec.core.response import Refusal
from mqspec.service import Served, answered, clock_ms
from mqspec.transport import Connection, ConnectionLostError, RequestTimeoutError
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.headers import read, read_by_reflection

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def send_reply_message(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """324."""
    return _reply(broker, connection, request, read_by_reflection(request, SendHeader))


def send_reply_message_v2(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> Served:
    """325."""
    return _reply(broker, connection, request, read(request, SendHeaderV2))


def _reply(
    broker: Broker, connection: Connection, request: RemotingCommand, header: SendHeader
) -> Served:
    send = to_send(connection, request, header)
    properties = reply.stamp_properties(broker.config, send.properties)
    send = structs.replace(send, properties=properties, is_batch=False, is_reply=True)
    step = check_send(broker.metadata, broker.config, send, clock_ms())
    queue_id = carry(broker, "metadata", step).result
    if isinstance(queue_id, Refusal):
        return answered(request, refused_send(broker.config, queue_id))
    record = Record(
        topic=send.topic,
        body=request.body,
        properties=send.properties.encode(errors="replace"),
        queue_id=queue_id,
        flag=header.flag,
        born_timestamp=header.born_timestamp,
        born_host=born_host(connection.peer),
        store_host=broker.store_host,
        reconsume_times=header.reconsume_times,
    )
    answer = _push_and_store(broker, record, request, header, send)
    return broker.registrar.once_registered(bool(step.changes), connection, request, answer)


async def _push_and_store(
    broker: Broker, record: Record, request: RemotingCommand, header: SendHeader, send: Send
) -> RemotingCommand:
    try:
        refusal = await _push(broker, record, header, send)
    finally:  # also where the replier has gone meanwhile
        is_stored = broker.config.store_reply_message_enable
        put = put_message(broker, record) if is_stored else None
    response = answered(request, reply.answer(broker.config, refusal, record, put))
    if put is None:
        return response
    answer = when_stored(broker, put, lambda _: response, record.properties)
    return answer if isinstance(answer, RemotingCommand) else await answer


async def _push(broker: Broker, record: Record, header: SendHeader, send: Send) -> Refusal | None:
    """Bring a reply to who asked; None: it was taken."""
    requester = reply.find_requester(broker.groups, send.properties)
    if isinstance(requester, Refusal):
        return requester
    assert isinstance(requester, Connection)
    now_ms = clock_ms()
    fields = {
        "producerGroup": header.producer_group,
        "topic": record.topic,
        "defaultTopic": send.default_topic,
        "defaultTopicQueueNums": send.default_topic_queue_nums,
        "queueId": send.queue_id,
        "sysFlag": send.sys_flag,
        "bornTimestamp": record.born_timestamp,
        "flag": record.flag,
        "properties": reply.pushed_properties(send.properties, now_ms),
        "reconsumeTimes": record.reconsume_times,
        "unitMode": header.unit_mode,
        "bornHost": record.born_host,
        "storeHost": record.store_host,
        "storeTimestamp": now_ms,
    }
    said = {name: str(value) for name, value in fields.items() if value is not None}
    push = RemotingCommand(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, said, record.body)
    try:
        answer = await requester.request(push, TIMEOUT_MS)
    except (RequestTimeoutError, ConnectionLostError):
        return reply.not_taken(send.properties)
    return reply.not_taken(send.properties) if answer.code else None
