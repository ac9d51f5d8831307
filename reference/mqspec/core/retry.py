"""Retry: what becomes of a message whose consumer failed. Twin of Retry.tla.

A consumer that failed on a message sends it back: the broker stores a copy in the retry topic
of the group, behind a delay that grows from try to try, and the consumer commits as if it had
succeeded. A message that failed too often goes to the dead-letter topic of the group instead,
which nobody consumes by default. What is promised is that a message that was sent back comes
again or is in the dead-letter topic (RETRY-001, RETRY-004); not that it comes once: a send-back
whose answer is lost is done again, and is then there twice.

Facts: AbstractSendMessageProcessor.consumerSendMsgBack, SendMessageProcessor.handleRetryAndDLQ
(5.3.3), and what 5.3.3 answered and stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec import structs

from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Carry, Conversation, Count, Look, Put
from mqspec.core.log import RETRY_TOPIC_PREFIX, PutResult, PutStatus
from mqspec.core.metadata import (
    BrokerConfig,
    MetadataState,
    Perm,
    SubscriptionGroupConfig,
    create_topic_in_send_message_back,
    find_subscription_group,
)
from mqspec.core.publish import when_stored
from mqspec.core.record import Record, decode_properties, encode_properties
from mqspec.core.response import SEE_FAQ, Answer, Refusal, ResponseCode
from mqspec.core.step import Step
from mqspec.core.types import Group, Topic

DLQ_TOPIC_PREFIX: Final = "%DLQ%"
DLQ_NUMS_PER_GROUP: Final = 1

FIRST_RETRY_LEVEL: Final = 3  # 10 s; one more with each try
V3_4_9: Final = 121  # the first version whose own maximum of tries is heeded


@dataclass(frozen=True, slots=True)
class SendBack:
    """CONSUMER_SEND_MSG_BACK: a consumer failed on the message at `offset`."""

    group: Group
    offset: int  # physical, in bytes
    delay_level: int  # 0: the broker chooses; below: do not try again
    max_reconsume_times: int | None = None
    version: int = 0  # of the client
    random: int = 0  # not negative: picks the retry queue
    unit_mode: bool = False


class RetrySend(NamedTuple):
    """A consumer sends a message to its retry topic by itself, where a send-back failed."""

    message: Record
    max_reconsume_times: int | None = None
    version: int = 0  # of the client


def retry_topic(group: Group) -> Topic:
    """Where the messages wait that a group is to try again."""
    return RETRY_TOPIC_PREFIX + group


def dlq_topic(group: Group) -> Topic:
    """Where the messages are that a group failed on for good."""
    return DLQ_TOPIC_PREFIX + group


def check_send_back(
    state: MetadataState, config: BrokerConfig, event: SendBack, now_ms: int
) -> Step:
    """Whether the group may have its message again; on the way the group
    and its retry topic may be created.

    Result: the SubscriptionGroupConfig; None where the group wants no retries, and the message
    is dropped and the answer is SUCCESS (RETRY-006); or a Refusal. In the order of 5.3.3.
    """
    found = find_subscription_group(state, config, event.group, now_ms)
    group: SubscriptionGroupConfig | None = found.result
    if group is None:
        remark = f"subscription group not exist, {event.group} {SEE_FAQ}"
        return Step(result=Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark))
    if not config.broker_permission & Perm.WRITE:
        remark = f"the broker[{config.host}] sending message is forbidden"
        return Step(found.changes, result=Refusal(ResponseCode.NO_PERMISSION, remark))
    if group.retry_queue_nums <= 0:
        return Step(found.changes)
    topic = retry_topic(event.group)
    made = create_topic_in_send_message_back(
        state, topic, group.retry_queue_nums, now_ms, unit_mode=event.unit_mode
    )
    changes = (*found.changes, *made.changes)
    if not made.result.perm & Perm.WRITE:
        remark = f"the topic[{topic}] sending message is forbidden"
        return Step(changes, result=Refusal(ResponseCode.NO_PERMISSION, remark))
    return Step(changes, result=group)


def consumer_send_msg_back(
    state: MetadataState,
    event: SendBack,
    group: SubscriptionGroupConfig,
    message: Record | None,
    now_ms: int,
) -> Step:
    """Retry!ConsumerSendMsgBack. A copy of the message for the retry topic, with the level of
    its delay; or for the dead-letter topic, which may be created (RETRY-004, RETRY-005).

    `message` is what lies at the offset. Result: the Record to store, or a Refusal.
    """
    if message is None:
        remark = f"look message by offset failed, {event.offset}"
        return Step(result=Refusal(ResponseCode.SYSTEM_ERROR, remark))
    tries = message.reconsume_times
    made = Step()
    if tries >= _max_reconsume_times(group, event) or event.delay_level < 0:
        topic, queues, level = dlq_topic(event.group), DLQ_NUMS_PER_GROUP, 0
        made = create_topic_in_send_message_back(state, topic, queues, now_ms)
    else:
        topic, queues = retry_topic(event.group), group.retry_queue_nums
        level = event.delay_level or FIRST_RETRY_LEVEL + tries
    before = decode_properties(message.properties)
    copy = structs.replace(
        message,
        topic=topic,
        queue_id=event.random % queues,
        properties=_delayed(
            message,
            level,
            RETRY_TOPIC=before.get("RETRY_TOPIC", message.topic),
            ORIGIN_MESSAGE_ID=before.get("ORIGIN_MESSAGE_ID") or message.message_id,
            WAIT="false",
        ),
        reconsume_times=tries + 1,
        prepared_transaction_offset=0,
    )
    return Step(made.changes, result=copy)


def send_back(broker: BrokerStates, event: SendBack, now_ms: int) -> Conversation[Answer]:
    """Request 36. A message that is stored but not as safely as asked counts as failed
    (RETRY-014)."""
    checked = check_send_back(broker.metadata, broker.config, event, now_ms)
    group: SubscriptionGroupConfig | Refusal | None = yield Carry(broker.metadata, checked)
    if group is None:
        return Answer()
    if isinstance(group, Refusal):
        return group

    message: Record | None = yield Look(event.offset)
    step = consumer_send_msg_back(broker.metadata, event, group, message, now_ms)
    copy: Record | Refusal = yield Carry(broker.metadata, step)
    if isinstance(copy, Refusal):
        return copy
    copy = structs.replace(copy, store_host=broker.store_host)

    put: PutResult = yield Put(copy)
    status = yield from when_stored(broker.sync_flush, put, copy.properties)
    if status is not PutStatus.PUT_OK:
        return Answer(ResponseCode.SYSTEM_ERROR, status)
    origin = decode_properties(copy.properties)["RETRY_TOPIC"]
    yield Count("sent_back", (origin, event.group), 1, len(copy.body))
    return Answer()


def handle_retry_and_dlq(
    state: MetadataState, event: RetrySend, *, is_lock_all_expired: bool, now_ms: int
) -> Step:
    """Retry!HandleRetryAndDlq. A send to a retry topic, whose group exists, goes to the
    dead-letter topic once it was tried more often than the maximum; also where a member of the
    group holds a lock, as one that consumes in order tries again in its own memory (RETRY-008).

    Result: the Record to store.
    """
    message = event.message
    group = message.topic.removeprefix(RETRY_TOPIC_PREFIX)
    maximum = _max_reconsume_times(state.subscription_group_table[group], event)
    if message.reconsume_times <= maximum and is_lock_all_expired:
        return Step(result=message)
    topic = dlq_topic(group)
    made = create_topic_in_send_message_back(state, topic, DLQ_NUMS_PER_GROUP, now_ms)
    dead = structs.replace(message, topic=topic, queue_id=0, properties=_delayed(message, -1))
    return Step(made.changes, result=dead)


def _delayed(message: Record, level: int, **properties: str) -> bytes:
    """The message's properties, with others and with the level of a delay."""
    changed = decode_properties(message.properties) | properties | {"DELAY": str(level)}
    return encode_properties(changed).encode(errors="replace")


def _max_reconsume_times(group: SubscriptionGroupConfig, event: SendBack | RetrySend) -> int:
    """The client's own maximum, from a version on; or the group's."""
    if event.max_reconsume_times is not None and event.version >= V3_4_9:
        return event.max_reconsume_times
    return group.retry_max_times
