"""POP over the wire: popped, acknowledged, brought back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from peer import SMALL, Peer, broker_peer, meet

from mqspec.broker import Broker
from mqspec.core.metadata import BrokerConfig
from mqspec.core.record import Record, decode_properties
from mqspec.nameserver import NameServer
from mqspec.transport import ConnectionLostError
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

QUICK = BrokerConfig(revive_interval=20)
DEADLINE_MS = 4_000


@asynccontextmanager
async def quick_peer(store: Path, config: BrokerConfig = QUICK) -> AsyncIterator[Peer]:
    """A connection to a broker that looks at its revive log all the time."""
    nameserver = NameServer("127.0.0.1", 0)
    await nameserver.start()
    broker = Broker(store, nameserver.address, config, store_config=SMALL)
    await broker.start()
    peer = await meet(broker.address)
    yield peer
    await peer.close()
    await broker.stop()
    await nameserver.stop()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def pop_fields(topic: str, group: str = "PG") -> dict[str, object]:
    return {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "maxMsgNums": 32,
        "invisibleTime": 60_000,
        "pollTime": 0,
        "bornTime": now_ms(),
        "initMode": 0,
        "expType": "TAG",
        "exp": "*",
        "order": "false",
    }


async def pop(peer: Peer, topic: str, **fields: object) -> RemotingCommand:
    return await peer.ask(RequestCode.POP_MESSAGE, **pop_fields(topic) | fields)


def records(answer: RemotingCommand) -> list[Record]:
    return decode_messages(answer.body) if answer.code == 0 else []


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [record.body for record in records(answer)]


def handle(answer: RemotingCommand, queue_id: int, offset: int) -> str:
    """The receipt handle of a message of an answer with messages of one queue."""
    fields = answer.ext_fields
    flag, _, start = fields["startOffsetInfo"].split(" ")
    names = ("popTime", "invisibleTime", "reviveQid")
    middle = " ".join(fields[name] for name in names)
    return f"{start} {middle} {flag} broker-a {queue_id} {offset}"


async def ack(
    peer: Peer, topic: str, extra_info: str, offset: int, **fields: object
) -> RemotingCommand:
    named: dict[str, object] = {
        "consumerGroup": "PG",
        "topic": topic,
        "queueId": 0,
        "extraInfo": extra_info,
        "offset": offset,
    }
    return await peer.ask(RequestCode.ACK_MESSAGE, **named | fields)


async def until(
    found: Callable[[], Awaitable[RemotingCommand]], deadline_s: float = 10.0
) -> RemotingCommand:
    """Ask until messages come."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        answer = await found()
        if answer.code == 0:
            return answer
        await asyncio.sleep(0.02)
    raise AssertionError("nothing came in time")


def test_what_is_popped_is_invisible_and_told_where_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            for body in (b"a", b"b", b"c"):
                await peer.send("T", body)
            first = await pop(peer, "T", maxMsgNums=2)
            assert (first.code, first.remark, bodies(first)) == (0, "FOUND", [b"a", b"b"])
            fields = first.ext_fields
            assert (fields["startOffsetInfo"], fields["msgOffsetInfo"]) == ("0 0 0", "0 0 0,1")
            assert (fields["restNum"], fields["reviveQid"]) == ("1", "0")
            assert bodies(await pop(peer, "T")) == [b"c"]
            nothing = await pop(peer, "T")
            assert (nothing.code, nothing.remark) == (210, "NO_MESSAGE_IN_QUEUE")
            assert (nothing.ext_fields["msgOffsetInfo"], nothing.ext_fields["reviveQid"]) == (
                "",
                "2",
            )

    asyncio.run(scenario())


def test_what_is_not_acknowledged_comes_again_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with quick_peer(tmp_path / "store") as peer:
            for body in (b"a", b"b", b"c"):
                await peer.send("T", body, i="TAGS\x01A\x02")
            first = await pop(peer, "T", invisibleTime=100)
            for offset in (0, 2):
                assert (await ack(peer, "T", handle(first, 0, offset), offset)).code == 0
            again = await until(lambda: pop(peer, "T"))
            (record,) = records(again)
            assert (record.body, record.topic, record.reconsume_times) == (b"b", "T", 1)
            properties = decode_properties(record.properties)
            assert properties["1ST_POP_TIME"] == first.ext_fields["popTime"]
            assert properties["POP_CK"] == handle(again, 0, 0)
            assert properties["TAGS"] == "A"
            assert again.ext_fields["msgOffsetInfo"] == "1 0 0"
            done = await ack(peer, "%RETRY%PG_T", handle(again, 0, 0), 0)
            assert done.code == 0

    asyncio.run(scenario())


def test_a_restarted_broker_brings_back_what_was_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = tmp_path / "store"
        async with quick_peer(store) as peer:
            for body in (b"a", b"b"):
                await peer.send("T", body)
            first = await pop(peer, "T", invisibleTime=100)
            assert (await ack(peer, "T", handle(first, 0, 0), 0)).code == 0
        async with quick_peer(store) as peer:
            assert (await pop(peer, "T")).code == 210
            assert bodies(await until(lambda: pop(peer, "T"))) == [b"b"]

    asyncio.run(scenario())


def test_a_queue_popped_in_order_stays_blocked_over_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = tmp_path / "store"
        in_order: dict[str, object] = {"order": "true", "invisibleTime": 2_000}
        async with quick_peer(store) as peer:
            await peer.send("T", b"a")
            assert bodies(await pop(peer, "T", **in_order)) == [b"a"]
        async with quick_peer(store) as peer:
            assert (await pop(peer, "T", **in_order)).code == 210
            # Held, and woken when the queue is free.
            held = await pop(peer, "T", **in_order, pollTime=DEADLINE_MS, bornTime=now_ms())
            assert bodies(held) == [b"a"]
            assert held.ext_fields["orderCountInfo"] == "0 qo0%0 1;0 0 1"

    asyncio.run(scenario())


@pytest.mark.parametrize("bits", ["BQ==", [5]])
@pytest.mark.parametrize("long_names", [False, True])
def test_a_batch_is_acknowledged_in_any_spelling(
    tmp_path: Path, bits: object, long_names: bool
) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            for body in (b"a", b"b", b"c"):
                await peer.send("T", body)
            first = await pop(peer, "T", order="true")
            short = ("c", "t", "r", "so", "q", "rq", "pt", "it", "b")
            spelled = (
                *("consumerGroup", "topic", "retry", "startOffset", "queueId"),
                *("reviveQueueId", "popTime", "invisibleTime", "bitSet"),
            )
            pop_time = int(first.ext_fields["popTime"])
            values = ("PG", "T", "0", 0, 0, 999, pop_time, 60_000, bits)
            entry = dict(zip(spelled if long_names else short, values, strict=True))
            body = json.dumps({"brokerName": "broker-a", "acks": [entry]}).encode()
            assert (await peer.ask(RequestCode.BATCH_ACK_MESSAGE, body)).code == 0
            offset = await peer.ask(
                RequestCode.QUERY_CONSUMER_OFFSET, consumerGroup="PG", topic="T", queueId=0
            )
            assert offset.ext_fields["offset"] == "1"
            assert (await ack(peer, "T", handle(first, 0, 1), 1)).code == 0
            assert (await pop(peer, "T", order="true")).code == 210

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "body",
    [b"x", b'{"acks":[3]}', b'{"acks":[{}]}', b'{"acks":[{"c":"G","t":"T","r":"7","so":0}]}'],
)
def test_a_batch_that_cannot_be_read_is_answered_with_1(tmp_path: Path, body: bytes) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            assert (await peer.ask(RequestCode.BATCH_ACK_MESSAGE, body)).code == 1

    asyncio.run(scenario())


def test_a_held_pop_of_a_closed_connection_takes_no_message(tmp_path: Path) -> None:
    async def scenario() -> None:
        nameserver = NameServer("127.0.0.1", 0)
        await nameserver.start()
        broker = Broker(tmp_path / "store", nameserver.address, store_config=SMALL)
        await broker.start()
        peer, gone = await meet(broker.address), await meet(broker.address)
        await peer.send("T", b"first", e=1)
        waiting = asyncio.create_task(pop(gone, "T", pollTime=DEADLINE_MS))
        while not await polling_num(peer):
            await asyncio.sleep(0)
        await gone.close()
        with pytest.raises(ConnectionLostError):
            await waiting
        while await polling_num(peer):
            await asyncio.sleep(0)
        await peer.send("T", b"second")
        assert bodies(await pop(peer, "T")) == [b"second"]
        await peer.close()
        await broker.stop()
        await nameserver.stop()

    asyncio.run(scenario())


async def polling_num(peer: Peer) -> int:
    info = await peer.ask(RequestCode.POLLING_INFO, consumerGroup="PG", topic="T", queueId=0)
    return int(info.ext_fields["pollingNum"])


def test_a_pop_by_sql92_gives_what_the_condition_wants(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            for body, n in ((b"a", 1), (b"b", 2), (b"c", 3)):
                await peer.send("T", body, i=f"n\x01{n}\x02")
            by_sql: dict[str, object] = {"expType": "SQL92", "exp": "n > 1"}
            found = await pop(peer, "T", **by_sql)
            assert (bodies(found), found.ext_fields["msgOffsetInfo"]) == ([b"b", b"c"], "0 0 1,2")
            assert (await pop(peer, "T", expType="SQL92", exp="n >")).code == 23
            assert (await pop(peer, "T", expType="no type", exp="n")).code == 23

    asyncio.run(scenario())


def test_a_reset_frees_a_queue_that_is_popped_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            for body in (b"a", b"b"):
                await peer.send("T", body)
            assert len(bodies(await pop(peer, "T", order="true"))) == 2
            assert (await pop(peer, "T", order="true")).code == 210
            reset = await peer.ask(
                RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
                group="PG",
                topic="T",
                queueId=0,
                offset=1,
                timestamp=0,
                isForce="true",
            )
            assert reset.code == 0
            assert bodies(await pop(peer, "T", order="true")) == [b"b"]

    asyncio.run(scenario())
