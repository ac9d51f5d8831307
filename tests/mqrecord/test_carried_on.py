"""A relay before a cluster of the reference: clients go through it, and what they do is told."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from ssl import SSLContext

import pytest

from mqrecord.observer import Observer
from mqrecord.relay import WAITING_BYTES, Address, Place, Relay, _FromClient
from mqrecord.seen import Row
from mqspec.client.listener import ConsumeStatus
from mqspec.client.message import Message, MessageExt
from mqspec.client.producer import Producer, ProducerConfig
from mqspec.client.push_consumer import PushConsumer
from mqspec.client.push_work import ConsumerConfig
from mqspec.cluster import Cluster, ClusterConfig
from mqspec.core.group import ConsumeFromWhere
from mqspec.store.message_store import StoreConfig
from mqspec.tls import Tls, TlsMode, client_context

DEADLINE_S = 30
MESSAGES = 20


@asynccontextmanager
async def relayed(
    store: Path, mode: TlsMode = TlsMode.PERMISSIVE
) -> AsyncIterator[tuple[Cluster, Relay, list[Row]]]:
    """A cluster, a relay before it, and what is told."""
    rows: list[Row] = []
    config = ClusterConfig(store, store_config=StoreConfig(segment_size=1 << 20), tls=Tls(mode))
    async with Cluster(config) as cluster:
        host, _, port = cluster.nameserver.address.rpartition(":")
        ssl = client_context() if mode is TlsMode.ENFORCING else None
        place = Place("127.0.0.1", 0, "127.0.0.1")
        relay = Relay([(host, int(port))], place, Observer(), rows.extend, ssl)
        await relay.start()
        try:
            yield cluster, relay, rows
        finally:
            await relay.close()


async def until(rows: list[Row], kind: str, number: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while [row["kind"] for row in rows].count(kind) < number:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("mode", [TlsMode.PERMISSIVE, TlsMode.ENFORCING])
@pytest.mark.parametrize("ssl", [None, client_context()], ids=["plain", "TLS"])
def test_clients_go_through_it(tmp_path: Path, mode: TlsMode, ssl: SSLContext | None) -> None:
    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    async def run() -> list[Row]:
        async with relayed(tmp_path, mode) as (_, relay, rows):
            at = f"127.0.0.1:{relay.port}"
            async with Producer(at, config=ProducerConfig(ssl=ssl)) as producer:
                for n in range(MESSAGES):
                    await producer.send(Message("T", b"body", keys=f"k{n}"))
                first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
                config = ConsumerConfig(consume_from_where=first, ssl=ssl)
                async with PushConsumer(at, "G", {"T": "*"}, listen, config):
                    await until(rows, "receive", MESSAGES)
            await until(rows, "leave", 1)
            return rows

    rows = asyncio.run(run())
    sent = {
        row["message_key"]: row for row in rows if row["outcome"] == "ok" if row["kind"] == "send"
    }
    got = [row for row in rows if row["kind"] == "receive"]
    assert len(sent) == len(got) == MESSAGES
    for row in got:
        places = ("topic", "broker", "queue_id", "queue_offset")
        assert [row[name] for name in places] == [sent[row["message_key"]][name] for name in places]


def test_that_the_recorder_ends_is_no_crash_of_its_clients(tmp_path: Path) -> None:
    async def listen(messages: Sequence[MessageExt]) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    async def run() -> list[Row]:
        async with relayed(tmp_path) as (_, relay, rows):
            at = f"127.0.0.1:{relay.port}"
            async with Producer(at) as producer:
                await producer.send(Message("T", b"body"))
            consumer = PushConsumer(at, "G", {"T": "*"}, listen, ConsumerConfig())
            await consumer.__aenter__()
            await until(rows, "assign", 1)
            await relay.close()
            await consumer.kill()
        return rows

    kinds = {row["kind"] for row in asyncio.run(run())}
    assert "assign" in kinds
    assert not kinds & {"crash", "leave"}


def test_a_broker_that_ends_is_told(tmp_path: Path) -> None:
    async def run() -> list[Row]:
        async with relayed(tmp_path) as (cluster, relay, rows):
            async with Producer(f"127.0.0.1:{relay.port}") as producer:
                await producer.send(Message("T", b"body"))
                await cluster.brokers[0].stop()
                await until(rows, "crash", 1)
            return rows

    crashes = [row for row in asyncio.run(run()) if row["kind"] == "crash"]
    assert [(row["peer"], row.get("client_id")) for row in crashes] == [("broker-a", None)]


def test_what_is_no_frame_is_carried_on(tmp_path: Path) -> None:
    """A server of another protocol answers through it, byte for byte."""
    said = b"\x7f\xff\xff\xff" + b"no frame" * 100

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(5) + said)
        writer.close()

    rows: list[Row] = []

    async def run() -> bytes:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()[:2]
        relay = Relay([address], Place("127.0.0.1", 0, "127.0.0.1"), Observer(), rows.extend)
        await relay.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(b"hello")
        answer = await asyncio.wait_for(reader.read(), DEADLINE_S)
        writer.close()
        await relay.close()
        server.close()
        return answer

    assert asyncio.run(run()) == b"hello" + said
    assert rows == []


class Late(Relay):
    """Connects a link once it is told to."""

    link: _FromClient | None = None
    go_on: Callable[[], None]

    def connect(self, link: _FromClient, to: list[Address]) -> None:
        self.link, self.go_on = link, partial(super().connect, link, to)


def test_what_comes_before_there_is_a_server_waits_at_its_client() -> None:
    said = bytes(32 << 20)
    came = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 20):
            came.extend(data)
            if len(came) == len(said):
                writer.close()

    async def run() -> int:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()[:2]
        relay = Late([address], Place("127.0.0.1", 0, "127.0.0.1"), Observer(), lambda _: None)
        await relay.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        writer.write(said)
        async with asyncio.timeout(DEADLINE_S):
            while not (relay.link and relay.link.transport) or relay.link.transport.is_reading():
                await asyncio.sleep(0.02)
            kept = len(relay.link._waiting)
            relay.go_on()
            assert await reader.read() == b""
        writer.close()
        await relay.close()
        server.close()
        return kept

    assert WAITING_BYTES <= asyncio.run(run()) < 2 * WAITING_BYTES
    assert bytes(came) == said


def record(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mqspec.cli", "record", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)


def test_a_server_that_takes_no_connection_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Clients try again without end: a line for each would fill what nobody reads."""
    rows: list[Row] = []

    async def run(listening: socket.socket) -> None:
        address = listening.getsockname()
        relay = Relay([address], Place("127.0.0.1", 0, "127.0.0.1"), Observer(), rows.extend)
        await relay.start()

        async def ask() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
            writer.write(b"hello")
            try:
                return await asyncio.wait_for(reader.read(), DEADLINE_S)
            finally:
                writer.close()

        assert [await ask() for _ in range(3)] == [b""] * 3
        async with await asyncio.start_server(serve, sock=listening):
            assert await ask() == said
        assert await ask() == b""
        await relay.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(said)
        writer.close()

    said = b"\x7f\xff\xff\xffno frame"
    with socket.socket() as listening:  # bound: nobody else gets the port
        listening.bind(("127.0.0.1", 0))
        asyncio.run(run(listening))
    refused = [one for one in caplog.messages if "takes no connection" in one]
    assert len(refused) == 2


def test_a_wrong_address_is_told_in_a_line_and_nothing_is_left(tmp_path: Path) -> None:
    out = tmp_path / "recorded"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        there = f"127.0.0.1:{taken.getsockname()[1]}"
        wrong = {
            ("nowhere",): "no address",
            ("127.0.0.1:1",): "nobody takes a connection",
            (there, "--listen", there): "cannot listen",
            (there, "--listen", "0.0.0.0:0"): "no address that clients can reach",
        }
        for words, said in wrong.items():
            ended = record(*words, "--out", str(out))
            assert (ended.returncode, ended.stderr.count("\n")) == (2, 1), ended.stderr
            assert said in ended.stderr
    assert not out.exists() or not [*out.iterdir()]
