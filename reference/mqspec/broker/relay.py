"""What an administrator asks a consumer, through its broker: 307 and 309
(AdminBrokerProcessor.callConsumer, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mqspec.core.metadata import find_subscription_group
from mqspec.core.record import position_of
from mqspec.core.response import ResponseCode
from mqspec.service import Served, clock_ms
from mqspec.transport import Connection, ConnectionLostError, RequestTimeoutError
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

TIMEOUT_MS: Final = 10_000
VERSION_MIN: Final = 83  # MQVersion.V3_1_8_SNAPSHOT: older consumers do not know the requests


def get_consumer_running_info(broker: Broker, _: Connection, request: RemotingCommand) -> Served:
    """307."""
    return _call_consumer(broker, request, b"")


def consume_message_directly(broker: Broker, _: Connection, request: RemotingCommand) -> Served:
    """309. The broker adds the message that the request names by its id, and the flags of topic
    and group; who names the group is a use of it."""
    try:
        position = position_of(text(request, "msgId"))
    except ValueError as error:
        raise HeaderError(str(error)) from None
    record = broker.store.record_at(position)
    named = {**request.ext_fields, "brokerName": broker.config.broker_name}
    if topic := broker.metadata.topic_config_table.get(named.get("topic", "")):
        named["topicSysFlag"] = str(topic.topic_sys_flag)
    if name := text(request, "consumerGroup"):
        step = find_subscription_group(broker.metadata, broker.config, name, clock_ms())
        if group := broker.carry_metadata(step).result:
            named["groupSysFlag"] = str(group.group_sys_flag)
    if not record:
        raise HeaderError("no message is where the msgId says")
    return _call_consumer(broker, replace(request, ext_fields=named), record)


def _call_consumer(broker: Broker, request: RemotingCommand, body: bytes) -> Served:
    group, client_id = text(request, "consumerGroup"), request.ext_fields.get("clientId")
    info = broker.groups.consumer_table.get(group)
    for channel, member in info.channel_info_table.items() if info else ():
        if member.client_id == client_id:
            if member.version < VERSION_MIN:
                remark = (
                    f"The Consumer <{client_id}> Version <{member.version}> too low to finish, "
                    "please upgrade it to V3_1_8_SNAPSHOT"
                )
                return request.response(ResponseCode.SYSTEM_ERROR, remark)
            assert isinstance(channel, Connection)
            return _relayed(channel, request, body)
    remark = f"The Consumer <{group}> <{client_id}> not online"
    return request.response(ResponseCode.SYSTEM_ERROR, remark)


async def _relayed(channel: Connection, request: RemotingCommand, body: bytes) -> RemotingCommand:
    try:
        answer = await channel.request(
            RemotingCommand(request.code, request.ext_fields, body), TIMEOUT_MS
        )
    except (RequestTimeoutError, ConnectionLostError) as error:
        group, client_id = request.ext_fields["consumerGroup"], request.ext_fields.get("clientId")
        remark = f"consumer <{group}> <{client_id}> Timeout: {error}"
        return request.response(ResponseCode.CONSUME_MSG_TIMEOUT, remark)
    return request.response(answer.code, answer.remark, answer.ext_fields, answer.body)
