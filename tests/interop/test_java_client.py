"""The real client library and the reference's clients: each reads what the other one sends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from serving import serving

from mqspec.client import (
    ConsumerConfig,
    ConsumeStatus,
    LitePullConfig,
    LitePullConsumer,
    LocalTransactionState,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    TransactionProducer,
)
from mqspec.client.instance import ClientInstance, succeeded
from mqspec.core.group import ConsumeFromWhere, MessageModel
from mqspec.core.metadata import AUTO_CREATE_TOPIC
from mqspec.core.producer import select_by_hash
from mqspec.core.types import MessageQueue
from mqspec.transport import connect
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

DEADLINE_S = 180
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
QUICK = ConsumerConfig(
    consume_from_where=FIRST,
    persist_consumer_offset_interval_ms=200,
    rebalance_wait_interval_ms=500,
)


@dataclass(frozen=True, slots=True)
class Got:
    """A message as either client got it."""

    key: str
    tags: str
    size: int
    crc: int
    flag: int
    who: str
    place: tuple[str, int]

    @classmethod
    def by_java(cls, words: Sequence[str]) -> Got:
        key, tags, size, crc, flag, who, queue, offset = words
        return cls(key, tags, int(size), int(crc), int(flag), who, (queue, int(offset)))

    @classmethod
    def by_reference(cls, message: MessageExt) -> Got:
        body, queue = message.body, message.queue
        return cls(
            message.keys or "",
            message.tags or "",
            len(body),
            zlib.crc32(body),
            message.record.flag,
            message.properties["who"],
            (f"{queue.broker_name}:{queue.queue_id}", message.queue_offset),
        )


class Java:
    """The process of java/Client.java."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._said: list[str] = []
        self._more = threading.Condition()
        threading.Thread(target=self._listen, daemon=True).start()

    def tell(self, *words: object) -> list[str]:
        """Have a command carried out. What it said meanwhile."""
        before = len(self._said)
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        self.wait(lambda said: "done" in said[before:])
        said = self._said[before:]
        assert not any(line.startswith("failed") for line in said), said
        return said

    def got(self, by: str, count: int) -> list[Got]:
        """So many messages that a group got, in that order."""
        prefix = f"got {by} "
        self.wait(lambda said: sum(line.startswith(prefix) for line in said) >= count)
        lines = (line for line in self._said if line.startswith(prefix))
        return [Got.by_java(line.split()[2:]) for line in lines]

    def wait(self, holds: Callable[[list[str]], bool]) -> None:
        with self._more:
            assert self._more.wait_for(lambda: holds(self._said), DEADLINE_S), self._said[-20:]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                self._said.append(line.strip())
                self._more.notify_all()


@pytest.fixture(scope="module")
def nameserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One cluster for all tests here, each of which has a topic of its own."""
    # The first two retries wait for levels 3 and 4, which are 10 and 30 s otherwise.
    levels = ("--message-delay-level", "1s 5s 1s 1s", "--enable-property-filter")
    checks = ("--transaction-check-interval", "1000", "--transaction-time-out", "1000")
    options = (*levels, *checks, "--recall-message-enable")
    with serving(tmp_path_factory.mktemp("store"), *options) as address:
        yield address


@pytest.fixture(scope="module")
def java(java_command: list[str], nameserver: str) -> Iterator[Java]:
    """One process for all tests here."""
    command = [*java_command, "Client", nameserver]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=nothing) as process:
        try:
            yield Java(process)
        finally:
            with suppress(BrokenPipeError):
                assert process.stdin is not None
                process.stdin.close()
            try:
                process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                process.kill()


def message(topic: str, key: str, size: int = 1) -> Message:
    """As Client.java makes it."""
    return Message(topic, b"x" * size, "Tag", key, {"who": "reference"}, flag=7)


async def create_topic(nameserver: str, topic: str, queues: int = 2) -> None:
    """A topic with queues on broker-a."""
    fields = {
        "topic": topic,
        "defaultTopic": AUTO_CREATE_TOPIC,
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
    }
    await ask_broker_a(nameserver, RemotingCommand(RequestCode.UPDATE_AND_CREATE_TOPIC, fields))


async def ask_broker_a(nameserver: str, request: RemotingCommand) -> RemotingCommand:
    """A request that must succeed."""
    instance = ClientInstance(nameserver)
    await instance.start()
    await instance.update_route(AUTO_CREATE_TOPIC)
    answer = succeeded(await instance.invoke("broker-a", request))
    await instance.close()
    return answer


def send(nameserver: str, *messages: Message) -> None:
    """Send them with the reference's producer."""

    async def scene() -> None:
        async with Producer(nameserver) as producer:
            for each in messages:
                await producer.send(each)

    asyncio.run(scene())


def read(
    nameserver: str, topic: str, count: int, config: ConsumerConfig = QUICK, group: str = "Readers"
) -> list[MessageExt]:
    """What the reference's consumer gets, as soon as it has so many."""
    got: list[MessageExt] = []
    enough = asyncio.Event()

    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        got.extend(messages)
        if len(got) >= count:
            enough.set()
        return ConsumeStatus.CONSUME_SUCCESS

    async def scene() -> None:
        async with PushConsumer(nameserver, f"{group}-{topic}", {topic: "*"}, listen, config):
            async with asyncio.timeout(DEADLINE_S):
                await enough.wait()

    asyncio.run(scene())
    return got


def test_java_reads_what_the_reference_sends(java: Java, nameserver: str) -> None:
    async def scene() -> None:
        await create_topic(nameserver, "FromReference")
        async with Producer(nameserver) as producer:
            await producer.send(message("FromReference", "plain"))
            await producer.send(message("FromReference", "compressed", 10_000))
            await producer.send_batch([message("FromReference", f"batch-{i}") for i in range(3)])
            await producer.send_oneway(message("FromReference", "one-way"))

    asyncio.run(scene())
    java.tell("push", "JavaReaders", "FromReference", "concurrently")
    got = {each.key: each for each in java.got("JavaReaders", 6)}
    java.tell("stop", "JavaReaders")
    assert got.keys() == {"plain", "compressed", "one-way", *(f"batch-{i}" for i in range(3))}
    assert got["compressed"].size == 10_000
    assert got["compressed"].crc == zlib.crc32(b"x" * 10_000)
    assert {(each.tags, each.flag, each.who) for each in got.values()} == {("Tag", 7, "reference")}


def test_the_reference_reads_what_java_sends(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "FromJava"))
    java.tell("send", "FromJava", "plain", 1)
    (compressed,) = (
        line for line in java.tell("send", "FromJava", "compressed", 10_000) if "sent" in line
    )
    java.tell("send-batch", "FromJava", "batch-0 batch-1 batch-2")
    messages = {each.keys: each for each in read(nameserver, "FromJava", 5)}
    got = {key: Got.by_reference(each) for key, each in messages.items()}
    assert got.keys() == {"plain", "compressed", *(f"batch-{i}" for i in range(3))}
    assert got["compressed"].size == 10_000
    assert len(messages["compressed"].record.body) < 100
    assert messages["compressed"].message_id == compressed.split()[-1]
    assert {(each.tags, each.flag, each.who) for each in got.values()} == {("Tag", 7, "java")}


def test_both_choose_one_queue_for_a_key(java: Java, nameserver: str) -> None:
    def by_order(queues: Sequence[MessageQueue], each: Message) -> MessageQueue:
        return select_by_hash(queues, each.keys or "")

    async def scene() -> list[int]:
        async with Producer(nameserver) as producer:
            sent = [await producer.send_orderly(message("Keyed", key), by_order) for key in "abcd"]
        return [result.queue.queue_id for result in sent]

    asyncio.run(create_topic(nameserver, "Keyed"))
    by_java = [
        int(line.split()[2])
        for key in "abcd"
        for line in java.tell("send-ordered", "Keyed", key, key)
        if line.startswith("sent")
    ]
    assert by_java == asyncio.run(scene())
    assert set(by_java) == {0, 1}


def test_orderly_members_of_both_share_the_queues(java: Java, nameserver: str) -> None:
    by_reference: list[Got] = []

    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        by_reference.extend(map(Got.by_reference, messages))
        return ConsumeStatus.CONSUME_SUCCESS

    async def scene() -> None:
        await create_topic(nameserver, "Orderly")
        config = replace(QUICK, orderly=True)
        topics = {"Orderly": "*"}
        await asyncio.to_thread(java.tell, "push", "OrderlyGroup", "Orderly", "orderly")
        async with (
            Producer(nameserver) as producer,
            PushConsumer(nameserver, "OrderlyGroup", topics, listen, config) as consumer,
            asyncio.timeout(DEADLINE_S),
        ):
            while sum(mq.topic == "Orderly" for mq in consumer.queues) != 1:
                await asyncio.sleep(0.05)
            for i in range(20):
                await producer.send(message("Orderly", f"{i}"))
            while len(by_reference) < 10:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(java.got, "OrderlyGroup", 10)

    asyncio.run(scene())
    # The member that is left gets the other one's queue as well, and goes on where that was.
    send(nameserver, *(message("Orderly", f"{i}") for i in range(20, 24)))
    by_java = java.got("OrderlyGroup", 14)
    java.tell("stop", "OrderlyGroup")
    assert sorted(each.key for each in by_java + by_reference) == sorted(map(str, range(24)))
    for got in (by_java, by_reference):
        for queue in {each.place[0] for each in got}:
            offsets = [each.place[1] for each in got if each.place[0] == queue]
            assert offsets == sorted(offsets)


def test_broadcasting_members_of_both_get_everything(
    java: Java, nameserver: str, tmp_path: Path
) -> None:
    asyncio.run(create_topic(nameserver, "Broadcast"))
    send(nameserver, *(message("Broadcast", key) for key in "abc"))
    java.tell("push", "Readers-Broadcast", "Broadcast", "broadcasting")
    config = replace(
        QUICK, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path
    )
    by_reference = read(nameserver, "Broadcast", 3, config)
    by_java = java.got("Readers-Broadcast", 3)
    java.tell("stop", "Readers-Broadcast")
    assert sorted(each.keys or "" for each in by_reference) == list("abc")
    assert sorted(each.key for each in by_java) == list("abc")
    # Who comes next on a host goes on where the file is.
    send(nameserver, message("Broadcast", "d"))
    java.tell("push", "Readers-Broadcast", "Broadcast", "broadcasting")
    java.got("Readers-Broadcast", 4)
    java.tell("stop", "Readers-Broadcast")
    by_java = java.got("Readers-Broadcast", 4)
    by_reference = read(nameserver, "Broadcast", 1, config)
    assert sorted(each.key for each in by_java) == list("abcd")
    assert [each.keys for each in by_reference] == ["d"]


def test_either_lite_pull_consumer_goes_on_where_the_other_one_committed(
    java: Java, nameserver: str
) -> None:
    async def polled(count: int) -> list[str]:
        config = LitePullConfig(consume_from_where=FIRST, pull_batch_size=1, auto_commit=False)
        got: list[str] = []
        async with (
            LitePullConsumer(nameserver, "LiteGroup", {"Lite": "*"}, config) as consumer,
            asyncio.timeout(DEADLINE_S),
        ):
            while len(got) < count:
                got += [each.keys or "" for each in await consumer.poll()]
            await consumer.commit()
        return got

    asyncio.run(create_topic(nameserver, "Lite"))
    send(nameserver, *(message("Lite", f"{i}") for i in range(6)))
    java.tell("lite-pull", "LiteGroup", "Lite", 2)
    by_java = [each.key for each in java.got("LiteGroup", 2)]
    by_reference = asyncio.run(polled(2))
    java.tell("lite-pull", "LiteGroup", "Lite", 2)
    by_java = [each.key for each in java.got("LiteGroup", 4)]
    assert sorted(by_java + by_reference) == [f"{i}" for i in range(6)]


def test_java_commits_as_it_polls_on_whoever_is_at_work_on_what_it_polled(
    java: Java, nameserver: str
) -> None:
    """LITE-003 is an ideal, LITE-002 a promise: of what was polled last nothing is lost."""
    asyncio.run(create_topic(nameserver, "Threads", queues=1))
    send(nameserver, *(message("Threads", f"{i}") for i in range(3)))
    java.tell("lite-pull-by-itself", "ThreadsGroup", "Threads", 2)
    first = [each.key for each in java.got("ThreadsGroup", 2)]
    java.tell("lite-pull-by-itself", "ThreadsGroup", "Threads", 2)
    both = [each.key for each in java.got("ThreadsGroup", 4)]
    assert (first, both[2:]) == (["0", "1"], ["1", "2"])


def test_what_java_commits_is_visible_and_what_it_rolls_back_is_not(
    java: Java, nameserver: str
) -> None:
    asyncio.run(create_topic(nameserver, "Transactions"))
    for key in ("rollback", "commit"):
        java.tell("send-in-transaction", "Transactions", key, key)
    send(nameserver, message("Transactions", "after-1"), message("Transactions", "after-2"))
    keys = sorted(each.keys or "" for each in read(nameserver, "Transactions", 3))
    assert keys == ["after-1", "after-2", "commit"]


def test_java_is_asked_about_what_it_did_not_end(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "Undecided"))
    java.tell("send-in-transaction", "Undecided", "open", "unknown")
    (committed,) = read(nameserver, "Undecided", 1)
    assert (committed.keys, committed.record.flag) == ("open", 7)
    java.wait(lambda said: "checked open" in said)


def test_java_decides_what_another_member_of_its_group_left_undecided(
    java: Java, nameserver: str
) -> None:
    class NobodyKnows:
        async def execute_local_transaction(
            self, message: Message, arg: object
        ) -> LocalTransactionState:
            return LocalTransactionState.UNKNOW

        async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
            return LocalTransactionState.UNKNOW

    async def scene() -> None:
        await create_topic(nameserver, "Undecided")
        async with TransactionProducer(nameserver, "JavaProducers", NobodyKnows()) as producer:
            await producer.send_in_transaction(message("Undecided", "by-reference"))

    asyncio.run(scene())
    java.tell("send-in-transaction", "Undecided", "by-java", "unknown")
    keys = {each.keys for each in read(nameserver, "Undecided", 2)}
    assert keys == {"by-java", "by-reference"}
    java.wait(lambda said: {"checked by-java", "checked by-reference"} <= set(said))


def test_delayed_messages_come_late_to_either(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "Delayed"))
    java.tell("send-delayed", "Delayed", "by-java", 1)
    send(nameserver, replace(message("Delayed", "by-reference"), delay_level=1))
    java.tell("push", "DelayedGroup", "Delayed", "concurrently")
    messages = read(nameserver, "Delayed", 2)
    assert {each.key for each in java.got("DelayedGroup", 2)} == {"by-java", "by-reference"}
    java.tell("stop", "DelayedGroup")
    assert {each.keys for each in messages} == {"by-java", "by-reference"}
    for each in messages:
        assert each.record.store_timestamp - each.record.born_timestamp >= 1000


def test_java_finds_a_message_by_its_key(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "Keys"))
    send(nameserver, message("Keys", "one two"), message("Keys", "three"))
    before = len(java.got("query", 0))
    java.tell("query", "Keys", "three")
    assert [each.key for each in java.got("query", before + 1)[before:]] == ["three"]


def test_what_java_fails_on_comes_again_and_again(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "Failing"))
    send(nameserver, message("Failing", "hard"))
    java.tell("push", "FailingGroup", "Failing", "failing-twice")
    got = java.got("FailingGroup", 3)
    java.tell("stop", "FailingGroup")
    assert [(each.key, each.tags, each.who) for each in got] == [("hard", "Tag", "reference")] * 3


async def topic_is_there(nameserver: str, topic: str) -> None:
    """Wait until it has a route: who subscribes earlier learns of it a minute later."""
    host, _, port = nameserver.rpartition(":")
    connection = await connect(host, int(port))
    ask = {"topic": topic}
    async with asyncio.timeout(DEADLINE_S):
        while True:
            request = RemotingCommand(RequestCode.GET_ROUTEINFO_BY_TOPIC, ask)
            if (await connection.request(request, 5_000)).code == 0:
                break
            await asyncio.sleep(0.1)
    connection.close()


def test_what_java_gives_up_is_in_the_dead_letter_topic(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "GivenUp"))
    send(nameserver, message("GivenUp", "dead"))
    java.tell("push", "GivingUpGroup", "GivenUp", "giving-up")
    java.got("GivingUpGroup", 1)
    asyncio.run(topic_is_there(nameserver, "%DLQ%GivingUpGroup"))
    (dead,) = read(nameserver, "%DLQ%GivingUpGroup", 1, group="Undertakers")
    java.tell("stop", "GivingUpGroup")
    assert dead.keys == "dead"
    assert dead.properties["RETRY_TOPIC"] == "GivenUp"


def test_java_chooses_messages_by_their_properties(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "BySql"))
    sizes = {"small": "1", "big": "30", "none": None}
    for key, size in sizes.items():
        properties = {"who": "reference"} | ({"size": size} if size else {})
        send(nameserver, replace(message("BySql", key), properties=properties))
    java.tell("push-by-sql", "SqlGroup", "BySql", "size > 2 OR KEYS IN ('none', 'x')")
    got = java.got("SqlGroup", 2)
    java.tell("stop", "SqlGroup")
    assert {each.key for each in got} == {"big", "none"}


def test_java_asks_the_broker_for_its_queues(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "ByBroker"))
    send(nameserver, *(message("ByBroker", f"{i}") for i in range(4)))
    java.tell("push", "ByBrokerGroup", "ByBroker", "by-broker")
    got = java.got("ByBrokerGroup", 4)
    java.tell("stop", "ByBrokerGroup")
    assert {each.place[0] for each in got} == {"broker-a:0", "broker-a:1"}
    assert {each.key for each in got} == {f"{i}" for i in range(4)}


def test_java_pops_and_gets_again_what_it_failed_to_consume(java: Java, nameserver: str) -> None:
    topic, group = "Popped", "PoppedGroup"
    asyncio.run(create_topic(nameserver, topic))
    mode = {"topic": topic, "consumerGroup": group, "mode": "POP", "popShareQueueNum": 0}
    request = RemotingCommand(RequestCode.SET_MESSAGE_REQUEST_MODE, body=json.dumps(mode).encode())
    asyncio.run(ask_broker_a(nameserver, request))
    send(nameserver, *(message(topic, f"{i}") for i in range(40)))
    java.tell("push", group, topic, "by-broker-failing-once")
    got = java.got(group, 80)
    assert Counter(each.key for each in got) == {f"{i}": 2 for i in range(40)}
    # The first time from the topic's queues, the second from the retry topic's.
    assert {each.place[0] for each in got[:40]} == {"broker-a:0", "broker-a:1"}
    assert {each.place for each in got[40:]} == {("broker-a:0", i) for i in range(40)}
    java.tell("stop", group)
    fields = {"consumerGroup": group, "topic": f"%RETRY%{group}_{topic}", "queueId": "0"}
    query = RemotingCommand(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    answer = asyncio.run(ask_broker_a(nameserver, query))
    assert answer.ext_fields["offset"] == "40"


def test_java_is_answered_by_java(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "Requests"))
    java.tell("push", "Answering", "Requests", "answering")
    java.tell("request", "Requests", "question")
    expected = {"answered to question", "replied question"}
    java.wait(lambda said: expected <= set(said))
    java.tell("stop", "Answering")


def test_java_recalls_a_message_that_waits(java: Java, nameserver: str) -> None:
    asyncio.run(create_topic(nameserver, "Timed"))
    said = java.tell("send-timed", "Timed", "recalled", 3000)
    (handle,) = (line.split()[1] for line in said if line.startswith("handle"))
    (recalled,) = (line for line in java.tell("recall", "Timed", handle) if "recalled" in line)
    assert recalled.split()[1] == next(line for line in said if "sent" in line).split()[-1]
    java.tell("send-timed", "Timed", "comes", 5000)
    assert [each.keys for each in read(nameserver, "Timed", 1)] == ["comes"]
