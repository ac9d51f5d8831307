"""What a nameserver and a broker have in common: a table of processors, and clocks.

A processor is a function `(service, connection, request) -> Answer`; the table says which
serves which request code. A code without one is answered with 3, a request that cannot be
read with 1, as the real ones answer.

Requests are worked on as they arrive, until that has taken a while. Those that come on top
wait until all connections were looked at again, in the order in which they came; how many
may, and for how long, core.flow_control says.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from time import monotonic, time_ns
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from mqrules import UserError
from mqspec.core import flow_control
from mqspec.core.flow_control import Pool
from mqspec.core.response import Answer as Answered
from mqspec.core.response import Refusal, ResponseCode
from mqspec.options import parse_properties
from mqspec.tls import Tls
from mqspec.transport import Answer, Connection, Handler, Server, Watcher, refuse, serve
from mqspec.wire.bodies import BodyError
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError

TURN_S: Final = 0.05  # how long requests are worked on before all connections are looked at

S = TypeVar("S")
Served: TypeAlias = Answer | Awaitable[Answer]
Processor: TypeAlias = Callable[[S, Connection, RemotingCommand], Served]

log = logging.getLogger(__name__)


def clock_ms() -> int:
    """The time, in ms since the epoch."""
    return time_ns() // 1_000_000


class _Waiting(msgspec.Struct, frozen=True):
    """A request that could not be worked on when it came."""

    arrived_ms: int
    pool: Pool
    connection: Connection
    request: RemotingCommand


class Dispatcher(Generic[S]):
    """Has each request served by its processor, at once or in its turn.

    `pool_of` says for what a request code waits with its like; `is_rejecting` whether a pool
    takes nothing now; `authenticate` who is refused. `is_shutting_down` sends clients away.
    """

    def __init__(
        self,
        service: S,
        processors: Mapping[int, Processor[S]],
        pool_of: Callable[[int], Pool],
        is_rejecting: Callable[[Pool], bool] | None = None,
        authenticate: Callable[[RemotingCommand], Refusal | None] = lambda _: None,
        clock: Callable[[], int] = clock_ms,
    ) -> None:
        self.is_shutting_down = False
        self._service, self._processors = service, processors
        self._pools = {code: pool_of(code) for code in processors}
        self._is_rejecting = is_rejecting
        self._authenticate = authenticate
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._turn_ends = 0.0
        self._is_turn_over = False  # until all connections were looked at, and nothing waits
        self._waiting: deque[_Waiting] = deque()
        self._waiting_of: Counter[Pool] = Counter()
        self._waiting_bytes = 0

    def serve(self, connection: Connection, request: RemotingCommand) -> Served:
        """The server's handler."""
        pool = self._pools.get(request.code)
        if not pool:
            return refuse(connection, request)
        if self.is_shutting_down and (refusal := flow_control.go_away(request.version)):
            return refused(request, refusal)
        if self._is_rejecting and self._is_rejecting(pool):
            return refused(request, flow_control.reject_request())
        if self._is_turn_over:
            return self._wait(pool, connection, request)
        if monotonic() >= self._turn_ends:  # this one is the last of its turn
            self._is_turn_over = True
            self._loop.call_soon(self._next_turn)
        return self._process(connection, request)

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for its turn."""
        return not self._waiting

    def waiting(self, pool: Pool) -> tuple[int, int]:
        """How many requests wait in a pool, and for how long, ms, the first of them has."""
        first = next((each for each in self._waiting if each.pool == pool), None)
        return self._waiting_of[pool], self._clock() - first.arrived_ms if first else 0

    def _wait(self, pool: Pool, connection: Connection, request: RemotingCommand) -> Answer:
        refusal = flow_control.submit(pool, self._waiting_of[pool], self._waiting_bytes)
        if refusal:
            return refused(request, refusal)
        self._waiting.append(_Waiting(self._clock(), pool, connection, request))
        connection.hold()
        self._waiting_of[pool] += 1
        self._waiting_bytes += len(request.body)
        return None

    def _next_turn(self) -> None:
        # What arrives meanwhile is behind what waits, so that this turn is all its.
        self._turn_ends = monotonic() + TURN_S
        try:
            if self._waiting:
                now_ms = self._clock()
                self._serve_next(now_ms)
                while self._waiting and monotonic() < self._turn_ends:
                    self._serve_next(now_ms)
        finally:  # whatever becomes of one, the others have their turn
            self._is_turn_over = bool(self._waiting)
            if self._is_turn_over:
                self._loop.call_soon(self._next_turn)

    def _serve_next(self, now_ms: int) -> None:
        waiting = self._waiting.popleft()
        pool, connection, request = waiting.pool, waiting.connection, waiting.request
        connection.release()
        self._waiting_of[pool] -= 1
        self._waiting_bytes -= len(request.body)
        if connection.is_closed and not request.is_oneway:
            return
        refusal = flow_control.clean_expired_request(
            pool, self._waiting_of[pool], waiting.arrived_ms, now_ms
        )
        if refusal:
            connection.answer(request, refused(request, refusal))
        else:
            connection.serve(request, self._process)

    def _process(self, connection: Connection, request: RemotingCommand) -> Served:
        if refusal := self._authenticate(request):
            return refused(request, refusal)
        return process(self._processors[request.code], self._service, connection, request)


def process(
    processor: Processor[S], service: S, connection: Connection, request: RemotingCommand
) -> Served:
    """The answer of a processor; also to a request that cannot be read."""
    try:
        return processor(service, connection, request)
    except (HeaderError, BodyError) as error:
        return request.response(ResponseCode.SYSTEM_ERROR, str(error))


def refused(request: RemotingCommand, refusal: Refusal) -> RemotingCommand:
    """The answer that refuses a request."""
    log.info(
        "request refused",
        extra={"request": request.code, "code": int(refusal.code), "remark": refusal.remark},
    )
    return request.response(refusal.code, refusal.remark, refusal.ext_fields)


def answered(
    request: RemotingCommand, answer: Answered, body: bytes | None = None
) -> RemotingCommand:
    """The answer to a request, as the core gives it; with a body that the shell has written."""
    if isinstance(answer, Refusal):
        return refused(request, answer)
    told = answer.body if body is None else body
    return request.response(answer.code, answer.remark, answer.ext_fields, told)


def handed_on(request: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
    """The answer that another process gave, for whoever asked this one."""
    return request.response(answer.code, answer.remark, answer.ext_fields, answer.body)


def options_to_set(
    request: RemotingCommand, never_updated: Collection[str]
) -> Mapping[str, str] | Refusal:
    """The names and values of the body of 25 or 318; refused where it cannot be read, or names
    what may not be set."""
    try:
        properties = parse_properties(request.body)
    except ValueError:
        return Refusal(ResponseCode.SYSTEM_ERROR, "string2Properties error")
    if properties.keys().isdisjoint(never_updated):
        return properties
    return Refusal(ResponseCode.NO_PERMISSION, "Can not update config in black list.")


async def listen(
    host: str, port: int, handler: Handler, on_close: Watcher, tls: Tls | None = None
) -> Server:
    """A server that listens. Raises UserError where it cannot."""
    try:
        return await serve(host, port, handler, on_close, tls=tls)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"{host}:{port}",
            f"cannot listen: {reason}",
            "choose another port, or 0 for a free one, or stop what uses it",
        ) from None


async def every(interval_ms: int, action: Callable[[], Awaitable[None] | None]) -> None:
    """Do something again and again, also after it failed, until cancelled."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            doing = action()
            if doing is not None:
                await doing
        except Exception:
            log.exception("what is done each %d ms failed", interval_ms)
