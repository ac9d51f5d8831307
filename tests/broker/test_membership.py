"""Heartbeats, lists and notices, over several connections and brokers."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from peer import NO_AUTO_CREATE, Peer, broker_peer, meet, running

from mqspec.broker import events
from mqspec.broker.carrying import carry
from mqspec.core.group import CHANNEL_EXPIRED_TIMEOUT_MS, scan_not_active_channel
from mqspec.service import clock_ms
from mqspec.wire.codes import RequestCode


async def members(peer: Peer, group: str) -> list[str]:
    answer = await peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup=group)
    assert answer.code == 0
    ids: list[str] = json.loads(answer.body)["consumerIdList"]
    return sorted(ids)


def test_the_members_hear_of_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "store") as cluster:
            x, y, stranger = [await meet(cluster.brokers[0].address) for _ in range(3)]
            await stranger.heartbeat("Other", "T", client_id="s@1")
            assert await stranger.notice() == "Other"

            await x.heartbeat("G", "T", client_id="x@1")
            assert await x.notice() == "G", "the newcomer is told too"
            await x.heartbeat("G", "T", client_id="x@1")
            await y.heartbeat("G", "T", client_id="y@1")
            assert await x.notice() == "G"
            assert await y.notice() == "G"
            assert await members(x, "G") == ["x@1", "y@1"]

            await y.ask(RequestCode.UNREGISTER_CLIENT, clientID="x@1", consumerGroup="G")
            assert await x.notice() == "G"
            assert await members(x, "G") == ["x@1"], "the connection decides who leaves"

            await y.heartbeat("G", "T", client_id="y@1")
            assert await x.notice() == "G"
            await y.close()
            assert await x.notice() == "G"
            assert await members(x, "G") == ["x@1"]
            assert x.received.empty()
            assert stranger.received.empty()

    asyncio.run(scenario())


def test_the_log_tells_who_comes_and_goes_and_how(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            x, y, z = [await meet(broker.address) for _ in range(3)]
            for peer, client_id in ((x, "x@1"), (y, "y@1"), (z, "z@1"), (x, "x@1")):
                await peer.heartbeat("G", "T", client_id=client_id)
            await y.ask(RequestCode.UNREGISTER_CLIENT, clientID="y@1", consumerGroup="G")
            await z.close()
            while len(await members(x, "G")) > 1:
                await asyncio.sleep(0)
            late_ms = clock_ms() + CHANNEL_EXPIRED_TIMEOUT_MS + 1
            carry(broker, "groups", scan_not_active_channel(broker.groups, late_ms))

    with caplog.at_level(logging.INFO, events.__name__):
        asyncio.run(scenario())
    told = [vars(record) for record in caplog.records if record.name == events.__name__]
    assert [
        (one["msg"], one["client_id"], one["members"]) for one in told if "client_id" in one
    ] == [
        ("member joined", "x@1", 1),
        ("member joined", "y@1", 2),
        ("member joined", "z@1", 3),
        ("member left", "y@1", 2),
        ("member left", "z@1", 1),
        ("member expired", "x@1", 0),
    ]
    # Whoever is there then is told of each change; of the last one nobody is left.
    notices = [one["group"] for one in told if one["msg"] == "rebalance notice"]
    assert notices == ["G"] * (1 + 2 + 3 + 2 + 1)


def test_nobody_hears_of_members_who_each_get_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "store") as cluster:
            x, y = [await meet(cluster.brokers[0].address) for _ in range(2)]
            await x.heartbeat("G", "T", messageModel="BROADCASTING")
            await y.heartbeat("G", "T", messageModel="BROADCASTING")
            assert len(await members(x, "G")) == 2
            assert x.received.empty()
            assert y.received.empty()

    asyncio.run(scenario())


def test_each_broker_has_a_list_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "store", brokers=2) as cluster:
            a, b = [await meet(broker.address) for broker in cluster.brokers]
            await a.heartbeat("G", "T")
            assert await members(a, "G") == ["c@1"]
            answer = await b.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G")
            assert (answer.code, answer.remark) == (1, "no consumer for this group, G")

    asyncio.run(scenario())


def test_a_heartbeat_makes_the_group_and_its_retry_topic(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.heartbeat("G", "T")
            assert (await peer.ask(RequestCode.GET_TOPIC_CONFIG, topic="%RETRY%G")).code == 0
            commit = await peer.ask(
                15, consumerGroup="G", topic="nosuch", queueId=0, commitOffset=0
            )
            assert commit.code == 17, "the group is there, this topic is not"

    asyncio.run(scenario())


def test_a_heartbeat_of_a_group_that_may_not_be_is_skipped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store", broker_config=NO_AUTO_CREATE) as peer:
            answer = await peer.heartbeat("G", "T")
            assert answer.code == 0
            assert answer.ext_fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
            answer = await peer.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="G")
            assert answer.code == 1

    asyncio.run(scenario())


def test_heartbeats_that_are_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            for body in (b"", b"{", b"[]", b'{"consumerDataSet":7}'):
                assert (await peer.ask(RequestCode.HEART_BEAT, body)).code == 1
            assert (await peer.heartbeat("G", "T", consumeType=99)).code == 1
            assert (await peer.ask(RequestCode.HEART_BEAT, b"{}")).code == 0

    asyncio.run(scenario())


def test_a_pull_follows_the_subscription_of_the_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            assert (await peer.pull("T", sysFlag=0)).code == 24
            await peer.heartbeat("CG", "T")
            assert (await peer.pull("T", sysFlag=0, subVersion=1)).code == 0
            assert (await peer.pull("T", sysFlag=0, subVersion=2)).code == 25
            await peer.heartbeat("CG", "U")
            assert (await peer.pull("T", sysFlag=0)).code == 24

    asyncio.run(scenario())


def test_the_check_of_an_expression(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            for body, code in (
                (b"", 0),
                (b'{"subscriptionData":{"topic":"T","expressionType":"TAG"}}', 0),
                (b'{"subscriptionData":{"topic":"T","expressionType":"SQL92"}}', 1),
                (b"[]", 1),
            ):
                answer = await peer.ask(RequestCode.CHECK_CLIENT_CONFIG, body)
                assert answer.code == code, body

    asyncio.run(scenario())
