"""TLS on the port that plain clients use: the first byte of a connection tells which it is.

`FirstByte` stands before a connection of a server until that byte is there, and hands it over
to the connection, or to a `TlsTransport` between. (NettyRemotingServer.TlsModeHandler, 5.3.3;
the modes are those of the system property tls.server.mode.)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from mqrules import UserError

HANDSHAKE: Final = 0x16  # the first byte of every TLS connection, and of no frame

log = logging.getLogger(__name__)


class TlsMode(StrEnum):
    """Who is served."""

    DISABLED = "disabled"  # plain connections only
    PERMISSIVE = "permissive"  # both
    ENFORCING = "enforcing"  # TLS only


@dataclass(frozen=True, slots=True)
class Tls:
    """How a server speaks TLS. Without a certificate it cannot, and closes who tries."""

    mode: TlsMode = TlsMode.PERMISSIVE
    context: ssl.SSLContext | None = None

    def to_others(self) -> ssl.SSLContext | None:
        """How this server speaks to other servers of its cluster, which are as it is."""
        return client_context() if self.mode is TlsMode.ENFORCING else None


def server_context(
    certificate: Path, key: Path | None = None, trusted: Path | None = None
) -> ssl.SSLContext:
    """The context of a server, from PEM files; the key may be in the certificate's.

    With `trusted` certificates clients must have one that they signed. Raises UserError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
        if trusted:
            context.load_verify_locations(trusted)
            context.verify_mode = ssl.CERT_REQUIRED
    except OSError as error:  # ssl.SSLError is one
        raise UserError(
            str(certificate), f"not a certificate with its key: {error}", "give PEM files"
        ) from None
    return context


def client_context(trusted: Path | None = None) -> ssl.SSLContext:
    """The context of a client; without `trusted` certificates it trusts every server, as the
    real one does by default (tls.client.authServer=false)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if trusted:
        context.load_verify_locations(trusted)
    else:
        context.verify_mode = ssl.CERT_NONE
    return context


class _Before(asyncio.Protocol):
    """A protocol that stands before a connection: what is not about bytes goes through it."""

    def __init__(self, connection: asyncio.Protocol) -> None:
        self._connection = connection

    def eof_received(self) -> bool | None:
        return self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()


class FirstByte(_Before):
    """Stands before a server's connection until the first byte tells how it is spoken to."""

    def __init__(self, connection: asyncio.Protocol, tls: Tls) -> None:
        super().__init__(connection)
        self._tls = tls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        is_tls = data[0] == HANDSHAKE
        refused = TlsMode.DISABLED if is_tls else TlsMode.ENFORCING
        if self._tls.mode is refused or (is_tls and not self._tls.context):
            log.warning("a client that %s TLS is not served", "speaks" if is_tls else "lacks")
            self._transport.close()
            return
        following = self._connection
        if is_tls:
            assert self._tls.context
            following = TlsTransport(self._transport, self._connection, self._tls.context)
        self._transport.set_protocol(following)
        following.data_received(data)


class TlsTransport(_Before, asyncio.Transport):
    """Between a transport and a connection: protocol of the one, transport of the other."""

    def __init__(
        self, transport: asyncio.Transport, connection: asyncio.Protocol, context: ssl.SSLContext
    ) -> None:
        super().__init__(connection)
        self._transport = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_greeted = False
        connection.connection_made(self)

    # As the protocol of the transport below

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        try:
            if not self._is_greeted:
                self._tls.do_handshake()
                self._is_greeted = True
            while plain := self._tls.read(1 << 16):
                self._connection.data_received(plain)
                if self.is_closing():
                    return
            self.close()  # the peer said that it ends
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            log.warning("TLS: %s; the connection is closed", error)
            self._flush()  # the alert
            self._transport.close()

    # As the transport of the connection above

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self._tls.write(data)
        self._flush()

    def close(self) -> None:
        if self._is_greeted and not self.is_closing():
            with contextlib.suppress(ssl.SSLError):  # that the peer has not answered yet
                self._tls.unwrap()
            self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def _flush(self) -> None:
        if self._outgoing.pending and not self.is_closing():
            self._transport.write(self._outgoing.read())
