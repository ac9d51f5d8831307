"""Doors: where clients under test find their nameserver and brokers.

A door leads to a cluster. It shows each request with its answer, and may answer in a broker's
place. A process has a door of its own, so that what goes through it is that process's, whatever
ids it gives itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Final, NamedTuple, Self

from mqconform.frame import FRAME_MAX, RESPONSE, Frame, FrameError, frame, parse_frame
from mqconform.records import with_store_ports
from mqconform.requests import PULL_MESSAGE
from mqconform.target import Address

CALLS_MAX: Final = 50_000  # of a door, which is closed then: no client asks for so much
CLOSE_S: Final = 10
_LENGTH: Final = struct.Struct(">i")


@dataclass(slots=True)
class Call:
    """A request that went through a door, and its answer once there is one.

    `broker` is its name, empty for the nameserver; times are of `time.monotonic`; `by_client` is
    false for what a broker asked. `is_ours` says that the answer was given in the broker's place.
    """

    at: float
    broker: str
    link: int
    request: Frame
    by_client: bool = True
    answer: Frame | None = None
    answered_at: float = 0.0
    is_ours: bool = False
    open_opaques: frozenset[int] = frozenset()  # of requests that waited on the link then


class Answer(NamedTuple):
    """What a door answers in a broker's place, after a while."""

    code: int
    remark: str | None = None
    fields: Mapping[str, str] = {}
    body: bytes = b""
    after_s: float = 0.0


Answers = Callable[[Call], Answer | None]  # None: the broker is asked


@dataclass(slots=True)
class _Link:
    """A connection of the client, and ours to the server."""

    number: int
    broker: str
    to_client: asyncio.StreamWriter
    to_server: asyncio.StreamWriter
    waiting: dict[int, Call] = field(default_factory=dict)  # by opaque
    asked: dict[int, Call] = field(default_factory=dict)  # the same for what the broker asked


class Door:
    """The ports of one client. `changed` is told of each frame."""

    def __init__(
        self, nameserver: Address, brokers: Mapping[str, Address], changed: threading.Condition
    ) -> None:
        self._nameserver, self._brokers, self._changed = nameserver, brokers, changed
        self._listeners: list[asyncio.Server] = []
        self._ports: dict[Address, int] = {}  # ours, by the addresses of brokers
        self._numbers = count()
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.calls: list[Call] = []
        self.answers: list[Answers] = []
        self.unread = 0  # frames that are none
        self.address = Address("127.0.0.1", 0)

    async def open(self) -> None:
        for name, address in self._brokers.items():
            self._ports[address] = await self._listen(name, address)
        self.address = Address("127.0.0.1", await self._listen("", self._nameserver))

    async def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, broker: str, to: Address) -> int:
        served = partial(self._serve, broker, to)
        listener = await asyncio.start_server(served, "127.0.0.1", 0)
        self._listeners.append(listener)
        port: int = listener.sockets[0].getsockname()[1]
        return port

    async def _serve(
        self,
        broker: str,
        to: Address,
        from_client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
    ) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with contextlib.suppress(OSError):
            from_server, to_server = await asyncio.open_connection(*to)
            link = _Link(next(self._numbers), broker, to_client, to_server)
            ways = (
                asyncio.create_task(self._carry(from_client, partial(self._from_client, link))),
                asyncio.create_task(self._carry(from_server, partial(self._from_server, link))),
            )
            try:
                # Where one side ends, so does the other.
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                to_server.close()
        to_client.close()

    async def _carry(
        self, reader: asyncio.StreamReader, take: Callable[[bytes], asyncio.StreamWriter]
    ) -> None:
        """Take each frame of one side, until that ends."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while len(self.calls) < CALLS_MAX:
                head = await reader.readexactly(4)
                size = _LENGTH.unpack(head)[0]
                if not 0 <= size <= FRAME_MAX:
                    self.unread += 1
                    return
                await take(head + await reader.readexactly(size)).drain()

    def _from_client(self, link: _Link, raw: bytes) -> asyncio.StreamWriter:
        asked = self._parsed(raw)
        if asked is None:
            link.to_server.write(raw)
            return link.to_server
        if asked.is_response:
            if call := link.asked.pop(asked.opaque, None):
                self._answered(call, asked)
            link.to_server.write(raw)
            return link.to_server

        opaques = frozenset(link.waiting) if asked.opaque in link.waiting else frozenset()
        call = Call(time.monotonic(), link.broker, link.number, asked, open_opaques=opaques)
        if not asked.is_one_way:
            link.waiting[asked.opaque] = call
        told = next((found for one in self.answers if (found := one(call))), None)
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()
        if told is None:
            link.to_server.write(raw)
            return link.to_server
        call.is_ours = True
        if not asked.is_one_way:
            written = _written(told, asked.opaque)
            loop = asyncio.get_running_loop()
            loop.call_later(told.after_s, self._from_server, link, written)
        return link.to_client

    def _from_server(self, link: _Link, raw: bytes) -> asyncio.StreamWriter:
        found = self._parsed(raw)
        call = link.waiting.pop(found.opaque, None) if found and found.is_response else None
        if found and call:
            self._answered(call, found)
            raw = self._led_here(call, found)
        elif found and not found.is_response:
            call = Call(time.monotonic(), link.broker, link.number, found, by_client=False)
            if not found.is_one_way:
                link.asked[found.opaque] = call
            with self._changed:
                self.calls.append(call)
                self._changed.notify_all()
        link.to_client.write(raw)
        return link.to_client

    def _answered(self, call: Call, answer: Frame) -> None:
        with self._changed:
            call.answer, call.answered_at = answer, time.monotonic()
            self._changed.notify_all()

    def _parsed(self, raw: bytes) -> Frame | None:
        try:
            return parse_frame(raw)
        except FrameError:
            self.unread += 1
            return None

    def _led_here(self, call: Call, answer: Frame) -> bytes:
        """An answer, with our addresses in place of the brokers': in routes, and in messages, as
        some clients send them back to the broker that a message says to be stored at."""
        body = answer.body
        if not call.broker:
            for address, port in self._ports.items():
                body = body.replace(f'"{address}"'.encode(), f'"127.0.0.1:{port}"'.encode())
        elif call.request.code == PULL_MESSAGE:
            ports = {address.port: port for address, port in self._ports.items()}
            body = with_store_ports(body, ports)
        head = answer.raw[4 : len(answer.raw) - len(answer.body)]
        return _LENGTH.pack(len(head) + len(body)) + head + body


def _written(answer: Answer, opaque: int) -> bytes:
    header = {
        "code": answer.code,
        "flag": RESPONSE,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 0,
        "extFields": dict(answer.fields),
    }
    if answer.remark is not None:
        header["remark"] = answer.remark
    return frame(json.dumps(header).encode(), answer.body)


class Doors:
    """Makes doors; a context, with a thread of its own in which they all work."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextlib.contextmanager
    def door(
        self, nameserver: Address, brokers: Mapping[str, Address], changed: threading.Condition
    ) -> Iterator[Door]:
        """A door that is open until the context ends."""
        door = Door(nameserver, brokers, changed)
        asyncio.run_coroutine_threadsafe(door.open(), self._loop).result(CLOSE_S)
        try:
            yield door
        finally:
            asyncio.run_coroutine_threadsafe(door.close(), self._loop).result(CLOSE_S)
