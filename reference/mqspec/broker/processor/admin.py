"""Topics and groups as an administrator sees them: 17, 18, 21, 200, 201, 207, 215, 225, 305 and 351
to 353 (AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from mqspec.broker.carrying import carry
from mqspec.core.attributes import parse_alterations
from mqspec.core.extra_info import pop_retry_topic
from mqspec.core.metadata import (
    FORBIDDEN_SHOWN,
    NO_GROUP,
    TOPIC_FILTER_TYPES,
    TOPICS_CHANGED,
    DataVersion,
    SubscriptionGroupConfig,
    TopicConfig,
    allow_read,
    delete_subscription_group,
    delete_topic,
    find_subscription_group,
    forbid_read,
    is_read_forbidden,
    shown_topic,
    system_topic_names,
    update_subscription_group,
    update_subscription_group_list,
    update_topic,
    update_topic_list,
)
from mqspec.core.offset_commit import clean_offset, clean_offset_by_topic, which_group_by_topic
from mqspec.core.response import Answer, Refusal
from mqspec.core.step import Step
from mqspec.core.types import Topic
from mqspec.service import Served, answered, clock_ms, refused
from mqspec.transport import Connection
from mqspec.wire.bodies import BodyError, dumps, from_body, from_plain, loads, to_body, to_plain
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError, boolean, integer, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

T = TypeVar("T")


def update_and_create_topic(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> Served:
    """17."""
    alterations = parse_alterations(request.ext_fields.get("attributes", ""))
    if isinstance(alterations, Refusal):
        return refused(request, alterations)
    filter_type = text(request, "topicFilterType")
    if filter_type not in TOPIC_FILTER_TYPES:
        raise HeaderError(f"the field topicFilterType is {filter_type!r:.40}")
    topic = TopicConfig(
        text(request, "topic"),
        integer(request, "readQueueNums"),
        integer(request, "writeQueueNums"),
        integer(request, "perm"),
        filter_type,
        integer(request, "topicSysFlag", 0),
        boolean(request, "order"),
        alterations,
    )
    step = update_topic(broker.metadata, broker.config, topic, clock_ms())
    return _once_registered(broker, connection, request, step)


def update_and_create_topic_list(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> Served:
    """18."""
    topics = _list(request, "topicConfigList", TopicConfig)
    step = update_topic_list(broker.metadata, broker.config, topics, clock_ms())
    return _once_registered(broker, connection, request, step)


def _list(request: RemotingCommand, name: str, cls: type[T]) -> list[T]:
    body = loads(request.body) if request.body else {}
    entries = body.get(name) if isinstance(body, Mapping) else None
    if not isinstance(entries, list):
        raise BodyError(f"the body has no {name}")
    return [from_plain(cls, entry) for entry in entries]


def _once_registered(
    broker: Broker, connection: Connection, request: RemotingCommand, step: Step
) -> Served:
    refusal = carry(broker, "metadata", step).result
    answer = answered(request, refusal or TOPICS_CHANGED)
    return broker.registrar.once_registered(bool(step.changes), connection, request, answer)


def delete_topic_in_broker(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """215. With the topic go its queues, and the offsets that groups have of it (ADMIN-004), and
    so do the retry topics of those who popped it (ADMIN-032); its messages stay in the log. An
    unknown topic is deleted too, so to speak."""
    topic = request.ext_fields.get("topic", "")
    groups = which_group_by_topic(broker.offsets, topic)
    refusal = _delete_topic(broker, topic)
    if refusal:
        return refused(request, refusal)
    for group in groups:
        for retry_topic in (pop_retry_topic(topic, group, v2) for v2 in (True, False)):
            if retry_topic in broker.metadata.topic_config_table:
                _delete_topic(broker, retry_topic)
    return request.response()


def _delete_topic(broker: Broker, topic: Topic) -> Refusal | None:
    step = delete_topic(broker.metadata, broker.config, topic, clock_ms())
    refusal: Refusal | None = carry(broker, "metadata", step).result
    if refusal is None:
        broker.store.delete_topic(topic)
        carry(broker, "offsets", clean_offset_by_topic(broker.offsets, topic))
        broker.stats.forget_topic(topic)
    return refusal


def get_system_topic_list_from_broker(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """305."""
    topics = system_topic_names(broker.config)
    return request.response(body=dumps({"topicList": sorted(topics)}))


def get_all_topic_config(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """21."""
    state = broker.metadata
    body = {
        "dataVersion": to_plain(state.topic_data_version),
        "mappingDataVersion": to_plain(DataVersion()),
        "topicConfigTable": to_plain(state.topic_config_table),
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": {},
    }
    return request.response(body=dumps(body))


def get_topic_config(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """351."""
    name = text(request, "topic")
    topic = shown_topic(broker.metadata, name)
    if isinstance(topic, Answer):
        return answered(request, topic)
    return request.response(body=to_body(topic))


def update_and_create_subscription_group(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """200."""
    if not request.body:
        raise BodyError("the group has no body")
    group = from_body(SubscriptionGroupConfig, request.body)
    step = update_subscription_group(broker.metadata, group, clock_ms())
    return _groups_changed(broker, request, step)


def _groups_changed(broker: Broker, request: RemotingCommand, step: Step) -> RemotingCommand:
    refusal = carry(broker, "metadata", step).result
    return refused(request, refusal) if refusal else request.response()


def update_and_create_subscription_group_list(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """225."""
    groups = _list(request, "groupConfigList", SubscriptionGroupConfig)
    step = update_subscription_group_list(broker.metadata, groups, clock_ms())
    return _groups_changed(broker, request, step)


def update_and_get_group_forbidden(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """353. Without a word whether the group may read the topic, it is only asked."""
    group, topic = text(request, "group"), request.ext_fields.get("topic", "")
    if boolean(request, "readable"):
        carry(broker, "metadata", allow_read(broker.metadata, group, topic, clock_ms()))
    elif "readable" in request.ext_fields:
        forbidden = forbid_read(broker.metadata, group, text(request, "topic"), clock_ms())
        carry(broker, "metadata", forbidden)
    is_readable = not is_read_forbidden(broker.metadata, group, topic)
    body = {"group": group, "readable": is_readable, "topic": topic or None}
    return answered(request, FORBIDDEN_SHOWN, dumps(body))


def get_all_subscription_group_config(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """201."""
    state = broker.metadata
    body = {
        "dataVersion": to_plain(state.group_data_version),
        "forbiddenTable": to_plain(state.forbidden_table),
        "subscriptionGroupTable": to_plain(state.subscription_group_table),
    }
    return request.response(body=dumps(body))


def delete_subscription_group_in_broker(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """207. Its members and its topics stay; its offsets go on request only (ADMIN-009)."""
    group = text(request, "groupName")
    carry(broker, "metadata", delete_subscription_group(broker.metadata, group, clock_ms()))
    if boolean(request, "cleanOffset"):
        carry(broker, "offsets", clean_offset(broker.offsets, group))
    broker.stats.forget_group(group)
    return request.response()


def get_subscription_group_config(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """352. To ask for a group creates it, where use does."""
    step = find_subscription_group(
        broker.metadata, broker.config, text(request, "group"), clock_ms()
    )
    group = carry(broker, "metadata", step).result
    if group is None:
        return answered(request, NO_GROUP)
    return request.response(body=to_body(group))
