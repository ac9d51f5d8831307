"""Topics and groups as an administrator sees them: 17, 21, 200, 351 and 352
(AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mqspec.core.metadata import (
    DataVersion,
    SubscriptionGroupConfig,
    TopicConfig,
    find_subscription_group,
    update_subscription_group,
    update_topic,
)
from mqspec.core.response import ResponseCode
from mqspec.service import clock_ms, refused
from mqspec.transport import Connection
from mqspec.wire.bodies import BodyError, dumps, from_body, to_body, to_plain
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import boolean, integer, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

NOT_SET: Final = "not set any response code"  # what the real one says where it was created


def update_and_create_topic(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """17. Attributes are not kept."""
    topic = TopicConfig(
        text(request, "topic"),
        integer(request, "readQueueNums"),
        integer(request, "writeQueueNums"),
        integer(request, "perm"),
        request.ext_fields.get("topicFilterType", "SINGLE_TAG"),
        integer(request, "topicSysFlag", 0),
        boolean(request, "order"),
    )
    refusal = broker.carry_metadata(update_topic(broker.metadata, topic, clock_ms())).result
    return refused(request, refusal) if refusal else request.response(remark=NOT_SET)


def get_all_topic_config(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """21."""
    state = broker.metadata
    body = {
        "dataVersion": to_plain(state.topic_data_version),
        "mappingDataVersion": to_plain(DataVersion()),
        "topicConfigTable": to_plain(state.topic_config_table),
    }
    return request.response(body=dumps(body))


def get_topic_config(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """351."""
    name = text(request, "topic")
    topic = broker.metadata.topic_config_table.get(name)
    if topic is None:
        remark = f"No topic in this broker. topic: {name}"
        return request.response(ResponseCode.TOPIC_NOT_EXIST, remark)
    return request.response(body=to_body(topic))


def update_and_create_subscription_group(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """200."""
    if not request.body:
        raise BodyError("the group has no body")
    group = from_body(SubscriptionGroupConfig, request.body)
    broker.carry_metadata(update_subscription_group(broker.metadata, group, clock_ms()))
    return request.response()


def get_subscription_group_config(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """352. To ask for a group creates it, where use does."""
    step = find_subscription_group(
        broker.metadata, broker.config, text(request, "group"), clock_ms()
    )
    group = broker.carry_metadata(step).result
    if group is None:
        remark = "No group in this broker"
        return request.response(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    return request.response(body=to_body(group))
