"""`mqspec serve` as a process: what it says, how it ends, and what it is after a kill -9."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqspec.transport import Connection, connect
from mqspec.wire.bodies import decode_messages, loads
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

DEADLINE_S = 30
SEND = {"b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
PULL = {
    "consumerGroup": "G",
    "topic": "T",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "32",
    "sysFlag": "4",
    "subscription": "*",
}
COMMIT = {"consumerGroup": "G", "topic": "T", "queueId": "0", "commitOffset": "1"}


class Served:
    """A running `mqspec serve`, on free ports unless told otherwise."""

    def __init__(self, store: Path, *options: str) -> None:
        ports = ("--nameserver-port", "0", "--broker-port", "0", "--segment-size", "1048576")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mqspec.cli", "serve", "--store", str(store), *ports, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        assert self.process.stdout
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if self.said[-1] == "ready":
                break

    def address(self, name: str) -> tuple[str, int]:
        """Where it said that something listens."""
        (line,) = (line for line in self.said if name in line.split())
        host, _, port = line.split()[-1].rpartition(":")
        return host, int(port)

    def end(self, number: int) -> tuple[int, str]:
        """Send it a signal; its exit code, and what it had to complain about."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str]:
        """Its exit code, once it has ended, and what it had to complain about."""
        _, errors = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, errors


@contextmanager
def served(store: Path, *options: str) -> Iterator[Served]:
    """It, ended whatever happens."""
    running = Served(store, *options)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


async def ask(
    connection: Connection, code: int, fields: dict[str, str], body: bytes = b""
) -> RemotingCommand:
    return await connection.request(RemotingCommand(code, fields, body), 1000 * DEADLINE_S)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_and_stops_cleanly(tmp_path: Path, number: int) -> None:
    store = tmp_path / "store"
    with served(store) as running:
        assert [line.split()[:-1] for line in running.said] == [
            ["nameserver"],
            ["broker", "broker-a"],
            [],
        ]
        assert running.said[-1] == "ready"
        assert (store / "abort").exists()
        assert running.end(number) == (0, "")
    assert not (store / "abort").exists()


def test_several_brokers_have_a_topic(tmp_path: Path) -> None:
    async def scenario(running: Served) -> None:
        for name in ("broker-a", "broker-b"):
            broker = await connect(*running.address(name))
            assert (await ask(broker, RequestCode.SEND_MESSAGE_V2, SEND, b"x")).code == 0
        nameserver = await connect(*running.address("nameserver"))
        async with asyncio.timeout(DEADLINE_S):
            while True:
                route = await ask(nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
                queues = loads(route.body)["queueDatas"] if route.code == 0 else []
                if {data["brokerName"] for data in queues} == {"broker-a", "broker-b"}:
                    return

    with served(tmp_path / "store", "--brokers", "2") as running:
        asyncio.run(scenario(running))
    assert (tmp_path / "store" / "broker-b" / "commitlog").is_dir()


def test_what_is_left_after_a_kill(tmp_path: Path) -> None:
    store = tmp_path / "store"

    async def before(running: Served) -> str:
        broker = await connect(*running.address("broker-a"))
        assert (await ask(broker, RequestCode.PULL_MESSAGE, PULL | {"topic": "TBW102"})).code == 19
        for body in (b"one", b"two"):
            sent = await ask(broker, RequestCode.SEND_MESSAGE_V2, SEND, body)
        assert (await ask(broker, RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)).code == 0
        return sent.ext_fields["msgId"]

    async def after(running: Served, message_id: str) -> None:
        broker = await connect(*running.address("broker-a"))
        first, second = decode_messages((await ask(broker, RequestCode.PULL_MESSAGE, PULL)).body)
        assert (first.body, second.body) == (b"one", b"two")
        assert second.message_id == message_id
        offset = await ask(broker, RequestCode.QUERY_CONSUMER_OFFSET, COMMIT)
        assert offset.ext_fields["offset"] == "1"
        topic = await ask(broker, RequestCode.GET_TOPIC_CONFIG, {"topic": "T"})
        assert loads(topic.body)["writeQueueNums"] == 4
        sent = await ask(broker, RequestCode.SEND_MESSAGE_V2, SEND, b"three")
        assert sent.ext_fields["queueOffset"] == "2"

    with served(store) as running:
        message_id = asyncio.run(before(running))
        _wait_until_committed(store / "config" / "consumerOffset.json")
        port = running.address("broker-a")[1]
        running.process.kill()
        running.process.wait()
    assert (store / "abort").exists()
    # The message ids name the port.
    with served(store, "--broker-port", str(port), "--no-auto-create") as running:
        asyncio.run(after(running, message_id))
        assert running.end(signal.SIGINT)[0] == 0


def _wait_until_committed(file: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not file.exists() or b"T@G" not in file.read_bytes():
        assert time.monotonic() < deadline, "the offset did not reach the disk"
        time.sleep(0.05)


@pytest.mark.parametrize(
    "frame",
    [
        bytes.fromhex("00000000"),
        bytes.fromhex("00fffffd"),
        bytes.fromhex("00000008 00000004 7b7b7b7b"),
        bytes.fromhex("00000006 07000002 7b7d"),
    ],
)
def test_a_hostile_frame_closes_its_connection_and_no_other(tmp_path: Path, frame: bytes) -> None:
    async def scenario(running: Served) -> None:
        for name in ("nameserver", "broker-a"):
            good = await connect(*running.address(name))
            reader, writer = await asyncio.open_connection(*running.address(name))
            writer.write(frame)
            async with asyncio.timeout(DEADLINE_S):
                assert await reader.read() == b""
            writer.close()
            assert (await ask(good, 9999, {})).code == 3

    with served(tmp_path / "store") as running:
        asyncio.run(scenario(running))
        code, errors = running.end(signal.SIGINT)
        assert code == 0
        assert len(errors.splitlines()) == 2, "one line for each connection"
        assert "the connection is closed" in errors


def test_a_torn_frame_is_noted(tmp_path: Path) -> None:
    async def scenario(running: Served) -> None:
        _, writer = await asyncio.open_connection(*running.address("broker-a"))
        writer.write(bytes.fromhex("00000100 00"))
        writer.close()
        await writer.wait_closed()
        good = await connect(*running.address("broker-a"))
        assert (await ask(good, 9999, {})).code == 3

    with served(tmp_path / "store") as running:
        asyncio.run(scenario(running))
        code, errors = running.end(signal.SIGINT)
        assert code == 0
        assert "ended in the middle of a frame" in errors


def refused(store: Path, *options: str) -> str:
    """What it says when it does not start: one line."""
    with served(store, *options) as running:
        assert running.said == []
        code, errors = running.ended()
    assert code == 2
    (line,) = errors.splitlines()
    return line


@pytest.mark.parametrize("option", ["--nameserver-port", "--broker-port"])
def test_a_port_in_use(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused(tmp_path / "store", option, str(port))
    assert line.startswith(f"mqspec: 127.0.0.1:{port}: cannot listen: ")
    assert not (tmp_path / "store" / "abort").exists()


@pytest.mark.parametrize("host", ["192.0.2.1", "0.0.0.0", "no such host"])
def test_a_host_that_is_not_of_this_machine(tmp_path: Path, host: str) -> None:
    assert host in refused(tmp_path / "store", "--host", host)


def test_a_host_may_be_a_name(tmp_path: Path) -> None:
    with served(tmp_path / "store", "--host", "localhost") as running:
        assert running.address("broker-a")[0] == "127.0.0.1"


def test_a_directory_that_is_no_store(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert "not a store" in refused(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_that_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "not a directory" in refused(tmp_path / "file")


def test_a_store_in_use(tmp_path: Path) -> None:
    with served(tmp_path / "store"):
        assert "in use" in refused(tmp_path / "store")


def test_config_files_that_are_damaged(tmp_path: Path) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    (config / "topics.json").write_text('{"topicConfigTable":{"T":7}}')
    assert "topics.json" in refused(tmp_path / "store")


@pytest.mark.parametrize(
    ("option", "value"), [("--brokers", "0"), ("--brokers", "27"), ("--segment-size", "0")]
)
def test_numbers_that_make_no_sense(tmp_path: Path, option: str, value: str) -> None:
    assert refused(tmp_path / "store", option, value).startswith(f"mqspec: {option}: ")
