"""Requests that no client sends: each is answered, none harms the broker."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from peer import SMALL, Peer, broker_peer, meet, running

from mqspec.broker.processor import table as processors
from mqspec.cluster import Cluster, ClusterConfig
from mqspec.nameserver import processors as nameserver_processors
from mqspec.service import Dispatcher
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand

NAMES = [
    *"abcdefghijklm",
    *("topic", "queueId", "consumerGroup", "queueOffset", "maxMsgNums", "sysFlag", "commitOffset"),
    *("subscription", "expressionType", "subVersion", "suspendTimeoutMillis", "timestamp"),
    *("readQueueNums", "writeQueueNums", "perm", "group", "producerGroup", "boundaryType"),
    *("brokerName", "brokerAddr", "clusterName", "brokerId", "bodyCrc32", "compressed", "cluster"),
]
VALUES = st.one_of(
    st.sampled_from(["T", "%RETRY%G", "TBW102", "0", "1", "4", "-1", "true", "*", "||", ""]),
    st.integers(-(2**65), 2**65).map(str),
    st.text(max_size=8),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("clientID", "consumerDataSet", "producerDataSet", "groupName", "topic"),
                    *("subscriptionDataSet", "codeSet", "topicConfigSerializeWrapper"),
                    *("topicConfigTable", "dataVersion", "subscriptionData"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
BODIES = st.one_of(st.binary(max_size=40), JSON.map(lambda value: json.dumps(value).encode()))


@pytest.mark.parametrize("who", ["broker", "nameserver"])
def test_whatever_is_asked_is_answered(who: str) -> None:
    """Nothing but an answer comes out of a processor: an exception would fail this test."""

    async def scenario() -> None:
        class Nobody(Connection):
            peer = "127.0.0.1:5000"

            def send(self, command: RemotingCommand) -> None:
                """It is not there."""

        with TemporaryDirectory() as directory:
            config = ClusterConfig(Path(directory) / "store", store_config=SMALL)
            async with Cluster(config) as cluster:
                table: Any = processors.PROCESSORS
                handle: Any = Dispatcher(cluster.brokers[0], table, processors.pool_of)
                if who == "nameserver":
                    table = nameserver_processors.PROCESSORS
                    handle = Dispatcher(cluster.nameserver, table, nameserver_processors.pool_of)

                later: list[Awaitable[object]] = []

                @settings(
                    max_examples=400,
                    deadline=None,
                    derandomize=True,
                    suppress_health_check=list(HealthCheck),
                )
                @given(
                    st.sampled_from(sorted(table)),
                    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=12),
                    BODIES,
                )
                def ask(code: int, fields: dict[str, str], body: bytes) -> None:
                    answer = handle._process(Nobody(), RemotingCommand(code, fields, body))
                    if inspect.isawaitable(answer):
                        later.append(answer)

                ask()
                await asyncio.gather(*later)

    asyncio.run(scenario())


def test_a_reply_that_cannot_be_read_is_answered_as_a_send(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            unreadable: tuple[tuple[bytes, dict[str, object]], ...] = (
                (b"", {}),
                (b"x", {"e": "x"}),
                (b"x", {"h": 1 << 31}),
                (b"x", {"j": "x"}),
            )
            for body, fields in unreadable:
                send = await peer.send("T", body, **fields)
                reply = await peer.reply("T", body, **fields)
                assert (reply.code, reply.remark) == (send.code, send.remark)

    asyncio.run(scenario())


def test_a_peer_that_does_not_read_cannot_keep_the_broker_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqspec.transport.CLOSE_MS", 50)

    async def scenario() -> None:
        async with asyncio.timeout(10), running(tmp_path / "store") as cluster:
            peer = await meet(cluster.brokers[0].address)
            await peer.send("T", bytes(500_000))
            lazy = await meet(cluster.brokers[0].address)
            lazy.connection._transport.pause_reading()
            pulls = [asyncio.create_task(lazy.pull("T")) for _ in range(40)]
            await asyncio.sleep(0)
            assert (await peer.send("T")).code == 0, "the others are served"
        await asyncio.gather(*pulls, return_exceptions=True)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "fields",
    [
        {"e": 1 << 31},
        {"g": 1 << 63},
        {"h": -(1 << 31) - 1},
        {"f": 1 << 40},
        {"m": "true", "i": "DELAY\x01abc\x02", "body": bytes.fromhex("00000016" + "00" * 18)},
    ],
)
def test_numbers_that_java_does_not_hold(tmp_path: Path, fields: dict[str, Any]) -> None:
    async def scenario(peer: Peer) -> None:
        body = fields.pop("body", b"x")
        assert (await peer.send("T", body, **fields)).code == 1

    async def meeting() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await scenario(peer)

    asyncio.run(meeting())
