"""Publish: what a broker checks before it stores a message, and what it adds to it. Twin of
Publish.tla, with the producer.

A send is answered when its message is stored; until then the producer knows nothing, and it
sends again to another queue where the answer does not come. What the broker does not check
is the permission of the topic to be written (SEND-011): only routes tell of it.

Facts: AbstractSendMessageProcessor.msgCheck, SendMessageProcessor.java (5.3.3), and what
5.3.3 answered over the wire.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import AnyStr, Final

import msgspec

from mqspec.core.conversation import Conversation, Flushed
from mqspec.core.delay import LEVEL, delay_level
from mqspec.core.java import human_time
from mqspec.core.log import (
    RETRY_TOPIC_PREFIX,
    TRANSACTION_TYPE,
    PutResult,
    PutStatus,
    may_be_stored,
)
from mqspec.core.metadata import (
    NOT_ALLOWED_SEND,
    BrokerConfig,
    MetadataState,
    Perm,
    TopicConfig,
    check_topic_name,
    create_topic_in_send,
    find_subscription_group,
)
from mqspec.core.record import (
    Batch,
    BatchMessage,
    Record,
    SysFlag,
    decode_properties,
    encode_properties,
    find_property,
)
from mqspec.core.response import SEE_FAQ, Answer, Refusal, ResponseCode, Thrown
from mqspec.core.step import Change, Step
from mqspec.core.transaction import is_marked
from mqspec.core.types import Topic

ENDED: Final = {b"", b"\x02"}  # the last byte of properties behind which others may follow
_POP_CK: Final = "POP_CK\x01"
_REGULAR: Final = "[^\x01\x02]++\x01[^\x02]++\x02"
_ARE_REGULAR: Final = re.compile(f"(?:{_REGULAR})*+").fullmatch
# The names of properties that ask something of the broker begin so.
_ASKING: Final = "|".join((LEVEL, "TIMER_", "TRAN_MSG", "POP_CK", "INNER_NUM"))
_ARE_PLAIN: Final = re.compile(f"(?:(?!{_ASKING}){_REGULAR})*+").fullmatch

_SCHEDULED = (0, int(SysFlag.COMMIT))  # the types of messages that may be delayed

_PUT_REFUSALS: Final = {
    PutStatus.CREATE_MAPPED_FILE_FAILED: Refusal(
        ResponseCode.SYSTEM_ERROR, "create mapped file failed, server is busy or broken."
    ),
    PutStatus.SERVICE_NOT_AVAILABLE: Refusal(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. It may be caused by one of the following reasons: the "
        "broker's disk is full, messages are put to the slave, message store has been shut "
        "down, etc.",
    ),
    PutStatus.WHEEL_TIMER_NOT_ENABLE: Refusal(
        ResponseCode.SYSTEM_ERROR,
        "accurate timer message is not enabled, timerWheelEnable is false",
    ),
}


def put_refusal(config: BrokerConfig, status: PutStatus) -> Refusal:
    """How a put that stored nothing is answered."""
    if refusal := _PUT_REFUSALS.get(status):
        return refusal
    if status is not PutStatus.WHEEL_TIMER_MSG_ILLEGAL:
        return _illegal(config)
    remark = (
        "timer message illegal, the delay time should not be bigger than the max delay "
        f"{1000 * config.timer_max_delay_sec}ms; or if set del msg, the delay time should be "
        "bigger than the current time"
    )
    return Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)


def _illegal(config: BrokerConfig) -> Refusal:
    remark = (
        "the message is illegal, maybe msg body or properties length not matched. msg body length "
        f"limit {config.limits.max_message_size}B, msg properties length limit 32KB."
    )
    return Refusal(ResponseCode.MESSAGE_ILLEGAL, remark)


PUT_CODES: Final = {
    PutStatus.PUT_OK: ResponseCode.SUCCESS,
    PutStatus.FLUSH_DISK_TIMEOUT: ResponseCode.FLUSH_DISK_TIMEOUT,
}
"""How a put that stored its message is answered: a code that is not 0 is no failure."""


class Send(msgspec.Struct, frozen=True, gc=False):
    """A producer's message, or batch of messages, for one topic."""

    topic: Topic
    default_topic: Topic | None  # the template if the topic does not exist
    default_topic_queue_nums: int | None
    queue_id: int  # below 0: any
    properties: str  # of a batch: of the batch, not of its messages
    producer: str  # host:port
    is_batch: bool = False
    sys_flag: int = 0
    body_bytes: int = 0  # of a batch: of all its messages, with their properties
    random: int = 0  # not negative: picks the queue where the producer leaves it open
    is_plain: bool = False  # what `is_plain` says of it
    unit_mode: bool = False
    reconsume_times: int = 0
    is_reply: bool = False  # of which only the topic and the queue are checked


def is_plain(properties: str) -> bool:
    """Whether a message's properties are as they should be, and ask for no delay, no transaction
    and nothing else of the broker: as most messages', which are stored as they come."""
    return _ARE_PLAIN(properties) is not None


def check_send(state: MetadataState, config: BrokerConfig, event: Send, now_ms: int) -> Step:
    """Publish!CheckSend. Whether the message may be stored, and in which queue; on the way a
    topic may be created. Result: a queue id, or a Refusal.

    In the order of 5.3.3. A queue id may be beyond the write queues, if it is not beyond the
    read queues (SEND-010).
    """
    if now_ms < config.start_accept_send_request_time_stamp:
        until = human_time(config.start_accept_send_request_time_stamp)
        remark = f"broker unable to service, until {until}"
        return Step(result=Refusal(ResponseCode.SYSTEM_ERROR, remark))
    topic = state.topic_config_table.get(event.topic)
    if topic and topic.order and not config.broker_permission & Perm.WRITE:
        remark = f"the broker[{config.host}] sending message is forbidden"
        return Step(result=Refusal(ResponseCode.NO_PERMISSION, remark))
    refusal = check_topic_name(event.topic)
    if refusal:
        return Step(result=refusal)
    if event.topic in NOT_ALLOWED_SEND:
        remark = f"Sending message to topic[{event.topic}] is forbidden."
        return Step(result=Refusal(ResponseCode.NO_PERMISSION, remark))
    changes: tuple[Change, ...] = ()
    if topic is None:
        if event.default_topic is None or event.default_topic_queue_nums is None:
            return Step(result=Thrown(remark=f"topic[{event.topic}] not exist, nor a template"))
        made = create_topic_in_send(
            state,
            config,
            event.topic,
            event.default_topic,
            event.default_topic_queue_nums,
            now_ms,
            unit_mode=event.unit_mode,
        )
        topic, changes = made.result, made.changes
    if topic is None:
        remark = f"topic[{event.topic}] not exist, apply first please!{SEE_FAQ}"
        return Step(changes, result=Refusal(ResponseCode.TOPIC_NOT_EXIST, remark))
    queues = max(topic.read_queue_nums, topic.write_queue_nums)
    if event.queue_id >= queues:
        remark = f"request queueId[{event.queue_id}] is illegal, {topic} Producer: {event.producer}"
        return Step(changes, result=Refusal(ResponseCode.INVALID_PARAMETER, remark))
    if not event.is_reply:
        if event.topic.startswith(RETRY_TOPIC_PREFIX):
            retry = _check_retry(state, config, event, now_ms)
            changes, refusal = (*changes, *retry.changes), retry.result
        refusal = refusal or _check_key(topic, event) or _check_properties(config, event)
    if refusal or event.queue_id >= 0:
        return Step(changes, result=refusal or event.queue_id)
    if topic.write_queue_nums <= 0:
        return Step(changes, result=Thrown(remark=f"topic[{event.topic}] has no queue to choose"))
    return Step(changes, result=event.random % topic.write_queue_nums)


def is_usual(state: MetadataState, config: BrokerConfig, event: Send) -> bool:
    """Whether what `check_send` accepts it would accept again, with whatever body and plain
    properties, until topics, groups or options change, and nothing but its size could keep it
    from being stored."""
    if not event.is_plain or event.queue_id < 0 or event.sys_flag & TRANSACTION_TYPE:
        return False
    if not may_be_stored(event.topic, event.sys_flag):
        return False
    if event.topic.startswith(RETRY_TOPIC_PREFIX) or config.start_accept_send_request_time_stamp:
        return False
    topic = state.topic_config_table.get(event.topic)
    return topic is not None and (event.is_batch or not _is_compacted(topic))


def refused_fields(config: BrokerConfig, refusal: Refusal) -> Mapping[str, str]:
    """What the answer to a send has that `check_send` refused (SEND-035)."""
    return {} if isinstance(refusal, Thrown) else stamp(config)


def refused_send(config: BrokerConfig, refusal: Refusal) -> Answer:
    """The answer to a send that `check_send` refused."""
    return Answer(refusal.code, refusal.remark, refused_fields(config, refusal))


def refused_put(config: BrokerConfig, status: PutStatus) -> Answer:
    """The answer to a send whose put stored nothing."""
    refusal = put_refusal(config, status)
    return Answer(refusal.code, refusal.remark, stamp(config))


def _check_retry(state: MetadataState, config: BrokerConfig, event: Send, now_ms: int) -> Step:
    """A retry topic is a group's, which must be. Result: a Refusal or None."""
    if event.is_batch:
        remark = f"batch request does not support retry group {event.topic}"
        return Step(result=Refusal(ResponseCode.MESSAGE_ILLEGAL, remark))
    group = event.topic.removeprefix(RETRY_TOPIC_PREFIX)
    found = find_subscription_group(state, config, group, now_ms)
    if found.result:
        return Step(found.changes)
    remark = f"subscription group not exist, {group} {SEE_FAQ}"
    return Step(result=Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark))


def _check_key(topic: TopicConfig, event: Send) -> Refusal | None:
    """A compacted topic keeps the last message of each key (SEND-037)."""
    if event.is_batch or not _is_compacted(topic):
        return None
    if (decode_properties(event.properties).get("KEYS") or "").strip():
        return None
    return Refusal(ResponseCode.MESSAGE_ILLEGAL, "Required message key is missing")


def _is_compacted(topic: TopicConfig) -> bool:
    return topic.attributes.get("cleanup.policy") == "COMPACTION"


def _check_properties(config: BrokerConfig, event: Send) -> Refusal | None:
    """In the order of 5.3.3: what is a half, what is several messages in one, and the delay level,
    where it is looked at."""
    if event.is_batch and event.body_bytes > config.limits.max_message_size:
        return Thrown(remark="message body size exceeded")
    if event.is_plain:  # as most: nothing is asked for
        return _illegal(config) if event.is_batch and event.sys_flag & TRANSACTION_TYPE else None
    # What stands in the messages of a batch is not heeded, what stands beside them is.
    properties = decode_properties(event.properties)
    try:
        is_half = not event.is_batch and is_marked(properties, event.reconsume_times)
        if is_half and config.reject_transaction_message:
            remark = f"the broker[{config.host}] sending transaction message is forbidden"
            return Refusal(ResponseCode.NO_PERMISSION, remark)
        if "INNER_NUM" in properties or event.sys_flag & SysFlag.INNER_BATCH:
            return _illegal(config)
        may_wait = is_half or event.sys_flag & TRANSACTION_TYPE in _SCHEDULED
        level = delay_level(properties) if may_wait else 0
    except ValueError:
        return Thrown(remark=f"{LEVEL} is not a number")
    if event.is_batch and (level > 0 or event.sys_flag & TRANSACTION_TYPE):
        return _illegal(config)
    return None


def stamp(config: BrokerConfig) -> Mapping[str, str]:
    """What is added to each message, and to the answer to each send, also a refusal (SEND-005)."""
    return _stamp(config.region_id, config.trace_on)


def properties_stamp(config: BrokerConfig) -> str:
    """What the broker adds to the properties of each message, at their end: of a property that
    is there twice, the last one counts."""
    return _properties_stamp(config.region_id, config.trace_on, config.cluster_name)


@lru_cache
def _stamp(region_id: str, trace_on: bool) -> Mapping[str, str]:
    return {"MSG_REGION": region_id, "TRACE_ON": str(trace_on).lower()}


@lru_cache
def _properties_stamp(region_id: str, trace_on: bool, cluster: str) -> str:
    return encode_properties({**_stamp(region_id, trace_on), "CLUSTER": cluster})


def stamped(properties: str, stamp: str) -> str:
    """A message's properties as they are stored."""
    return own_properties(_ended(properties)) + stamp


def own_properties(properties: str) -> str:
    """Without what only this broker may say, and without what is no property (SEND-034)."""
    if _POP_CK not in properties and _ARE_REGULAR(properties):
        return properties
    kept = decode_properties(properties)
    kept.pop("POP_CK", None)
    return encode_properties(kept)


def batched(message: Record, messages: Sequence[BatchMessage]) -> Batch:
    """Messages that came in the body of one, as they are stored: behind the properties of each,
    as they came and ended, are those that came beside all."""
    beside = message.properties
    ends = {one.properties[-1:] for one in messages}
    if ends <= ENDED:  # as those of Java's client
        return Batch(message, messages, beside)
    if ends.isdisjoint(ENDED):
        return Batch(message, messages, b"\x02" + beside)
    ended = (_ended(one.properties) + beside for one in messages)
    whole = [
        BatchMessage(one.body, own, one.flag) for one, own in zip(messages, ended, strict=True)
    ]
    return Batch(message, whole)


def with_unique_key(properties: str, made: Callable[[], str]) -> tuple[str, str]:
    """With a key, which is one `made` for it where its producer gave it none; and the key."""
    if own := find_property(properties, "UNIQ_KEY"):
        return properties, own
    key = made()
    return f"{_ended(properties)}UNIQ_KEY\x01{key}\x02", key


def _ended(properties: AnyStr) -> AnyStr:
    end = b"\x02" if isinstance(properties, bytes) else "\x02"
    return properties if properties.endswith(end) or not properties else properties + end


def when_stored(sync_flush: bool, put: PutResult, *properties: bytes) -> Conversation[PutStatus]:
    """How a put ended: at once, or when it is on disk, where the store flushes synchronously and
    the message's producer waits for that."""
    is_late = sync_flush and put.status is PutStatus.PUT_OK
    if is_late and waits_store_msg_ok(b"".join(properties)):
        status: PutStatus = yield Flushed(put.end)
        return status
    return put.status


def waits_store_msg_ok(properties: bytes) -> bool:
    """Whether the producer of a message waits until it is on disk, where the store flushes
    synchronously; it does unless the property WAIT says otherwise."""
    return decode_properties(properties).get("WAIT", "true").lower() == "true"
