"""Who is connected, and for what: 203, 204, 328 and 345 (AdminBrokerProcessor.java, 5.3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mqspec.core.group import (
    Channel,
    ClientChannelInfo,
    SubscriptionData,
    consumers_of,
    producers_of,
)
from mqspec.core.response import Answer
from mqspec.core.subscription import known_subscription
from mqspec.service import answered
from mqspec.transport import Connection
from mqspec.wire import bodies
from mqspec.wire.bodies import dumps, to_plain
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def get_consumer_connection_list(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """203."""
    group = text(request, "consumerGroup")
    info = consumers_of(broker.groups, group)
    if isinstance(info, Answer):
        return answered(request, info)
    body = {
        "connectionSet": _connections(info.channel_info_table),
        "subscriptionTable": {
            topic: subscription_body(wanted) for topic, wanted in info.subscription_table.items()
        },
        "consumeType": info.consume_type,
        "messageModel": info.message_model,
        "consumeFromWhere": info.consume_from_where,
    }
    return request.response(body=dumps(body))


def subscription_body(wanted: SubscriptionData) -> dict[str, Any]:
    """What a group wants of a topic, as it travels."""
    body = bodies.SubscriptionData(
        wanted.topic,
        wanted.sub_string,
        tuple(sorted(wanted.tags_set)),
        tuple(sorted(wanted.code_set)),
        wanted.sub_version,
        wanted.expression_type,
    )
    plain: dict[str, Any] = to_plain(body)
    return plain


def query_subscription_by_consumer(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """345. What nobody is known to want is left out, and no error."""
    group, topic = text(request, "group"), text(request, "topic")
    wanted = known_subscription(broker.groups, broker.brought, group, topic)
    body = {
        "group": group,
        "subscriptionData": subscription_body(wanted) if wanted else None,
        "topic": topic,
    }
    return request.response(body=dumps(body))


def get_producer_connection_list(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """204."""
    group = text(request, "producerGroup")
    channels = producers_of(broker.groups, group)
    if isinstance(channels, Answer):
        return answered(request, channels)
    return request.response(body=dumps({"connectionSet": _connections(channels)}))


def get_all_producer_info(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """328."""
    data = {
        group: [
            {
                "clientId": info.client_id,
                "remoteIP": f"/{_peer(channel)}",
                "language": info.language,
                "version": info.version,
                "lastUpdateTimestamp": info.last_update_ms,
            }
            for channel, info in channels.items()
        ]
        for group, channels in broker.groups.producer_table.items()
    }
    return request.response(body=dumps({"data": data}))


def _connections(channels: Mapping[Channel, ClientChannelInfo]) -> list[dict[str, Any]]:
    return [
        {
            "clientAddr": _peer(channel),
            "clientId": info.client_id,
            "language": info.language,
            "version": info.version,
        }
        for channel, info in channels.items()
    ]


def _peer(channel: Channel) -> str:
    assert isinstance(channel, Connection)
    return channel.peer
