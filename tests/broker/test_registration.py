"""A topic that is created is in the nameserver's routes before it is said to be there (ADMIN-028),
and nobody else waits for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from peer import DEADLINE_S, SMALL, Peer, meet, send_fields

from mqspec.broker import Broker, BrokerController
from mqspec.broker.registrar import Registrar
from mqspec.core.metadata import BrokerConfig, MetadataState, TopicConfig
from mqspec.nameserver import NamesrvController
from mqspec.transport import serve
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode


class SlowNameServer:
    """Answers a broker at once, or once it may."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    def hold(self) -> None:
        """What is asked from now on waits."""
        self.may_answer.clear()
        self.asked.clear()

    async def answer(self, request: RemotingCommand) -> RemotingCommand:
        self.asked.set()
        await self.may_answer.wait()
        return request.response()

    @asynccontextmanager
    async def with_broker(self, store: Path) -> AsyncIterator[Broker]:
        """A broker that is registered."""
        server = await serve("127.0.0.1", 0, lambda _, request: self.answer(request))
        broker = BrokerController(store, f"127.0.0.1:{server.port}", store_config=SMALL)
        await broker.start()
        yield broker
        self.may_answer.set()
        await broker.stop()
        await server.close()


async def make(peer: Peer, topic: str) -> RemotingCommand:
    return await peer.ask(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        topic=topic,
        readQueueNums=1,
        writeQueueNums=1,
        perm=6,
        topicFilterType="SINGLE_TAG",
        order="false",
    )


def test_who_asks_for_no_topic_waits_for_no_nameserver(tmp_path: Path) -> None:
    async def scene() -> None:
        nameserver = SlowNameServer()
        async with nameserver.with_broker(tmp_path) as broker, asyncio.timeout(DEADLINE_S):
            peer, other = await meet(broker.address), await meet(broker.address)
            await other.heartbeat("G")
            nameserver.hold()
            making = asyncio.create_task(make(peer, "T"))
            await nameserver.asked.wait()
            assert (await other.heartbeat("G")).code == ResponseCode.SUCCESS
            assert (await make(other, "T")).code == ResponseCode.SUCCESS  # as it is
            for again in range(3):  # the topic is there
                assert (await other.send("T")).code == ResponseCode.SUCCESS, again
                assert (await other.pull("T", again)).code == ResponseCode.SUCCESS
            assert not making.done()
            nameserver.may_answer.set()
            assert (await making).code == ResponseCode.SUCCESS
            await peer.close()
            await other.close()

    asyncio.run(scene())


def test_a_change_of_permission_is_known_when_it_is_answered(tmp_path: Path) -> None:
    async def scene() -> None:
        nameserver = SlowNameServer()
        async with nameserver.with_broker(tmp_path) as broker, asyncio.timeout(DEADLINE_S):
            peer = await meet(broker.address)
            update = RequestCode.UPDATE_BROKER_CONFIG
            assert (await peer.ask(update, b"pollingSize=7")).code == ResponseCode.SUCCESS
            nameserver.hold()
            changing = asyncio.create_task(peer.ask(update, b"brokerPermission=4"))
            await nameserver.asked.wait()
            await peer.ask(RequestCode.GET_BROKER_CONFIG)  # answered after what does not wait
            assert not changing.done()
            nameserver.may_answer.set()
            assert (await changing).code == ResponseCode.SUCCESS
            await peer.close()

    asyncio.run(scene())


def test_what_was_sent_is_stored_though_its_producer_leaves(tmp_path: Path) -> None:
    async def scene() -> None:
        nameserver = SlowNameServer()
        async with nameserver.with_broker(tmp_path) as broker, asyncio.timeout(DEADLINE_S):
            producer, other = await meet(broker.address), await meet(broker.address)
            fields = {name: str(value) for name, value in send_fields("New").items()}
            nameserver.hold()
            producer.connection.oneway(
                RemotingCommand(RequestCode.SEND_MESSAGE_V2, fields, b"first")
            )
            await nameserver.asked.wait()
            await producer.close()
            held = await other.held_pull("New", 0)
            assert [one.body for one in decode_messages((await held).body)] == [b"first"]
            await other.close()

    asyncio.run(scene())


def test_a_topic_is_made_where_no_nameserver_answers(tmp_path: Path) -> None:
    async def scene() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        broker = BrokerController(tmp_path, nameserver.address, store_config=SMALL)
        await broker.start()
        await nameserver.stop()
        async with asyncio.timeout(DEADLINE_S):
            peer = await meet(broker.address)
            assert (await make(peer, "T")).code == ResponseCode.SUCCESS
            assert (await peer.send("T")).code == ResponseCode.SUCCESS
            await peer.close()
        await broker.stop()

    asyncio.run(scene())


def test_topics_that_change_are_told_alone_and_all_where_one_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[set[str]] = []

    async def register(
        _: Registrar, metadata: MetadataState, topics: Iterable[TopicConfig]
    ) -> None:
        told.append({topic.topic_name for topic in topics})

    async def scene() -> None:
        metadata = MetadataState({name: TopicConfig(name) for name in "TUV"})
        registrar = Registrar("127.0.0.1:1", BrokerConfig(), "127.0.0.1:2")
        for changed in ("T", "UV", "VW"):
            registrar.register_soon(metadata, changed)
            while registrar.is_behind:
                await asyncio.sleep(0)

    monkeypatch.setattr(Registrar, "_register", register)
    asyncio.run(scene())
    assert told == [{"T"}, {"U", "V"}, {"T", "U", "V"}]
