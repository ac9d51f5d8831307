"""Locks, send-backs, resets and assignments over the wire, where the suite does not look."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest
from peer import Peer, broker_peer, meet, running
from refusing import refusing

from mqspec.core.log import PutStatus
from mqspec.core.metadata import BrokerConfig
from mqspec.wire.bodies import loads
from mqspec.wire.codes import RequestCode

QUERY = {
    "topic": "T",
    "consumerGroup": "G",
    "clientId": "c@1",
    "strategyName": "AVG",
    "messageModel": "CLUSTERING",
}


async def assigned(peer: Peer) -> object:
    answer = await peer.ask(RequestCode.QUERY_ASSIGNMENT, json.dumps(QUERY).encode())
    assert answer.code == 0
    return loads(answer.body).get("messageQueueAssignments")


def test_without_a_nameserver_nothing_is_assigned(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "store") as cluster:
            peer = await meet(cluster.brokers[0].address)
            await peer.send("T")
            await peer.heartbeat("G", "T")
            async with asyncio.timeout(5):
                while await assigned(peer) is None:  # not routed yet
                    await asyncio.sleep(0.01)
            await cluster.nameserver.stop()
            assert await assigned(peer) is None

    asyncio.run(scenario())


def test_how_a_group_asks_is_in_its_file_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            mode = {"topic": "T", "consumerGroup": "G", "mode": "POP", "popShareQueueNum": 2}
            body = json.dumps(mode).encode()
            assert (await peer.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body)).code == 0
            file = tmp_path / "store" / "config" / "messageRequestMode.json"
            content = json.loads(file.read_text(encoding="utf-8"))
            assert content == {"messageRequestModeMap": {"T": {"G": mode}}}

    asyncio.run(scenario())


def test_a_send_back_keeps_the_message_as_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            sent = await peer.send("T", b"hard", i="KEYS\x01k\x02")
            position = int(sent.ext_fields["msgId"][-16:], 16)
            back = {"group": "G", "offset": position, "delayLevel": -1}
            assert (await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **back)).code == 0
            pulled = await peer.pull("%DLQ%G")
            assert (pulled.code, pulled.body.count(b"hard")) == (0, 1)
            assert b"KEYS\x01k\x02" in pulled.body
            assert b"RETRY_TOPIC\x01T\x02" in pulled.body
            assert (await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **back | {"offset": 1})).code

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "status", [PutStatus.SERVICE_NOT_AVAILABLE, PutStatus.CREATE_MAPPED_FILE_FAILED]
)
def test_a_send_back_that_cannot_be_stored_is_refused_and_not_counted(
    tmp_path: Path, status: PutStatus
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as cluster:
            (broker,) = cluster.brokers
            peer = await meet(broker.address)
            await peer.send("T")
            back = {"group": "G", "offset": 0, "delayLevel": 0}
            with refusing(broker.store, status=status) as refused:
                answer = await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **back)
            assert refused == ["SCHEDULE_TOPIC_XXXX"]
            assert (answer.code, answer.remark) == (1, status)
            assert not broker.stats.sent_back
            assert (await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **back)).code == 0
            assert broker.stats.sent_back["T", "G"].messages == 1
            await peer.close()

    asyncio.run(scenario())


def test_a_message_that_is_sent_back_again_counts_for_its_own_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as cluster:
            (broker,) = cluster.brokers
            peer = await meet(broker.address)
            await peer.send("R", i="RETRY_TOPIC\x01T\x02")
            back = {"group": "G", "offset": 0, "delayLevel": 0}
            assert (await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **back)).code == 0
            assert list(broker.stats.sent_back) == [("T", "G")]
            await peer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_by_broker", [True, False])
def test_a_reset_without_a_time_goes_to_the_beginning(tmp_path: Path, is_by_broker: bool) -> None:
    """A header's number that is left out is 0, as Java's are (RemotingCommand.java, 5.3.3)."""
    config = BrokerConfig(use_server_side_reset_offset=is_by_broker)

    async def scenario() -> None:
        async with broker_peer(tmp_path / "store", broker_config=config) as peer:
            await peer.send("T")
            await peer.heartbeat("CG", "T")
            for queue_id in range(4):
                commit = {"consumerGroup": "CG", "topic": "T", "queueId": queue_id}
                answer = await peer.ask(
                    RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=1, **commit
                )
                assert answer.code == 0
            fields = {"group": "CG", "topic": "T", "isForce": "true"}
            answer = await peer.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields)
            assert answer.code == 0
            # Its keys are objects, which no JSON has.
            assert re.findall(r'"queueId":0,[^}]*}:(-?\d+)', answer.body.decode()) == ["0"]

    asyncio.run(scenario())


def test_a_reset_is_forgotten_by_a_restart_but_not_where_it_led(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            for _ in range(3):
                await peer.send("T")
            await peer.heartbeat("CG", "T")
            fields = {"group": "CG", "topic": "T", "timestamp": -1}
            assert (await peer.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields)).code == 0
        async with broker_peer(tmp_path / "store") as peer:
            query = {"consumerGroup": "CG", "topic": "T", "queueId": 0}
            answer = await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, **query)
            assert answer.ext_fields["offset"] == "3"
            assert (await peer.pull("T", 0)).code == 0

    asyncio.run(scenario())
