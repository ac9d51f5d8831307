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
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from mqrules import UserError

HANDSHAKE: Final = 0x16  # the first byte of every TLS connection, and of no frame
SELF_SIGNED_DAYS: Final = 3650

log = logging.getLogger(__name__)


class TlsMode(StrEnum):
    """Who is served."""

    DISABLED = "disabled"  # plain connections only
    PERMISSIVE = "permissive"  # both
    ENFORCING = "enforcing"  # TLS only


@dataclass(frozen=True)
class Tls:
    """How a server speaks TLS. Without a certificate it signs one itself when a client first asks
    for it, as the real one does by default (tls.test.mode.enable; TlsHelper.java, 5.3.3)."""

    mode: TlsMode = TlsMode.PERMISSIVE
    given: ssl.SSLContext | None = None

    @cached_property
    def context(self) -> ssl.SSLContext:
        """That of all its connections."""
        return self.given or server_context()

    def to_others(self) -> ssl.SSLContext | None:
        """How this server speaks to other servers of its cluster, which are as it is."""
        return client_context() if self.mode is TlsMode.ENFORCING else None


def server_context(
    certificate: Path | None = None, key: Path | None = None, trusted: Path | None = None
) -> ssl.SSLContext:
    """The context of a server, from PEM files; the key may be in the certificate's. Without a
    certificate it is self-signed, and new.

    With `trusted` certificates clients must have one that they signed. Raises UserError.
    """
    if not certificate:
        if key:
            raise UserError(str(key), "a key without its certificate", "give the certificate too")
        with TemporaryDirectory() as directory:  # ssl reads files only
            certificate = Path(directory) / "self-signed.pem"
            certificate.write_bytes(self_signed())
            return server_context(certificate, trusted=trusted)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _named(certificate, "not a certificate with its key"):
        context.load_cert_chain(certificate, key)
    if trusted:
        with _named(trusted, "no certificates"):
            context.load_verify_locations(trusted)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextlib.contextmanager
def _named(file: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        raise UserError(str(file), f"{what}: {error}", "give PEM files") from None


def self_signed() -> bytes:
    """A key and the certificate for it, which no other vouches for, as PEM."""
    # Here, since few who start a server or a client need it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    today = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(days=1))  # other clocks may be behind
        .not_valid_after(today + timedelta(days=SELF_SIGNED_DAYS))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


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
        if self._tls.mode is refused:
            which = "speaks" if is_tls else "lacks"
            log.warning("a client that %s TLS is not served: %s", which, self._tls.mode)
            self._transport.close()
            return
        following = self._connection
        if is_tls:
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
