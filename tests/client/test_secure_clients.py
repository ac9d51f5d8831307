"""Clients that speak TLS and say whose they are, with brokers that insist on both."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from scene import GROUP, QUICK, TOPIC, keys_of, taking, until

from mqspec.broker import BrokerController
from mqspec.client.credentials import SessionCredentials
from mqspec.client.instance import BrokerError
from mqspec.client.message import Message, MessageExt
from mqspec.client.producer import Producer, ProducerConfig
from mqspec.client.push_consumer import PushConsumer
from mqspec.core.authentication import User
from mqspec.core.metadata import BrokerConfig
from mqspec.nameserver import NamesrvController
from mqspec.tls import Tls, TlsMode, client_context

USER = User("rocketmq", "12345678")
THEIRS = SessionCredentials(USER.username, USER.password)


def test_clients_with_a_password_over_tls(tmp_path: Path) -> None:
    tls = Tls(TlsMode.ENFORCING)
    broker_config = BrokerConfig(authentication_enabled=True, users=(USER,))
    got: list[MessageExt] = []

    async def scene(nameserver: str) -> None:
        ssl = client_context()
        ours = ProducerConfig(ssl=ssl, credentials=THEIRS)
        async with Producer(nameserver, config=ours) as producer:
            await producer.send(Message(TOPIC, b"x", keys="a"))
        wrong = ProducerConfig(ssl=ssl, credentials=replace(THEIRS, secret_key="wrong"))
        async with Producer(nameserver, config=wrong) as producer:
            with pytest.raises(BrokerError, match="code 16"):
                await producer.send(Message(TOPIC, b"x", keys="b"))
        config = replace(QUICK, ssl=ssl, credentials=THEIRS)
        async with PushConsumer(nameserver, GROUP, {TOPIC: "*"}, taking(got), config):
            await until(lambda: keys_of(got) == ["a"])

    async def play() -> None:
        nameserver = NamesrvController(tls=tls)
        await nameserver.start()
        broker = BrokerController(tmp_path, nameserver.address, broker_config, tls=tls)
        await broker.start()
        try:
            await scene(nameserver.address)
        finally:
            await broker.stop()
            await nameserver.stop()

    asyncio.run(play())
