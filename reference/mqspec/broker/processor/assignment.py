"""Assignment by the broker: 400, 401 and 402 (QueryAssignmentProcessor.java, 5.3.3)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeVar

from mqspec.broker.carrying import carry
from mqspec.core import group
from mqspec.core.assignment import (
    QueryAssignment,
    SetMessageRequestMode,
    check_request_mode,
    do_load_balance,
    message_request_mode,
    set_message_request_mode,
)
from mqspec.core.push_consumer import subscribe_queues
from mqspec.service import clock_ms, refused
from mqspec.transport import Connection
from mqspec.wire.bodies import BodyError, dumps, from_body, to_body, to_plain
from mqspec.wire.codec import RemotingCommand

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

T = TypeVar("T")


def query_assignment(
    broker: Broker, _: Connection, request: RemotingCommand
) -> Awaitable[RemotingCommand]:
    """400. The queues are those of all brokers, as the nameserver says; the members are those of
    this one. No answer to the question is an empty object, and code 0 (ASSIGN-003)."""
    return _query_assignment(broker, request, _body(QueryAssignment, request))


async def _query_assignment(
    broker: Broker, request: RemotingCommand, event: QueryAssignment
) -> RemotingCommand:
    route = await broker.registrar.topic_route(event.topic)
    found = do_load_balance(
        event,
        message_request_mode(broker.assignment, event.topic, event.consumer_group),
        subscribe_queues(event.topic, route) if route else None,
        group.consumer_id_list(broker.groups, event.consumer_group),
    )
    return request.response(body=dumps({"messageQueueAssignments": to_plain(found)}))


def set_request_mode(broker: Broker, _: Connection, request: RemotingCommand) -> RemotingCommand:
    """401."""
    event = _body(SetMessageRequestMode, request)
    step = check_request_mode(broker.metadata, broker.config, event, clock_ms())
    refusal = carry(broker, "metadata", step).result
    if refusal:
        return refused(request, refusal)
    carry(broker, "assignment", set_message_request_mode(broker.assignment, event))
    return request.response()


def get_all_message_request_mode(
    broker: Broker, _: Connection, request: RemotingCommand
) -> RemotingCommand:
    """402."""
    return request.response(body=to_body(broker.assignment))


def _body(cls: type[T], request: RemotingCommand) -> T:
    if not request.body:
        raise BodyError("the request has no body")
    return from_body(cls, request.body)
