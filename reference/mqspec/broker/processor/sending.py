"""Sends: 10, 310 and 320 (SendMessageProcessor.java, 5.3.3)."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

import msgspec

from mqspec.broker.carrying import carry
from mqspec.broker.fast.sends import Checked
from mqspec.broker.stored import schedule, when_stored
from mqspec.core import timer, transaction
from mqspec.core.lock import is_lock_all_expired
from mqspec.core.log import RETRY_TOPIC_PREFIX, PutResult, PutStatus
from mqspec.core.publish import (
    PUT_CODES,
    Send,
    batched,
    check_send,
    is_plain,
    is_usual,
    properties_stamp,
    refused_put,
    refused_send,
    stamp,
    stamped,
    with_unique_key,
)
from mqspec.core.record import Host, Record, SysFlag, alone, find_property
from mqspec.core.response import Refusal
from mqspec.core.retry import RetrySend, handle_retry_and_dlq
from mqspec.core.step import Step
from mqspec.service import Served, answered, clock_ms
from mqspec.transport import Connection
from mqspec.wire.bodies import decode_batch
from mqspec.wire.codec import Int, RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.headers import (
    SEND_V2_NAMES,
    HeaderError,
    Long,
    integer,
    read,
    read_by_reflection,
)

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


class SendHeader(msgspec.Struct, rename="camel", gc=False):
    """The fields of 10 and 324, but for maxReconsumeTimes, which few have."""

    topic: str
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long  # ms
    flag: Int
    default_topic: str | None = None
    default_topic_queue_nums: Int | None = None
    properties: str = ""
    reconsume_times: Int = 0
    batch: str = "false"
    unit_mode: str = "false"
    producer_group: str = ""


SendHeaderV2: Final = cast(
    "type[SendHeader]",  # an heir would have the names of its parent
    msgspec.defstruct(
        "SendHeaderV2",
        [
            (one.name, one.type) if one.required else (one.name, one.type, one.default)
            for one in msgspec.structs.fields(SendHeader)
        ],
        rename=SEND_V2_NAMES,
        gc=False,
    ),
)
"""The same in 310, 320 and 325."""


def send_message(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """10."""
    header = read_by_reflection(request, SendHeader)
    return _send(broker, connection, request, header, integer(request, "maxReconsumeTimes", None))


def send_message_v2(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """310, and 320: whether it is a batch is said by a field, not by the code (SEND-014)."""
    if usual := broker.usual_sends.read(connection, request):
        broker.sends.add_usual(usual)
        return None
    return send_one(broker, connection, request)


def send_one(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """The same of a send that is not usual."""
    maximum = integer(request, "l") if "l" in request.ext_fields else None
    return _send(broker, connection, request, read(request, SendHeaderV2), maximum)


def to_send(connection: Connection, request: RemotingCommand, header: SendHeader) -> Send:
    """What is asked for. Raises HeaderError."""
    if not request.body:
        raise HeaderError("the message has no body")
    is_batch = header.batch.lower() == "true"
    return Send(
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        properties=header.properties,
        producer=connection.peer,
        is_batch=is_batch,
        sys_flag=header.sys_flag,
        body_bytes=len(request.body),
        random=random.getrandbits(31) if header.queue_id < 0 else 0,
        is_plain=is_plain(header.properties),
        unit_mode=header.unit_mode.lower() == "true",
        reconsume_times=header.reconsume_times,
    )


@lru_cache(maxsize=4096)
def born_host(peer: str) -> Host:
    """The host of a connection's other end."""
    address, _, port = peer.rpartition(":")
    return Host.parse(address, int(port))


def _send(
    broker: Broker,
    connection: Connection,
    request: RemotingCommand,
    header: SendHeader,
    maximum: int | None,
) -> Served:
    send = to_send(connection, request, header)
    now_ms = clock_ms()
    step = check_send(broker.metadata, broker.config, send, now_ms)
    queue_id = carry(broker, "metadata", step).result
    made = step.changes
    if isinstance(queue_id, Refusal):
        return answered(request, refused_send(broker.config, queue_id))
    batch = decode_batch(request.body) if send.is_batch else None
    properties = send.properties
    fields = {**stamp(broker.config), "queueId": str(queue_id)}
    if batch is None:
        properties, fields["transactionId"] = with_unique_key(properties, broker.next_unique_key)
    elif key := find_property(properties, "UNIQ_KEY"):
        fields["transactionId"] = key
    ours = properties_stamp(broker.config)
    properties = properties + ours if send.is_plain else stamped(properties, ours)
    message = Record(
        topic=send.topic,
        body=request.body,
        properties=properties.encode(errors="replace"),
        queue_id=queue_id,
        flag=header.flag,
        sys_flag=_sys_flag(broker, send),
        born_timestamp=header.born_timestamp,
        born_host=born_host(connection.peer),
        store_host=broker.store_host,
        reconsume_times=header.reconsume_times,
    )
    if send.topic.startswith(RETRY_TOPIC_PREFIX):  # not a batch
        step = _retried(broker, RetrySend(message, maximum, request.version))
        message, made = step.result, made + step.changes
    placed = message if send.is_plain else _placed(broker, message, send.is_batch, now_ms)
    if isinstance(placed, PutStatus):
        return _refused(broker, request, placed)
    stored = alone(placed) if batch is None else batched(placed, batch)
    takes_runs = broker.is_fast and broker.store.takes_runs
    if takes_runs and not made and is_usual(broker.metadata, broker.config, send):
        broker.usual_sends.learn(connection, request, placed, ours, fields)
    if not send.is_plain and request.code != RequestCode.SEND_BATCH_MESSAGE:
        handle = timer.recall_handle(broker.config.broker_name, placed)
        if handle:
            fields["recallHandle"] = handle
    broker.sends.add(Checked(connection, request, stored, fields, made))
    return None


def _sys_flag(broker: Broker, send: Send) -> int:
    filter_type = broker.metadata.topic_config_table[send.topic].topic_filter_type
    return send.sys_flag if filter_type == "SINGLE_TAG" else send.sys_flag | SysFlag.MULTI_TAGS


def _placed(broker: Broker, message: Record, is_batch: bool, now_ms: int) -> Record | PutStatus:
    """The message where what it asks for takes it. A half waits for its end first, but not with a
    time that cannot be."""
    if is_batch or not transaction.is_prepared(message):
        return schedule(broker, message, now_ms)
    half = transaction.prepare(message)
    timed = timer.schedule_timer(broker.config, half, now_ms)
    return timed if isinstance(timed, PutStatus) else half


def answer(broker: Broker, send: Checked, put: PutResult) -> Served:
    """The answer to a send whose put is done."""
    if put.status not in PUT_CODES:
        return _refused(broker, send.request, put.status)
    topic = send.batch.shared.topic  # where it is stored: it may be on its way to another
    broker.stats.put[topic].add(len(send.batch.messages), put.wrote_bytes)
    send.fields["msgId"] = put.message_ids
    send.fields["queueOffset"] = str(put.queue_offset)
    served = when_stored(
        broker,
        put,
        lambda status: send.request.response(PUT_CODES[status], ext_fields=send.fields),
        send.batch.messages[0].properties,
        send.batch.beside,
    )
    if not send.made:  # as most do: a call less
        return served
    return broker.registrar.once_registered(bool(send.made), send.connection, send.request, served)


def _refused(broker: Broker, request: RemotingCommand, status: PutStatus) -> RemotingCommand:
    return answered(request, refused_put(broker.config, status))


def _retried(broker: Broker, event: RetrySend) -> Step:
    group = event.message.topic.removeprefix(RETRY_TOPIC_PREFIX)
    now_ms = clock_ms()
    max_live_time_ms = broker.config.rebalance_lock_max_live_time_ms
    holds_none = is_lock_all_expired(broker.locks, group, now_ms, max_live_time_ms)
    step = handle_retry_and_dlq(
        broker.metadata, event, is_lock_all_expired=holds_none, now_ms=now_ms
    )
    return carry(broker, "metadata", step)
