"""One connection to a server, by blocking sockets with deadlines."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mqconform.catalogue import field_of_broker_name
from mqconform.frame import (
    BINARY,
    JSON,
    ONE_WAY,
    VERSION,
    Frame,
    FrameError,
    binary_header,
    frame,
    json_header,
    parse_frame,
)
from mqconform.requests import Request
from mqconform.target import Address
from mqconform.transcript import Transcript

DEADLINE_S = 30.0  # for what a server does at once: only a broken one takes so long
REGISTERED_S = 40.0  # for what a broker's next registration of all topics tells, each 30 s
QUIET_S = 0.5  # how long a server is watched that must not answer
_SYSTEM_BUSY = 2
_SIGN = 1 << 31  # beyond which an opaque is negative
_SHORT_CODES = 1 << 15  # codes beyond are none in a binary header
_POLL_S = 0.05


class SilentError(AssertionError):
    """The server did not answer in time."""


class ClosedError(AssertionError):
    """The server closed the connection."""


@dataclass(frozen=True)
class Manner:
    """How a client speaks. Its opaques are Java ints: negative once it has sent 2^31 requests. What
    a binary header cannot say, a code of more than 15 bits or an empty value, it says in JSON."""

    serialize_type: int = JSON
    requests_before: int = 0
    later_fields: int = 0  # of a later version, before those that are known


class Connection:
    """A client's end of one connection. Used by one thread.

    `broker_name` is added to requests in which clients name the broker. Answers are matched by
    `opaque`. Requests of the server's own (notices) that arrive meanwhile are kept in `notices`.
    """

    def __init__(
        self,
        address: Address,
        transcript: Transcript,
        deadline_s: float | None = None,
        tls: ssl.SSLContext | None = None,
        broker_name: str = "",
        manner: Manner | None = None,
    ) -> None:
        self.address, self._broker_name = address, broker_name
        self._manner = manner or Manner()
        self._deadline_s = DEADLINE_S if deadline_s is None else deadline_s
        self.notices: deque[Frame] = deque()
        self._one_way: set[int] = set()
        self._transcript = transcript
        self._answers: dict[int, deque[Frame]] = {}
        self._numbers = itertools.count(self._manner.requests_before + 1)
        self._buffer = bytearray()
        self._socket = socket.create_connection(address, self._deadline_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self._socket = tls.wrap_socket(self._socket)

    def call(
        self, request: Request, *, version: int = VERSION, serialize_type: int | None = None
    ) -> Frame:
        """Ask and wait for the answer.

        SYSTEM_BUSY says that the request was not worked on: it is sent again. Raises SilentError
        or ClosedError.
        """
        deadline = self._deadline()
        while True:
            opaque = self.ask(request, version=version, serialize_type=serialize_type)
            answer = self.answer(opaque, deadline - time.monotonic())
            if answer.code != _SYSTEM_BUSY or time.monotonic() > deadline:
                return answer

    def ask(
        self,
        request: Request,
        *,
        version: int = VERSION,
        serialize_type: int | None = None,
        one_way: bool = False,
    ) -> int:
        """Send a request without waiting; its opaque."""
        opaque = (next(self._numbers) + _SIGN) % (2 * _SIGN) - _SIGN
        if serialize_type is None:
            fits = request.code < _SHORT_CODES and all(request.fields.values())
            serialize_type = self._manner.serialize_type if fits else JSON
        header = binary_header if serialize_type == BINARY else json_header
        flag = ONE_WAY if one_way else 0
        if one_way:
            self._one_way.add(opaque)
        fields = header(request.code, self._fields(request), opaque, flag, version)
        self.write(frame(fields, request.body, serialize_type))
        return opaque

    def _fields(self, request: Request) -> Mapping[str, str]:
        """The fields, behind those of a later version, with the broker's name where clients give
        it."""
        later = {f"later{n}": "x" for n in range(self._manner.later_fields)}
        name = field_of_broker_name(request.code) if self._broker_name else None
        broker = {name: self._broker_name} if name and name not in request.fields else {}
        return {**later, **request.fields, **broker}

    def answer(self, opaque: int, within: float | None = None) -> Frame:
        """The answer to a request that was sent before. Raises as `call`."""
        deadline = self._deadline(within)
        while not (waiting := self._answers.get(opaque)):
            self._read(deadline, f"answer to opaque {opaque}")
        return waiting.popleft()

    @property
    def unasked(self) -> list[Frame]:
        """The answers to what was sent one-way, as far as they were read."""
        return [answer for opaque in self._one_way for answer in self._answers.get(opaque, ())]

    def any_answer(self) -> Frame:
        """The next answer, whatever its opaque. Raises as `call`."""
        deadline = self._deadline()
        while not (waiting := [answers for answers in self._answers.values() if answers]):
            self._read(deadline, "answer")
        return waiting[0].popleft()

    def write(self, raw: bytes) -> None:
        """Put bytes on the wire, whatever they are. Raises ClosedError."""
        self._transcript.add(self.address, True, raw)
        try:
            self._socket.settimeout(self._deadline_s)
            self._socket.sendall(raw)
        except OSError as error:
            raise ClosedError(f"{self.address} closed the connection: {error}") from None

    def notice(self, within: float | None = None) -> Frame:
        """The next request that the server sends of its own accord. Raises as `call`."""
        deadline = self._deadline(within)
        while not self.notices:
            self._read(deadline, "notice")
        return self.notices.popleft()

    def is_quiet(self, opaque: int | None = None, within: float = QUIET_S) -> bool:
        """Whether nothing comes for a while: no notice, or no answer to `opaque`."""
        try:
            if opaque is None:
                self.notice(within)
            else:
                self.answer(opaque, within)
        except SilentError:
            return True
        return False

    def is_closed(self, within: float | None = None) -> bool:
        """Whether the server closes the connection within that time, without a word."""
        deadline = self._deadline(within)
        try:
            self._read(deadline, "end of the connection")
        except ClosedError:
            return True
        except SilentError:
            return False
        return False

    def close(self) -> None:
        self._socket.close()

    def cut_off(self) -> None:
        """End it from another thread: who waits for an answer gets a ClosedError."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _deadline(self, within: float | None = None) -> float:
        return time.monotonic() + (self._deadline_s if within is None else within)

    def _read(self, deadline: float, what: str) -> None:
        """Take in one more frame."""
        while (raw := self._whole_frame()) is None:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                raise SilentError(f"{self.address} did not send the {what} in time") from None
            except OSError as error:
                raise ClosedError(f"{self.address} broke the connection: {error}") from None
            if not data:
                raise ClosedError(f"{self.address} closed the connection instead of the {what}")
            self._buffer += data
        self._transcript.add(self.address, False, raw)
        try:
            found = parse_frame(raw)
        except FrameError as error:
            raise AssertionError(f"{self.address} sent no frame: {error}") from None
        if found.is_response:
            self._answers.setdefault(found.opaque, deque()).append(found)
        else:
            self.notices.append(found)

    def _whole_frame(self) -> bytes | None:
        size = 4 + int.from_bytes(self._buffer[:4], "big")
        if len(self._buffer) < max(size, 8):
            return None
        raw = bytes(self._buffer[:size])
        del self._buffer[:size]
        return raw


def eventually(condition: Callable[[], bool], within: float | None = None) -> bool:
    """Whether a condition becomes true within that time."""
    deadline = time.monotonic() + (DEADLINE_S if within is None else within)
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(_POLL_S)
    return True
