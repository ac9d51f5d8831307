"""mqadmin of Apache RocketMQ, the real tool, on the reference: one JVM for all commands."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from mqspec.cluster import Cluster, ClusterConfig
from mqspec.core.offset_commit import OffsetKey
from mqspec.store.message_store import StoreConfig
from mqspec.transport import Connection, connect
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

DEADLINE_S = 180
CLUSTER, TOPIC, GROUP, PRODUCERS = "DefaultCluster", "Orders", "Billing", "Shop"
UNIQUE_KEY = "7F000001000100000000000000000003"

BODIES = Path("/tmp/rocketmq/msgbodys")  # where queryMsgById writes bodies, whoever asks


class MqAdmin:
    """A process of java/Admin.java."""

    def __init__(self, process: asyncio.subprocess.Process, nameserver: str) -> None:
        self._process, self._nameserver = process, nameserver

    @classmethod
    @asynccontextmanager
    async def running(cls, command: list[str], nameserver: str) -> AsyncIterator[MqAdmin]:
        process = await asyncio.create_subprocess_exec(
            *(*command, "Admin"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            yield cls(process, nameserver)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            shutil.rmtree(BODIES, ignore_errors=True)
            with suppress(OSError):  # it is not ours, or not empty
                BODIES.parent.rmdir()

    async def __call__(self, line: str) -> list[list[str]]:
        """What a command prints, a list of words a line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [*line.split(), "-n", self._nameserver]
        self._process.stdin.write("\t".join(words).encode() + b"\n")
        said: list[list[str]] = []
        async with asyncio.timeout(DEADLINE_S):
            while (line_said := (await self._process.stdout.readline()).decode()) != "done\n":
                assert line_said, f"{line}: mqadmin ended: {said}"
                assert "Exception" not in line_said, f"{line}: {line_said}"
                said.append(line_said.split())
        return [words for words in said if words]


class Client:
    """A consumer and a producer of the tests, on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def ask(self, code: int, body: bytes = b"", /, **fields: object) -> RemotingCommand:
        texts = {name: str(value) for name, value in fields.items()}
        request = RemotingCommand(code, texts, body)
        answer = await self._connection.request(request, DEADLINE_S * 1000)
        assert answer.code == 0, answer
        return answer

    async def heartbeat(self) -> None:
        subscription = {"topic": TOPIC, "subString": "*", "subVersion": 1}
        consumer = {
            "groupName": GROUP,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [subscription],
        }
        body: dict[str, Any] = {
            "clientID": "client@1",
            "consumerDataSet": [consumer],
            "producerDataSet": [{"groupName": PRODUCERS}],
        }
        await self.ask(RequestCode.HEART_BEAT, json.dumps(body).encode())

    async def send(self, queue_id: int, key: str, unique_key: str) -> str:
        """Send a message, and return its offset message id."""
        properties = f"KEYS\x01{key}\x02UNIQ_KEY\x01{unique_key}\x02TAGS\x01new\x02"
        numbers = {"d": 4, "e": queue_id, "f": 0, "g": 1, "h": 0, "j": 0}
        texts = {"a": PRODUCERS, "b": TOPIC, "c": "TBW102", "i": properties, "m": "false"}
        answer = await self.ask(RequestCode.SEND_MESSAGE_V2, b"body", **numbers, **texts)
        return answer.ext_fields["msgId"]

    async def consume(self, queue_id: int, count: int) -> None:
        """Pull messages of a queue from its start on, and commit them."""
        queue = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": queue_id}
        numbers = {"queueOffset": 0, "maxMsgNums": count, "sysFlag": 0}
        await self.ask(RequestCode.PULL_MESSAGE, **queue, **numbers)
        await self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **queue, commitOffset=count)


def starting(said: list[list[str]], *words: str) -> list[list[str]]:
    """The lines that start with these words."""
    return [line for line in said if line[: len(words)] == list(words)]


async def topics_and_groups(mqadmin: MqAdmin, cluster: Cluster) -> None:
    a, b = (broker.address for broker in cluster.brokers)
    said = await mqadmin("clusterList")
    assert [line[:5] for line in starting(said, CLUSTER)] == [
        [CLUSTER, "broker-a", "0", a, "V5_3_3"],
        [CLUSTER, "broker-b", "0", b, "V5_3_3"],
    ]

    said = await mqadmin(f"updateTopic -b {a} -t {TOPIC} -r 4 -w 4 -a +message.type=NORMAL")
    assert starting(said, "create", "topic", "to", a, "success.")
    config = cluster.brokers[0].metadata.topic_config_table[TOPIC]
    assert (config.read_queue_nums, config.attributes) == (4, {"message.type": "NORMAL"})
    await mqadmin(f"updateTopic -c {CLUSTER} -t Gone -r 2 -w 2")
    assert all("Gone" in broker.metadata.topic_config_table for broker in cluster.brokers)
    assert {TOPIC, "Gone", "TBW102"} <= {line[0] for line in await mqadmin("topicList")}
    said = await mqadmin(f"topicRoute -t {TOPIC} -l")
    assert starting(said, CLUSTER, "broker-a") == [
        [CLUSTER, "broker-a", f"{{0={a}}}", "4", "4", "6"]
    ]
    assert await mqadmin(f"topicClusterList -t {TOPIC}") == [[CLUSTER]]

    with NamedTemporaryFile("w", suffix=".json") as file:
        queues = {"readQueueNums": 3, "writeQueueNums": 3}
        json.dump([{"topicName": name, **queues} for name in ("One", "Two")], file)
        file.flush()
        await mqadmin(f"updateTopicList -b {a} -f {file.name}")
    table = cluster.brokers[0].metadata.topic_config_table
    assert [table[name].read_queue_nums for name in ("One", "Two")] == [3, 3]
    with NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([{"groupName": name, "retryQueueNums": 4} for name in ("g1", "g2")], file)
        file.flush()
        await mqadmin(f"updateSubGroupList -b {a} -f {file.name}")
    groups = cluster.brokers[0].metadata.subscription_group_table
    assert [groups[name].retry_queue_nums for name in ("g1", "g2")] == [4, 4]

    said = await mqadmin(f"updateSubGroup -c {CLUSTER} -g {GROUP} -r 5")
    assert len(starting(said, "create", "subscription", "group")) == 2
    for broker in cluster.brokers:
        assert broker.metadata.subscription_group_table[GROUP].retry_max_times == 5


async def messages(mqadmin: MqAdmin, last_id: str) -> None:
    said = await mqadmin(f"topicStatus -t {TOPIC}")
    assert [line[:4] for line in starting(said, "broker-a")] == [
        ["broker-a", str(queue_id), "0", "2" if queue_id < 2 else "1"] for queue_id in range(4)
    ]
    said = await mqadmin(f"queryMsgById -t {TOPIC} -i {last_id}")
    assert starting(said, "OffsetID:") == [["OffsetID:", last_id]]
    assert starting(said, "Keys:") == [["Keys:", "[key-5]"]]
    said = await mqadmin(f"queryMsgByKey -t {TOPIC} -k key-3")
    assert said[-1] == [UNIQUE_KEY, "3", "0"]


async def clients(mqadmin: MqAdmin) -> None:
    said = await mqadmin(f"consumerProgress -g {GROUP}")
    assert [line[:6] for line in starting(said, TOPIC)] == [
        [TOPIC, "broker-a", "0", "2", "1", "1"],
        [TOPIC, "broker-a", "1", "2", "0", "2"],
        [TOPIC, "broker-a", "2", "1", "0", "1"],
        [TOPIC, "broker-a", "3", "1", "0", "1"],
    ]
    assert starting(said, "Consume", "Diff", "Total:") == [["Consume", "Diff", "Total:", "5"]]
    said = await mqadmin(f"consumerConnection -g {GROUP}")
    assert [line[0::2] for line in starting(said, "client@1")] == [["client@1", "PYTHON"]]
    assert [TOPIC, "*"] in said
    said = await mqadmin(f"producerConnection -g {PRODUCERS} -t {TOPIC}")
    assert [line[1] for line in starting(said, "0001")] == ["client@1"]


async def figures(mqadmin: MqAdmin, cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    said = await mqadmin(f"brokerStatus -b {broker.address}")
    table = {line[0]: line[-1] for line in said}
    assert table["msgPutTotalTodayNow"] == "6"
    assert table["brokerVersionDesc"] == "V5_3_3"
    assert table["commitLogMaxOffset"] == str(broker.store.positions.commit_log.max)
    said = await mqadmin(f"statsAll -t {TOPIC}")
    assert starting(said, TOPIC, GROUP, "5"), "accumulation"


async def queues_and_offsets(mqadmin: MqAdmin, cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    said = await mqadmin(f"queryCq -b {broker.address} -t {TOPIC} -q 0 -i 0 -c 10")
    assert ["max:", "2,", "min:", "0"] in said
    units = broker.store.units(TOPIC, 0, 0, 2)
    assert [line[:2] for line in said if line[0].startswith("ConsumeQueueData")] == [
        [f"ConsumeQueueData{{physicOffset={unit.position},", f"physicSize={unit.size},"]
        for unit in units
    ]
    await mqadmin(f"updateSubGroup -c {CLUSTER} -g Others")
    await mqadmin(f"cloneGroupOffset -s {GROUP} -d Others -t {TOPIC}")
    assert broker.offsets.offset_table[OffsetKey(TOPIC, "Others", 0)] == 1
    for command in ("cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"):
        assert await mqadmin(f"{command} -b {broker.address}") == [["success"]]
    assert broker.store.units(TOPIC, 0, 0, 2) == units


async def resets_and_deletions(mqadmin: MqAdmin, cluster: Cluster) -> None:
    broker = cluster.brokers[0]
    said = await mqadmin(f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s {int(time.time() * 1000)}")
    assert {tuple(line[1:]) for line in starting(said, "broker-a")} == {
        *(("0", "2"), ("1", "2"), ("2", "1"), ("3", "1"))
    }
    said = await mqadmin(f"deleteTopic -c {CLUSTER} -t Gone")
    assert len(starting(said, "delete", "topic", "[Gone]")) == 2
    assert not any("Gone" in broker.metadata.topic_config_table for broker in cluster.brokers)
    assert ["Gone"] not in await mqadmin("topicList")
    await mqadmin(f"deleteSubGroup -c {CLUSTER} -g {GROUP}")
    assert GROUP not in broker.metadata.subscription_group_table


def test_mqadmin_works(java_command: list[str], tmp_path: Path) -> None:
    async def scene() -> None:
        config = ClusterConfig(tmp_path, brokers=2, store_config=StoreConfig(segment_size=1 << 20))
        async with Cluster(config) as cluster:
            nameserver = cluster.nameserver.address
            host, _, port = cluster.brokers[0].address.rpartition(":")
            async with MqAdmin.running(java_command, nameserver) as mqadmin:
                await topics_and_groups(mqadmin, cluster)
                client = Client(await connect(host, int(port)))
                await client.heartbeat()
                ids = [
                    await client.send(i % 4, f"key-{i}", f"{UNIQUE_KEY[:-1]}{i}") for i in range(6)
                ]
                await client.consume(0, 1)
                await messages(mqadmin, ids[-1])
                await clients(mqadmin)
                await figures(mqadmin, cluster)
                await queues_and_offsets(mqadmin, cluster)
                await resets_and_deletions(mqadmin, cluster)

    asyncio.run(scene())
