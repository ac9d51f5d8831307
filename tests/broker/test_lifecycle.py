"""A broker and its nameserver come and go."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from peer import SMALL, meet

from mqrules import UserError
from mqspec.broker import BrokerController
from mqspec.nameserver import NamesrvController
from mqspec.wire.codes import RequestCode


def test_a_nameserver_that_does_not_answer(tmp_path: Path) -> None:
    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        address = nameserver.address
        await nameserver.stop()
        with pytest.raises(UserError, match="the nameserver does not answer"):
            await BrokerController(tmp_path, address, store_config=SMALL).start()

        again = NamesrvController(port=int(address.rpartition(":")[2]))
        await again.start()
        broker = BrokerController(tmp_path, address, store_config=SMALL)
        await broker.start()  # the store was released
        await broker.stop()
        await again.stop()

    asyncio.run(scenario())


def test_a_nameserver_that_forgot_everything_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mqspec.broker.controller.REGISTER_INTERVAL_MS", 20)

    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        address = nameserver.address
        broker = BrokerController(tmp_path, address, store_config=SMALL)
        await broker.start()
        await nameserver.stop()
        async with asyncio.timeout(10):
            while "the nameserver does not answer" not in caplog.text:
                await asyncio.sleep(0.01)
            again = NamesrvController(port=int(address.rpartition(":")[2]))
            await again.start()
            peer = await meet(address)
            while (await peer.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102")).code:
                pass
        await broker.stop()
        await again.stop()

    asyncio.run(scenario())
    assert "Traceback" not in caplog.text


def test_a_stopped_broker_is_in_no_route(tmp_path: Path) -> None:
    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        broker = BrokerController(tmp_path, nameserver.address, store_config=SMALL)
        await broker.start()
        await broker.stop()
        assert nameserver.state.topic_queue_table == {}
        assert nameserver.state.broker_live_table == {}
        await nameserver.stop()

    asyncio.run(scenario())
