"""The fast port, who is sent away at the end, and who is not let in."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from peer import SMALL, meet, pull_fields

from mqrules import UserError
from mqspec.broker import BrokerController
from mqspec.client.credentials import SessionCredentials
from mqspec.core.authentication import User
from mqspec.core.metadata import BrokerConfig
from mqspec.nameserver import NamesrvController
from mqspec.service import listen
from mqspec.transport import Server, connect
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

MAX_OFFSET = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "T", "queueId": "0"})


def test_the_fast_port(tmp_path: Path) -> None:
    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        broker = BrokerController(tmp_path, nameserver.address, store_config=SMALL)
        await broker.start()
        host, _, port = broker.address.rpartition(":")
        peer = await meet(f"{host}:{int(port) - 2}")
        assert (await peer.send("T")).code == 0
        pulled = await peer.ask(RequestCode.PULL_MESSAGE, **pull_fields("T", 0))
        assert (pulled.code, pulled.remark) == (3, " request type 11 not supported")
        await peer.close()
        await broker.stop()
        with pytest.raises(OSError, match=r"refused|Connect call failed"):
            await meet(f"{host}:{int(port) - 2}")
        await nameserver.stop()

    asyncio.run(scenario())


def test_where_any_port_will_do_another_is_taken_whose_fast_port_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[int] = []

    async def in_use_once(host: str, port: int, *args: Any) -> Server:
        ports.append(port)
        if len(ports) == 2:
            raise UserError(f"{host}:{port}", "cannot listen", "take another port")
        return await listen(host, port, *args)

    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        monkeypatch.setattr("mqspec.broker.controller.listen", in_use_once)
        broker = BrokerController(tmp_path, nameserver.address, store_config=SMALL)
        await broker.start()
        assert (ports[0], ports[2], len(ports)) == (0, 0, 4)
        assert ports[3] == int(broker.address.rpartition(":")[2]) - 2
        await broker.stop()
        await nameserver.stop()

    asyncio.run(scenario())


def test_a_fast_port_in_use(tmp_path: Path) -> None:
    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            port = other.getsockname()[1]
            broker = BrokerController(
                tmp_path, nameserver.address, port=port + 2, store_config=SMALL
            )
            with pytest.raises(UserError, match=f"{port}: cannot listen"):
                await broker.start()
        await broker.start()  # everything was released
        await broker.stop()
        await nameserver.stop()

    asyncio.run(scenario())


def test_clients_are_sent_away_before_a_graceful_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        config = BrokerConfig(enable_shutdown_gracefully=True, shutdown_wait_time_seconds=0.2)
        broker = BrokerController(tmp_path, nameserver.address, config, store_config=SMALL)
        await broker.start()
        peer = await meet(broker.address)
        stopping = asyncio.create_task(broker.stop())
        codes = [0]
        async with asyncio.timeout(5):
            while codes[-1] == 0:
                codes.append((await peer.connection.request(MAX_OFFSET, 1_000)).code)
        assert codes[-1] == 1500
        await stopping
        assert peer.connection.is_closed
        await nameserver.stop()

    asyncio.run(scenario())


def test_sends_are_rejected_while_the_store_has_no_buffers(tmp_path: Path) -> None:
    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        store = replace(
            SMALL, segment_size=4096, transient_store_pool_enable=True, transient_store_pool_size=2
        )
        broker = BrokerController(tmp_path, nameserver.address, store_config=store)
        await broker.start()
        peer = await meet(broker.address)
        codes = []
        async with asyncio.timeout(5):
            while 2 not in codes:
                answers = await asyncio.gather(*(peer.send("T", bytes(1000)) for _ in range(8)))
                codes += [answer.code for answer in answers]
        busy = next(answer for answer in answers if answer.code == 2)
        assert busy.remark == "[REJECTREQUEST]system busy, start flow control for a while"
        broker.store.commit_commit_log()
        assert (await peer.send("T")).code == 0
        assert (await peer.connection.request(MAX_OFFSET, 5_000)).code == 0
        await peer.close()
        await broker.stop()
        await nameserver.stop()

    asyncio.run(scenario())


def test_only_users_are_let_in(tmp_path: Path) -> None:
    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        config = BrokerConfig(
            authentication_enabled=True,
            authentication_whitelist=frozenset({int(RequestCode.GET_MIN_OFFSET)}),
            users=(User("rocketmq", "12345678"),),
        )
        broker = BrokerController(tmp_path, nameserver.address, config, store_config=SMALL)
        await broker.start()
        host, _, port = broker.address.rpartition(":")
        for credentials, remark in (
            (None, "username cannot be null."),
            (SessionCredentials("nobody", "12345678"), "User:nobody is not found."),
            (SessionCredentials("rocketmq", "wrong"), "check signature failed."),
            (SessionCredentials("rocketmq", "12345678"), None),
            (SessionCredentials("rocketmq", "12345678", "token"), None),
        ):
            signed = credentials.signed if credentials else None
            client = await connect(host, int(port), signed=signed)
            answer = await client.request(MAX_OFFSET, 5_000)
            assert (answer.code, answer.remark) == (16 if remark else 0, remark)
            open_to_all = RemotingCommand(RequestCode.GET_MIN_OFFSET, MAX_OFFSET.ext_fields)
            assert (await client.request(open_to_all, 5_000)).code == 0
            client.close()
        await broker.stop()
        await nameserver.stop()

    asyncio.run(scenario())


def test_what_a_broker_may_not_do_is_in_no_route(tmp_path: Path) -> None:
    async def scenario() -> None:
        nameserver = NamesrvController()
        await nameserver.start()
        broker = BrokerController(tmp_path, nameserver.address, store_config=SMALL)
        await broker.start()
        peer = await meet(broker.address)
        assert (await peer.send("T")).code == 0
        for permission, retried in ((4, 16), (6, 0)):
            body = b"brokerPermission=%d" % permission
            assert (await peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body)).code == 0
            async with asyncio.timeout(5):
                while nameserver.state.topic_queue_table["T"]["broker-a"].perm != permission:
                    await asyncio.sleep(0)
            back = await peer.ask(
                RequestCode.CONSUMER_SEND_MSG_BACK, offset=0, group="G", delayLevel=1
            )
            assert back.code == retried
        await peer.close()
        await broker.stop()
        await nameserver.stop()

    asyncio.run(scenario())
