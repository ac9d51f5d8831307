"""What an administrator asks a consumer through its broker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from peer import meet, running

from mqspec.broker.processor import relay
from mqspec.transport import Connection, connect
from mqspec.wire.bodies import loads
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

ABOUT = {"consumerGroup": "G", "clientId": "c@1"}
HEARTBEAT = json.dumps(
    {
        "clientID": "c@1",
        "consumerDataSet": [
            {
                "groupName": "G",
                "consumeType": "CONSUME_PASSIVELY",
                "messageModel": "CLUSTERING",
                "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            }
        ],
    }
).encode()


def test_a_consumer_is_asked(tmp_path: Path) -> None:
    asked: list[RemotingCommand] = []

    def member(_: Connection, request: RemotingCommand) -> RemotingCommand:
        asked.append(request)
        return request.response(7, "as it is", body=b"running")

    async def scene() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            host, _, port = broker.address.rpartition(":")
            admin = await meet(broker.address)
            answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **ABOUT)
            assert (answer.code, answer.remark) == (1, "The Consumer <G> <c@1> not online")
            consumer = await connect(host, int(port), member)
            await consumer.request(RemotingCommand(RequestCode.HEART_BEAT, {}, HEARTBEAT), 5000)
            answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **ABOUT)
            assert (answer.code, answer.remark, answer.body) == (7, "as it is", b"running")
            stored = await admin.send("T", b"body")
            named = {**ABOUT, "msgId": stored.ext_fields["msgId"]}
            answer = await admin.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, **named)
            assert answer.code == 7
            assert b"body" in asked[-1].body
            assert asked[-1].ext_fields["brokerName"] == "broker-a"
            named["msgId"] = "not an id"
            assert (await admin.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, **named)).code == 1
            consumer.close()
            await admin.close()

    asyncio.run(scene())


def test_a_consumer_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "TIMEOUT_MS", 50)

    async def scene() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            consumer = await meet(broker.address)
            await consumer.heartbeat("G")
            admin = await meet(broker.address)
            answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **ABOUT)
            assert answer.code == 207
            assert (answer.remark or "").startswith("consumer <G> <c@1> Timeout: ")
            await consumer.close()
            await admin.close()

    asyncio.run(scene())


@pytest.mark.parametrize(("version", "code"), [(61, 1), (62, 7)])  # V3_1_7, V3_1_8_SNAPSHOT
def test_a_consumer_that_is_too_old_is_not_asked(tmp_path: Path, version: int, code: int) -> None:
    def member(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.response(7)

    async def scene() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            host, _, port = broker.address.rpartition(":")
            consumer = await connect(host, int(port), member)
            heartbeat = RemotingCommand(RequestCode.HEART_BEAT, {}, HEARTBEAT, version=version)
            await consumer.request(heartbeat, 5000)
            admin = await meet(broker.address)
            answer = await admin.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, **ABOUT)
            assert answer.code == code
            assert ("<V3_1_7> too low" in (answer.remark or "")) == (code == 1)
            consumer.close()
            await admin.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("body", "told"), [(b'{"messageQueueTable":{}}', {"c@1": {}}), (b"[]", {}), (b"{", {})]
)
def test_a_status_that_cannot_be_read_is_left_out(
    tmp_path: Path, body: bytes, told: dict[str, object]
) -> None:
    def member(_: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.response(body=body)

    async def scene() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            host, _, port = broker.address.rpartition(":")
            consumer = await connect(host, int(port), member)
            await consumer.request(RemotingCommand(RequestCode.HEART_BEAT, {}, HEARTBEAT), 5000)
            admin = await meet(broker.address)
            about = {"group": "G", "topic": "T"}
            answer = await admin.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, **about)
            assert (answer.code, loads(answer.body)["consumerTable"]) == (0, told)
            consumer.close()
            await admin.close()

    asyncio.run(scene())
