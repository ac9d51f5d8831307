"""Consumers beside replicas: who is pulled, and who hears of progress where no master is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from scene import DEADLINE_S, GROUP, QUICK, TOPIC, taking, until

from mqspec.client.instance import ClientInstance, UnreachableError
from mqspec.client.offset_store import RemoteBrokerOffsetStore
from mqspec.client.producer import Producer
from mqspec.client.pull_consumer import PullConsumer
from mqspec.client.push_consumer import PushConsumer
from mqspec.core.metadata import Perm
from mqspec.core.offset_commit import UpdateConsumerOffset
from mqspec.core.pull import PullSysFlag
from mqspec.core.push_consumer import find_broker_in_subscribe
from mqspec.core.route import BrokerData, QueueData, TopicRouteData
from mqspec.core.types import MessageQueue
from mqspec.transport import Connection, Handler, Server, serve
from mqspec.wire.bodies import ConsumerList, to_body
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

MQ = MessageQueue(TOPIC, "b", 0)
CLIENT_ID = "the-client"


@pytest.mark.parametrize(
    ("there", "wanted", "asked"),
    [
        ([0, 1, 2], 0, 0),
        ([0, 1, 2], 2, 2),
        ([0, 2], 1, 2),
        ([0, 3], 1, 0),
        ([1, 2], 0, 1),
        ([], 0, None),
    ],
)
def test_who_is_asked(there: list[int], wanted: int, asked: int | None) -> None:
    assert find_broker_in_subscribe(dict.fromkeys(there, "h:1"), wanted) == asked


class Heard:
    """A broker or a replica that notes what it hears, and names who is to be pulled next."""

    def __init__(self, suggests: int = 0) -> None:
        self._suggests = suggests
        self.requests: list[RemotingCommand] = []

    def of(self, code: RequestCode) -> list[RemotingCommand]:
        return [request for request in self.requests if request.code == code]

    def __call__(self, _: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.requests.append(request)
        match request.code:
            case RequestCode.PULL_MESSAGE:
                next_offset = request.ext_fields["queueOffset"]
                who = {"suggestWhichBrokerId": str(self._suggests)}
                fields = {**who, "nextBeginOffset": next_offset}
                return request.response(ResponseCode.PULL_NOT_FOUND, ext_fields=fields)
            case RequestCode.GET_CONSUMER_LIST_BY_GROUP:
                return request.response(body=to_body(ConsumerList((CLIENT_ID,))))
            case RequestCode.UPDATE_CONSUMER_OFFSET:
                return None
            case _:
                return request.response(ext_fields={"offset": "5"})


@asynccontextmanager
async def group_of(brokers: Mapping[int, Handler]) -> AsyncIterator[str]:
    """A nameserver that knows a broker and its replicas, by id; its address."""
    servers: dict[int, Server] = {}

    def route(_: Connection, request: RemotingCommand) -> RemotingCommand:
        if request.code != RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return request.response()
        addresses = {number: f"127.0.0.1:{server.port}" for number, server in servers.items()}
        queues = QueueData("b", 1, 1, Perm.READ | Perm.WRITE)
        data = TopicRouteData((queues,), (BrokerData("C", "b", addresses),))
        return request.response(body=to_body(data, standard=True))

    for number, handler in brokers.items():
        servers[number] = await serve("127.0.0.1", 0, handler)
    nameserver = await serve("127.0.0.1", 0, route)
    try:
        yield f"127.0.0.1:{nameserver.port}"
    finally:
        for server in (nameserver, *servers.values()):
            await server.close()


def test_while_no_master_is_there_a_replica_is_pulled_and_told_of_progress() -> None:
    replica = Heard()

    async def scene() -> None:
        async with (
            group_of({1: replica}) as address,
            PushConsumer(
                address, GROUP, {TOPIC: "*"}, taking([]), QUICK, client_id=CLIENT_ID
            ) as consumer,
        ):
            await until(lambda: bool(replica.of(RequestCode.PULL_MESSAGE)))
            assert MQ in consumer.queues
            await until(lambda: bool(replica.of(RequestCode.UPDATE_CONSUMER_OFFSET)))

    asyncio.run(scene())
    (pull, *_) = replica.of(RequestCode.PULL_MESSAGE)
    assert pull.ext_fields["queueOffset"] == "5"
    assert not int(pull.ext_fields["sysFlag"]) & PullSysFlag.COMMIT_OFFSET
    assert replica.of(RequestCode.HEART_BEAT)
    assert replica.of(RequestCode.UNREGISTER_CLIENT)


def test_a_broker_says_who_is_pulled_next() -> None:
    master, replica = Heard(suggests=1), Heard(suggests=0)

    async def scene() -> None:
        async with (
            group_of({0: master, 1: replica}) as address,
            PullConsumer(address, GROUP) as consumer,
        ):
            await consumer.fetch_subscribe_message_queues(TOPIC)
            for _ in range(3):
                await consumer.pull(MQ, 5)
            assert await consumer.fetch_consume_offset(MQ) == 5

    asyncio.run(scene())
    assert len(master.of(RequestCode.PULL_MESSAGE)) == 2
    assert len(replica.of(RequestCode.PULL_MESSAGE)) == 1
    assert master.of(RequestCode.QUERY_CONSUMER_OFFSET)
    assert not replica.of(RequestCode.QUERY_CONSUMER_OFFSET)


def test_a_broker_that_is_away_keeps_no_others_progress_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    others_are_told = asyncio.Event()

    async def oneway(broker: str, request: RemotingCommand, broker_id: int) -> None:
        told.append(f"{broker}{request.ext_fields['queueId']}")
        if broker == "away":
            await others_are_told.wait()
            raise UnreachableError("no connection in time")
        if told[-1] == "b1":
            others_are_told.set()

    instance = ClientInstance("127.0.0.1:1")
    monkeypatch.setattr(instance, "oneway", oneway)
    monkeypatch.setattr(instance, "find_in_subscribe", lambda broker: 0)
    updates = [
        UpdateConsumerOffset(GROUP, MessageQueue(TOPIC, broker, queue_id), 5)
        for broker in ("away", "b")
        for queue_id in (0, 1)
    ]

    async def scene() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await RemoteBrokerOffsetStore(instance, GROUP).persist(updates)

    asyncio.run(scene())
    assert sorted(told) == ["away0", "b0", "b1"]


def test_a_producer_tells_masters_that_it_is_there_and_all_that_it_leaves() -> None:
    master, replica = Heard(), Heard()

    async def scene() -> None:
        async with group_of({0: master, 1: replica}) as address, Producer(address):
            pass

    asyncio.run(scene())
    assert [request.code for request in master.requests] == [34, 35]
    assert [request.code for request in replica.requests] == [35]
