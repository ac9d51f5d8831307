"""What an administrator asks consumers, through their broker: 223, 307 and 309
(AdminBrokerProcessor.callConsumer, Broker2Client.getConsumeStatus, 5.3.3)."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from mqspec.broker.carrying import carry
from mqspec.core import relay
from mqspec.core.group import Channel, ClientChannelInfo
from mqspec.core.metadata import find_subscription_group
from mqspec.core.record import position_of
from mqspec.core.response import Answer, is_success
from mqspec.core.types import ClientId
from mqspec.service import Served, answered, clock_ms, handed_on
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
    member = relay.find_member(broker.groups, group, client_id)
    if isinstance(member, Answer):
        return answered(request, member)
    assert isinstance(member, Connection)
    return _relayed(member, request, body)


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
        if unknown := relay.check_status_version(member.version):
            return answered(request, unknown)
        if client_id in ("", member.client_id):
            assert isinstance(channel, Connection)
            asked = RemotingCommand(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, named)
            with suppress(RequestTimeoutError, ConnectionLostError, BodyError):
                answer = await channel.request(asked, STATUS_TIMEOUT_MS)
                said = loads(answer.body) if is_success(answer.code) else None
                if isinstance(said, Mapping):
                    table[str(member.client_id)] = said.get("messageQueueTable", {})
            if client_id:
                break
    body = {"consumerTable": table, "messageQueueTable": {}}
    return answered(request, relay.STATUS_TOLD, dumps(body))


async def _relayed(channel: Connection, request: RemotingCommand, body: bytes) -> RemotingCommand:
    try:
        answer = await channel.request(
            RemotingCommand(request.code, request.ext_fields, body), TIMEOUT_MS
        )
    except (RequestTimeoutError, ConnectionLostError) as error:
        group, client_id = request.ext_fields["consumerGroup"], request.ext_fields.get("clientId")
        return answered(request, relay.timed_out(group, client_id, str(error)))
    return handed_on(request, answer)
