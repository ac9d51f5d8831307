"""Sends: 10, 310 and 320 (SendMessageProcessor.java, 5.3.3)."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from mqspec.core import transaction
from mqspec.core.lock import is_lock_all_expired
from mqspec.core.log import RETRY_TOPIC_PREFIX, PutStatus
from mqspec.core.publish import (
    PUT_CODES,
    PUT_REFUSALS,
    STAMP,
    Send,
    check_send,
    stamp_properties,
)
from mqspec.core.record import Host, Record
from mqspec.core.response import Refusal
from mqspec.core.retry import RetrySend, handle_retry_and_dlq
from mqspec.core.timer import recall_handle
from mqspec.service import Served, clock_ms
from mqspec.store.message_store import PutResult
from mqspec.transport import Connection
from mqspec.wire.bodies import BatchMessage, decode_batch
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError, boolean, integer, long, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


class FieldNames(NamedTuple):
    """What the fields of a send are called."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: str
    queue_id: str
    sys_flag: str
    born_timestamp: str
    flag: str
    properties: str
    reconsume_times: str
    unit_mode: str
    max_reconsume_times: str
    batch: str


V1: Final = FieldNames(
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "unitMode",
    "maxReconsumeTimes",
    "batch",
)
V2: Final = FieldNames(*"abcdefghijklm")


def send_message(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """10."""
    return _send(broker, connection, request, V1)


def send_message_v2(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """310, and 320: whether it is a batch is said by a field, not by the code (SEND-014)."""
    return _send(broker, connection, request, V2)


def read_send(connection: Connection, request: RemotingCommand, names: FieldNames) -> Send:
    """What is asked for. Raises HeaderError."""
    if not request.body:
        raise HeaderError("the message has no body")
    return Send(
        topic=text(request, names.topic),
        default_topic=request.ext_fields.get(names.default_topic, ""),
        default_topic_queue_nums=integer(request, names.default_topic_queue_nums, 0),
        queue_id=integer(request, names.queue_id),
        properties=request.ext_fields.get(names.properties, ""),
        producer=connection.peer,
        is_batch=boolean(request, names.batch),
        sys_flag=integer(request, names.sys_flag),
        body_bytes=len(request.body),
        random=random.getrandbits(31),
    )


@lru_cache(maxsize=4096)
def born_host(peer: str) -> Host:
    """The host of a connection's other end."""
    address, _, port = peer.rpartition(":")
    return Host.parse(address, int(port))


def _send(
    broker: Broker, connection: Connection, request: RemotingCommand, names: FieldNames
) -> Served:
    send = read_send(connection, request, names)
    # All is read before anything is done: no topic comes to be for what cannot be read.
    flag = integer(request, names.flag)
    born_timestamp = long(request, names.born_timestamp)
    reconsume_times = integer(request, names.reconsume_times, 0)
    has_maximum = names.max_reconsume_times in request.ext_fields
    maximum = integer(request, names.max_reconsume_times) if has_maximum else None
    is_batch = send.is_batch
    messages = decode_batch(request.body) if is_batch else [BatchMessage(request.body, flag=flag)]

    step = check_send(broker.metadata, broker.config, send, clock_ms())
    queue_id = broker.carry_metadata(step).result
    if isinstance(queue_id, Refusal):
        return request.response(queue_id.code, queue_id.remark, STAMP)

    cluster = broker.config.cluster_name
    unique_key = "" if is_batch else broker.next_unique_key()
    stamped = [
        stamp_properties(
            f"{message.properties.decode(errors='replace')}\x02{send.properties}"
            if is_batch
            else send.properties,
            cluster,
            unique_key,
        )
        for message in messages
    ]
    records = [
        Record(
            topic=send.topic,
            body=message.body,
            properties=stamp.properties.encode(errors="replace"),
            queue_id=queue_id,
            flag=message.flag,
            sys_flag=send.sys_flag,
            born_timestamp=born_timestamp,
            born_host=born_host(connection.peer),
            store_host=broker.store_host,
            reconsume_times=reconsume_times,
        )
        for message, stamp in zip(messages, stamped, strict=True)
    ]
    if send.topic.startswith(RETRY_TOPIC_PREFIX):
        records = [_retried(broker, RetrySend(records[0], maximum, request.version))]
    placed: Record | PutStatus = records[0]
    if is_batch:
        put = broker.store.put_batch(records)
    else:
        placed = _place(broker, records[0])
        put = PutResult(placed) if isinstance(placed, PutStatus) else broker.store.put(placed)
    if put.status in PUT_REFUSALS:
        refusal = PUT_REFUSALS[put.status]
        return request.response(refusal.code, refusal.remark, STAMP)
    broker.stats.put[send.topic].add(len(records), len(request.body))
    fields = STAMP | {
        "msgId": ",".join(put.message_ids),
        "queueId": str(queue_id),
        "queueOffset": str(put.queue_offset),
    }
    if not is_batch:
        fields["transactionId"] = stamped[0].unique_key
    if isinstance(placed, Record):
        handle = recall_handle(broker.config.broker_name, placed)
        fields |= {"recallHandle": handle} if handle else {}
    return broker.when_stored(
        records[0], put, lambda status: request.response(PUT_CODES[status], ext_fields=fields)
    )


def _place(broker: Broker, message: Record) -> Record | PutStatus:
    """The message as it is stored: a half message, or one that waits for its time, elsewhere."""
    if transaction.is_prepared(message):
        return transaction.prepare(message)
    return broker.schedule(message)


def _retried(broker: Broker, event: RetrySend) -> Record:
    group = event.message.topic.removeprefix(RETRY_TOPIC_PREFIX)
    now_ms = clock_ms()
    max_live_time_ms = broker.config.rebalance_lock_max_live_time_ms
    holds_none = is_lock_all_expired(broker.locks, group, now_ms, max_live_time_ms)
    step = handle_retry_and_dlq(
        broker.metadata, event, is_lock_all_expired=holds_none, now_ms=now_ms
    )
    record: Record = broker.carry_metadata(step).result
    return record
