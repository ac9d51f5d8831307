"""Metadata: the topics and consumer groups that a broker knows, and how they are created.

Both are created by an administrator's request, or by use: a send to a topic that does not
exist copies the topic that the producer names as its template (TBW102), and whoever uses a
group creates it. Nothing of this is agreed between brokers: a topic's queues on each of them
are that broker's own.

Facts: TopicConfigManager.java, SubscriptionGroupManager.java, TopicValidator.java (5.3.3),
and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntFlag, StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mqspec.core.attributes import GROUP_ATTRIBUTES, TOPIC_ATTRIBUTES, Attribute, alter
from mqspec.core.authentication import User
from mqspec.core.log import RETRY_TOPIC_PREFIX, Limits
from mqspec.core.response import NOT_SET, Answer, Refusal, ResponseCode
from mqspec.core.revive_log import revive_topic
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import BrokerName, Group, Topic

AUTO_CREATE_TOPIC: Final = "TBW102"  # the template of topics that are created by use
TOPIC_CHARS_MAX: Final = 127
GROUP_CHARS_MAX: Final = 255

_NOT_IN_NAMES = re.compile(r"[^%|a-zA-Z0-9_-]")
_IS_TOPIC_NAME = re.compile(rf"[%|a-zA-Z0-9_-]{{1,{TOPIC_CHARS_MAX}}}").fullmatch


class Perm(IntFlag):
    """What a topic may be used for on one broker (PermName.java)."""

    INHERIT = 1  # a topic may be made after this one
    WRITE = 2
    READ = 4


class TopicSysFlag(IntFlag):
    """Which topics are for clients in unit mode (TopicSysFlag.java)."""

    UNIT = 1
    UNIT_SUB = 2  # a retry topic


TOPIC_FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic on one broker."""

    topic_name: Topic
    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = Perm.READ | Perm.WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0
    order: bool = False
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Java's toString, which remarks quote."""
        letters = ((Perm.READ, "R"), (Perm.WRITE, "W"), (Perm.INHERIT, "X"))
        perm = "".join(letter if self.perm & bit else "-" for bit, letter in letters)
        attributes = ", ".join(f"{name}={value}" for name, value in self.attributes.items())
        return (
            f"TopicConfig [topicName={self.topic_name}, readQueueNums={self.read_queue_nums}, "
            f"writeQueueNums={self.write_queue_nums}, perm={perm}, "
            f"topicFilterType={self.topic_filter_type}, topicSysFlag={self.topic_sys_flag}, "
            f"order={str(self.order).lower()}, attributes={{{attributes}}}]"
        )


class GroupRetryPolicyType(StrEnum):
    """Which of the two policies counts."""

    EXPONENTIAL = "EXPONENTIAL"
    CUSTOMIZED = "CUSTOMIZED"


@dataclass(frozen=True, slots=True)
class ExponentialRetryPolicy:
    """Each delay is a multiple of the one before (ExponentialRetryPolicy.java), in ms."""

    initial: int = 5_000
    max: int = 7_200_000
    multiplier: int = 2


@dataclass(frozen=True, slots=True)
class CustomizedRetryPolicy:
    """One delay after the other (CustomizedRetryPolicy.java), in ms."""

    next: tuple[int, ...] = (
        *(1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000),
        *(420_000, 480_000, 540_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000),
    )


@dataclass(frozen=True, slots=True)
class GroupRetryPolicy:
    """How failed messages of a group are to be delayed: kept for the proxy that asks for it, a
    broker does it the customary way."""

    type: GroupRetryPolicyType = GroupRetryPolicyType.CUSTOMIZED
    exponential_retry_policy: ExponentialRetryPolicy | None = None
    customized_retry_policy: CustomizedRetryPolicy | None = None


@dataclass(frozen=True, slots=True)
class SimpleSubscriptionData:
    """What a group is said to want of a topic, kept for who asks (SimpleSubscriptionData.java)."""

    topic: Topic | None = None
    expression_type: str | None = None
    expression: str | None = None
    version: int = 0


@dataclass(frozen=True, slots=True)
class SubscriptionGroupConfig:
    """A consumer group on one broker, with the real defaults."""

    group_name: Group
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: GroupRetryPolicy = field(default_factory=GroupRetryPolicy)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: tuple[SimpleSubscriptionData, ...] | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DataVersion:
    """Grows with each change of a table, so that others notice that it changed."""

    counter: int = 0
    state_version: int = 0
    timestamp: int = 0  # ms

    def next(self, now_ms: int) -> DataVersion:
        """The version after one more change."""
        return DataVersion(self.counter + 1, self.state_version, now_ms)


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """The options of a broker that its answers depend on."""

    broker_name: BrokerName = "broker-a"
    cluster_name: str = "DefaultCluster"
    host: str = "127.0.0.1"
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    notify_consumer_ids_changed_enable: bool = True
    reject_pull_consumer_enable: bool = False  # of consumers that send heartbeats
    lite_pull_message_enable: bool = True
    store_reply_message_enable: bool = True
    start_accept_send_request_time_stamp: int = 0  # ms: before, nothing is taken
    region_id: str = "DefaultRegion"
    trace_on: bool = True
    default_topic_queue_nums: int = 8  # of TBW102
    enable_mixed_message_type: bool = False  # of topics' attribute message.type
    broker_permission: int = 6  # bits of Perm
    enable_shutdown_gracefully: bool = False  # a stop sends clients away, and waits for that
    shutdown_wait_time_seconds: float = 30.0
    authentication_enabled: bool = False
    authentication_whitelist: frozenset[int] = frozenset()  # request codes that need no user
    users: tuple[User, ...] = ()
    flush_delay_offset_interval: int = 10_000  # ms
    timer_wheel_enable: bool = True
    timer_max_delay_sec: int = 3 * 86_400
    recall_message_enable: bool = False
    reject_transaction_message: bool = False
    transaction_time_out: int = 6000  # ms: a younger half is not checked back
    transaction_check_interval: int = 30_000  # ms
    transaction_check_max: int = 15
    transaction_op_batch_interval: int = 3000  # ms
    transaction_op_msg_max_size: int = 4096  # bytes
    revive_queue_num: int = 8  # of the revive topic
    revive_interval: int = 1_000  # ms
    pop_from_retry_probability: int = 20  # percent of pops that look at the retry topic first
    pop_polling_size: int = 1024  # pops that may be held for a topic, group and queue
    enable_retry_topic_v2: bool = False
    retrieve_message_from_pop_retry_topic_v1: bool = True  # where version 2 is enabled
    pop_response_return_actual_retry_topic: bool = False
    enable_property_filter: bool = False  # SQL92
    use_server_side_reset_offset: bool = True
    rebalance_lock_max_live_time_ms: int = 60_000  # system property ...lockMaxLiveTime
    limits: Limits = field(default_factory=Limits)


def registered_topics(topics: Iterable[TopicConfig], config: BrokerConfig) -> Iterator[TopicConfig]:
    """The topics as a broker registers them: where it may not be both read and written, with no
    more permissions than it has itself (BrokerController.registerBrokerAll, 5.3.3)."""
    if config.broker_permission & (Perm.READ | Perm.WRITE) == Perm.READ | Perm.WRITE:
        return iter(topics)
    return (replace(topic, perm=topic.perm & config.broker_permission) for topic in topics)


@dataclass(slots=True)
class MetadataState:
    """The tables of one broker; each is a file under config/ too."""

    topic_config_table: dict[Topic, TopicConfig] = field(default_factory=dict)
    topic_data_version: DataVersion = DataVersion()
    subscription_group_table: dict[Group, SubscriptionGroupConfig] = field(default_factory=dict)
    group_data_version: DataVersion = DataVersion()
    forbidden_table: dict[Group, Mapping[Topic, int]] = field(default_factory=dict)
    """Of what a group may not do with a topic, the bits of Perm."""


# Topics that a client may not send to (TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET).
NOT_ALLOWED_SEND: Final = frozenset(
    {
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    }
)

_SYSTEM_PREFIX = "rmq_sys_"
_SYSTEM_TOPICS = NOT_ALLOWED_SEND | {
    AUTO_CREATE_TOPIC,
    "RMQ_SYS_TRACE_TOPIC",
    "BenchmarkTest",
    "CHECKPOINT_TOPIC",
}


def system_topics(config: BrokerConfig) -> tuple[TopicConfig, ...]:
    """The topics that a broker has from its first start on (TopicConfigManager.init)."""
    template_perm = Perm.READ | Perm.WRITE | Perm.INHERIT
    cluster, broker = config.cluster_name, config.broker_name
    queues = config.default_topic_queue_nums
    template = TopicConfig(AUTO_CREATE_TOPIC, queues, queues, template_perm)
    return (
        *((template,) if config.auto_create_topic_enable else ()),
        TopicConfig("SELF_TEST_TOPIC", 1, 1),
        TopicConfig("BenchmarkTest", 1024, 1024),
        TopicConfig(cluster, 16, 16, template_perm),
        TopicConfig(broker, 1, 1, template_perm),
        TopicConfig("OFFSET_MOVED_EVENT", 1, 1),
        TopicConfig("SCHEDULE_TOPIC_XXXX", 18, 18),
        TopicConfig("rmq_sys_wheel_timer", 1, 1),
        TopicConfig("RMQ_SYS_TRANS_HALF_TOPIC", 1, 1),
        TopicConfig("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 1),
        TopicConfig(f"{_SYSTEM_PREFIX}SYNC_BROKER_MEMBER_{broker}", 1, 1, Perm.INHERIT),
        TopicConfig(f"{cluster}_REPLY_TOPIC", 1, 1),
        TopicConfig(revive_topic(cluster), config.revive_queue_num, config.revive_queue_num),
    )


_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

SYSTEM_GROUPS: Final = (
    *("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY"),
    *("CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"),
)
"""The groups that a broker has from its first start on (SubscriptionGroupManager.init)."""

_OFTEN_PULL = {*SYSTEM_GROUPS, "DEFAULT_CONSUMER", "SCHEDULE_CONSUMER", "__MONITOR_CONSUMER"}


def may_always_pull(group: Group) -> bool:
    """Whether consumers that pull are never rejected in a group, since it is the system's or a
    tool's (MixAll.isSysConsumerGroupPullMessage, 5.3.3)."""
    return group in _OFTEN_PULL or group.startswith(_SYSTEM_GROUP_PREFIX)


@lru_cache(maxsize=64)
def system_topic_names(config: BrokerConfig) -> frozenset[Topic]:
    """Of the topics that a broker has from its first start on, and of those that it will."""
    return _SYSTEM_TOPICS | {topic.topic_name for topic in system_topics(config)}


def is_system_topic(config: BrokerConfig, topic: Topic) -> bool:
    """Whether the name is the system's: nobody may create or delete it."""
    return topic.startswith(_SYSTEM_PREFIX) or topic in system_topic_names(config)


def unused_topics(
    state: MetadataState, config: BrokerConfig, topics: Iterable[Topic]
) -> list[Topic]:
    """Of some topics those that the broker does not have, and that are not the system's."""
    table = state.topic_config_table
    return [each for each in topics if each not in table and not is_system_topic(config, each)]


def check_topic_name(topic: Topic) -> Refusal | None:
    """What is wrong with a topic's name; None: nothing."""
    if _IS_TOPIC_NAME(topic):
        return None
    if blank := _check_not_blank(topic):
        return blank
    if _NOT_IN_NAMES.search(topic):
        remark = "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"
    else:
        remark = "The specified topic is longer than topic max length."
    return Refusal(ResponseCode.INVALID_PARAMETER, remark)


def contains_subscription_group(state: MetadataState, group: Group | None) -> bool:
    """Whether there is the group; a blank one is said not to be, also where it was created."""
    return bool(group and group.strip()) and group in state.subscription_group_table


def is_group_name(group: Group) -> bool:
    """Whether a group of this name may be created by use: also of none at all."""
    return len(group) <= GROUP_CHARS_MAX and not _NOT_IN_NAMES.search(group)


def update_topic(
    state: MetadataState, config: BrokerConfig, topic: TopicConfig, now_ms: int
) -> Step:
    """An administrator creates a topic, or changes it; its attributes say what to alter
    (`mqspec.core.attributes`). Result: a Refusal or None.

    The permissions are taken as they come, and what changes nothing gives no new version.
    """
    return update_topic_list(state, config, (topic,), now_ms)


def update_topic_list(
    state: MetadataState, config: BrokerConfig, topics: Sequence[TopicConfig], now_ms: int
) -> Step:
    """The same of several topics. Where one may not be, nothing is done; nor where one is as it
    was already, though that is no error (ADMIN-036). Result: a Refusal or None."""
    for topic in topics:
        if refusal := _check_update(config, topic):
            return Step(result=refusal)
        if topic == state.topic_config_table.get(topic.topic_name):
            return Step()
    return _alter_all(state, _TOPICS, topics, now_ms)


def _check_update(config: BrokerConfig, topic: TopicConfig) -> Refusal | None:
    refusal = check_topic_name(topic.topic_name) or _check_not_system(config, topic.topic_name)
    if refusal:
        return refusal
    if topic.attributes.get("+message.type") == "MIXED" and not config.enable_mixed_message_type:
        return Refusal(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
    return None


def delete_topic(state: MetadataState, config: BrokerConfig, topic: Topic, now_ms: int) -> Step:
    """An administrator deletes a topic. Result: a Refusal or None, also for an unknown topic,
    whatever its name."""
    refusal = _check_not_blank(topic) or _check_not_system(config, topic)
    if refusal or topic not in state.topic_config_table:
        return Step(result=refusal)
    version = state.topic_data_version.next(now_ms)
    return Step(
        (
            Change("topic_config_table", topic, REMOVED),
            Change("topic_data_version", None, version),
        )
    )


def create_topic_in_send(
    state: MetadataState,
    config: BrokerConfig,
    topic: Topic,
    default_topic: Topic,
    queue_nums: int,
    now_ms: int,
    *,
    unit_mode: bool = False,
) -> Step:
    """A send finds no topic. Result: the TopicConfig that it gets, or None.

    It is made after its template, with no more queues than that and than the producer asks
    for. A retry topic needs no template. Where topics are not created by use, TBW102 is no
    template any more from the first send that names it (seen on 5.3.3).
    """
    is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
    flag = _sys_flag(unit_mode, is_retry)
    template = state.topic_config_table.get(default_topic)
    spoilt: tuple[Change, ...] = ()
    if template and default_topic == AUTO_CREATE_TOPIC and not config.auto_create_topic_enable:
        before, template = template, replace(template, perm=Perm.READ | Perm.WRITE)
        if template != before:  # without a new version
            spoilt = (Change("topic_config_table", default_topic, template),)
    if template and template.perm & Perm.INHERIT:
        queues = max(0, min(queue_nums, template.write_queue_nums))
        perm, filter_type = template.perm & ~Perm.INHERIT, template.topic_filter_type
        made = TopicConfig(topic, queues, queues, perm, filter_type, flag)
    elif is_retry:
        made = TopicConfig(topic, 1, 1, topic_sys_flag=flag)
    else:
        return Step(spoilt)
    return Step((*spoilt, *_put_topic(state, made, now_ms)), result=made)


def create_retry_topic(
    state: MetadataState,
    group: SubscriptionGroupConfig,
    now_ms: int,
    *,
    subscribed: Iterable[Topic] = (),
    unit_mode: bool = False,
) -> Step:
    """A consumer's heartbeat makes its group's retry topic, if it is not there. The topic is
    ordered where one is that the heartbeat subscribes (ADMIN-031)."""
    known = state.topic_config_table
    return create_topic_in_send_message_back(
        state,
        RETRY_TOPIC_PREFIX + group.group_name,
        group.retry_queue_nums,
        now_ms,
        is_order=any(topic in known and known[topic].order for topic in subscribed),
        unit_mode=unit_mode,
    )


def create_topic_in_send_message_back(
    state: MetadataState,
    topic: Topic,
    queue_nums: int,
    now_ms: int,
    *,
    is_order: bool = False,
    unit_mode: bool = False,
) -> Step:
    """A topic for what is tried again or given up is needed. Result: its TopicConfig, made if it
    was not there, and ordered or not as who needs it now says."""
    if found := state.topic_config_table.get(topic):
        if found.order == is_order:
            return Step(result=found)
        made = replace(found, order=is_order)
    else:
        flag = _sys_flag(unit_mode, is_retry=True)
        made = TopicConfig(topic, queue_nums, queue_nums, topic_sys_flag=flag, order=is_order)
    return Step(_put_topic(state, made, now_ms), result=made)


def _sys_flag(unit_mode: bool, is_retry: bool) -> int:
    if not unit_mode:
        return 0
    return int(TopicSysFlag.UNIT_SUB if is_retry else TopicSysFlag.UNIT)


def find_subscription_group(
    state: MetadataState, config: BrokerConfig, group: Group, now_ms: int
) -> Step:
    """Somebody uses a group. Result: its SubscriptionGroupConfig, made where that is allowed
    and there was none; or None."""
    found = state.subscription_group_table.get(group)
    may_be_made = config.auto_create_subscription_group or group.startswith(_SYSTEM_GROUP_PREFIX)
    if found or not may_be_made or not is_group_name(group):
        return Step(result=found)
    made = SubscriptionGroupConfig(group)
    return Step(_put_group(state, made, now_ms), result=made)


def update_subscription_group(
    state: MetadataState, group: SubscriptionGroupConfig, now_ms: int
) -> Step:
    """An administrator creates a group, or changes it; its attributes say what to alter. Any
    name will do (ADMIN-033). Result: a Refusal or None."""
    return update_subscription_group_list(state, (group,), now_ms)


def update_subscription_group_list(
    state: MetadataState, groups: Iterable[SubscriptionGroupConfig], now_ms: int
) -> Step:
    """The same of several groups, up to the first that may not be. Result: a Refusal or None."""
    return _alter_all(state, _GROUPS, groups, now_ms)


class _Table(NamedTuple):
    """What a table of the state is made of, by names."""

    entries: str
    version: str
    key: str  # of an entry
    attributes: Mapping[str, Attribute]


_TOPICS: Final = _Table("topic_config_table", "topic_data_version", "topic_name", TOPIC_ATTRIBUTES)
_GROUPS: Final = _Table(
    "subscription_group_table", "group_data_version", "group_name", GROUP_ATTRIBUTES
)


def _alter_all(
    state: MetadataState,
    which: _Table,
    wanted: Iterable[TopicConfig] | Iterable[SubscriptionGroupConfig],
    now_ms: int,
) -> Step:
    table, version = getattr(state, which.entries), getattr(state, which.version)
    made: dict[str, Any] = {}
    changes: list[Change] = []
    refusal = None
    for one in wanted:
        key = getattr(one, which.key)
        old = made.get(key) or table.get(key)
        attributes = alter(which.attributes, old.attributes if old else None, one.attributes)
        if isinstance(attributes, Refusal):  # those before it are made
            refusal = attributes
            break
        made[key] = replace(one, attributes=attributes)
        version = version.next(now_ms)
        changes.append(Change(which.entries, key, made[key]))
    if changes:
        changes.append(Change(which.version, None, version))
    return Step(tuple(changes), result=refusal)


def delete_subscription_group(state: MetadataState, group: Group, now_ms: int) -> Step:
    """An administrator deletes a group, and what it may not read. Its topics and its members
    stay."""
    tables = ("subscription_group_table", "forbidden_table")
    gone = [Change(table, group, REMOVED) for table in tables if group in getattr(state, table)]
    if not gone:
        return Step()
    version = state.group_data_version.next(now_ms)
    return Step((*gone, Change("group_data_version", None, version)))


def known_topic(state: MetadataState, name: Topic) -> TopicConfig | Answer:
    """A topic whose progress is asked for, or the answer where there is none (202, 303)."""
    topic = state.topic_config_table.get(name)
    return topic or Answer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")


def shown_topic(state: MetadataState, name: Topic) -> TopicConfig | Answer:
    """A topic that is to be shown, or the answer where there is none (351)."""
    topic = state.topic_config_table.get(name)
    remark = f"No topic in this broker. topic: {name}"
    return topic or Answer(ResponseCode.TOPIC_NOT_EXIST, remark)


NO_GROUP: Final = Answer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
"""The answer to request 352 where there is no such group, and use creates none."""

TOPICS_CHANGED: Final = Answer(remark=NOT_SET)
"""The answer to the requests 17 and 26 where topics were created or changed."""

FORBIDDEN_SHOWN: Final = Answer(remark="")
"""The answer to request 353, beside its body: its remark is empty, not absent."""


def is_read_forbidden(state: MetadataState, group: Group, topic: Topic) -> bool:
    """Whether an administrator keeps a group from reading a topic."""
    return bool(state.forbidden_table.get(group, {}).get(topic, 0) & Perm.READ)


def forbid_read(state: MetadataState, group: Group, topic: Topic, now_ms: int) -> Step:
    """A group is kept from reading a topic: also one that is not there, and a topic neither."""
    forbidden = state.forbidden_table.get(group, {})
    return Step(_put_forbidden(state, group, {**forbidden, topic: int(Perm.READ)}, now_ms))


def allow_read(state: MetadataState, group: Group, topic: Topic, now_ms: int) -> Step:
    """A group may read a topic again. 5.3.3 lets it read all topics then, and forgets to write
    that down (AllowsOthers)."""
    if not is_read_forbidden(state, group, topic):
        return Step()
    forbidden = state.forbidden_table[group]
    left = {other: bits for other, bits in forbidden.items() if other != topic}
    return Step(_put_forbidden(state, group, left or REMOVED, now_ms))


def _put_forbidden(
    state: MetadataState, group: Group, forbidden: object, now_ms: int
) -> tuple[Change, ...]:
    return (
        Change("forbidden_table", group, forbidden),
        Change("group_data_version", None, state.group_data_version.next(now_ms)),
    )


def _check_not_blank(topic: Topic) -> Refusal | None:
    if topic.strip():
        return None
    return Refusal(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")


def _check_not_system(config: BrokerConfig, topic: Topic) -> Refusal | None:
    if not is_system_topic(config, topic):
        return None
    remark = f"The topic[{topic}] is conflict with system topic."
    return Refusal(ResponseCode.INVALID_PARAMETER, remark)


def _put_topic(state: MetadataState, topic: TopicConfig, now_ms: int) -> tuple[Change, ...]:
    return (
        Change("topic_config_table", topic.topic_name, topic),
        Change("topic_data_version", None, state.topic_data_version.next(now_ms)),
    )


def _put_group(
    state: MetadataState, group: SubscriptionGroupConfig, now_ms: int
) -> tuple[Change, ...]:
    return (
        Change("subscription_group_table", group.group_name, group),
        Change("group_data_version", None, state.group_data_version.next(now_ms)),
    )


def may_notify(state: MetadataState, config: BrokerConfig, group: Group, *, is_asked: bool) -> bool:
    """Whether members of a group are told that it changed. What the group itself says counts
    where a member asked for the change, and not where a connection was lost (GROUP-062)."""
    known = state.subscription_group_table.get(group)
    if is_asked and known and not known.notify_consumer_ids_changed_enable:
        return False
    return config.notify_consumer_ids_changed_enable


def with_system_topics(state: MetadataState, config: BrokerConfig, now_ms: int) -> Step:
    """A broker starts: the topics and groups of the system are there. Result: whether a topic
    was missing."""
    groups = [
        Change("subscription_group_table", name, SubscriptionGroupConfig(name))
        for name in SYSTEM_GROUPS
        if name not in state.subscription_group_table
    ]
    known = state.topic_config_table
    topics = [
        Change("topic_config_table", topic.topic_name, topic)
        for topic in system_topics(config)
        if topic.topic_name not in known
    ]
    version = Change("topic_data_version", None, state.topic_data_version.next(now_ms))
    return Step((*groups, *((version, *topics) if topics else ())), result=bool(topics))
