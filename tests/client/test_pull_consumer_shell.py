"""The pull consumer, on the reference's brokers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from scene import GROUP, RETRY_TOPIC, TOPIC, ask, create_topic, keys_of, pulled, run, send

from mqrules import UserError
from mqspec.client.instance import UnreachableError
from mqspec.client.lite_pull_consumer import LitePullConsumer
from mqspec.client.pull_consumer import PullConsumer
from mqspec.cluster import Cluster
from mqspec.core.push_consumer import PullStatus
from mqspec.wire.codes import RequestCode


def test_its_user_says_what_is_pulled_and_how_far_it_is(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a", "b", tags="A")
        await send(cluster, "c", tags="C")
        async with PullConsumer(cluster.nameserver.address, GROUP) as consumer:
            (mq,) = await consumer.fetch_subscribe_message_queues(TOPIC)
            result = await consumer.pull(mq, 0, max_nums=2)
            assert (result.status, keys_of(result.messages)) == (PullStatus.FOUND, ["a", "b"])
            assert result.next_begin_offset == 2
            assert keys_of((await consumer.pull(mq, 0, tags="C || D")).messages) == ["c"]
            assert (await consumer.pull(mq, 3)).status is PullStatus.NO_NEW_MSG
            assert (await consumer.pull(mq, 9)).status is PullStatus.OFFSET_ILLEGAL
            assert (await consumer.min_offset(mq), await consumer.max_offset(mq)) == (0, 3)
            at = result.messages[1].record.store_timestamp
            assert await consumer.search_offset(mq, at) <= 1
            await consumer.update_consume_offset(mq, 2)
            assert await consumer.fetch_consume_offset(mq) == 2

    run(tmp_path, scene)


def test_it_may_wait_for_a_message(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with PullConsumer(cluster.nameserver.address, GROUP) as consumer:
            (mq,) = await consumer.fetch_subscribe_message_queues(TOPIC)
            waiting = asyncio.create_task(consumer.pull(mq, 0, block_if_not_found=True))
            await send(cluster, "a")
            assert keys_of((await waiting).messages) == ["a"]

    run(tmp_path, scene)


def test_a_message_may_be_sent_back(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a")
        async with PullConsumer(cluster.nameserver.address, GROUP) as consumer:
            (mq,) = await consumer.fetch_subscribe_message_queues(TOPIC)
            (message,) = (await consumer.pull(mq, 0)).messages
            assert await consumer.send_message_back(message, delay_level=5)
        (again,) = await pulled(cluster, "SCHEDULE_TOPIC_XXXX", queue_id=4)
        assert (again.keys, again.properties["REAL_TOPIC"]) == ("a", RETRY_TOPIC)

    run(tmp_path, scene)


def test_it_is_in_its_groups_list_while_it_lasts(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        code, of_group = RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP}
        await create_topic(cluster, 1)
        async with PullConsumer(cluster.nameserver.address, GROUP) as consumer:
            await consumer.fetch_subscribe_message_queues(TOPIC)
            assert consumer.client_id.encode() in (await ask(cluster, code, **of_group)).body
        assert not (await ask(cluster, code, **of_group)).body

    run(tmp_path, scene)


def test_what_it_cannot_pull(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with PullConsumer(cluster.nameserver.address, GROUP) as consumer:
            (mq,) = await consumer.fetch_subscribe_message_queues(TOPIC)
            with pytest.raises(UserError, match="wants nothing"):
                await consumer.pull(mq, 0, tags="||")
            with pytest.raises(UnreachableError, match="no route to the topic Unknown"):
                await consumer.fetch_subscribe_message_queues("Unknown")

    run(tmp_path, scene)


def test_queues_that_are_new_are_told_of_at_once(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        address = cluster.nameserver.address
        async with (
            PullConsumer(address, GROUP) as consumer,
            LitePullConsumer(address, GROUP) as lite,
        ):
            with pytest.raises(UnreachableError):
                await consumer.fetch_subscribe_message_queues(TOPIC)
            for count in (1, 2):
                await create_topic(cluster, count)
                assert len(await consumer.fetch_subscribe_message_queues(TOPIC)) == count
                assert len(await lite.fetch_message_queues(TOPIC)) == count

    run(tmp_path, scene)
