"""`mqspec serve` as a process: what it says, how it ends, and what it is after a kill -9."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mqspec.cli import main
from mqspec.core.metadata import BrokerConfig
from mqspec.nameserver.config import NamesrvConfig
from mqspec.options import values
from mqspec.store.message_store import StoreConfig
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
    with served(store, "--broker-port", str(port), "--no-auto-create-topic-enable") as running:
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


def test_a_key_without_its_certificate(tmp_path: Path) -> None:
    key = str(tmp_path / "server.key")
    assert refused(tmp_path / "store", "--tls-key", key).startswith(f"mqspec: {key}: a key without")


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


def test_lost_consumer_offsets_keep_no_message_from_being_served(tmp_path: Path) -> None:
    async def send(running: Served) -> None:
        broker = await connect(*running.address("broker-a"))
        assert (await ask(broker, RequestCode.SEND_MESSAGE_V2, SEND, b"x")).code == 0

    async def pull(running: Served) -> None:
        broker = await connect(*running.address("broker-a"))
        (message,) = decode_messages((await ask(broker, RequestCode.PULL_MESSAGE, PULL)).body)
        assert message.body == b"x"

    with served(tmp_path / "store") as running:
        asyncio.run(send(running))
        running.end(signal.SIGTERM)
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        (tmp_path / "store" / "config" / name).write_text("{")
    with served(tmp_path / "store") as running:
        asyncio.run(pull(running))


@pytest.mark.parametrize(
    ("option", "value"), [("--brokers", "0"), ("--brokers", "27"), ("--segment-size", "0")]
)
def test_numbers_that_make_no_sense(tmp_path: Path, option: str, value: str) -> None:
    assert refused(tmp_path / "store", option, value).startswith(f"mqspec: {option}: ")


# Options


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What --print-config says."""
    assert main(["serve", "--print-config", *options]) == 0
    return capsys.readouterr().out


def test_options_are_fields_of_the_configurations(capsys: pytest.CaptureFixture[str]) -> None:
    config = tomllib.loads(printed(capsys))
    for section, given_otherwise in (
        (NamesrvConfig(), set()),
        (BrokerConfig(), {"host", "broker_name"}),
        (StoreConfig(), set()),
    ):
        expected = values(section)
        assert expected.items() - config.items() <= {
            (name, expected[name]) for name in given_otherwise
        }


def test_a_file_gives_options_and_a_flag_wins(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mqspec.toml"
    file.write_text('brokers = 2\nmessage_delay_level = "1s 2s"\nsegment_size = 65536\n')
    config = tomllib.loads(printed(capsys, "--config", str(file), "--segment-size", "131072"))
    assert (config["brokers"], config["message_delay_level"]) == (2, "1s 2s")
    assert config["segment_size"] == 131072
    assert config["broker_port"] == 10911


def test_what_is_printed_can_be_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--store", str(tmp_path / "store"), "--no-auto-create-topic-enable")
    first = printed(capsys, *options, "--metrics-port", "0", "--log-format", "json")
    (tmp_path / "mqspec.toml").write_text(first)
    assert printed(capsys, "--config", str(tmp_path / "mqspec.toml")) == first


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("messageDelayLevel = '1s'", "no such option; the nearest is message_delay_level"),
        ("broker_prot = 1", "broker_prot: no such option; the nearest is broker_port"),
        ("brokers = 'two'", "brokers: Expected `int`"),
        ("brokers = 99", "brokers: 99 is out of range"),
        ("segment_size = 0", "segment_size: 0 is out of range"),
        ("log_level = 'loud'", "log_level: Invalid enum value"),
        ("brokers =", "not TOML"),
    ],
)
def test_a_file_that_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, complaint: str
) -> None:
    file = tmp_path / "mqspec.toml"
    file.write_text(line)
    assert main(["serve", "--config", str(file)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert str(file) in said
    assert complaint in said.replace(" -> ", "; ")


def test_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--config", str(tmp_path / "none.toml")]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve"]) == 2
    assert capsys.readouterr().err.startswith("mqspec: --store: is missing")


# Metrics and logs


def test_metrics_are_there_for_prometheus(tmp_path: Path) -> None:
    async def scenario(running: Served) -> None:
        broker = await connect(*running.address("broker-a"))
        for body in (b"one", b"three"):
            assert (await ask(broker, RequestCode.SEND_MESSAGE_V2, SEND, body)).code == 0
        assert (await ask(broker, RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)).code == 26
        assert (await ask(broker, RequestCode.PULL_MESSAGE, PULL)).code == 0
        assert (await ask(broker, RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)).code == 0

    with served(tmp_path / "store", "--metrics-port", "0") as running:
        asyncio.run(scenario(running))
        (url,) = (line.split()[-1] for line in running.said if line.startswith("metrics "))
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:
            assert response.headers["Content-Type"].startswith("text/plain")
            said = response.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(url + "s", timeout=DEADLINE_S)
        request = urllib.request.Request(url, method="POST")
        with pytest.raises(urllib.error.HTTPError, match="405"):
            urllib.request.urlopen(request, timeout=DEADLINE_S)
    found = {
        (sample.name, sample.labels.get("topic")): sample
        for family in text_string_to_metric_families(said)
        for sample in family.samples
    }
    assert found["rocketmq_messages_in_total", "T"].value == 2
    bytes_in, bytes_out = (found[f"rocketmq_throughput_{way}_total", "T"] for way in ("in", "out"))
    assert bytes_in.value == bytes_out.value > len(b"onethree"), "whole records"
    out = found["rocketmq_messages_out_total", "T"]
    assert (out.value, out.labels["consumer_group"], out.labels["node_id"]) == (2, "G", "broker-a")
    assert found["rocketmq_consumer_lag_messages", "T"].value == 1
    assert found["rocketmq_storage_size", None].value > 0
    assert found["process_resident_memory_bytes", None].value > 0


def test_logs_are_lines_of_json(tmp_path: Path) -> None:
    heartbeat = (
        b'{"clientID":"c@1","consumerDataSet":[{"groupName":"G","consumeType":"CONSUME_PASSIVELY",'
        b'"messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET"}]}'
    )

    async def scenario(running: Served) -> None:
        member = await connect(*running.address("broker-a"))
        for _ in range(2):  # a member joins once
            assert (await ask(member, RequestCode.HEART_BEAT, {}, heartbeat)).code == 0
        member.close()
        await member.wait_closed()
        _, writer = await asyncio.open_connection(*running.address("broker-a"))
        writer.write(bytes.fromhex("00000000"))
        writer.close()

    options = ("--log-format", "json", "--log-level", "info")
    with served(tmp_path / "store", *options) as running:
        asyncio.run(scenario(running))
        code, errors = running.end(signal.SIGTERM)
    assert code == 0
    lines = [json.loads(line) for line in errors.splitlines()]
    assert all({"time", "level", "logger", "event"} <= line.keys() for line in lines)
    events = [line["event"] for line in lines]
    assert events[:2] == ["store recovered", "broker registered"]
    assert events[-1] == "broker stopped"
    assert events.count("member joined") == events.count("member left") == 1
    (joined,) = (line for line in lines if line["event"] == "member joined")
    assert (joined["group"], joined["client_id"], joined["broker"]) == ("G", "c@1", "broker-a")
    assert "rebalance notice" in events
    assert any("the connection is closed" in event for event in events)


def test_more_connections_than_a_shell_allows_files(tmp_path: Path) -> None:
    """What the system allows counts, not what the shell does that it is started from."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))  # for what is started now
        running = stack.enter_context(served(tmp_path))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        async def scene() -> None:
            many = [await connect(*running.address("broker")) for _ in range(200)]
            answer = await many[-1].request(RemotingCommand(9999), 5_000)
            assert answer.code == 3
            for connection in many:
                connection.abort()

        asyncio.run(scene())
