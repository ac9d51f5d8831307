"""When a send is answered: with synchronous flush once it is on disk, one sync for many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from peer import SMALL, Peer, meet

from mqspec.broker import BrokerController
from mqspec.broker.group_commit import GroupCommit
from mqspec.cluster import Cluster, ClusterConfig
from mqspec.core.log import PutStatus, Span
from mqspec.core.record import Record
from mqspec.service import clock_ms
from mqspec.store.checkpoint import read_checkpoint
from mqspec.store.commit_log import CommitLog
from mqspec.store.files import DISK
from mqspec.store.message_store import MessageStore, StoreConfig

SYNC = replace(SMALL, sync_flush=True)


class SlowDisk:
    """Syncs of the log that wait to be let go."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.go = Event()
        self.go.set()
        self.begun = Event()
        self.syncs = 0
        real = CommitLog.flush

        def flush(commit_log: CommitLog, written: Span) -> None:
            self.begun.set()
            assert self.go.wait(10)
            self.syncs += 1
            real(commit_log, written)

        patch.setattr(CommitLog, "flush", flush)


@asynccontextmanager
async def serving(store: Path, config: StoreConfig) -> AsyncIterator[tuple[BrokerController, Peer]]:
    async with Cluster(ClusterConfig(store, store_config=config)) as cluster:
        (broker,) = cluster.brokers
        peer = await meet(broker.address)
        yield broker, peer
        await peer.close()


def test_with_sync_flush_a_send_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(monkeypatch)

    async def scenario() -> None:
        async with serving(tmp_path, SYNC) as (broker, peer):
            await peer.send("T")
            disk.go.clear()
            disk.syncs = 0
            sends = [asyncio.create_task(peer.send("T", b"%d" % n)) for n in range(20)]
            heedless = await peer.send("T", b"does not wait", i="WAIT\x01false\x02")
            assert heedless.code == 0
            assert not any(send.done() for send in sends)
            assert broker.store.max_offset("T", 0) == 1  # LOG-007
            disk.go.set()
            answers = await asyncio.gather(*sends)
            assert [answer.code for answer in answers] == [0] * 20
            # The first came alone, the others while it was on its way.
            assert disk.syncs <= 3
            assert (await peer.pull("T", 0, maxMsgNums=32)).ext_fields["maxOffset"] == "22"

    asyncio.run(scenario())


def test_with_sync_flush_a_reply_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(monkeypatch)

    async def scenario() -> None:
        async with serving(tmp_path, SYNC) as (broker, peer):
            await peer.send("T")
            disk.go.clear()
            reply = asyncio.create_task(peer.reply("T"))
            for _ in range(2):  # the second is served once the reply has been
                await peer.send("T", i="WAIT\x01false\x02")
            assert not reply.done()  # RECOV-002
            disk.go.set()
            assert (await reply).code == 1  # nobody gets it (REPLY-004)
            assert broker.store.max_offset("T", 0) == 4

    asyncio.run(scenario())


def test_a_sync_that_takes_too_long_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SlowDisk(monkeypatch)

    async def scenario() -> None:
        async with serving(tmp_path, SYNC) as (broker, peer):
            await peer.send("T")
            impatient = GroupCommit(broker.store, timeout_s=0.02)
            disk.go.clear()
            with monkeypatch.context() as patch:
                patch.setattr(broker, "group_commit", impatient)
                assert (await peer.send("T")).code == 10
            assert broker.store.max_offset("T", 0) == 1

            # The next has the usual patience, and begins once nobody else is at the log.
            disk.go.set()
            await impatient.close()
            assert (await peer.send("T")).code == 0
            assert broker.store.max_offset("T", 0) == 3  # it is stored all the same

    asyncio.run(scenario())
    assert "the sync takes too long" in caplog.text


def test_a_sync_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, SYNC) as (broker, peer):
            await peer.send("T")
            with monkeypatch.context() as patch:
                patch.setattr(CommitLog, "flush", _no_room)
                assert (await peer.send("T")).code == 10
            assert broker.store.max_offset("T", 0) == 1
            assert (await peer.send("T")).code == 0

    asyncio.run(scenario())


def _no_room(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_without_sync_flush_a_send_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(monkeypatch)

    async def scenario() -> None:
        async with serving(tmp_path, SMALL) as (broker, peer):
            disk.go.clear()
            assert (await peer.send("T")).code == 0
            assert broker.store.unflushed.min < broker.store.unflushed.max
            disk.go.set()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_flush_takes_what_comes_meanwhile_only_where_somebody_wants_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_wanted: bool
) -> None:
    """Or under load one flush would follow the other."""
    disk = SlowDisk(monkeypatch)

    async def scenario() -> None:
        store = MessageStore(tmp_path, SMALL, clock_ms)
        store.open()
        store.put(Record("T", b"one"))
        commit = GroupCommit(store)
        disk.go.clear()
        disk.begun.clear()
        disk.syncs = 0
        flushed = asyncio.create_task(commit.flushed(store.unflushed.max))
        assert await asyncio.to_thread(disk.begun.wait, 10)
        store.put(Record("T", b"two"))
        if is_wanted:
            commit.begin()
        disk.go.set()
        assert await flushed is PutStatus.PUT_OK
        await commit.close()
        assert disk.syncs == (2 if is_wanted else 1)
        assert (store.unflushed.min == store.unflushed.max) is is_wanted
        store.close()

    asyncio.run(scenario())


def test_with_a_transient_store_pool_a_message_is_visible_when_it_is_committed(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        pool = replace(SMALL, transient_store_pool_enable=True)
        async with serving(tmp_path, pool) as (broker, peer):
            assert (await peer.send("T", b"one")).code == 0
            held = await peer.held_pull("T", 0)
            answer = await asyncio.wait_for(held, 5)
            assert (answer.code, answer.ext_fields["maxOffset"]) == (0, "1")
            assert broker.store.max_offset("T", 0) == 1

    asyncio.run(scenario())


def test_what_is_in_a_transient_store_pool_is_written_when_somebody_waits_for_it(
    tmp_path: Path,
) -> None:
    """Nobody else writes it here, which a broker does each 200 ms."""

    async def scenario() -> None:
        store = MessageStore(tmp_path, replace(SYNC, transient_store_pool_enable=True), clock_ms)
        store.open()
        store.settle = lambda: PutStatus.PUT_OK
        put = store.put(Record("T", b"one"))
        assert store.unflushed == (0, 0)
        commit = GroupCommit(store)
        assert await commit.flushed(put.end) is PutStatus.PUT_OK
        await commit.close()
        assert store.unflushed == (put.end, put.end)
        store.close()

    asyncio.run(scenario())


def test_a_full_disk_is_told_and_what_is_stored_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, SMALL) as (broker, peer):
            assert (await peer.send("T")).code == 0
            monkeypatch.setattr(DISK, "used_percent", lambda _: 91)
            broker.store.clean()
            refused = await peer.send("T")
            assert refused.code == 14
            assert "the broker's disk is full" in (refused.remark or "")
            assert (await peer.pull("T")).ext_fields["maxOffset"] == "1"
            monkeypatch.setattr(DISK, "used_percent", lambda _: 80)
            broker.store.clean()
            assert (await peer.send("T")).ext_fields["queueOffset"] == "1"

    asyncio.run(scenario())


def test_all_is_on_disk_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mqspec.broker.controller.FLUSH_INTERVAL_MS", 20)

    async def scenario() -> None:
        async with serving(tmp_path, SMALL) as (_, peer):
            sent = await peer.send("T")
            assert sent.code == 0
            async with asyncio.timeout(5):
                while not read_checkpoint(tmp_path / "checkpoint").logics_msg_timestamp:
                    await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_a_broker_may_be_stopped_twice(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with serving(tmp_path, SMALL) as (broker, peer):
            await peer.send("T")
            await broker.stop()
            await broker.stop()
            assert not (tmp_path / "abort").exists()

    asyncio.run(scenario())
