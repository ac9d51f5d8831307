"""Messages that wait on a broker, for a time or for their producer, and its restarts meanwhile."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path

import pytest
from peer import SMALL, Peer, meet, running
from refusing import refusing

from mqspec.broker import Broker, conversing
from mqspec.broker.conversing import converse, in_time
from mqspec.broker.processor import transactions
from mqspec.broker.stored import is_log_on_disk, put
from mqspec.cluster import Cluster
from mqspec.core import check_transaction, due_messages, transaction
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.log import PutResult, PutStatus
from mqspec.core.metadata import BrokerConfig, Perm
from mqspec.core.record import PROPERTIES_BYTES_MAX, Record, decode_record
from mqspec.core.timer import TIMER_TOPIC
from mqspec.core.transaction import CHECK_MAX_TIME_TOPIC, OP_TOPIC
from mqspec.service import clock_ms
from mqspec.store.timer_check import TimerCheck, write_timer_check
from mqspec.transport import ConnectionLostError
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

DEADLINE_S = 10
DAY_MS = 86_400_000
# Long enough for what a test does before its message is due, on a machine with much else to do.
WAIT = "TIMER_DELAY_MS\x011500\x02"
COMMIT, ROLLBACK = 8, 12
HALF = "TRAN_MSG\x01true\x02PGROUP\x01PG\x02UNIQ_KEY\x01k\x02"
CHECKS = BrokerConfig(transaction_check_interval=20, transaction_time_out=0)
BY_HAND = BrokerConfig(transaction_time_out=0, transaction_op_batch_interval=60_000)


def check(broker: Broker) -> Coroutine[None, None, None]:
    """Halves are looked at once, none of which is too old."""
    return in_time(converse(broker, check_transaction.check(broker, file_reserved_ms=DAY_MS)))


async def deliver_delayed(broker: Broker) -> None:
    """All levels are looked at once."""
    talk = due_messages.deliver_delayed(broker.delay, broker.store.delay_levels)
    await in_time(converse(broker, talk))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():
            await asyncio.sleep(0.01)


def stored(cluster: Cluster, topic: str) -> int:
    """How many messages are in queue 0 of a topic."""
    return cluster.brokers[0].store.max_offset(topic, 0)


async def all_due_is_delivered(cluster: Cluster, properties: str = WAIT) -> None:
    """Wait until a message is delivered that is due later than all that were sent so."""
    peer = await meet(cluster.brokers[0].address)
    await peer.send("Probe", i=properties)
    await until(lambda: stored(cluster, "Probe") == 1)


def crashed(store: Path) -> Path:
    """The store as a kill of its broker would leave it now."""
    copy = store.with_name(store.name + "-crashed")
    shutil.copytree(store, copy)
    return copy


async def producer(cluster: Cluster) -> Peer:
    """A member of the producer group PG."""
    peer = await meet(cluster.brokers[0].address)
    body = b'{"clientID":"p@1","producerDataSet":[{"groupName":"PG"}]}'
    await peer.ask(RequestCode.HEART_BEAT, body)
    return peer


async def send_half(
    peer: Peer, topic: str, body: bytes = b"x", /, **fields: object
) -> RemotingCommand:
    """A half message, born now."""
    return await peer.send(topic, body, **{"g": clock_ms(), "i": HALF} | fields)


async def asked(peer: Peer) -> RemotingCommand:
    """The next check-back."""
    request = await asyncio.wait_for(peer.received.get(), DEADLINE_S)
    assert request.code == RequestCode.CHECK_TRANSACTION_STATE
    assert request.is_oneway
    return request


async def end(peer: Peer, half: RemotingCommand, kind: int) -> RemotingCommand:
    """End the half that a send was answered with, or a check-back asks about."""
    fields = half.ext_fields
    position = fields.get("commitLogOffset") or int(fields["msgId"][-16:], 16)
    return await peer.ask(
        RequestCode.END_TRANSACTION,
        producerGroup="PG",
        tranStateTableOffset=fields.get("tranStateTableOffset") or fields["queueOffset"],
        commitLogOffset=position,
        commitOrRollback=kind,
        fromTransactionCheck="commitLogOffset" in fields,
    )


def test_a_reply_that_asks_for_a_delay_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as cluster:
            peer = await meet(cluster.brokers[0].address)
            await peer.reply("T", i="DELAY\x0118\x02")
            await peer.reply("T")
            await until(lambda: stored(cluster, "T") > 0)
            assert stored(cluster, "T") == 1
            await peer.close()

    asyncio.run(scenario())


def test_a_reply_is_stored_also_where_its_sender_has_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as cluster:
            requester = await producer(cluster)
            replier = await meet(cluster.brokers[0].address)
            reply = asyncio.create_task(replier.reply("T", i="REPLY_TO_CLIENT\x01p@1\x02"))
            push = await asyncio.wait_for(requester.received.get(), DEADLINE_S)
            assert push.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
            assert stored(cluster, "T") == 0
            await replier.close()
            await until(lambda: stored(cluster, "T") == 1)
            with pytest.raises(ConnectionLostError):
                await reply
            await requester.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("properties", ["DELAY\x011\x02", WAIT])
def test_a_message_waits_also_through_a_crash(tmp_path: Path, properties: str) -> None:
    store = tmp_path / "store"

    async def scenario() -> None:
        async with running(store) as cluster:
            peer = await meet(cluster.brokers[0].address)
            await peer.send("T", i=properties)
            copy = crashed(store)
            assert stored(cluster, "T") == 0
            await until(lambda: stored(cluster, "T") == 1)
        async with running(store) as cluster:
            await all_due_is_delivered(cluster, properties)
            assert stored(cluster, "T") == 1
        async with running(copy) as cluster:
            await until(lambda: stored(cluster, "T") == 1)

    asyncio.run(scenario())


def test_a_crash_repeats_what_was_delivered_since_offsets_were_written(tmp_path: Path) -> None:
    store = tmp_path / "store"

    async def scenario() -> None:
        async with running(store) as cluster:
            peer = await meet(cluster.brokers[0].address)
            await peer.send("T", i="DELAY\x011\x02")
            await until(lambda: stored(cluster, "T") == 1)
            copy = crashed(store)
        async with running(copy) as cluster:
            await until(lambda: stored(cluster, "T") == 2)

    asyncio.run(scenario())


@pytest.mark.parametrize(("taken", "delivered"), [(0, 1), (1, 0), (9, 0)])
def test_a_timer_message_that_no_wheel_had_is_delivered(
    tmp_path: Path, taken: int, delivered: int
) -> None:
    """Its second is long over, as progress has it: what counts is whether it was taken in. Others
    are delivered also where more was taken in than the store has left."""
    store = tmp_path / "store"

    async def scenario() -> None:
        async with running(store) as cluster:
            peer = await meet(cluster.brokers[0].address)
            await peer.send("T", i=WAIT)
            copy = crashed(store)
            root = copy / cluster.brokers[0].store.root.relative_to(store)
        check = TimerCheck(last_read_time=clock_ms() + 5000, master_timer_queue_offset=taken)
        write_timer_check(root / "config" / "timercheck", check)
        async with running(copy) as cluster:
            await all_due_is_delivered(cluster)
            assert stored(cluster, "T") == delivered

    asyncio.run(scenario())


async def send_for_one_second(peer: Peer, count: int) -> None:
    """Messages for one topic and one time."""
    properties = f"TIMER_DELIVER_MS\x01{clock_ms() + 3_000}\x02"
    await asyncio.gather(*(peer.send("T", i=properties) for _ in range(count)))


def test_others_get_their_turn_while_a_second_is_delivered(tmp_path: Path) -> None:
    """And a clean stop meanwhile delivers the rest of it, all once."""
    store, count = tmp_path / "store", 300

    async def scenario() -> None:
        async with running(store) as cluster:
            await send_for_one_second(await meet(cluster.brokers[0].address), count)
            async with asyncio.timeout(DEADLINE_S):
                while not stored(cluster, "T"):
                    await asyncio.sleep(0)
            assert stored(cluster, "T") < count
        async with running(store) as cluster:
            await all_due_is_delivered(cluster)
            assert stored(cluster, "T") == count

    asyncio.run(scenario())


def test_where_a_put_fails_the_rest_of_a_second_is_delivered_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 150

    async def scenario() -> None:
        async with running(tmp_path) as cluster:
            broker = cluster.brokers[0]
            await send_for_one_second(await meet(broker.address), count)
            puts, refused = itertools.count(), PutResult(PutStatus.SERVICE_NOT_AVAILABLE)
            monkeypatch.setattr(
                conversing, "put", lambda *copy: refused if next(puts) in (7, 120) else put(*copy)
            )
            await until(lambda: stored(cluster, "T") >= count)
            assert next(puts) == count + 2
            await all_due_is_delivered(cluster)
            assert stored(cluster, "T") == count

    asyncio.run(scenario())


def test_where_a_put_fails_delayed_messages_are_delivered_later_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as cluster:
            broker = cluster.brokers[0]
            peer = await meet(broker.address)
            sent = [b"a", b"b", b"c"]
            for body in sent:
                await peer.send("T", body, i="DELAY\x011\x02")
            with refusing(broker.store, "T", after=1) as refused:
                monkeypatch.setattr("mqspec.broker.conversing.clock_ms", lambda: clock_ms() + 1500)
                await deliver_delayed(broker)
                assert refused
                assert stored(cluster, "T") == broker.delay.offset_table[1] == 1
            await deliver_delayed(broker)
            messages = decode_messages((await peer.pull("T")).body)
            assert [message.body for message in messages] == sent

    asyncio.run(scenario())


async def filled(cluster: Cluster, peer: Peer, topic: str, properties: str) -> str:
    """Properties with which the message that is stored in a topic for them is just not too
    long."""
    await peer.send("T", i=f"{properties}p\x01p\x02", g=clock_ms())
    (data,) = cluster.brokers[0].store.get(topic, 0, 0, 1).records
    message = decode_record(data)
    assert isinstance(message, Record)
    room = PROPERTIES_BYTES_MAX - len(message.properties)
    return f"{properties}p\x01{'p' * (1 + room)}\x02"


def test_a_timer_message_without_room_for_stamps_is_delivered_as_it_is(tmp_path: Path) -> None:
    """Or no other would be any more."""

    async def scenario() -> None:
        async with running(tmp_path) as cluster:
            peer = await meet(cluster.brokers[0].address)
            full = await filled(cluster, peer, TIMER_TOPIC, WAIT)
            assert (await peer.send("T", i=full)).code == ResponseCode.SUCCESS
            assert (await peer.send("T", i=full.replace("1500", "15000"))).code != 0
            await all_due_is_delivered(cluster)
            assert stored(cluster, "T") == 2

    asyncio.run(scenario())


def test_levels_are_those_of_the_store(tmp_path: Path) -> None:
    store_config = replace(SMALL, message_delay_level="1h 1s")

    async def scenario() -> None:
        async with running(tmp_path, store_config=store_config) as cluster:
            peer = await meet(cluster.brokers[0].address)
            await peer.send("T", b"hour", i="DELAY\x011\x02")
            await peer.send("T", b"last level", i="DELAY\x013\x02")
            await until(lambda: stored(cluster, "T") == 1)
            (message,) = decode_messages((await peer.pull("T")).body)
            assert message.body == b"last level"

    asyncio.run(scenario())


@pytest.mark.parametrize(("kind", "visible"), [(COMMIT, 1), (ROLLBACK, 0)])
def test_a_half_that_was_ended_is_not_checked_back(tmp_path: Path, kind: int, visible: int) -> None:
    async def scenario() -> None:
        config = replace(CHECKS, transaction_time_out=1_500)
        async with running(tmp_path, broker_config=config) as cluster:
            peer = await producer(cluster)
            half = await send_half(peer, "T")
            assert stored(cluster, "T") == 0
            assert (await end(peer, half, kind)).code == ResponseCode.SUCCESS
            await until(lambda: stored(cluster, "T") == visible)
            # Its end is in memory only; a half that is sent later is asked about first.
            await send_half(peer, "Other")
            assert int((await asked(peer)).ext_fields["tranStateTableOffset"]) > 1
        async with running(tmp_path, broker_config=config) as cluster:
            peer = await producer(cluster)
            (message,) = decode_messages((await asked(peer)).body)
            assert message.topic == "Other"
            assert stored(cluster, "T") == visible

    asyncio.run(scenario())


def test_a_half_without_an_end_is_checked_back_also_after_a_crash(tmp_path: Path) -> None:
    store = tmp_path / "store"

    async def scenario() -> None:
        async with running(store, broker_config=CHECKS) as cluster:
            peer = await producer(cluster)
            await send_half(peer, "T", b"half", h=7)
            first, second = await asked(peer), await asked(peer)
            offsets = [int(each.ext_fields["tranStateTableOffset"]) for each in (first, second)]
            assert offsets[0] < offsets[1]
            copy = crashed(store)
        async with running(copy, broker_config=CHECKS) as cluster:
            peer = await producer(cluster)
            check = await asked(peer)
            (half,) = decode_messages(check.body)
            assert (half.topic, half.body, half.flag) == ("T", b"half", 7)
            assert (await end(peer, check, COMMIT)).code == ResponseCode.SUCCESS
            await until(lambda: stored(cluster, "T") == 1)
            (message,) = decode_messages((await peer.pull("T")).body)
            assert (message.body, message.flag) == (b"half", 7)

    asyncio.run(scenario())


@pytest.mark.parametrize("sync_flush", [False, True])
def test_an_end_counts_as_soon_as_it_is_written(tmp_path: Path, sync_flush: bool) -> None:
    async def scenario() -> None:
        config = BrokerConfig(transaction_time_out=0, transaction_op_batch_interval=60_000)
        store_config = replace(SMALL, sync_flush=sync_flush)
        async with running(tmp_path, broker_config=config, store_config=store_config) as cluster:
            peer = await producer(cluster)
            half = await send_half(peer, "T")
            assert (await end(peer, half, ROLLBACK)).code == ResponseCode.SUCCESS
            transactions.write_ops(cluster.brokers[0])
            await check(cluster.brokers[0])
            assert await is_log_on_disk(cluster.brokers[0])
            assert stored(cluster, "RMQ_SYS_TRANS_HALF_TOPIC") == 1

    asyncio.run(scenario())


def test_an_end_that_is_written_during_a_round_of_checks_counts(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = BrokerConfig(transaction_time_out=0, transaction_op_batch_interval=60_000)
        async with running(tmp_path, broker_config=config) as cluster:
            peer = await producer(cluster)
            halves = [await send_half(peer, "T") for _ in range(101)]
            assert (await end(peer, halves[-1], ROLLBACK)).code == ResponseCode.SUCCESS
            checks = check(cluster.brokers[0])
            checks.send(None)  # the first hundred; then others get their turn
            transactions.write_ops(cluster.brokers[0])
            await asyncio.create_task(checks)
            assert stored(cluster, "RMQ_SYS_TRANS_HALF_TOPIC") == 101 + 100

    asyncio.run(scenario())


def test_op_messages_are_read_once_in_a_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        config = BrokerConfig(transaction_time_out=0, transaction_op_batch_interval=60_000)
        async with running(tmp_path, broker_config=config) as cluster:
            broker, read = cluster.brokers[0], transaction.ended_halves
            peer = await producer(cluster)
            halves = [await send_half(peer, "T") for _ in range(250)]
            for some in (halves[:100], halves[100:200], [*halves[200:], halves[0]]):
                for half in some:
                    await end(peer, half, ROLLBACK)
                transactions.write_ops(broker)
            reads = itertools.count()
            monkeypatch.setattr(
                transaction, "ended_halves", lambda body: (next(reads), read(body))[1]
            )
            await check(broker)
            assert next(reads) == 3
            assert (broker.transactions.half_offset, broker.transactions.op_offset) == (250, 3)
            assert stored(cluster, "RMQ_SYS_TRANS_HALF_TOPIC") == 250

    asyncio.run(scenario())


def test_a_half_is_parked_after_the_last_check(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = replace(CHECKS, transaction_check_max=3)
        async with running(tmp_path, broker_config=config) as cluster:
            parked = "TRANS_CHECK_MAX_TIME_TOPIC"
            peer = await producer(cluster)
            table = cluster.brokers[0].metadata.topic_config_table
            assert parked not in table
            await send_half(peer, "T")
            await until(lambda: stored(cluster, parked) == 1)
            assert table[parked].perm == Perm.READ | Perm.WRITE
            assert peer.received.qsize() == 3
            assert stored(cluster, "RMQ_SYS_TRANS_HALF_TOPIC") == 4

    asyncio.run(scenario())


def test_a_commit_that_cannot_be_stored_is_refused_and_may_be_tried_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, broker_config=BY_HAND) as cluster:
            broker = cluster.brokers[0]
            peer = await producer(cluster)
            half = await send_half(peer, "T")
            with refusing(broker.store, "T"):
                refused = await end(peer, half, COMMIT)
            assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert not broker.transactions.op_batch  # it has no end
            assert (await end(peer, half, COMMIT)).code == ResponseCode.SUCCESS
            assert stored(cluster, "T") == 1
            assert broker.transactions.op_batch == (0,)

    asyncio.run(scenario())


def test_ends_whose_op_message_cannot_be_stored_are_in_a_later_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, broker_config=BY_HAND) as cluster:
            broker = cluster.brokers[0]
            peer = await producer(cluster)
            for _ in range(2):
                half = await send_half(peer, "T")
                await end(peer, half, ROLLBACK)
                with refusing(broker.store, OP_TOPIC) as refused:
                    transactions.write_ops(broker)
                assert refused == [OP_TOPIC]
            transactions.write_ops(broker)
            transactions.write_ops(broker)
            (message,) = decode_messages((await peer.pull(OP_TOPIC)).body)
            assert message.body == b"0,1,"

    asyncio.run(scenario())


def test_where_the_copy_of_a_half_cannot_be_stored_it_is_checked_back_later(
    tmp_path: Path,
) -> None:
    """And no producer is asked about a copy that is not there."""

    async def scenario() -> None:
        async with running(tmp_path, broker_config=BY_HAND) as cluster:
            broker = cluster.brokers[0]
            peer = await producer(cluster)
            halves = [await send_half(peer, "T", b"%d" % n) for n in range(4)]
            for ended in (0, 3):
                await end(peer, halves[ended], ROLLBACK)
                transactions.write_ops(broker)
            with refusing(broker.store, HALF_TOPIC, after=1) as refused:
                await check(broker)
            assert refused == [HALF_TOPIC]
            assert (broker.transactions.half_offset, broker.transactions.op_offset) == (2, 1)
            (first,) = decode_messages((await asked(peer)).body)
            await check(broker)
            asked_about = [decode_messages((await asked(peer)).body)[0] for _ in range(2)]
            assert [half.body for half in (first, *asked_about)] == [b"1", b"2", b"1"]
            assert peer.received.empty()
            assert (broker.transactions.half_offset, broker.transactions.op_offset) == (5, 2)

    asyncio.run(scenario())


def test_where_a_half_cannot_be_parked_it_is_parked_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = replace(BY_HAND, transaction_check_max=0)
        async with running(tmp_path, broker_config=config) as cluster:
            broker = cluster.brokers[0]
            peer = await producer(cluster)
            for _ in range(3):
                await send_half(peer, "T")
            with refusing(broker.store, CHECK_MAX_TIME_TOPIC, after=1):
                await check(broker)
            assert stored(cluster, CHECK_MAX_TIME_TOPIC) == broker.transactions.half_offset == 1
            await check(broker)
            assert stored(cluster, CHECK_MAX_TIME_TOPIC) == broker.transactions.half_offset == 3

    asyncio.run(scenario())


def test_a_half_without_room_for_its_count_is_parked(tmp_path: Path) -> None:
    """Or none behind it would be checked any more."""

    async def scenario() -> None:
        async with running(tmp_path, broker_config=BY_HAND) as cluster:
            broker = cluster.brokers[0]
            peer = await producer(cluster)
            full = await filled(cluster, peer, HALF_TOPIC, HALF)
            await send_half(peer, "T", b"full", i=full)
            await send_half(peer, "T", b"behind it")
            await check(broker)
            assert broker.transactions.half_offset == 3
            asked_about = [decode_messages((await asked(peer)).body)[0] for _ in range(2)]
            assert [half.body for half in asked_about] == [b"x", b"behind it"]
            (parked,) = decode_messages((await peer.pull(CHECK_MAX_TIME_TOPIC)).body)
            assert parked.body == b"full"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("delay", "waits_in"),
    [("DELAY\x011\x02", "SCHEDULE_TOPIC_XXXX"), ("TIMER_DELAY_MS\x011000\x02", TIMER_TOPIC)],
)
def test_a_half_with_a_delay_waits_after_its_commit(
    tmp_path: Path, delay: str, waits_in: str
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as cluster:
            peer = await producer(cluster)
            half = await send_half(peer, "T", i=f"{HALF}{delay}")
            assert stored(cluster, waits_in) == 0
            assert (await end(peer, half, COMMIT)).code == ResponseCode.SUCCESS
            await until(lambda: stored(cluster, waits_in) == 1)
            assert stored(cluster, "T") == 0
            await until(lambda: stored(cluster, "T") == 1)

    asyncio.run(scenario())


def test_ends_are_written_to_the_op_queue(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = BrokerConfig(transaction_op_batch_interval=20)
        async with running(tmp_path, broker_config=config) as cluster:
            peer = await producer(cluster)
            half = await send_half(peer, "T")
            await end(peer, half, ROLLBACK)
            await until(lambda: stored(cluster, "RMQ_SYS_TRANS_OP_HALF_TOPIC") == 1)
            (message,) = decode_messages((await peer.pull("RMQ_SYS_TRANS_OP_HALF_TOPIC")).body)
            assert message.body == b"0,"

    asyncio.run(scenario())


def test_a_commit_is_answered_when_it_is_on_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        config = replace(SMALL, sync_flush=True)
        async with running(tmp_path, store_config=config) as cluster:
            peer = await producer(cluster)
            half = await send_half(peer, "T")
            assert (await end(peer, half, COMMIT)).code == ResponseCode.SUCCESS
            assert stored(cluster, "T") == 1

    asyncio.run(scenario())
