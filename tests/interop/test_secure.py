"""The Java client over TLS, with a user's signature, and the reference's client likewise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from mqspec.broker import BrokerController
from mqspec.client.credentials import SessionCredentials
from mqspec.client.instance import ClientInstance
from mqspec.core.authentication import User
from mqspec.core.metadata import BrokerConfig
from mqspec.nameserver import NamesrvController
from mqspec.store.message_store import StoreConfig
from mqspec.tls import Tls, TlsMode, client_context
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

USER = User("rocketmq", "12345678")
SMALL = StoreConfig(segment_size=1 << 20)


def test_clients_with_a_password_over_tls(java_command: Sequence[str], tmp_path: Path) -> None:
    tls = Tls(TlsMode.ENFORCING)
    config = BrokerConfig(authentication_enabled=True, users=(USER,))

    async def scene() -> None:
        nameserver = NamesrvController(tls=tls)
        await nameserver.start()
        broker = BrokerController(tmp_path, nameserver.address, config, store_config=SMALL, tls=tls)
        await broker.start()
        try:
            arguments = (nameserver.address, "Secure", USER.username, USER.password, "wrong")
            java = await asyncio.create_subprocess_exec(
                *java_command,
                *("Secure", *arguments),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            said, _ = await asyncio.wait_for(java.communicate(), 60)
            results = [word for word in said.decode().split("\n") if word.startswith("sent: ")]
            assert results == ["sent: SEND_OK", "sent: code 16"]
            assert await found_by(nameserver.address, USER.password) == 0
            assert await found_by(nameserver.address, "wrong") == 16
        finally:
            await broker.stop()
            await nameserver.stop()

    asyncio.run(scene())


async def found_by(nameserver: str, password: str) -> int:
    """The code with which the reference's client, with a password, is answered."""
    credentials = SessionCredentials(USER.username, password)
    client = ClientInstance(nameserver, ssl=client_context(), credentials=credentials)
    await client.start()
    await client.update_route("Secure")
    fields = {"topic": "Secure", "queueId": "0"}
    answer = await client.invoke("broker-a", RemotingCommand(RequestCode.GET_MAX_OFFSET, fields))
    await client.close()
    return answer.code
