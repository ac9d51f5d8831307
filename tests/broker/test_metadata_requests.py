"""Topics and groups as an administrator makes them, and who hears of them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

from peer import NO_AUTO_CREATE, broker_peer, meet, running

from mqspec.wire.bodies import loads
from mqspec.wire.codes import RequestCode

TOPIC = {
    "defaultTopic": "TBW102",
    "readQueueNums": 8,
    "writeQueueNums": 2,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "order": "false",
    "attributes": "",
}


async def until_routed(address: str, topic: str, brokers: int) -> None:
    """Wait until the nameserver has the topic on so many brokers."""
    peer = await meet(address)
    async with asyncio.timeout(5):
        while True:
            answer = await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
            if answer.code == 0 and len(loads(answer.body)["queueDatas"]) == brokers:
                return


def test_a_topic_is_made_and_routed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "store", brokers=2) as cluster:
            for i, broker in enumerate(cluster.brokers):
                peer = await meet(broker.address)
                made = await peer.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, topic="T", **TOPIC)
                assert (made.code, made.remark) == (0, "not set any response code")
                await until_routed(cluster.nameserver.address, "T", brokers=i + 1)
            config = await peer.ask(RequestCode.GET_TOPIC_CONFIG, topic="T")
            assert json.loads(config.body)["writeQueueNums"] == 2
            everything = await peer.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
            assert {"T", "TBW102"} < loads(everything.body)["topicConfigTable"].keys()

    asyncio.run(scenario())


def test_a_topic_that_a_send_makes_is_routed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "store") as cluster:
            peer = await meet(cluster.brokers[0].address)
            for topic in ("T", "U", "V"):
                await peer.send(topic)
            for topic in ("T", "U", "V"):
                await until_routed(cluster.nameserver.address, topic, brokers=1)

    asyncio.run(scenario())


def test_topics_that_are_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            code = RequestCode.UPDATE_AND_CREATE_TOPIC
            assert (await peer.ask(code, topic="a b", **TOPIC)).code == 29
            assert (await peer.ask(code, topic="SCHEDULE_TOPIC_XXXX", **TOPIC)).code == 29
            assert (await peer.ask(code, topic="T", **TOPIC | {"perm": None})).code == 1
            assert (await peer.ask(RequestCode.GET_TOPIC_CONFIG, topic="T")).code == 17

    asyncio.run(scenario())


def test_a_group_is_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store", broker_config=NO_AUTO_CREATE) as peer:
            code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            assert (await peer.ask(code, b'{"groupName":"G","consumeEnable":false}')).code == 0
            assert (await peer.ask(code, b'{"groupName":"b d"}')).code == 0
            assert (await peer.ask(code)).code == 1
            code = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG
            config = await peer.ask(code, group="G")
            assert json.loads(config.body)["consumeEnable"] is False
            assert json.loads(config.body)["retryMaxTimes"] == 16
            assert (await peer.ask(code, group="H")).code == 26
            assert (await peer.pull("TBW102", consumerGroup="G")).code == 16

    asyncio.run(scenario())


def test_a_group_that_wants_no_notices_gets_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            body = b'{"groupName":"G","notifyConsumerIdsChangedEnable":false}'
            await peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body)
            await peer.heartbeat("G", "T")
            assert (await peer.ask(38, consumerGroup="G")).code == 0
            assert peer.received.empty()

    asyncio.run(scenario())


def test_how_long_files_are_kept_is_said_while_the_broker_runs(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            peer = await meet(broker.address)
            before = broker.store.config
            body = b"fileReservedTime=1\ndeleteWhen=05\nsegmentSize=1\nmaxMessageSize=3\n"
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body)).code == 0
            # The sizes of files are those that the store was made with.
            assert broker.store.config == replace(before, file_reserved_time=1, delete_when="05")
            shown = (await peer.ask(RequestCode.GET_BROKER_CONFIG)).body.split()
            assert set(body.split()) <= set(shown)
            assert [(await peer.send("T", sent)).code for sent in (b"abc", b"abcd")] == [0, 13]

    asyncio.run(scenario())


def test_queues_of_topics_that_are_not_there_are_cleaned(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            peer = await meet(broker.address)
            for topic in ("T", "U"):
                assert (await peer.send(topic)).code == 0
            delayed = await peer.send("T", i="DELAY\x011\x02")
            assert delayed.code == 0
            for table in ("U", "SCHEDULE_TOPIC_XXXX"):  # as damage of topics.json may do it
                del broker.metadata.topic_config_table[table]
            for request in (
                RequestCode.CLEAN_UNUSED_TOPIC,
                RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
                RequestCode.DELETE_EXPIRED_COMMITLOG,
            ):
                assert (await peer.ask(request)).code == 0
            assert broker.store.topics == {"T", "SCHEDULE_TOPIC_XXXX"}
            assert broker.store.max_offset("T", 0) == 1

    asyncio.run(scenario())


def test_an_unknown_code(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            answer = await peer.ask(9999)
            assert (answer.code, answer.remark) == (3, " request type 9999 not supported")

    asyncio.run(scenario())
