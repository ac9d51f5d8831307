"""TLS and plain clients on one port, and what hostile ones do to it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mqrules import UserError
from mqspec.tls import HANDSHAKE, Tls, TlsMode, client_context, self_signed, server_context
from mqspec.transport import Connection, ConnectionLostError, Server, connect, serve
from mqspec.wire.codec import RemotingCommand

HOST = "127.0.0.1"
BIG = bytes(300_000)
PERMISSIVE, ENFORCING, DISABLED = TlsMode.PERMISSIVE, TlsMode.ENFORCING, TlsMode.DISABLED


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "server.pem"
    path.write_bytes(self_signed())
    return path


def run(tls: Tls, scene: Callable[[Server], Awaitable[None]], idle_ms: int = 0) -> None:
    """Play a scene with a server that gives bodies back."""

    async def played() -> None:
        def echo(_: Connection, request: RemotingCommand) -> RemotingCommand:
            return request.response(body=request.body)

        server = await serve(HOST, 0, echo, idle_ms=idle_ms, tls=tls)
        try:
            async with asyncio.timeout(10):
                await scene(server)
        finally:
            await server.close()

    asyncio.run(played())


async def echoed(server: Server, context: ssl.SSLContext | None, body: bytes = b"x") -> bool:
    """Whether a client is served."""
    try:
        client = await connect(HOST, server.port, ssl=context)
        answer = await client.request(RemotingCommand(1, body=body), 5_000)
    except (OSError, ConnectionLostError):
        return False
    client.close()
    return answer.body == body


@pytest.mark.parametrize(
    ("mode", "plain", "secure"),
    [(PERMISSIVE, True, True), (ENFORCING, False, True), (DISABLED, True, False)],
)
def test_who_is_served(certificate: Path, mode: TlsMode, plain: bool, secure: bool) -> None:
    async def scene(server: Server) -> None:
        assert await echoed(server, None) == plain
        assert await echoed(server, client_context()) == secure
        assert await echoed(server, client_context(certificate)) == secure

    run(Tls(mode, server_context(certificate)), scene)


def test_long_frames_and_many(certificate: Path) -> None:
    async def scene(server: Server) -> None:
        client = await connect(HOST, server.port, ssl=client_context())
        requests = [RemotingCommand(1, body=BIG[: 3_000 * i]) for i in range(100)]
        answers = await asyncio.gather(*(client.request(r, 5_000) for r in requests))
        assert [len(answer.body) for answer in answers] == [3_000 * i for i in range(100)]
        client.close()
        while server.connections:
            await asyncio.sleep(0)

    run(Tls(given=server_context(certificate)), scene)


def test_a_client_that_trusts_nobody_is_not_served(certificate: Path) -> None:
    async def scene(server: Server) -> None:
        strict = ssl.create_default_context()
        assert not await echoed(server, strict)
        assert await echoed(server, None)

    run(Tls(given=server_context(certificate)), scene)


def test_a_server_may_ask_for_certificates(certificate: Path) -> None:
    async def scene(server: Server) -> None:
        known = client_context()
        known.load_cert_chain(certificate)
        assert await echoed(server, known)
        assert not await echoed(server, client_context())

    run(Tls(given=server_context(certificate, trusted=certificate)), scene)


@pytest.mark.parametrize("mode", [PERMISSIVE, DISABLED])
def test_garbage_after_the_first_byte_closes_its_connection(mode: TlsMode) -> None:
    async def scene(server: Server) -> None:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(bytes([HANDSHAKE]) + b"hello, I am no handshake")
        await reader.read()
        assert reader.at_eof()
        writer.close()
        assert await echoed(server, None)

    run(Tls(mode), scene)


def test_without_a_certificate_a_server_signs_one(certificate: Path) -> None:
    async def scene(server: Server) -> None:
        assert await echoed(server, client_context())
        assert not await echoed(server, client_context(certificate))  # another, of the same name

    run(Tls(), scene)


def test_who_says_nothing_is_closed(certificate: Path) -> None:
    async def scene(server: Server) -> None:
        silent, _ = await asyncio.open_connection(HOST, server.port)
        half_greeted, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(bytes([HANDSHAKE]))
        assert await silent.read() == b""
        assert await half_greeted.read() == b""

    run(Tls(given=server_context(certificate)), scene, idle_ms=50)


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "some.pem"
    path.write_text("no certificate", encoding="utf-8")
    for wrong in (path, tmp_path / "missing.pem"):
        with pytest.raises(UserError, match="not a certificate with its key"):
            server_context(wrong)
        with pytest.raises(UserError, match="no certificates"):
            server_context(trusted=wrong)
    with pytest.raises(UserError, match="a key without its certificate"):
        server_context(key=path)
