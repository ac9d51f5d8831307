"""The producer, on the reference's brokers."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from pathlib import Path

import pytest
from scene import TOPIC, create_topic, run, stopped

from mqrules import Event, EventKind, Outcome, UserError
from mqspec.client.instance import Address, UnreachableError
from mqspec.client.message import Message
from mqspec.client.producer import Producer
from mqspec.client.recorder import Recorder
from mqspec.cluster import Cluster
from mqspec.core.metadata import Perm
from mqspec.core.route import BrokerData, QueueData, TopicRouteData
from mqspec.transport import Connection, RequestTimeoutError, serve
from mqspec.wire.bodies import to_body
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode


def test_messages_go_round_the_queues_of_all_brokers(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 2, "broker-a", "broker-b")
        async with Producer(cluster.nameserver.address) as producer:
            results = [await producer.send(Message(TOPIC, b"x")) for _ in range(8)]
        assert set(Counter(result.queue for result in results).values()) == {2}
        assert len({result.queue for result in results}) == 4
        assert {result.queue_offset for result in results} == {0, 1}

    run(tmp_path, scene, brokers=2)


def test_a_topic_comes_to_be_by_being_sent_to(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        async with Producer(cluster.nameserver.address) as producer:
            results = [await producer.send(Message("New", b"x")) for _ in range(4)]
        assert sorted(result.queue.queue_id for result in results) == [0, 1, 2, 3]

    run(tmp_path, scene)


def test_a_send_moves_on_to_the_broker_that_is_left(tmp_path: Path) -> None:
    events: list[Event] = []

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1, "broker-a", "broker-b")
        recorder = Recorder("run", "producer", events.append)
        async with Producer(cluster.nameserver.address, recorder=recorder) as producer:
            await producer.send(Message(TOPIC, b"x", keys="before"))
            async with stopped(cluster.brokers[0]):
                for number in range(4):
                    result = await producer.send(Message(TOPIC, b"x", keys=f"after-{number}"))
                    assert result.queue.broker_name == "broker-b"

    run(tmp_path, scene, brokers=2)
    assert [event.outcome for event in events] == [Outcome.INVOKED, Outcome.OK] * 5
    assert all(event.kind is EventKind.SEND and event.message_key for event in events)
    assert events[1].cause == "producer/0"


def test_no_route_is_an_error(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        address = cluster.nameserver.address
        async with Producer(address) as producer, stopped(cluster.brokers[0]):
            with pytest.raises(UnreachableError, match="no route to the topic New"):
                await producer.send(Message("New", b"x"))

    run(tmp_path, scene)


async def _enter(address: str) -> None:
    async with Producer(address):
        pass


def test_a_nameserver_that_is_not_there_is_the_users_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(UserError) as caught:
        asyncio.run(_enter(address))
    assert str(caught.value) == (
        f"{address}: the nameserver does not answer: {address}: Connection refused; "
        "check the address, or start one: mqspec serve"
    )


@pytest.mark.parametrize("text", ["localhost", "localhost:", ":1", "h:0", "h:65536", "h:x"])
def test_what_is_not_an_address_is_the_users_error(text: str) -> None:
    with pytest.raises(UserError, match="write it as HOST:PORT"):
        Address.parse(text)


def test_a_send_without_an_answer_may_have_been_carried_out() -> None:
    events: list[Event] = []

    async def scene() -> None:
        address = ""

        def swallow(_: Connection, request: RemotingCommand) -> RemotingCommand | None:
            match request.code:
                case RequestCode.GET_BROKER_CLUSTER_INFO:
                    return request.response()
                case RequestCode.GET_ROUTEINFO_BY_TOPIC:
                    route = TopicRouteData(
                        (QueueData("b", 1, 1, Perm.READ | Perm.WRITE),),
                        (BrokerData("C", "b", {0: address}),),
                    )
                    return request.response(body=to_body(route, standard=True))
                case _:
                    return None

        server = await serve("127.0.0.1", 0, swallow)
        address = f"127.0.0.1:{server.port}"
        recorder = Recorder("run", "producer", events.append)
        async with Producer(address, recorder=recorder) as producer:
            with pytest.raises(RequestTimeoutError):
                await producer.send(Message(TOPIC, b"x"), timeout_ms=50)
            with pytest.raises(UnreachableError, match="before the first try"):
                await producer.send(Message(TOPIC, b"x"), timeout_ms=0)
        await server.close()

    asyncio.run(scene())
    outcomes = [event.outcome for event in events]
    assert outcomes == [Outcome.INVOKED, Outcome.UNKNOWN, Outcome.INVOKED, Outcome.FAILED]
