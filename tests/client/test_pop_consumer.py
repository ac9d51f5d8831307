"""The POP consumer on the reference's brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from brokers import scripted
from scene import DEADLINE_S, GROUP, TOPIC, ask, create_topic, keys_of, run, send, stopped, until

from mqrules import UserError
from mqspec.broker import Broker
from mqspec.broker.processor.table import PROCESSORS
from mqspec.client import BrokerError, PopConfig, PopConsumer, PopMessage, UnreachableError
from mqspec.cluster import Cluster
from mqspec.core.metadata import BrokerConfig
from mqspec.transport import Connection, ConnectionLostError
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

REVIVING = BrokerConfig(revive_interval=20)
QUICK = PopConfig(invisible_time_ms=1_500, poll_time_ms=0)


def consumer(cluster: Cluster, config: PopConfig, expression: str = "*") -> PopConsumer:
    return PopConsumer(cluster.nameserver.address, GROUP, TOPIC, expression, config)


async def in_group(cluster: Cluster) -> bytes:
    """What the broker says of the members of the group; nothing where it has none."""
    code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    answer = await ask(cluster, code, consumerGroup=GROUP)
    return answer.body if answer.code == ResponseCode.SUCCESS else b""


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


def test_it_is_a_member_of_its_group_until_it_leaves(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with consumer(cluster, QUICK) as one:
            async with consumer(cluster, QUICK) as other:  # whose coming the first one is told
                assert one.client_id.encode() in await in_group(cluster)
                assert other.client_id.encode() in await in_group(cluster)
            assert other.client_id.encode() not in await in_group(cluster)
            code = RequestCode.GET_CONSUMER_CONNECTION_LIST
            said = (await ask(cluster, code, consumerGroup=GROUP)).body
            assert b"CONSUME_PASSIVELY" in said
            assert f'"{TOPIC}"'.encode() in said
            assert f'"%RETRY%{GROUP}"'.encode() in said
            await send(cluster, "a")
            assert keys_of(await pop_until(one, 1)) == ["a"]  # notices have broken nothing
        assert await in_group(cluster) == b""

    run(tmp_path / "store", scene)


def test_one_that_is_killed_does_not_take_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    leave = PROCESSORS[RequestCode.UNREGISTER_CLIENT]

    def note(broker: Broker, connection: Connection, request: RemotingCommand) -> object:
        codes.append(request.code)
        return leave(broker, connection, request)

    monkeypatch.setitem(PROCESSORS, RequestCode.UNREGISTER_CLIENT, note)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        killed = consumer(cluster, QUICK)
        await killed.__aenter__()
        await killed.kill()
        assert codes == []
        async with consumer(cluster, QUICK):
            pass
        assert codes == [RequestCode.UNREGISTER_CLIENT]

    run(tmp_path / "store", scene)


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


def test_a_broker_that_moved_is_found(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a")
        async with consumer(cluster, replace(QUICK, poll_name_server_interval_ms=20)) as one:
            async with stopped(cluster.brokers[0]):
                pass  # and has another port
            found: Sequence[PopMessage] = ()
            async with asyncio.timeout(DEADLINE_S):
                while not found:
                    with suppress(ConnectionLostError, UnreachableError):
                        found = await one.pop()
                    await asyncio.sleep(0.01)
            assert keys_of(found) == ["a"]

    run(tmp_path / "store", scene)


def test_pops_of_one_consumer_may_wait_side_by_side(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        async with consumer(cluster, QUICK) as one:
            found = await asyncio.gather(one.pop(), one.pop())
            assert not any(found)

    run(tmp_path / "store", scene)


def test_what_came_again_too_often_is_given_up(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "poison")
        async with consumer(cluster, replace(QUICK, max_reconsume_times=0)) as one:
            await pop_until(one, 1)
            place = {"topic": f"%RETRY%{GROUP}_{TOPIC}", "queueId": 0}
            code = RequestCode.QUERY_CONSUMER_OFFSET
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    assert await one.pop() == ()
                    offset = await ask(cluster, code, consumerGroup=GROUP, **place)
                    if offset.ext_fields.get("offset") == "1":
                        break

    run(tmp_path / "store", scene, config=REVIVING)


def test_what_nobody_wants_and_cannot_be_acknowledged_holds_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(_: Broker, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.response(ResponseCode.SYSTEM_BUSY)

    monkeypatch.setitem(PROCESSORS, RequestCode.ACK_MESSAGE, busy)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "collides", tags="Aa")  # the hash of BB
        await send(cluster, "wanted", tags="BB")
        async with consumer(cluster, PopConfig(poll_time_ms=0), "BB") as one:
            assert keys_of(await one.pop()) == ["wanted"]

    run(tmp_path / "store", scene)


def test_in_order_a_message_says_how_often_it_came_before(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        await send(cluster, "a")
        config = replace(QUICK, invisible_time_ms=50, order=True)
        async with consumer(cluster, config) as one:
            found = await pop_until(one, 3)
            assert [message.reconsume_times for message in found] == [0, 1, 2]

    run(tmp_path / "store", scene)


def test_a_group_begins_where_it_is_told_to() -> None:
    asked: list[str] = []

    def nothing(_: Connection, request: RemotingCommand) -> RemotingCommand:
        asked.append(request.ext_fields["initMode"] + request.ext_fields["bname"])
        return request.response(ResponseCode.POLLING_TIMEOUT)

    async def scene() -> None:
        async with scripted(nothing) as server:
            address, config = f"127.0.0.1:{server.port}", replace(QUICK, init_mode=1)
            one = PopConsumer(address, GROUP, TOPIC, config=config)
            await one.__aenter__()
            assert await one.pop() == ()
            await one.kill()
            await until(lambda: not server.connections)

    asyncio.run(scene())
    assert asked == ["1b"]
