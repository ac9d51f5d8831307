"""POP over the wire: popped, acknowledged, brought back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from peer import SMALL, Peer, broker_peer, meet, running
from refusing import refusing

from mqspec.broker import Broker, BrokerController
from mqspec.broker.conversing import converse, in_time
from mqspec.broker.processor.pop import _read_batch_ack
from mqspec.core import pop_revive
from mqspec.core.ack_message import AckMessage
from mqspec.core.extra_info import ReceiptHandle
from mqspec.core.metadata import BrokerConfig
from mqspec.core.offset_commit import OffsetKey
from mqspec.core.record import PROPERTIES_BYTES_MAX, Record, decode_properties
from mqspec.core.revive_log import revive_topic
from mqspec.nameserver import NamesrvController
from mqspec.transport import ConnectionLostError
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

QUICK = BrokerConfig(revive_interval=20)
DEADLINE_MS = 4_000
BY_HAND = BrokerConfig(revive_interval=3_600_000, pop_from_retry_probability=100)
RETRY, REVIVE_LOG = "%RETRY%PG_T", revive_topic(BY_HAND.cluster_name)


@asynccontextmanager
async def revived_by_hand(store: Path) -> AsyncIterator[tuple[Broker, Peer]]:
    """A broker that looks at its revive log when it is told to, and a connection to it."""
    async with running(store, broker_config=BY_HAND) as cluster:
        (broker,) = cluster.brokers
        peer = await meet(broker.address)
        yield broker, peer
        await peer.close()


def revive_sees(monkeypatch: pytest.MonkeyPatch, later_ms: int) -> None:
    """Have the revive service take it to be so much later than it is."""
    monkeypatch.setattr("mqspec.broker.conversing.clock_ms", lambda: now_ms() + later_ms)


def revive(broker: Broker) -> Coroutine[None, None, None]:
    """The revive service looks once."""
    return in_time(converse(broker, pop_revive.revive(broker)))


async def polled(peer: Peer, number: int) -> None:
    """Wait until so many pops are held."""
    async with asyncio.timeout(DEADLINE_MS / 1000):
        while await polling_num(peer) != number:
            await asyncio.sleep(0)


@asynccontextmanager
async def quick_peer(store: Path, config: BrokerConfig = QUICK) -> AsyncIterator[Peer]:
    """A connection to a broker that looks at its revive log all the time."""
    nameserver = NamesrvController("127.0.0.1", 0)
    await nameserver.start()
    broker = BrokerController(store, nameserver.address, config, store_config=SMALL)
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


def test_how_many_pops_may_be_held_is_said_while_the_broker_runs(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            assert records(await pop(peer, "T"))
            set_size = b"popPollingSize=1"
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, set_size)).code == 0
            held = {"queueId": 0, "pollTime": 300}
            answers = await asyncio.gather(*(pop(peer, "T", **held) for _ in range(5)))
            assert sorted(answer.code for answer in answers) == [209, 209, 209, 210, 210]

    asyncio.run(scene())


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
            held = await pop(peer, "T", **in_order, pollTime=60_000, bornTime=now_ms())
            assert bodies(held) == [b"a"]
            assert held.ext_fields["orderCountInfo"] == "0 qo0%0 1;0 0 1"

    asyncio.run(scenario())


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_who_waits_for_a_blocked_queue_has_it_when_it_is_free(
    tmp_path: Path, is_acknowledged: bool
) -> None:
    """Acknowledged or out of time; long before the held pop itself would look again."""

    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            for body in (b"a", b"b"):
                await peer.send("T", body)
            invisible_ms = 60_000 if is_acknowledged else 1_500
            first = await pop(peer, "T", order="true", invisibleTime=invisible_ms, maxMsgNums=1)
            assert bodies(first) == [b"a"]
            long = {"order": "true", "pollTime": 60_000, "bornTime": now_ms()}
            held = asyncio.create_task(pop(peer, "T", **long))
            await polled(peer, 1)
            if is_acknowledged:
                assert (await ack(peer, "T", handle(first, 0, 0), 0)).code == 0
            async with asyncio.timeout(DEADLINE_MS / 1000):
                assert bodies(await held) == ([b"b"] if is_acknowledged else [b"a", b"b"])

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


def test_a_number_of_a_batch_that_is_left_out_is_0() -> None:
    """As Java's are before they are set."""
    entry = {"t": "T", "r": "0", "q": "", "b": [5]}
    handle = ReceiptHandle(0, 0, 0, 0, "0", "broker-a", 0, -1)
    assert _read_batch_ack(entry, "broker-a") == AckMessage("T", "null", 0, (0, 2), handle)


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
        nameserver = NamesrvController("127.0.0.1", 0)
        await nameserver.start()
        broker = BrokerController(tmp_path / "store", nameserver.address, store_config=SMALL)
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


def test_a_pop_whose_checkpoint_cannot_be_stored_gives_nothing_and_moves_no_offset(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with revived_by_hand(tmp_path) as (broker, peer):
            for body in (b"a", b"b"):
                await peer.send("T", body)
            with refusing(broker.store, REVIVE_LOG) as refused:
                nothing = await pop(peer, "T")
            assert refused == [REVIVE_LOG]
            assert (nothing.code, nothing.ext_fields["msgOffsetInfo"]) == (210, "")
            assert broker.offsets.offset_table[OffsetKey("T", "PG", 0)] == 0
            assert bodies(await pop(peer, "T")) == [b"a", b"b"]

    asyncio.run(scenario())


def test_a_change_whose_checkpoint_cannot_be_stored_leaves_the_message_to_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with revived_by_hand(tmp_path) as (broker, peer):
            await peer.send("T", b"a")
            first = await pop(peer, "T")
            with refusing(broker.store, REVIVE_LOG) as refused:
                changed = await peer.ask(
                    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
                    consumerGroup="PG",
                    topic="T",
                    queueId=0,
                    extraInfo=handle(first, 0, 0),
                    offset=0,
                    invisibleTime=3_600_000,
                )
            assert (changed.code, refused) == (1, [REVIVE_LOG])
            revive_sees(monkeypatch, 65_000)
            await revive(broker)
            assert bodies(await pop(peer, "T")) == [b"a"]

    asyncio.run(scenario())


def test_a_message_that_cannot_be_revived_waits_in_a_checkpoint_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with revived_by_hand(tmp_path) as (broker, peer):
            for body in (b"a", b"b", b"c"):
                await peer.send("T", body)
            assert len(bodies(await pop(peer, "T"))) == 3
            revive_sees(monkeypatch, 65_000)
            with refusing(broker.store, RETRY, after=1) as refused:
                await revive(broker)
            assert refused == [RETRY] * 2
            assert bodies(await pop(peer, "T", invisibleTime=3_600_000)) == [b"a"]
            await revive(broker)
            assert bodies(await pop(peer, "T")) == []  # 10 s later
            revive_sees(monkeypatch, 75_000)
            await revive(broker)
            again = records(await pop(peer, "T"))
            assert [(each.body, each.reconsume_times) for each in again] == [(b"b", 1), (b"c", 1)]

    asyncio.run(scenario())


def test_where_nothing_can_be_stored_all_is_revived_at_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with revived_by_hand(tmp_path) as (broker, peer):
            for body in (b"a", b"b"):
                await peer.send("T", body)
            assert len(bodies(await pop(peer, "T"))) == 2
            revive_sees(monkeypatch, 65_000)
            with refusing(broker.store) as refused:
                await revive(broker)
            assert refused == [RETRY, REVIVE_LOG]
            await revive(broker)
            assert bodies(await pop(peer, "T")) == [b"a", b"b"]

    asyncio.run(scenario())


def test_a_message_without_room_for_its_first_pop_is_revived_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with revived_by_hand(tmp_path) as (broker, peer):
            await peer.send("T", i="p\x01p\x02")
            (short,) = records(await pop(peer, "T"))
            properties = f"p\x01{'p' * (1 + PROPERTIES_BYTES_MAX - len(short.properties))}\x02"
            await peer.send("T", b"full", i=properties)
            assert bodies(await pop(peer, "T")) == [b"full"]
            revive_sees(monkeypatch, 65_000)
            await revive(broker)
            assert broker.store.max_offset(RETRY, 0) == 2

    asyncio.run(scenario())


def test_for_a_group_that_is_no_more_nothing_is_revived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with revived_by_hand(tmp_path) as (broker, peer):
            await peer.send("T", b"a")
            assert bodies(await pop(peer, "T")) == [b"a"]
            gone = await peer.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, groupName="PG")
            assert gone.code == 0
            revive_sees(monkeypatch, 65_000)
            await revive(broker)
            assert not broker.pop.check_points
            assert RETRY not in broker.metadata.topic_config_table

    asyncio.run(scenario())


@pytest.mark.parametrize(("before", "after"), [(None, 0), (3, 3)])
def test_a_group_begins_a_new_retry_topic_at_0_unless_it_has_an_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int | None, after: int
) -> None:
    key = OffsetKey(RETRY, "PG", 0)

    async def scenario() -> None:
        async with revived_by_hand(tmp_path) as (broker, peer):
            await peer.send("T", b"a")
            assert bodies(await pop(peer, "T")) == [b"a"]
            if before is not None:
                broker.offsets.offset_table[key] = before
            revive_sees(monkeypatch, 65_000)
            await revive(broker)
            assert broker.store.max_offset(RETRY, 0) == 1
            assert broker.offsets.offset_table[key] == after

    asyncio.run(scenario())


def test_an_acknowledgement_that_comes_while_the_revive_log_is_read_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the message's time is up meanwhile: it is not, by the time of the beginning."""

    async def scenario() -> None:
        async with revived_by_hand(tmp_path) as (broker, peer):
            pops = []
            for body in (b"a", b"b"):
                await peer.send("T", body)
                pops.append(await pop(peer, "T"))
            assert [each.ext_fields["reviveQid"] for each in pops] == ["0", "1"]
            reviving = revive(broker)
            for _ in range(2):
                reviving.send(None)  # one queue is read after the other
            assert broker.pop.scan_offset[1] == 1
            assert (await ack(peer, "T", handle(pops[0], 0, 0), 0)).code == 0
            revive_sees(monkeypatch, 65_000)
            await asyncio.create_task(reviving)
            assert bodies(await pop(peer, "T")) == []
            await revive(broker)
            assert bodies(await pop(peer, "T")) == [b"b"]

    asyncio.run(scenario())


def test_a_held_pop_that_was_answered_takes_nothing_when_its_time_is_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T", e=1)
            held = asyncio.create_task(pop(peer, "T", pollTime=250))
            await polled(peer, 1)
            await peer.send("T", b"a")
            assert bodies(await held) == [b"a"]
            await peer.send("T", b"b")
            # Its time is up before that of one that is held now.
            later = await pop(peer, "T", consumerGroup="Other", queueId=2, pollTime=300)
            assert later.code == 210
            assert bodies(await pop(peer, "T")) == [b"b"]

    asyncio.run(scenario())


def test_what_a_woken_pop_leaves_wakes_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message wakes one, though there may be more to give: what was revived woke nobody."""

    async def scenario() -> None:
        async with revived_by_hand(tmp_path) as (broker, peer):
            await peer.send("T", b"again")
            assert bodies(await pop(peer, "T")) == [b"again"]
            held = [
                asyncio.create_task(pop(peer, "T", maxMsgNums=1, pollTime=60_000)) for _ in range(2)
            ]
            await polled(peer, 2)
            revive_sees(monkeypatch, 65_000)
            await revive(broker)
            assert await polling_num(peer) == 2  # POP-017
            await peer.send("T", b"new")
            first, second = await asyncio.gather(*held)
            assert bodies(first) + bodies(second) == [b"again", b"new"]
            assert first.ext_fields["restNum"] == "1"

    asyncio.run(scenario())


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
