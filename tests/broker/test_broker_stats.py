"""What a broker counts, and what it shows of it to an administrator."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from peer import meet, running

from mqspec.broker.processor import runtime
from mqspec.broker.stats import Traffic
from mqspec.core.metadata import SYSTEM_GROUPS
from mqspec.core.stats import WINDOWS, Count, ItemKey, StatsName
from mqspec.wire.bodies import loads
from mqspec.wire.codes import RequestCode

POP = {
    "consumerGroup": "H",
    "topic": "T",
    "queueId": -1,
    "maxMsgNums": 32,
    "invisibleTime": 60_000,
    "pollTime": 0,
    "bornTime": 0,
    "initMode": 0,
}


def test_messages_are_counted_each_way(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            assert broker.stats.state.ticked.keys() == set(WINDOWS), "they tick from the start"
            peer = await meet(broker.address)
            for body in (b"one", b"three"):
                await peer.send("T", body)
            await peer.send("T", b"")  # refused
            found = await peer.pull("T")
            assert (await peer.pull("T", 2)).code == 19
            sent_back = {"group": "G", "offset": 0, "delayLevel": 3}
            back = await peer.ask(RequestCode.CONSUMER_SEND_MSG_BACK, **sent_back)
            popped = await peer.ask(RequestCode.POP_MESSAGE, **POP)
            assert (found.code, back.code, popped.code) == (0, 0, 0)
            got = broker.stats.got
            sent = Traffic(2, len(found.body), 2)
            # What was sent back: level 3 waits in queue 2.
            (waiting,) = broker.store.get("SCHEDULE_TOPIC_XXXX", 2, 0, 32).records
            assert broker.stats.put == {
                "T": sent,
                "SCHEDULE_TOPIC_XXXX": Traffic(1, len(waiting), 1),
            }
            assert got["T", "H"] == Traffic(2, len(popped.body), 1)
            (puller,) = (traffic for (_, name), traffic in got.items() if name != "H")
            assert puller == Traffic(2, len(found.body), 1)
            assert broker.stats.sent_back["T", "G"].messages == 1
            assert broker.stats.missed.times == 1
            counts = broker.stats.counts()
            assert counts[ItemKey(StatsName.BROKER_PUT_NUMS, "DefaultCluster")] == Count(3, 3)
            of_clients = ItemKey(StatsName.BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC, "DefaultCluster")
            assert counts[of_clients] == Count(2, 2)
            assert counts[ItemKey(StatsName.BROKER_GET_NUMS, "DefaultCluster")] == Count(4, 2)
            await peer.close()

    asyncio.run(scene())


def test_a_deleted_topic_is_not_counted_any_more(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            peer = await meet(broker.address)
            await peer.send("T")
            await peer.pull("T")
            stats = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"}
            answer = await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, **stats)
            assert loads(answer.body)["statsMinute"]["sum"] == 0, "not sampled yet"
            assert (await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="T")).code == 0
            assert (await peer.ask(RequestCode.VIEW_BROKER_STATS_DATA, **stats)).code == 1
            assert not broker.stats.got
            await peer.close()

    asyncio.run(scene())


def test_how_far_all_groups_have_come(tmp_path: Path) -> None:
    async def scene() -> None:
        async with running(tmp_path / "store") as cluster:
            (broker,) = cluster.brokers
            peer = await meet(broker.address)
            for _ in range(3):
                await peer.send("T")
            await peer.pull("T")
            commit = {"consumerGroup": "G", "topic": "T", "queueId": 0, "commitOffset": 1}
            (group,) = set(broker.metadata.subscription_group_table) - set(SYSTEM_GROUPS)
            await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **commit | {"consumerGroup": group})
            answer = await peer.ask(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false")
            body = loads(answer.body)
            assert (body["brokerAddr"], body["totalDiff"]) == (broker.address, 2)
            assert body["totalInflightDiff"] == -1  # no pull counts here
            of_group = {
                name: stats for each in body["consumeStatsList"] for name, stats in each.items()
            }
            assert of_group.keys() == {group, *SYSTEM_GROUPS}
            (stats,) = of_group[group]
            first = next(q for mq, q in stats["offsetTable"].items() if mq.queue_id == 0)
            assert (first["brokerOffset"], first["consumerOffset"]) == (3, 1)
            answer = await peer.ask(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="true")
            assert {group: []} in loads(answer.body)["consumeStatsList"]
            await peer.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1024.0 KiB"),
        (5 * 1024**3, "5.0 GiB"),
        (1024**6, "1.0 EiB"),
    ],
)
def test_sizes_as_people_read_them(size: int, shown: str) -> None:
    assert runtime._bytes(size) == shown
