"""Clients and their groups: 34, 35, 38 and 46 (ClientManageProcessor.java, 5.3.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mqspec.broker.carrying import carry, carry_departure, note_told
from mqspec.broker.conversing import served_once_registered
from mqspec.core import group, pull
from mqspec.core import heartbeat as core_heartbeat
from mqspec.core.group import SubscriptionData
from mqspec.core.heartbeat import Consumer, Heartbeat
from mqspec.core.metadata import find_subscription_group
from mqspec.core.response import Answer
from mqspec.core.subscription import TAG
from mqspec.service import Served, answered, clock_ms, refused
from mqspec.transport import Connection
from mqspec.wire import bodies
from mqspec.wire.bodies import BodyError, ConsumerData, HeartbeatData, dumps, from_body
from mqspec.wire.codec import Language, RemotingCommand
from mqspec.wire.headers import text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """What the body of request 46 holds, as far as it is looked at."""

    subscription_data: bodies.SubscriptionData | None = None


def heart_beat(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """34."""
    if not request.body:
        raise BodyError("the heartbeat has no body")
    heartbeat = from_body(HeartbeatData, request.body)
    now_ms = clock_ms()
    language = request.language or Language.OTHER
    info = group.ClientChannelInfo(heartbeat.client_id, language, request.version, now_ms)
    without_sub = heartbeat.without_sub and heartbeat.heartbeat_fingerprint != 0  # of version 2
    event = Heartbeat(
        info,
        connection,
        [
            Consumer(
                _register_consumer(data, connection, info, without_sub),
                tuple(each.topic for each in data.subscription_data_set),
                data.unit_mode,
            )
            for data in heartbeat.consumer_data_set
        ],
        [producer.group_name for producer in heartbeat.producer_data_set],
        heartbeat.heartbeat_fingerprint,
    )
    talk = core_heartbeat.heart_beat(broker, event, now_ms)
    return served_once_registered(broker, connection, request, talk)


def _register_consumer(
    data: ConsumerData,
    connection: Connection,
    info: group.ClientChannelInfo,
    without_sub: bool,
) -> group.RegisterConsumer:
    return group.RegisterConsumer(
        data.group_name,
        connection,
        info,
        None
        if without_sub
        else tuple(_subscription(each, info.last_update_ms) for each in data.subscription_data_set),
        data.consume_type,
        data.message_model,
        data.consume_from_where,
    )


def unregister_client(
    broker: Broker, connection: Connection, request: RemotingCommand
) -> RemotingCommand:
    """35. Who leaves is decided by the connection, not by the id (GROUP-007). A group that is not
    known comes to be thereby (ADMIN-022)."""
    if (consumer_group := request.ext_fields.get("consumerGroup")) is not None:
        now_ms = clock_ms()
        carry(
            broker,
            "metadata",
            find_subscription_group(broker.metadata, broker.config, consumer_group, now_ms),
        )
        step = group.unregister_consumer(broker.groups, consumer_group, connection)
        carry_departure(broker, step, is_asked=True)
    if (producer_group := request.ext_fields.get("producerGroup")) is not None:
        carry(
            broker, "groups", group.unregister_producer(broker.groups, producer_group, connection)
        )
    return request.response()


def get_consumer_list_by_group(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """38."""
    name = text(request, "consumerGroup")
    ids = core_heartbeat.consumer_list(broker, name)
    listed = () if isinstance(ids, Answer) else ids
    note_told(broker, "Group", "consumer_table", name, listed)
    if isinstance(ids, Answer):
        return answered(request, ids)
    return request.response(body=dumps({"consumerIdList": ids}))


def check_client_config(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """46. Whether the broker can filter as a client is going to ask (SUBS-009, SUBS-011)."""
    data = from_body(CheckedConfig, request.body).subscription_data if request.body else None
    refusal = data and pull.check_client_config(broker.config, _subscription(data, clock_ms()))
    return refused(request, refusal) if refusal else request.response()


def _subscription(data: bodies.SubscriptionData, now_ms: int) -> SubscriptionData:
    """One that does not say how new it is, is of now; one of a type without a name is by tags."""
    return SubscriptionData(
        data.topic,
        data.sub_string,
        frozenset(data.tags_set),
        frozenset(data.code_set),
        now_ms if data.sub_version is None else data.sub_version,
        data.expression_type or TAG,
    )
