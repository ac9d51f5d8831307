"""Peers that are no broker but answer as a test wants, for what the reference never does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mqspec.core.metadata import Perm
from mqspec.core.route import BrokerData, QueueData, TopicRouteData
from mqspec.transport import Connection, Handler, Server, serve
from mqspec.wire.bodies import to_body
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode


@asynccontextmanager
async def scripted(handler: Handler, queues: int = 1, brokers: str = "b") -> AsyncIterator[Server]:
    """A nameserver and brokers of one-letter names behind one address: every topic has `queues`
    on each, heartbeats are accepted, and `handler` answers all else."""

    def answer(connection: Connection, request: RemotingCommand) -> object:
        match request.code:
            case RequestCode.GET_BROKER_CLUSTER_INFO | RequestCode.HEART_BEAT:
                return request.response()
            case RequestCode.UNREGISTER_CLIENT:
                return request.response()
            case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                address = f"127.0.0.1:{server.port}"
                route = TopicRouteData(
                    tuple(QueueData(b, queues, queues, Perm.READ | Perm.WRITE) for b in brokers),
                    tuple(BrokerData("C", b, {0: address}) for b in brokers),
                )
                return request.response(body=to_body(route, standard=True))
            case _:
                return handler(connection, request)

    server = await serve("127.0.0.1", 0, answer)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        await server.close()
