"""The producer, on the reference's brokers."""

from __future__ import annotations

import asyncio
import itertools
import random
import socket
import zlib
from collections import Counter
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from brokers import scripted
from scene import TOPIC, create_topic, pulled, run, stopped, until

from mqrules import Event, EventKind, Outcome, UserError
from mqspec.broker import Broker
from mqspec.broker.processor.table import PROCESSORS
from mqspec.client.instance import Address, BrokerError, UnreachableError
from mqspec.client.message import Message, MessageExt, create_unique_id
from mqspec.client.producer import Producer, ProducerConfig
from mqspec.client.publish import MessageError, PublishConfig
from mqspec.client.recorder import Recorder
from mqspec.cluster import Cluster
from mqspec.core.metadata import Perm
from mqspec.core.producer import select_by_hash
from mqspec.core.record import Record, SysFlag, decode_properties
from mqspec.core.types import MessageQueue
from mqspec.service import Served
from mqspec.transport import Connection, ConnectionLostError, RequestTimeoutError
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode


def test_messages_go_round_the_queues_of_all_brokers(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 2, "broker-a", "broker-b")
        async with Producer(cluster.nameserver.address) as producer:
            results = [await producer.send(Message(TOPIC, b"x")) for _ in range(8)]
        assert set(Counter(result.queue for result in results).values()) == {2}
        assert len({result.queue for result in results}) == 4
        assert {result.queue_offset for result in results} == {0, 1}

    run(tmp_path, scene, brokers=2)


def test_a_producer_begins_with_any_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "randrange", lambda count: count - 2)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 4)
        async with Producer(cluster.nameserver.address) as producer:
            results = [await producer.send(Message(TOPIC, b"x")) for _ in range(3)]
        assert [result.queue.queue_id for result in results] == [3, 0, 1]

    run(tmp_path, scene)


def test_a_topic_comes_to_be_by_being_sent_to(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        async with Producer(cluster.nameserver.address) as producer:
            results = [await producer.send(Message("New", b"x")) for _ in range(4)]
        assert sorted(result.queue.queue_id for result in results) == [0, 1, 2, 3]

    run(tmp_path, scene)


def test_a_topic_comes_to_be_on_all_brokers_of_its_template(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        config = ProducerConfig(PublishConfig(default_topic_queue_nums=1))
        async with Producer(cluster.nameserver.address, config=config) as producer:
            results = [await producer.send(Message("New", b"x")) for _ in range(4)]
        assert len({result.queue.broker_name for result in results}) == 2

    run(tmp_path, scene, brokers=2)


def test_a_topic_that_may_be_written_again_is_sent_to_at_once(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1, perm=Perm.READ)
        async with Producer(cluster.nameserver.address) as producer:
            with pytest.raises(UnreachableError, match="no route"):
                await producer.send(Message(TOPIC, b"x"))
            await create_topic(cluster, 1)
            await producer.send(Message(TOPIC, b"x"))

    run(tmp_path, scene)


def test_a_queues_broker_is_looked_for(tmp_path: Path) -> None:
    queue = MessageQueue(TOPIC, "broker-a", 0)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        config = ProducerConfig(PublishConfig(create_topic_key="NoTemplate"))
        async with Producer(cluster.nameserver.address, config=config) as producer:
            await producer.send_oneway(Message(TOPIC, b"x"), queue)
        async with Producer(cluster.nameserver.address, config=config) as producer:
            assert (await producer.send(Message(TOPIC, b"x"), queue=queue)).queue == queue

    run(tmp_path, scene)


def test_a_broker_that_is_silent_leaves_time_for_another_one() -> None:
    def silent_a(_: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.ext_fields["n"] == "a":
            return None
        return request.response(ext_fields={"queueId": "0", "queueOffset": "0"})

    async def scene() -> None:
        config = ProducerConfig(
            PublishConfig(send_msg_timeout_ms=20_000, send_msg_max_timeout_per_request_ms=1_000)
        )
        async with (
            scripted(silent_a, brokers="ab") as server,
            Producer(f"127.0.0.1:{server.port}", config=config) as producer,
            asyncio.timeout(15),
        ):
            results = [await producer.send(Message(TOPIC, b"x")) for _ in range(2)]
        assert {result.queue.broker_name for result in results} == {"b"}

    asyncio.run(scene())


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
    sends = itertools.groupby(events, lambda event: event.message_key)
    outcomes = [[event.outcome for event in send] for _, send in sends]
    assert {(*tries, end) for *tries, end in outcomes} == {
        (Outcome.INVOKED, Outcome.OK),
        (Outcome.INVOKED, Outcome.INVOKED, Outcome.OK),
    }
    assert all(event.kind is EventKind.SEND and event.message_key for event in events)
    assert events[1].cause == "producer/0"


def test_no_route_is_an_error(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        address = cluster.nameserver.address
        async with Producer(address) as producer, stopped(cluster.brokers[0]):
            with pytest.raises(UnreachableError, match="no route to the topic New"):
                await producer.send(Message("New", b"x"))

    run(tmp_path, scene)


def test_a_broker_that_is_reached_again_is_told_of_the_producer_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Connection] = []
    answer = PROCESSORS[RequestCode.HEART_BEAT]

    def keep(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
        told.append(connection)
        return answer(broker, connection, request)

    monkeypatch.setitem(PROCESSORS, RequestCode.HEART_BEAT, keep)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with Producer(cluster.nameserver.address) as producer:  # its heartbeats are rare
            (first,) = told
            first.close()
            await first.wait_closed()
            with suppress(ConnectionLostError):  # unless it knows by then
                await producer.send(Message(TOPIC, b"x"))
            await producer.send(Message(TOPIC, b"x"))
            await until(lambda: len(told) == 2)

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


def test_of_several_nameservers_one_that_answers_is_asked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nowhere = f"127.0.0.1:{free.getsockname()[1]}"

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        addresses = f"{nowhere};{cluster.nameserver.address};{nowhere}"
        async with Producer(addresses) as producer:
            await producer.send(Message(TOPIC, b"x"))
            assert producer.client_id.startswith("127.0.0.1@")
        with pytest.raises(UserError, match="the nameserver does not answer"):
            await _enter(f"{nowhere};{nowhere}")

    run(tmp_path, scene)


@pytest.mark.parametrize("text", ["localhost", "localhost:", ":1", "h:0", "h:65536", "h:x"])
def test_what_is_not_an_address_is_the_users_error(text: str) -> None:
    with pytest.raises(UserError, match="write it as HOST:PORT"):
        Address.parse(text)


def test_a_send_without_an_answer_may_have_been_carried_out() -> None:
    events: list[Event] = []

    async def scene() -> None:
        recorder = Recorder("run", "producer", events.append)
        async with (
            scripted(lambda *_: None) as server,
            Producer(f"127.0.0.1:{server.port}", recorder=recorder) as producer,
        ):
            with pytest.raises(RequestTimeoutError):
                await producer.send(Message(TOPIC, b"x"), timeout_ms=1_000)
            with pytest.raises(UnreachableError, match="before the first try"):
                await producer.send(Message(TOPIC, b"x"), timeout_ms=0)

    asyncio.run(scene())
    outcomes = [event.outcome for event in events]
    assert outcomes == [Outcome.INVOKED, Outcome.UNKNOWN, Outcome.INVOKED, Outcome.FAILED]


@pytest.mark.parametrize("is_async", [True, False])
def test_after_a_request_without_an_answer_there_is_another_connection(is_async: bool) -> None:
    used: list[Connection] = []

    def once(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        used.append(connection)
        if len(used) == 1:
            return None  # as where a firewall forgot the connection
        return request.response(ext_fields={"queueId": "0", "queueOffset": "0"})

    async def scene() -> None:
        async with scripted(once) as server, Producer(f"127.0.0.1:{server.port}") as producer:
            begun: Awaitable[object]
            if is_async:
                begun = await producer.send_async(Message(TOPIC, b"x"), timeout_ms=1_000)
            else:
                begun = producer.send(Message(TOPIC, b"x"), timeout_ms=1_000)
            with pytest.raises(RequestTimeoutError):
                await begun
            await producer.send(Message(TOPIC, b"x"))

    asyncio.run(scene())
    first, second = used
    assert (first is second) is is_async


def test_a_messages_id_tells_when_it_was_sent() -> None:
    def span_ms(at: datetime) -> float:
        month = at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        return (at.timestamp() - month.timestamp()) * 1000

    before = datetime.now()
    ids = [bytes.fromhex(create_unique_id()) for _ in range(3)]
    after = datetime.now()
    assert len(set(ids)) == 3
    assert {len(each) for each in ids} == {16}
    for each in ids:
        sent = int.from_bytes(each[10:14])  # in the month
        assert before.month != after.month or int(span_ms(before)) <= sent <= span_ms(after)


def test_a_large_body_travels_compressed(tmp_path: Path) -> None:
    large, just_below = b"x" * 4096, b"x" * 4095

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with Producer(cluster.nameserver.address) as producer:
            await producer.send(Message(TOPIC, large, flag=7))
            await producer.send(Message(TOPIC, just_below))
        compressed, plain = await pulled(cluster)
        assert compressed.body == large
        assert len(compressed.record.body) < 100
        assert compressed.record.sys_flag == SysFlag.COMPRESSED | SysFlag.ZLIB
        assert compressed.record.flag == 7
        assert plain.record.body == just_below
        assert plain.record.sys_flag == 0

    run(tmp_path, scene)


@pytest.mark.parametrize(("codec", "flag"), [("lz4", SysFlag.LZ4), ("zstd", SysFlag.ZSTD)])
def test_other_clients_compressions_are_read(codec: str, flag: SysFlag) -> None:
    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, codec) as stream:
        stream.write(b"body" * 100)
    record = Record(TOPIC, sink.getvalue().to_pybytes(), sys_flag=SysFlag.COMPRESSED | flag)
    assert MessageExt(record, MessageQueue(TOPIC, "b", 0)).body == b"body" * 100


def test_old_clients_name_no_compression_and_mean_zlib() -> None:
    record = Record(TOPIC, zlib.compress(b"body"), sys_flag=SysFlag.COMPRESSED)
    assert MessageExt(record, MessageQueue(TOPIC, "b", 0)).body == b"body"


def test_a_batch_is_stored_one_message_after_the_other(tmp_path: Path) -> None:
    events: list[Event] = []

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        recorder = Recorder("run", "producer", events.append)
        async with Producer(cluster.nameserver.address, recorder=recorder) as producer:
            result = await producer.send_batch([Message(TOPIC, b"x", keys=key) for key in "abc"])
            with pytest.raises(MessageError, match="one topic"):
                await producer.send_batch([Message(TOPIC, b"x"), Message("Other", b"x")])
        messages = await pulled(cluster)
        assert [message.keys for message in messages] == ["a", "b", "c"]
        assert [message.message_id for message in messages] == result.message_id.split(",")
        ids = [message.record.message_id for message in messages]
        assert ids == result.offset_message_id.split(",")

    run(tmp_path, scene)
    stored = [event for event in events if event.outcome is Outcome.OK]
    assert [(event.message_key, event.queue_offset) for event in stored] == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
    ]


@pytest.mark.parametrize("waits", [True, False])
def test_a_batch_says_whether_it_waits_for_the_disk(waits: bool) -> None:
    asked: list[str] = []

    def store(_: Connection, request: RemotingCommand) -> RemotingCommand:
        asked.append(decode_properties(request.ext_fields["i"])["WAIT"])
        return request.response(ext_fields={"queueId": "0", "queueOffset": "0"})

    async def scene() -> None:
        message = Message(TOPIC, b"x", wait_store_msg_ok=waits)
        async with (
            scripted(store) as server,
            Producer(f"127.0.0.1:{server.port}") as producer,
        ):
            await producer.send_batch([message] * 2)

    asyncio.run(scene())
    assert asked == [str(waits).lower()]


def test_messages_of_one_key_keep_to_one_queue(tmp_path: Path) -> None:
    def by_key(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        return select_by_hash(queues, message.keys or "")

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 4)
        async with Producer(cluster.nameserver.address) as producer:
            messages = [Message(TOPIC, b"x", keys=key) for key in "abcabc"]
            queues = [(await producer.send_orderly(each, by_key)).queue for each in messages]
        assert queues[:3] == queues[3:]
        assert len(set(queues)) == 3

    run(tmp_path, scene)


def test_what_is_sent_one_way_arrives(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with Producer(cluster.nameserver.address) as producer:
            await producer.send_oneway(Message(TOPIC, b"x", keys="k"))
            await producer.send(Message(TOPIC, b"x", keys="after"))  # on the same connection
        assert [message.keys for message in await pulled(cluster)] == ["k", "after"]

    run(tmp_path, scene)


@pytest.mark.parametrize(
    ("config", "body"),
    [
        (ProducerConfig(back_pressure_for_async_send_num=2), b"x"),
        (ProducerConfig(back_pressure_for_async_send_size=5), b"xx"),
    ],
)
def test_so_much_is_in_flight_asynchronously_at_most(config: ProducerConfig, body: bytes) -> None:
    waiting: list[tuple[Connection, RemotingCommand]] = []

    def keep(connection: Connection, request: RemotingCommand) -> None:
        waiting.append((connection, request))

    def answer_first() -> None:
        connection, request = waiting.pop(0)
        connection.send(request.response(0, ext_fields={"queueId": "0", "queueOffset": "5"}))

    async def scene() -> None:
        async with (
            scripted(keep) as server,
            Producer(f"127.0.0.1:{server.port}", config=config) as producer,
        ):
            first, _ = [await producer.send_async(Message(TOPIC, body)) for _ in range(2)]
            third = asyncio.create_task(producer.send_async(Message(TOPIC, body)))
            await until(lambda: len(waiting) == 2)
            assert not third.done()
            answer_first()
            assert (await first).queue_offset == 5
            await until(third.done)
            await until(lambda: len(waiting) == 2)
            answer_first()
            answer_first()  # leaving waits for them

    asyncio.run(scene())


def test_a_slow_broker_is_left_alone_for_a_while() -> None:
    asked: list[str] = []

    def refuse_b(_: Connection, request: RemotingCommand) -> RemotingCommand:
        broker = request.ext_fields["n"]
        asked.append(broker)
        code = ResponseCode.SYSTEM_BUSY if broker == "b" else ResponseCode.SUCCESS
        return request.response(code, ext_fields={"queueId": "0", "queueOffset": "0"})

    async def scene(*, avoid: bool) -> int:
        asked.clear()
        config = ProducerConfig(PublishConfig(send_latency_fault_enable=avoid))
        async with (
            scripted(refuse_b, brokers="ab") as server,
            Producer(f"127.0.0.1:{server.port}", config=config) as producer,
        ):
            for _ in range(6):
                await producer.send(Message(TOPIC, b"x"))
        return asked.count("b")

    assert asyncio.run(scene(avoid=True)) == 1
    assert asyncio.run(scene(avoid=False)) > 1


def test_a_broker_is_not_avoided_for_what_was_sent_to_one_queue() -> None:
    asked: list[str] = []

    def refuse_first(_: Connection, request: RemotingCommand) -> RemotingCommand:
        code = ResponseCode.SUCCESS if asked else ResponseCode.SYSTEM_BUSY
        asked.append(request.ext_fields["n"])
        return request.response(code, ext_fields={"queueId": "0", "queueOffset": "0"})

    async def scene() -> None:
        config = ProducerConfig(PublishConfig(send_latency_fault_enable=True))
        async with (
            scripted(refuse_first, brokers="ab") as server,
            Producer(f"127.0.0.1:{server.port}", config=config) as producer,
        ):
            with pytest.raises(BrokerError):
                await producer.send(Message(TOPIC, b"x"), queue=MessageQueue(TOPIC, "b", 0))
            for _ in range(2):
                await producer.send(Message(TOPIC, b"x"))

    asyncio.run(scene())
    assert sorted(asked) == ["a", "b", "b"]


def test_what_a_broker_refuses_for_good_is_not_tried_again() -> None:
    asked: list[int] = []

    def illegal(_: Connection, request: RemotingCommand) -> RemotingCommand:
        asked.append(request.code)
        return request.response(ResponseCode.MESSAGE_ILLEGAL, "no")

    async def scene() -> None:
        async with (
            scripted(illegal) as server,
            Producer(f"127.0.0.1:{server.port}") as producer,
        ):
            with pytest.raises(BrokerError, match="code 13: no"):
                await producer.send(Message(TOPIC, b"x"))
            with pytest.raises(MessageError, match="the body is empty"):
                await producer.send(Message(TOPIC, b""))

    asyncio.run(scene())
    assert asked == [RequestCode.SEND_MESSAGE_V2]


def test_what_is_stored_less_safely_goes_to_another_broker_on_request() -> None:
    def late(_: Connection, request: RemotingCommand) -> RemotingCommand:
        code = ResponseCode.FLUSH_DISK_TIMEOUT if request.ext_fields["n"] == "a" else 0
        return request.response(code, ext_fields={"queueId": "0", "queueOffset": "0"})

    async def scene(*, again: bool) -> set[str]:
        config = ProducerConfig(PublishConfig(retry_another_broker_when_not_store_ok=again))
        async with (
            scripted(late, brokers="ab") as server,
            Producer(f"127.0.0.1:{server.port}", config=config) as producer,
        ):
            results = [await producer.send(Message(TOPIC, b"x")) for _ in range(4)]
        return {f"{result.queue.broker_name}{result.status}" for result in results}

    assert asyncio.run(scene(again=False)) == {"a10", "b0"}
    assert asyncio.run(scene(again=True)) == {"b0"}


def test_a_producer_that_is_killed_ends_what_it_does() -> None:
    async def scene() -> list[str]:
        done: list[str] = []

        async def cancel() -> None:
            done.append("cancelled")

        sending = asyncio.create_task(asyncio.Event().wait())
        await asyncio.sleep(0)
        killed: Any = SimpleNamespace(
            _instance=SimpleNamespace(abort=lambda: done.append("aborted")),
            _in_flight={sending},
            _tasks=SimpleNamespace(cancel=cancel),
        )
        await Producer.kill(killed)
        assert sending.cancelled()
        return done

    assert asyncio.run(scene()) == ["aborted", "cancelled"]
