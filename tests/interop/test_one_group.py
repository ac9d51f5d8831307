"""One group, half of its members on the Java client, half on the reference's consumer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from mqspec.client.instance import ClientInstance, succeeded
from mqspec.client.listener import ConsumeStatus
from mqspec.client.message import Message, MessageExt
from mqspec.client.producer import Producer
from mqspec.client.push_consumer import PushConsumer
from mqspec.client.push_work import ConsumerConfig
from mqspec.core.allocation import AVG, allocate
from mqspec.core.group import ConsumeFromWhere
from mqspec.core.metadata import AUTO_CREATE_TOPIC
from mqspec.core.types import MessageQueue, string_order
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

TOPIC = "Interop"
GROUP = "InteropGroup"
BROKERS = ("broker-a", "broker-b")
QUEUES = [MessageQueue(TOPIC, broker, i) for broker in BROKERS for i in range(4)]
DEADLINE_S = 180


class JavaMember:
    """A process of java/Member.java."""

    def __init__(self, process: asyncio.subprocess.Process, got: set[str]) -> None:
        self._process = process
        self._got = got
        self._reading = asyncio.create_task(self._read())
        self.client_id = ""
        self.queues: frozenset[MessageQueue] = frozenset()

    @classmethod
    async def join(cls, command: Sequence[str], nameserver: str, got: set[str]) -> JavaMember:
        process = await asyncio.create_subprocess_exec(
            *command,
            *("Member", nameserver, GROUP, TOPIC),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return cls(process, got)

    async def leave(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await self._reading

    async def kill(self) -> None:
        """SIGKILL: it says goodbye to nobody."""
        self._process.kill()
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            word, _, rest = line.decode().strip().partition(" ")
            match word:
                case "started":
                    self.client_id = rest
                case "queues":
                    names = (name.rpartition(":") for name in rest.split())
                    self.queues = frozenset(
                        MessageQueue(TOPIC, broker, int(queue_id)) for broker, _, queue_id in names
                    )
                case "got":
                    self._got.add(rest)


class ReferenceMember:
    """The reference's consumer."""

    def __init__(self, consumer: PushConsumer) -> None:
        self._consumer = consumer

    @classmethod
    async def join(cls, nameserver: str, got: set[str]) -> ReferenceMember:
        async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
            got.update(message.keys or "" for message in messages)
            return ConsumeStatus.CONSUME_SUCCESS

        config = ConsumerConfig(
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            persist_consumer_offset_interval_ms=1000,
        )
        consumer = PushConsumer(nameserver, GROUP, {TOPIC: "*"}, listen, config)
        return cls(await consumer.__aenter__())

    @property
    def client_id(self) -> str:
        return self._consumer.client_id

    @property
    def queues(self) -> frozenset[MessageQueue]:
        return frozenset(queue for queue in self._consumer.queues if queue.topic == TOPIC)

    async def leave(self) -> None:
        await self._consumer.shutdown()

    async def kill(self) -> None:
        await self._consumer.kill()


Member = JavaMember | ReferenceMember


async def create_topic(nameserver: str) -> None:
    """The topic, with four queues on each of the brokers."""
    fields = {
        "topic": TOPIC,
        "defaultTopic": AUTO_CREATE_TOPIC,
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }
    instance = ClientInstance(nameserver)
    await instance.start()
    await instance.update_route(AUTO_CREATE_TOPIC)
    for broker in BROKERS:
        request = RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)
        succeeded(await instance.invoke(broker, request))
    await instance.close()


async def until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait until it holds, and say what there is instead when it does not in time."""
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(what()) from None


async def until_split(members: Iterable[Member]) -> None:
    """Wait until each member holds what averagely gives it: disjoint, and all of the topic."""
    ids = sorted((member.client_id for member in members), key=string_order)

    def holds() -> bool:
        ids[:] = sorted((member.client_id for member in members), key=string_order)
        return all(ids) and all(
            member.queues == frozenset(allocate(AVG, GROUP, member.client_id, QUEUES, ids))
            for member in members
        )

    await until(holds, lambda: str({member.client_id: set(member.queues) for member in members}))
    shares = [member.queues for member in members]
    assert sum(map(len, shares)) == len(frozenset().union(*shares)) == len(QUEUES)


@asynccontextmanager
async def sending(nameserver: str, sent: set[str]) -> AsyncIterator[None]:
    """Send messages, one after the other, for as long as the context lasts."""

    async def send(producer: Producer) -> None:
        for number in itertools.count():
            key = f"key-{number}"
            await producer.send(Message(TOPIC, b"body", keys=key))
            sent.add(key)
            await asyncio.sleep(0.02)

    async with Producer(nameserver) as producer:
        task = asyncio.create_task(send(producer))
        try:
            yield
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            await asyncio.wait([task])


def test_queues_are_split_and_every_message_is_consumed(
    java_command: list[str], nameserver: str
) -> None:
    async def scene() -> None:
        sent: set[str] = set()
        got: set[str] = set()
        members: list[Member] = []

        async def java() -> JavaMember:
            members.append(member := await JavaMember.join(java_command, nameserver, got))
            return member

        async def reference() -> ReferenceMember:
            members.append(member := await ReferenceMember.join(nameserver, got))
            return member

        def consumed() -> bool:
            return sent <= got

        def missing() -> str:
            return f"{len(sent - got)} of {len(sent)} messages were not consumed"

        await create_topic(nameserver)
        async with sending(nameserver, sent):
            try:
                await until(lambda: len(sent) >= 2 * len(QUEUES), lambda: f"sent {sent}")
                java_1, reference_1 = await java(), await reference()
                java_2, _ = await java(), await reference()
                await until_split(members)

                for leaver in (reference_1, java_1):
                    members.remove(leaver)
                    await leaver.leave()
                    await until_split(members)

                await reference()
                await java()
                await until_split(members)

                members.remove(java_2)
                await java_2.kill()
                await until_split(members)

                members.remove(victim := members[0])
                await victim.kill()
                await until_split(members)
            except BaseException:
                for member in members:
                    await member.kill()
                raise
        await until(consumed, missing)
        for member in members:
            await member.leave()

    asyncio.run(scene())
