"""Remoting over TCP: connections that carry commands both ways, and a server of them.

Either side may send requests. Answers come in any order and are matched by their opaque.
A frame that cannot be read closes its connection, and no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from ssl import SSLContext
from time import monotonic
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import replace

from mqspec.tls import FirstByte, Tls
from mqspec.wire.codec import Decoder, Flag, FrameError, RemotingCommand, encode_into, frame_into
from mqspec.wire.codes import ResponseCode

CLOSE_MS: Final = 2_000  # how long a server that ends waits for peers to take their answers
IDLE_MS: Final = 120_000  # a server closes a connection that is silent both ways for so long
READ_AHEAD: Final = 64  # requests of a connection that may wait before no more of it is read
READ_BYTES: Final = 32 * 1024  # so much is read at once: what it makes stays in the caches
WRITE_BYTES: Final = 32 * 1024  # frames go out together up to that: fewer calls, no long waits

T = TypeVar("T")

log = logging.getLogger(__name__)

Answer: TypeAlias = RemotingCommand | None
Handler: TypeAlias = Callable[["Connection", RemotingCommand], Answer | Awaitable[Answer]]
"""Answers a request: at once, later (an awaitable), or by itself (None) with `send`."""

Watcher: TypeAlias = Callable[["Connection"], None]
Signer: TypeAlias = Callable[[RemotingCommand], RemotingCommand]


class ConnectionLostError(Exception):
    """The connection is closed; whether a request was carried out is not known."""


class RequestTimeoutError(Exception):
    """No answer came in time; whether the request was carried out is not known."""


def refuse(_: Connection, request: RemotingCommand) -> RemotingCommand:
    """The handler of a peer that serves nothing."""
    remark = f" request type {request.code} not supported"
    return request.response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)


class Connection(asyncio.Protocol):
    """One TCP connection. Made by `connect` and by a Server, never directly."""

    peer = "?"  # the other end, as host:port

    def __init__(
        self,
        handler: Handler = refuse,
        on_close: Watcher | None = None,
        idle_ms: int = 0,
        signed: Signer | None = None,
    ) -> None:
        self._handler = handler
        self._signed = signed
        self._on_close = on_close
        self._idle_s = idle_ms / 1000
        self._idle_watch: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._decoder = Decoder()
        self._pending: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._answers: set[asyncio.Task[None]] = set()
        self._closed = self._loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._outgoing = bytearray()  # frames that go out together
        self._backlog = 0  # requests that wait for their turn
        self._is_full = False  # until half of them had it
        self._is_reading = False
        self._after_read: Callable[[], None] | None = None

    @property
    def local_host(self) -> str:
        """The address of this end."""
        host: str = self._transport.get_extra_info("sockname")[0]
        return host

    @property
    def is_closed(self) -> bool:
        """Whether it is closed or closing."""
        return self._closed.done() or self._transport.is_closing()

    def send(self, command: RemotingCommand) -> None:
        """Send a command and wait for nothing; it goes out with what else is sent within this
        turn of the loop. On a closed connection it is dropped."""
        self._add(encode_into, command)

    def send_header(self, header: bytes) -> None:
        """The same of a command without a body whose JSON header is encoded already."""
        self._add(frame_into, header)

    def hold(self) -> None:
        """A request of it waits for its turn."""
        self._backlog += 1

    def release(self) -> None:
        """It is the turn of a request that waited."""
        self._backlog -= 1
        if self._is_full and self._backlog <= READ_AHEAD // 2:
            self._is_full = False
            self._take(b"")
            self._read_or_not()

    def serve(self, request: RemotingCommand, handler: Handler) -> None:
        """Have a request served, one that has just come or one that had to wait."""
        try:
            answer = handler(self, request)
        except Exception as error:
            answer = failure(request, error)
        if answer is not None:
            self.answer(request, answer)

    def answer(self, request: RemotingCommand, answer: Answer | Awaitable[Answer]) -> None:
        """Answer a request: at once, or later. One whose answer no peer could read is told so."""
        if isinstance(answer, RemotingCommand):
            if not request.is_oneway:
                try:
                    self.send(answer)
                except FrameError as error:
                    self.send(failure(request, error))
        elif answer is not None:
            task = self._loop.create_task(self._answer_later(request, answer))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

    def after_read(self, action: Callable[[], None]) -> None:
        """Have something done once all requests that were read together are served; where none
        is being read, in the next turn of the loop."""
        if self._is_reading:
            self._after_read = action
        else:
            self._loop.call_soon(action)

    def oneway(self, request: RemotingCommand) -> None:
        """Send a request that is not answered."""
        request = replace(request, flag=request.flag | Flag.ONEWAY)
        self.send(self._signed(request) if self._signed else request)

    async def request(self, request: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Send a request and wait for its response.

        Raises RequestTimeoutError or ConnectionLostError: the request may have been
        carried out or not.
        """
        if self.is_closed:
            raise ConnectionLostError(f"{self.peer}: the connection is closed")
        answer: asyncio.Future[RemotingCommand] = self._loop.create_future()
        self._pending[request.opaque] = answer
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._writable.wait()
                self.send(self._signed(request) if self._signed else request)
                return await answer
        except TimeoutError:
            raise RequestTimeoutError(
                f"{self.peer}: no answer to request {request.code} in {timeout_ms} ms"
            ) from None
        finally:
            del self._pending[request.opaque]

    def close(self) -> None:
        """Close it once what was sent is out."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Drop it at once, as the end of the process would."""
        self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until it is closed, by either side."""
        await asyncio.shield(self._closed)

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Called again where TLS comes between the connection and its socket.
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # 256 KiB is asyncio's own
        host, port = transport.get_extra_info("peername")[:2]
        self.peer = f"{host}:{port}"
        self._active = monotonic()
        if self._idle_s and not self._idle_watch:
            self._watch_idleness()

    def data_received(self, data: bytes) -> None:
        self._active = monotonic()
        self._take(data)

    def _take(self, data: bytes) -> None:
        """Serve the requests that `data` completes, as many as may wait; the others stay bytes."""
        commands = self._decoder.feed(data)
        self._is_reading = True
        try:
            for command in commands:
                if command.is_response:
                    self._resolve(command)
                else:
                    self.serve(command, self._handler)
                if self._backlog >= READ_AHEAD:
                    commands.close()
                    self._is_full = True
                    self._read_or_not()
        except FrameError as error:
            log.warning("%s: %s; the connection is closed", self.peer, error)
            self.close()
        finally:
            action, self._after_read = self._after_read, None
            if action:
                action()
            self._is_reading = False
            self._flush()

    def eof_received(self) -> None:
        if self._decoder.torn:
            log.warning("%s: the connection ended in the middle of a frame", self.peer)

    def connection_lost(self, error: Exception | None) -> None:
        if self._idle_watch:
            self._idle_watch.cancel()
        self._writable.set()
        for answer in self._pending.values():
            if not answer.done():
                answer.set_exception(ConnectionLostError(f"{self.peer}: the connection is lost"))
        for task in self._answers:
            # What has just come is begun before: it was asked for.
            self._loop.call_soon(task.cancel)
        self._closed.set_result(None)
        if self._on_close:
            self._on_close(self)

    def pause_writing(self) -> None:
        self._writable.clear()
        self._read_or_not()

    def resume_writing(self) -> None:
        self._writable.set()
        self._read_or_not()

    def _read_or_not(self) -> None:
        # A peer that does not read its answers, or asks for more than can be done, gets no
        # more requests served: what it sends waits at its own end.
        if self._idle_s and not self.is_closed:
            reads = self._writable.is_set() and not self._is_full
            (self._transport.resume_reading if reads else self._transport.pause_reading)()

    def _add(self, into: Callable[[T, bytearray], None], what: T) -> None:
        if not (self._outgoing or self._is_reading):
            self._loop.call_soon(self._flush)
        into(what, self._outgoing)
        if len(self._outgoing) >= WRITE_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._outgoing:
            if not self._transport.is_closing():
                self._active = monotonic()
                self._transport.write(self._outgoing)
            self._outgoing = bytearray()

    def _resolve(self, response: RemotingCommand) -> None:
        answer = self._pending.get(response.opaque)
        if answer is not None and not answer.done():
            answer.set_result(response)

    async def _answer_later(self, request: RemotingCommand, later: Awaitable[Answer]) -> None:
        try:
            answer = await later
        except Exception as error:
            answer = failure(request, error)
        self.answer(request, answer)

    def _watch_idleness(self) -> None:
        left = self._active + self._idle_s - monotonic()
        if left <= 0:
            self.close()
        elif not self.is_closed:
            self._idle_watch = self._loop.call_later(left, self._watch_idleness)


def failure(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """The answer to a request that failed as nobody could foresee."""
    log.error("request %d failed", request.code, exc_info=error)
    return request.response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


async def connect(
    host: str,
    port: int,
    handler: Handler = refuse,
    on_close: Watcher | None = None,
    timeout_ms: int = 3_000,
    ssl: SSLContext | None = None,
    signed: Signer | None = None,
) -> Connection:
    """A connection to a server, with `ssl` over TLS; `signed` says in each request whose it is.

    Raises OSError (TimeoutError and SSLError are some) where there is none.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_ms / 1000):
        _, connection = await loop.create_connection(
            lambda: Connection(handler, on_close, signed=signed), host, port, ssl=ssl
        )
    return connection


class Server:
    """A listening socket and its connections. Made by `serve`."""

    def __init__(self, handler: Handler, on_close: Watcher | None, idle_ms: int, tls: Tls) -> None:
        self._handler = handler
        self._on_close = on_close
        self._idle_ms = idle_ms
        self._tls = tls
        self._listener: asyncio.Server
        self.connections: set[Connection] = set()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def listen(self, host: str, port: int) -> None:
        """Start listening; port 0 takes a free one. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self._accept, host, port)

    async def close(self) -> None:
        """Stop listening and close every connection, once what was sent is out; a peer that
        does not take it in time is cut off."""
        self._listener.close()
        open_now = tuple(self.connections)
        for connection in open_now:
            connection.close()
        closed = asyncio.gather(*(connection.wait_closed() for connection in open_now))
        try:
            await asyncio.wait_for(asyncio.shield(closed), CLOSE_MS / 1000)
        except TimeoutError:
            for connection in open_now:
                connection.abort()
            await closed
        await self._listener.wait_closed()

    def _accept(self) -> asyncio.Protocol:
        connection = Connection(self._handler, self._forget, self._idle_ms)
        self.connections.add(connection)
        return FirstByte(connection, self._tls)

    def _forget(self, connection: Connection) -> None:
        self.connections.discard(connection)
        if self._on_close:
            self._on_close(connection)


async def serve(
    host: str,
    port: int,
    handler: Handler,
    on_close: Watcher | None = None,
    idle_ms: int = IDLE_MS,
    tls: Tls | None = None,
) -> Server:
    """A server that listens. Raises OSError where the port is in use."""
    server = Server(handler, on_close, idle_ms, tls or Tls())
    await server.listen(host, port)
    return server
