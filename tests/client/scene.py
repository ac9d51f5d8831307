"""What the tests of the client share: a cluster in this process, and patience with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from mqspec.broker import BrokerController
from mqspec.client.instance import ClientInstance, succeeded
from mqspec.client.listener import ConsumeStatus, Listener
from mqspec.client.message import Message, MessageExt
from mqspec.client.producer import Producer
from mqspec.client.push_work import ConsumerConfig
from mqspec.cluster import Cluster, ClusterConfig
from mqspec.core.group import ConsumeFromWhere
from mqspec.core.metadata import AUTO_CREATE_TOPIC, BrokerConfig, Perm
from mqspec.core.pull import PullSysFlag
from mqspec.core.types import MessageQueue
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

DEADLINE_S = 20
TOPIC, GROUP = "T", "G"
RETRY_TOPIC = "%RETRY%G"

QUICK = ConsumerConfig(
    consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    persist_consumer_offset_interval_ms=50,
    persist_first_delay_ms=50,
    consume_again_delay_ms=50,
    first_pull_delay_ms=0,
)


def run(
    store: Path,
    scene: Callable[[Cluster], Awaitable[None]],
    brokers: int = 1,
    config: BrokerConfig | None = None,
) -> None:
    """Play a scene on a cluster of its own."""
    cluster_config = ClusterConfig(store, brokers=brokers, broker_config=config or BrokerConfig())

    async def play() -> None:
        async with asyncio.timeout(60), Cluster(cluster_config) as cluster:
            await scene(cluster)

    asyncio.run(play())


async def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def stopped(broker: BrokerController) -> AsyncIterator[None]:
    """The broker is away for a while."""
    await broker.stop()
    try:
        yield
    finally:
        await broker.start()


async def ask(
    cluster: Cluster, code: RequestCode, broker: str = "broker-a", /, **fields: object
) -> RemotingCommand:
    """What a broker answers to one request."""
    instance = ClientInstance(cluster.nameserver.address)
    await instance.start()
    await instance.update_route(AUTO_CREATE_TOPIC)
    request = RemotingCommand(code, {name: str(value) for name, value in fields.items()})
    response = await instance.invoke(broker, request)
    await instance.close()
    return response


async def create_topic(
    cluster: Cluster,
    queues: int,
    *brokers: str,
    topic: str = TOPIC,
    perm: int = Perm.READ | Perm.WRITE,
) -> None:
    """A topic, with so many queues on each broker."""
    for broker in brokers or ("broker-a",):
        fields = {"topic": topic, "readQueueNums": queues, "writeQueueNums": queues}
        more = {"perm": int(perm), "defaultTopic": AUTO_CREATE_TOPIC}
        kind = {"topicFilterType": "SINGLE_TAG"}
        code = RequestCode.UPDATE_AND_CREATE_TOPIC
        succeeded(await ask(cluster, code, broker, **fields, **more, **kind))


async def send(cluster: Cluster, *keys: str, tags: str | None = None) -> None:
    """One message a key to TOPIC."""
    async with Producer(cluster.nameserver.address) as producer:
        for key in keys:
            await producer.send(Message(TOPIC, key.encode(), tags, key))


def keys_of(messages: Sequence[MessageExt]) -> list[str]:
    """Their keys."""
    return [message.keys or "" for message in messages]


async def pulled(cluster: Cluster, topic: str = TOPIC, queue_id: int = 0) -> list[MessageExt]:
    """What a queue holds."""
    fields = {
        "consumerGroup": "readers",
        "topic": topic,
        "queueId": queue_id,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": int(PullSysFlag.SUBSCRIPTION),
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
        "subscription": "*",
    }
    response = await ask(cluster, RequestCode.PULL_MESSAGE, **fields)
    if response.code == ResponseCode.PULL_NOT_FOUND:
        return []
    queue = MessageQueue(topic, "broker-a", queue_id)
    found = decode_messages(succeeded(response).body)
    return [MessageExt(record, queue) for record in found]


def taking(got: list[MessageExt]) -> Listener:
    """A listener that consumes everything, into `got`."""

    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        got.extend(messages)
        return ConsumeStatus.CONSUME_SUCCESS

    return listen
