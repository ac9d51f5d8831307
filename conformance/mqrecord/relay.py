"""Frames carried on between clients and a cluster, and shown to an observer on the way.

To brokers and back bytes go on as they come, and are read after that: what cannot be read is
carried all the same. Of nameservers' answers those that name brokers are rewritten first. Each
connection of a client has one of its own to the server, so that servers see who is who.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import count
from ssl import SSLContext
from time import time
from typing import Final, NamedTuple

from mqrecord.observer import Observer
from mqrecord.routes import rewritten, with_body
from mqrecord.seen import Rows, Server
from mqspec.tls import FirstByte, Tls
from mqspec.wire.bodies import BodyError
from mqspec.wire.codec import FRAME_BYTES_MAX, Decoder, FrameError, RemotingCommand
from mqspec.wire.codes import RequestCode

CONNECT_S: Final = 3.0
WAITING_BYTES: Final = 1 << 20  # of a client that are kept until there is a server
_NAMES_BROKERS: Final = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
)
_LENGTH: Final = struct.Struct(">I")

log = logging.getLogger(__name__)

Address = tuple[str, int]
Tell = Callable[[Rows], None]


class Place(NamedTuple):
    """Where the recorder listens, and what clients are told of it."""

    host: str
    port: int
    advertised: str


class Relay:
    """The recorder's listeners: one in place of the nameservers, one in place of each broker."""

    def __init__(
        self,
        nameservers: list[Address],
        place: Place,
        observer: Observer,
        tell: Tell,
        to_servers: SSLContext | None = None,
    ) -> None:
        self._nameservers, self._place = nameservers, place
        self.observer, self._tell = observer, tell
        self.to_servers = to_servers
        self._tls = Tls()
        self._numbers = count()
        self._listeners: list[asyncio.Server] = []
        self._stand_ins: dict[Server, int] = {}  # our ports
        self._starting: set[asyncio.Task[None]] = set()
        self._refusing: set[Address] = set()  # servers that took no connection when last tried
        self.open: set[_FromClient] = set()

    def tell(self, rows: Rows) -> None:
        """Have events written. What cannot be told is no reason to keep anything from clients."""
        try:
            self._tell(rows)
        except Exception:
            log.exception("something is carried on, and not recorded")

    @property
    def port(self) -> int:
        """Where clients find their nameserver."""
        port: int = self._listeners[0].sockets[0].getsockname()[1]
        return port

    @property
    def brokers(self) -> int:
        """How many brokers clients were told of."""
        return len(self._stand_ins)

    async def start(self) -> None:
        """Listen in place of the nameservers. Raises OSError."""
        loop = asyncio.get_running_loop()
        accept = partial(self._accept, Server(), self._nameservers)
        self._listeners.append(await loop.create_server(accept, self._place.host, self._place.port))

    async def close(self) -> None:
        """Take no more connections, and end those that are open: their clients did not, so that
        nothing is told of it."""
        for listener in self._listeners:
            listener.close()
        links, self.open = self.open, set()
        for link in links:
            link.end()
        await asyncio.gather(*self._starting, return_exceptions=True)

    def stand_in(self, broker: str, broker_id: int, address: str) -> str:
        """Our address for a broker's, where somebody listens from now on."""
        server = Server(broker, broker_id, address)
        port = self._stand_ins.get(server)
        if port is None:
            host, _, number = address.rpartition(":")
            listening = socket.create_server((self._place.host, 0))
            port = self._stand_ins[server] = listening.getsockname()[1]
            self._background(self._listen(listening, server, (host, int(number))))
        return f"{self._place.advertised}:{port}"

    def look_later(self, server: Server, address: Address) -> None:
        """Whether a broker that ended a connection is gone."""
        self._background(self._look(server, address))

    def connect(self, link: _FromClient, to: list[Address]) -> None:
        """Connect a client's link to the first server that takes it."""
        self._background(self._connect(link, to))

    def next_number(self) -> int:
        return next(self._numbers)

    def _background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _listen(self, listening: socket.socket, server: Server, address: Address) -> None:
        accept = partial(self._accept, server, [address])
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_server(accept, sock=listening))

    async def _look(self, server: Server, address: Address) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(*address)
            writer.close()
        except (OSError, TimeoutError):
            self.tell(self.observer.broker_lost(server))

    async def _connect(self, link: _FromClient, to: list[Address]) -> None:
        loop = asyncio.get_running_loop()
        for address in to:
            try:
                async with asyncio.timeout(CONNECT_S):
                    _, side = await loop.create_connection(
                        lambda: _FromServer(link), *address, ssl=self.to_servers
                    )
            except (OSError, TimeoutError) as error:
                if address not in self._refusing:  # clients try again without end
                    self._refusing.add(address)
                    log.warning("%s:%d takes no connection: %s", *address, error)
                if link.server.broker:
                    self.tell(self.observer.broker_lost(link.server))
            else:
                self._refusing.discard(address)
                link.connected(side, address)
                return
        link.end()

    def _accept(self, server: Server, to: list[Address]) -> asyncio.Protocol:
        return FirstByte(_FromClient(self, server, to), self._tls)


class _Side(asyncio.Protocol):
    """One of the two connections of a link."""

    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def write(self, data: bytes) -> None:
        if self.transport and not self.transport.is_closing():
            self.transport.write(data)

    def reads(self, on: bool) -> None:
        """Read on, or not: what the other side cannot take waits where it comes from."""
        if self.transport and not self.transport.is_closing():
            (self.transport.resume_reading if on else self.transport.pause_reading)()

    def close(self) -> None:
        if self.transport:
            self.transport.close()


class _FromClient(_Side):
    """A client's connection. It knows the whole link."""

    def __init__(self, relay: Relay, server: Server, to: list[Address]) -> None:
        self._relay, self.server, self._to = relay, server, to
        self._number = relay.next_number()
        self._other: _FromServer | None = None
        self._address: Address | None = None
        self._waiting = bytearray()  # what came before there was a server
        self._requests, self._answers = Decoder(), Decoder()
        self._frames = bytearray()  # of a nameserver, as far as they came
        self._asked: set[int] = set()  # by opaque: requests whose answers name brokers
        self._is_read = True  # until there is a frame that is none

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Called again where TLS comes between.
        super().connection_made(transport)
        if self not in self._relay.open:
            self._relay.open.add(self)
            self._relay.connect(self, self._to)

    def connected(self, other: _FromServer, address: Address) -> None:
        """There is a server at the other end, unless the client has gone meanwhile."""
        if self not in self._relay.open:
            other.close()
            return
        assert self.transport
        self._other, self._address = other, address
        host, port = self.transport.get_extra_info("peername")[:2]
        linked = self._relay.observer.linked(
            self._number, self.server, f"{host}:{port}", time() * 1000
        )
        self._relay.tell(linked)
        waiting, self._waiting = bytes(self._waiting), bytearray()
        if waiting:
            self.data_received(waiting)
        self.reads(True)

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._waiting += data
            self.reads(len(self._waiting) < WAITING_BYTES)
            return
        self._other.write(data)
        now_ms = time() * 1000
        for command in self._read(self._requests, data):
            if command.is_response:
                continue  # to what the server asked
            if self.server.broker is None and command.code in _NAMES_BROKERS:
                self._asked.add(command.opaque)
            self._relay.tell(self._relay.observer.request(self._number, command, now_ms))

    def answered(self, data: bytes) -> None:
        """Bytes of the server."""
        if self.server.broker is None:
            for frame in self._whole_frames(data):
                self._answered_by_nameserver(frame)
            return
        self.write(data)
        self._show(data)

    def _answered_by_nameserver(self, frame: bytes) -> None:
        for command in self._show(frame):
            if command.opaque in self._asked and command.is_response:
                self._asked.discard(command.opaque)
                try:
                    if command.body:
                        frame = with_body(frame, rewritten(command.body, self._relay.stand_in))
                except (BodyError, KeyError, ValueError, AttributeError) as error:
                    log.warning("a route goes on as it came: %s", error)
        self.write(frame)

    def _show(self, data: bytes) -> list[RemotingCommand]:
        now_ms = time() * 1000
        found = []
        for command in self._read(self._answers, data):
            found.append(command)
            observer = self._relay.observer
            told = observer.answer if command.is_response else observer.notice
            self._relay.tell(told(self._number, command, now_ms))
        return found

    def _read(self, decoder: Decoder, data: bytes) -> Iterator[RemotingCommand]:
        if not self._is_read:
            return
        try:
            yield from decoder.feed(data)
        except FrameError as error:
            self._is_read = False
            log.warning("a connection is carried on, and not recorded any more: %s", error)

    def _whole_frames(self, data: bytes) -> Iterator[bytes]:
        self._frames += data
        while len(self._frames) >= 4:
            end = 4 + _LENGTH.unpack_from(self._frames)[0]
            if end > FRAME_BYTES_MAX:  # no frame: it goes on as it comes, like all behind it
                end = len(self._frames)
            if len(self._frames) < end:
                return
            frame = bytes(self._frames[:end])
            del self._frames[:end]
            yield frame

    def end(self, by_client: bool = True) -> None:
        """Both connections end."""
        self.close()
        if self._other:
            self._other.close()
        if self in self._relay.open:
            self._relay.open.discard(self)
            if self._other:
                self._relay.tell(
                    self._relay.observer.unlinked(self._number, by_client, time() * 1000)
                )
            if self.server.broker and self._address and not by_client:
                self._relay.look_later(self.server, self._address)

    def connection_lost(self, error: Exception | None) -> None:
        self.end()

    def pause_writing(self) -> None:
        if self._other:
            self._other.reads(False)

    def resume_writing(self) -> None:
        if self._other:
            self._other.reads(True)


class _FromServer(_Side):
    """The server's connection of a link."""

    def __init__(self, link: _FromClient) -> None:
        self._link = link

    def data_received(self, data: bytes) -> None:
        self._link.answered(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._link.end(by_client=False)

    def pause_writing(self) -> None:
        self._link.reads(False)

    def resume_writing(self) -> None:
        self._link.reads(True)
