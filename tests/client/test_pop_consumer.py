"""The POP consumer on the reference's brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from scene import DEADLINE_S, GROUP, TOPIC, ask, create_topic, keys_of, run, send

from mqrules import UserError
from mqspec.client import BrokerError, PopConfig, PopConsumer, PopMessage
from mqspec.cluster import Cluster
from mqspec.core.metadata import BrokerConfig
from mqspec.wire.codes import RequestCode

REVIVING = BrokerConfig(revive_interval=20)
QUICK = PopConfig(invisible_time_ms=500, poll_time_ms=0)


def consumer(cluster: Cluster, config: PopConfig, expression: str = "*") -> PopConsumer:
    return PopConsumer(cluster.nameserver.address, GROUP, TOPIC, expression, config)


async def pop_until(one: PopConsumer, count: int) -> list[PopMessage]:
    """So many messages."""
    found: list[PopMessage] = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < count:
            found += await one.pop()
    return found


def places(messages: Sequence[PopMessage]) -> list[tuple[str, int]]:
    return sorted((message.handle.topic_flag, message.queue_offset) for message in messages)


def test_messages_of_all_brokers_are_popped_and_acknowledged(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 2, "broker-a", "broker-b")
        keys = [f"{i}" for i in range(16)]
        await send(cluster, *keys)
        config = PopConfig(poll_time_ms=0)
        async with consumer(cluster, config) as one, consumer(cluster, config) as other:
            found = await pop_until(one, 4)
            found += await pop_until(other, 16 - len(found))
            assert sorted(keys_of(found)) == sorted(keys)
            for message in found:
                await one.ack(message)
            assert await one.pop() == ()

    run(tmp_path / "store", scene, brokers=2)


def test_what_is_not_acknowledged_comes_again_and_can_be_acknowledged(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "done", "kept", "left")
        async with consumer(cluster, QUICK) as one:
            done, kept, _ = await pop_until(one, 3)
            await one.ack(done)
            kept = await one.change_invisible_time(kept, 60_000)
            (again,) = await pop_until(one, 1)
            assert (again.keys, again.reconsume_times) == ("left", 1)
            assert places([again]) == [("1", 0)]
            await one.ack(again)
            await one.ack(kept)
            offset = await ask(
                cluster,
                RequestCode.QUERY_CONSUMER_OFFSET,
                consumerGroup=GROUP,
                topic=f"%RETRY%{GROUP}_{TOPIC}",
                queueId=0,
            )
            assert offset.ext_fields["offset"] == "1"

    run(tmp_path / "store", scene, config=REVIVING)


def test_a_queue_is_popped_in_order(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a", "b", "c")
        config = PopConfig(poll_time_ms=0, max_msg_nums=2, order=True)
        async with consumer(cluster, config) as one:
            a, b = await one.pop()
            assert await one.pop() == ()
            b = await one.change_invisible_time(b, 60_000)
            await one.ack(a)
            assert await one.pop() == ()
            await one.ack(b)
            assert keys_of(await one.pop()) == ["c"]

    run(tmp_path / "store", scene)


def test_only_what_is_wanted_is_given(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "collides", tags="Aa")  # the hash of BB
        await send(cluster, "other", tags="C")
        await send(cluster, "wanted", tags="BB")
        async with consumer(cluster, PopConfig(poll_time_ms=0), "BB") as one:
            assert keys_of(await one.pop()) == ["wanted"]

    run(tmp_path / "store", scene)


def test_what_cannot_be_consumed_is_told(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        with pytest.raises(UserError, match="knows no such topic"):
            async with consumer(cluster, QUICK):
                raise AssertionError("not reached")
        with pytest.raises(UserError, match="subscribes to nothing"):
            consumer(cluster, QUICK, "||")
        await create_topic(cluster, 1)
        await send(cluster, "a")
        async with consumer(cluster, QUICK) as one:
            (message,) = await one.pop()
            wrong = PopMessage(
                message.record, message.queue, message.handle._replace(queue_offset=7)
            )
            with pytest.raises(BrokerError, match="208"):
                await one.ack(wrong)

    run(tmp_path / "store", scene)
