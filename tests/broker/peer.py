"""A client for tests: a cluster in this process, and requests to it over real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mqspec.cluster import Cluster, ClusterConfig
from mqspec.core.metadata import BrokerConfig
from mqspec.store.message_store import StoreConfig
from mqspec.transport import Connection, connect
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

DEADLINE_S = 5.0
SMALL = StoreConfig(
    segment_size=1 << 20, consume_queue_units=1000, max_hash_slot_num=1000, max_index_num=4000
)

NO_AUTO_CREATE = BrokerConfig(auto_create_topic_enable=False, auto_create_subscription_group=False)


class Peer:
    """A connection, and the requests that come back over it."""

    def __init__(self, connection: Connection, received: asyncio.Queue[RemotingCommand]) -> None:
        self.connection = connection
        self.received = received

    async def ask(self, code: int, body: bytes = b"", /, **fields: object) -> RemotingCommand:
        """A request and its response; a field that is None is left out."""
        texts = {name: str(value) for name, value in fields.items() if value is not None}
        request = RemotingCommand(code, texts, body)
        return await self.connection.request(request, int(DEADLINE_S * 1000))

    async def send(self, topic: str, body: bytes = b"x", /, **fields: object) -> RemotingCommand:
        """SEND_MESSAGE_V2 with the customary fields, unless others are given."""
        return await self.ask(RequestCode.SEND_MESSAGE_V2, body, **send_fields(topic) | fields)

    async def reply(self, topic: str, body: bytes = b"x", /, **fields: object) -> RemotingCommand:
        """SEND_REPLY_MESSAGE_V2, to nobody unless properties are given."""
        return await self.ask(
            RequestCode.SEND_REPLY_MESSAGE_V2, body, **send_fields(topic) | fields
        )

    async def pull(self, topic: str, offset: int = 0, /, **fields: object) -> RemotingCommand:
        """PULL_MESSAGE that carries its subscription, unless other fields are given."""
        return await self.ask(RequestCode.PULL_MESSAGE, **pull_fields(topic, offset) | fields)

    async def held_pull(
        self, topic: str, offset: int, /, **fields: object
    ) -> asyncio.Task[RemotingCommand]:
        """A pull that may be held. What is asked afterwards reaches the broker after it."""
        held = {"sysFlag": 6, "suspendTimeoutMillis": 60_000}
        task = asyncio.create_task(self.pull(topic, offset, **held | fields))
        await asyncio.sleep(0)  # its request is written now, and a connection keeps its order
        return task

    async def heartbeat(
        self, group: str, *topics: str, client_id: str = "c@1", **fields: Any
    ) -> RemotingCommand:
        """A consumer's HEART_BEAT."""
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [
                {"topic": topic, "subString": "*", "subVersion": 1} for topic in topics
            ],
        }
        body = {"clientID": client_id, "consumerDataSet": [consumer | fields]}
        return await self.ask(RequestCode.HEART_BEAT, json.dumps(body).encode())

    async def notice(self) -> str:
        """The group of the next NOTIFY_CONSUMER_IDS_CHANGED."""
        request = await asyncio.wait_for(self.received.get(), DEADLINE_S)
        assert request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert request.is_oneway
        return request.ext_fields["consumerGroup"]

    async def close(self) -> None:
        """End the connection, and wait until it has ended."""
        self.connection.close()
        await self.connection.wait_closed()


def send_fields(topic: str) -> dict[str, object]:
    """The fields of a send to queue 0."""
    return {
        "a": "PG",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 0,
        "g": 1,
        "h": 0,
        "i": "",
        "j": 0,
        "k": "false",
        "m": "false",
    }


def pull_fields(topic: str, offset: int) -> dict[str, object]:
    """The fields of a pull of queue 0."""
    return {
        "consumerGroup": "CG",
        "topic": topic,
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }


async def meet(address: str) -> Peer:
    """A connection to host:port."""
    received: asyncio.Queue[RemotingCommand] = asyncio.Queue()

    def receive(_: Connection, request: RemotingCommand) -> None:
        received.put_nowait(request)

    host, _, port = address.rpartition(":")
    return Peer(await connect(host, int(port), receive), received)


@asynccontextmanager
async def running(store: Path, **options: Any) -> AsyncIterator[Cluster]:
    """A cluster with small files, unless others are asked for."""
    async with Cluster(ClusterConfig(store, **{"store_config": SMALL} | options)) as cluster:
        yield cluster


@asynccontextmanager
async def broker_peer(store: Path, **options: Any) -> AsyncIterator[Peer]:
    """A connection to the only broker of a cluster."""
    async with running(store, **options) as cluster:
        peer = await meet(cluster.brokers[0].address)
        yield peer
        await peer.close()
