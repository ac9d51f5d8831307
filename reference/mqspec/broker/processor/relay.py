"""What an administrator asks consumers, through their broker: 223, 307 and 309
(AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus, 5.3.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mqspec.broker.carrying import carry
from mqspec.core.group import Channel, ClientChannelInfo
from mqspec.core.metadata import find_subscription_group
from mqspec.core.record import position_of
from mqspec.core.response import NOT_SET, ResponseCode
from mqspec.core.types import ClientId
from mqspec.service import Served, clock_ms
from mqspec.transport import Connection, ConnectionLostError, RequestTimeoutError
from mqspec.wire.bodies import BodyError, dumps, loads
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.headers import HeaderError, text

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

TIMEOUT_MS: Final = 10_000
STATUS_TIMEOUT_MS: Final = 5_000  # of each consumer
_NAMED: Final = {"topic", "group"}  # what each of them is asked about

# MQVersion.java, up to the first versions of consumers that know the requests
_VERSIONS: Final = (
    *(f"V3_0_0_{name}" for name in ("SNAPSHOT", "ALPHA1")),
    *(f"V3_0_0_BETA{n}" for n in range(1, 6)),
    *(f"V3_0_0_BETA{n}{end}" for n in range(6, 10) for end in ("_SNAPSHOT", "")),
    "V3_0_0_FINAL",
    *(f"V3_0_{n}{end}" for n in range(1, 16) for end in ("_SNAPSHOT", "")),
    *(f"V3_1_{n}{end}" for n in range(8) for end in ("_SNAPSHOT", "")),
)
_STATUS_VERSION_MIN: Final = _VERSIONS.index("V3_0_7_SNAPSHOT")
_VERSION_MIN: Final = len(_VERSIONS)  # V3_1_8_SNAPSHOT


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
        if group := carry(broker, "metadata", step).result:
            named["groupSysFlag"] = str(group.group_sys_flag)
    if not record:
        raise HeaderError("no message is where the msgId says")
    return _call_consumer(broker, replace(request, ext_fields=named), record)


def _call_consumer(broker: Broker, request: RemotingCommand, body: bytes) -> Served:
    group, client_id = text(request, "consumerGroup"), request.ext_fields.get("clientId")
    info = broker.groups.consumer_table.get(group)
    for channel, member in info.channel_info_table.items() if info else ():
        if member.client_id == client_id:
            if member.version < _VERSION_MIN:
                version = _VERSIONS[max(member.version, 0)]
                remark = (
                    f"The Consumer <{client_id}> Version <{version}> too low to finish, "
                    "please upgrade it to V3_1_8_SNAPSHOT"
                )
                return request.response(ResponseCode.SYSTEM_ERROR, remark)
            assert isinstance(channel, Connection)
            return _relayed(channel, request, body)
    remark = f"The Consumer <{group}> <{client_id}> not online"
    return request.response(ResponseCode.SYSTEM_ERROR, remark)


def get_consumer_status(
    broker: Broker, _: Connection, request: RemotingCommand
) -> Awaitable[RemotingCommand]:
    """223. How far the members of a group are in a topic, or the one of a client id; who does not
    answer is left out."""
    group = text(request, "group")
    client_id = request.ext_fields.get("clientAddr", "").strip()
    info = broker.groups.consumer_table.get(group)
    if info is None:
        raise HeaderError(f"the group {group:.80} has no member")
    return _get_consumer_status(request, info.channel_info_table, client_id)


async def _get_consumer_status(
    request: RemotingCommand,
    members: Mapping[Channel, ClientChannelInfo],
    client_id: ClientId,
) -> RemotingCommand:
    named = {name: request.ext_fields[name] for name in _NAMED & request.ext_fields.keys()}
    table = {}
    for channel, member in tuple(members.items()):
        if member.version < _STATUS_VERSION_MIN:
            version = _VERSIONS[max(member.version, 0)]
            remark = f"the client does not support this feature. version={version}"
            return request.response(ResponseCode.SYSTEM_ERROR, remark)
        if client_id in ("", member.client_id):
            assert isinstance(channel, Connection)
            asked = RemotingCommand(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, named)
            with suppress(RequestTimeoutError, ConnectionLostError, BodyError):
                answer = await channel.request(asked, STATUS_TIMEOUT_MS)
                said = loads(answer.body) if answer.code == ResponseCode.SUCCESS else None
                if isinstance(said, Mapping):
                    table[str(member.client_id)] = said.get("messageQueueTable", {})
            if client_id:
                break
    body = {"consumerTable": table, "messageQueueTable": {}}
    return request.response(remark=NOT_SET, body=dumps(body))


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
