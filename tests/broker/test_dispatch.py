"""When a message is dispatched: at once where somebody waits for one, else together with others,
and never later than somebody looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from peer import Peer, meet, pull_fields, running

from mqspec.broker import BrokerController
from mqspec.broker.held import REPUT_BYTES
from mqspec.service import clock_ms
from mqspec.store.message_store import MessageStore
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codes import RequestCode, ResponseCode


@asynccontextmanager
async def without_clocks(store: Path) -> AsyncIterator[tuple[BrokerController, Peer]]:
    """A broker that does nothing unless it is asked."""
    async with running(store) as cluster, asyncio.timeout(20):
        (broker,) = cluster.brokers
        for clock in broker._clocks:
            clock.cancel()
        peer = await meet(broker.address)
        yield broker, peer
        await peer.close()


def test_what_nobody_waits_for_is_dispatched_when_somebody_looks(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with without_clocks(tmp_path) as (broker, peer):
            await peer.send("T", b"a")
            await peer.send("T", b"b")
            assert broker.store.undispatched_bytes > 0
            found = decode_messages((await peer.pull("T", 0)).body)
            assert [message.body for message in found] == [b"a", b"b"]
            assert broker.store.undispatched_bytes == 0

    asyncio.run(scenario())


def test_much_is_dispatched_though_nobody_looks(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with without_clocks(tmp_path) as (broker, peer):
            undispatched = []
            for _ in range(40):
                await peer.send("T", bytes(REPUT_BYTES // 16))
                undispatched.append(broker.store.undispatched_bytes)
            assert 0 < max(undispatched) < REPUT_BYTES
            assert undispatched != sorted(undispatched)

    asyncio.run(scenario())


POPPING: dict[str, object] = {"consumerGroup": "PG", "topic": "T", "queueId": 0, "pollTime": 60_000}
WAITS: dict[RequestCode, dict[str, object]] = {
    RequestCode.PULL_MESSAGE: pull_fields("T", 0) | {"sysFlag": 6, "suspendTimeoutMillis": 60_000},
    RequestCode.POP_MESSAGE: POPPING | {"invisibleTime": 60_000, "maxMsgNums": 32, "initMode": 0},
    RequestCode.NOTIFICATION: POPPING,
}


@pytest.mark.parametrize("code", WAITS)
def test_one_who_waits_is_told_at_once(tmp_path: Path, code: RequestCode) -> None:
    async def scenario() -> None:
        async with without_clocks(tmp_path) as (_, peer):
            await peer.send("T", e=1)  # there is a topic
            waiting = asyncio.create_task(peer.ask(code, **WAITS[code] | {"bornTime": clock_ms()}))
            await asyncio.sleep(0)  # its request is written now, and a connection keeps its order
            await peer.send("T")
            answer = await waiting
            assert answer.code == ResponseCode.SUCCESS
            assert answer.body or answer.ext_fields["hasMsg"] == "true"

    asyncio.run(scenario())


def test_who_looks_while_nothing_can_be_dispatched_does_not_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The next put does, and the clock, and it is said once what is wrong."""
    tries = []

    def fail(*_: object) -> None:
        tries.append(1)
        raise OSError("on purpose")

    async def scenario() -> None:
        async with without_clocks(tmp_path) as (broker, peer):
            with monkeypatch.context() as broken:
                broken.setattr(MessageStore, "_dispatch", fail)
                await peer.send("T", b"a")
                for _ in range(3):
                    assert broker.store.max_offset("T", 0) == 0
                assert len(tries) == 1
                for _ in range(3):
                    broker.store.catch_up()
                assert len(tries) == 4
                assert caplog.text.count("on purpose") == 1
            await peer.send("T", b"b")
            assert broker.store.max_offset("T", 0) == 2

    asyncio.run(scenario())
