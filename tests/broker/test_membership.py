"""Heartbeats, lists and notices, over several connections and brokers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from peer import NO_AUTO_CREATE, Peer, broker_peer, meet, running

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
