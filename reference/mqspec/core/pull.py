"""Pull: what a broker checks before it reads a queue for a consumer, and how it answers.

A pull may carry its subscription, or name the version of the one that the group's heartbeats
brought. The answer tells where to go on, also where nothing was found: the consumer follows.

Facts: PullMessageProcessor.java, DefaultPullMessageResultHandler.java (5.3.3), and what
5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag
from typing import Final

from mqspec.core.broker_states import BrokerStates
from mqspec.core.consumer_filter import ConsumerFilterState, FilterKey
from mqspec.core.conversation import Carry, Conversation, Count, Get, ReadSpan
from mqspec.core.group import (
    Channel,
    ConsumeType,
    GroupState,
    MessageModel,
    SubscriptionData,
)
from mqspec.core.log import GetMessageStatus, GetResult, Span
from mqspec.core.long_polling import PullRequest, suspend_pull_request
from mqspec.core.metadata import (
    BrokerConfig,
    MetadataState,
    Perm,
    SubscriptionGroupConfig,
    TopicConfig,
    find_subscription_group,
    is_read_forbidden,
    may_always_pull,
)
from mqspec.core.offset_commit import (
    OffsetKey,
    commit_offset,
    commit_pull_offset,
    query_then_erase_reset_offset,
)
from mqspec.core.response import SEE_FAQ, Answer, Refusal, ResponseCode
from mqspec.core.step import Step
from mqspec.core.subscription import (
    TAG,
    SubscriptionError,
    build_subscription_data,
    condition_of,
)
from mqspec.core.types import Group, Topic


class PullSysFlag(IntFlag):
    """What a pull asks for beside messages (PullSysFlag.java)."""

    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4  # the pull carries it
    CLASS_FILTER = 8
    LITE_PULL = 16


class ForbiddenType(IntEnum):
    """Why a pull has no permission."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING_DISABLED = 4
    SUBSCRIPTION = 5


STATUS_CODES: Final = {
    GetMessageStatus.FOUND: ResponseCode.SUCCESS,
    GetMessageStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetMessageStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.OFFSET_RESET: ResponseCode.PULL_OFFSET_MOVED,
    GetMessageStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
}
"""How what the store found is answered; see response_code for the empty queue."""


@dataclass(frozen=True, slots=True)
class Pull:
    """A consumer asks for messages of one queue."""

    group: Group
    topic: Topic
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_ms: int
    subscription: str
    sub_version: int  # ms
    expression_type: str
    consumer: str  # host:port
    channel: Channel = None
    is_lite: bool = False  # of request 361


def check_pull(
    state: MetadataState,
    groups: GroupState,
    filters: ConsumerFilterState,
    config: BrokerConfig,
    event: Pull,
    now_ms: int,
) -> Step:
    """Subscription!CheckPull. Whether the queue may be read, and what of it is wanted; on the
    way the group may be created. Result: the SubscriptionData to filter by, or a Refusal.

    In the order of 5.3.3.
    """
    if not config.broker_permission & Perm.READ:
        remark = f"the broker[{config.host}] pulling message is forbidden"
        return Step(result=_forbidden(ForbiddenType.BROKER, remark))
    if event.is_lite and not config.lite_pull_message_enable:
        remark = f"the broker[{config.host}] for lite pull consumer is forbidden"
        return Step(result=_forbidden(ForbiddenType.BROKER, remark))
    found = find_subscription_group(state, config, event.group, now_ms)
    if found.result is None:
        remark = f"subscription group [{event.group}] does not exist, {SEE_FAQ}"
        return Step(result=Refusal(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark))
    topic = state.topic_config_table.get(event.topic)
    refusal = _check_permissions(found.result, topic, event)
    if refusal:
        return Step(found.changes, result=refusal)
    if event.sys_flag & PullSysFlag.SUBSCRIPTION:
        wanted = _carried_subscription(event)
    else:
        wanted = _heartbeat_subscription(state, groups, filters, found.result, event)
    if isinstance(wanted, SubscriptionData):
        wanted = check_filter(config, wanted) or _check_member(groups, config, event) or wanted
    return Step(found.changes, result=wanted)


def is_rejected(config: BrokerConfig, consume_type: ConsumeType | None) -> bool:
    """Whether consumers of a type are no members of their groups: those that pull by themselves,
    where the broker wants none."""
    return config.reject_pull_consumer_enable and consume_type is ConsumeType.CONSUME_ACTIVELY


def _check_member(groups: GroupState, config: BrokerConfig, event: Pull) -> Refusal | None:
    """Where consumers that pull by themselves are rejected, no others than members are served."""
    if not config.reject_pull_consumer_enable or may_always_pull(event.group):
        return None
    group = groups.consumer_table.get(event.group)
    if group and (
        group.consume_type is not ConsumeType.CONSUME_ACTIVELY
        or event.channel in group.channel_info_table
    ):
        return None
    remark = "the consumer's group info not exist, or the pull consumer is rejected by server."
    return Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark + SEE_FAQ)


def check_filter(config: BrokerConfig, wanted: SubscriptionData) -> Refusal | None:
    """Whether the broker filters by anything but tags at all."""
    if wanted.expression_type == TAG or config.enable_property_filter:
        return None
    remark = f"The broker does not support consumer to filter message by {wanted.expression_type}"
    return Refusal(ResponseCode.SYSTEM_ERROR, remark)


def check_client_config(config: BrokerConfig, wanted: SubscriptionData) -> Refusal | None:
    """What a client is told that asks for a subscription before it uses it (request 46)."""
    refusal = check_filter(config, wanted)
    if refusal or wanted.expression_type == TAG:
        return refusal
    try:
        condition_of(wanted)
    except SubscriptionError as error:
        return Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error))
    return None


def _check_permissions(
    group: SubscriptionGroupConfig, topic: TopicConfig | None, event: Pull
) -> Refusal | None:
    if not group.consume_enable:
        return _forbidden(ForbiddenType.GROUP, f"subscription group no permission, {event.group}")
    if topic is None:
        remark = f"topic[{event.topic}] not exist, apply first please! {SEE_FAQ}"
        return Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    if not topic.perm & Perm.READ:
        return _forbidden(
            ForbiddenType.TOPIC, f"the topic[{event.topic}] pulling message is forbidden"
        )
    if not 0 <= event.queue_id < topic.read_queue_nums:
        remark = (
            f"queueId[{event.queue_id}] is illegal, topic:[{event.topic}] "
            f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{event.consumer}]"
        )
        return Refusal(ResponseCode.INVALID_PARAMETER, remark)
    return None


def _forbidden(kind: ForbiddenType, remark: str) -> Refusal:
    return Refusal(ResponseCode.NO_PERMISSION, remark, {"forbiddenType": str(int(kind))})


def _carried_subscription(event: Pull) -> SubscriptionData | Refusal:
    try:
        return build_subscription_data(
            event.topic, event.subscription, event.sub_version, event.expression_type
        )
    except SubscriptionError:
        remark = "parse the consumer's subscription failed"
        return Refusal(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)


def _brought(event: Pull, wanted: SubscriptionData | Refusal) -> SubscriptionData | None:
    """The subscription that a pull brings, once the queue may be read: whether the broker filters
    by its kind, and serves who asks, is looked at afterwards (ADMIN-027)."""
    later = ResponseCode.SYSTEM_ERROR, ResponseCode.SUBSCRIPTION_NOT_EXIST
    if isinstance(wanted, Refusal) and wanted.code not in later:
        return None
    carried = _carried_subscription(event) if event.sys_flag & PullSysFlag.SUBSCRIPTION else None
    return carried if isinstance(carried, SubscriptionData) else None


def _heartbeat_subscription(
    state: MetadataState,
    groups: GroupState,
    filters: ConsumerFilterState,
    config: SubscriptionGroupConfig,
    event: Pull,
) -> SubscriptionData | Refusal:
    group = groups.consumer_table.get(event.group)
    if group is None:
        remark = f"the consumer's group info not exist{SEE_FAQ}"
        return Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if group.message_model is MessageModel.BROADCASTING and not config.consume_broadcast_enable:
        remark = f"the consumer group[{event.group}] can not consume by broadcast way"
        return _forbidden(ForbiddenType.BROADCASTING_DISABLED, remark)
    if is_read_forbidden(state, event.group, event.topic):
        remark = f"the consumer group[{event.group}] is forbidden for topic[{event.topic}]"
        return _forbidden(ForbiddenType.SUBSCRIPTION, remark)
    wanted = group.subscription_table.get(event.topic)
    if wanted is None:
        remark = f"the consumer's subscription not exist{SEE_FAQ}"
        return Refusal(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if wanted.sub_version < event.sub_version:
        remark = "the consumer's subscription not latest"
        return Refusal(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    return wanted if wanted.expression_type == TAG else _kept_filter(filters, wanted, event)


def _kept_filter(
    filters: ConsumerFilterState, wanted: SubscriptionData, event: Pull
) -> SubscriptionData | Refusal:
    """By what the group is filtered that wants this, by another type than tags (SUBS-020)."""
    data = filters.filter_data.get(FilterKey(event.topic, event.group))
    if data is None:
        remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
        return Refusal(ResponseCode.FILTER_DATA_NOT_EXIST, remark)
    if data.client_version < event.sub_version:
        remark = "the consumer's consumer filter data not latest"
        return Refusal(ResponseCode.FILTER_DATA_NOT_LATEST, remark)
    return replace(wanted, sub_string=data.expression, expression_type=data.expression_type)


def response_code(status: GetMessageStatus, queue_offset: int) -> ResponseCode:
    """How a read that began at `queue_offset` is answered. An empty queue has nothing yet for
    who asks for its first message, and moves everybody else there."""
    if status is GetMessageStatus.NO_MESSAGE_IN_QUEUE and queue_offset == 0:
        return ResponseCode.PULL_NOT_FOUND
    return STATUS_CODES[status]


def is_suspended(code: ResponseCode, event: Pull) -> bool:
    """Whether a pull is held instead of answered: it asks for that, and nothing is there yet.
    A message that does not match ends the hold: such a pull is not held (PULL-012)."""
    return code is ResponseCode.PULL_NOT_FOUND and bool(event.sys_flag & PullSysFlag.SUSPEND)


def pull_message(
    broker: BrokerStates, event: Pull, token: Hashable, now_ms: int, *, is_first: bool
) -> Conversation[Answer | None]:
    """Requests 11 and 361. None where the pull is held, under the shell's `token`. One that was
    held, `is_first` being false, commits nothing, and is answered whatever there is."""
    checked = check_pull(
        broker.metadata, broker.groups, broker.filters, broker.config, event, now_ms
    )
    if checked.changes:
        yield Carry(broker.metadata, checked)
    wanted = checked.result
    topic, queue_id, group = event.topic, event.queue_id, event.group
    if brought := _brought(event, wanted):
        yield Carry(broker.brought, broker.brought.note(group, brought, now_ms))
    if isinstance(wanted, Refusal):
        return wanted

    key = OffsetKey(topic, group, queue_id)
    found: GetResult
    if key in broker.offsets.reset_offset_table:
        # What an administrator's reset waited for.
        offset = yield Carry(broker.offsets, query_then_erase_reset_offset(broker.offsets, key))
        queue: Span = yield ReadSpan(topic, queue_id)
        found = GetResult(GetMessageStatus.OFFSET_RESET, offset, *queue)
    else:
        found = yield Get(topic, queue_id, event.queue_offset, event.max_msg_nums, wanted)
    code = response_code(found.status, event.queue_offset)

    if is_first:
        if event.sys_flag & PullSysFlag.COMMIT_OFFSET:
            yield Carry(broker.offsets, commit_offset(broker.offsets, key, event.commit_offset))
        if is_suspended(code, event):
            deadline_ms = now_ms + event.suspend_timeout_ms
            held = PullRequest(token, event.queue_offset, wanted, deadline_ms)
            step = suspend_pull_request(broker.long_polling, (topic, queue_id), held)
            yield Carry(broker.long_polling, step)
            return None

    next_offset = found.next_begin_offset
    yield Carry(broker.offsets, commit_pull_offset(broker.offsets, key, next_offset))
    body = b"".join(found.records)
    yield Count("got" if body else "missed", (topic, group), len(found.records), len(body))
    topic_config = broker.metadata.topic_config_table.get(topic)
    group_config = broker.metadata.subscription_group_table.get(group)
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(next_offset),
        "minOffset": str(found.min_offset),
        "maxOffset": str(found.max_offset),
        "topicSysFlag": str(topic_config.topic_sys_flag if topic_config else 0),
        "groupSysFlag": str(group_config.group_sys_flag if group_config else 0),
    }
    return Answer(code, found.status, fields, body)
