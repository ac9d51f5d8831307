"""What a nameserver and a broker have in common: a table of processors, and clocks.

A processor is a function `(service, connection, request) -> Answer`; the table says which
serves which request code. A code without one is answered with 3, a request that cannot be
read with 1, as the real ones answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, TypeVar

from mqrules import UserError
from mqspec.core.response import Refusal, ResponseCode
from mqspec.transport import Answer, Connection, Handler, Server, Watcher, refuse, serve
from mqspec.wire.bodies import BodyError
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.headers import HeaderError

S = TypeVar("S")
Processor: TypeAlias = Callable[[S, Connection, RemotingCommand], Answer]

log = logging.getLogger(__name__)


def clock_ms() -> int:
    """The time, in ms since the epoch."""
    return time.time_ns() // 1_000_000


def dispatcher(service: S, processors: Mapping[int, Processor[S]]) -> Handler:
    """The handler that serves each request by its processor."""

    def handle(connection: Connection, request: RemotingCommand) -> Answer:
        processor = processors.get(request.code)
        if processor is None:
            return refuse(connection, request)
        try:
            return processor(service, connection, request)
        except (HeaderError, BodyError) as error:
            return request.response(ResponseCode.SYSTEM_ERROR, str(error))

    return handle


def refused(request: RemotingCommand, refusal: Refusal) -> RemotingCommand:
    """The answer that refuses a request."""
    return request.response(refusal.code, refusal.remark, refusal.ext_fields)


async def listen(host: str, port: int, handler: Handler, on_close: Watcher) -> Server:
    """A server that listens. Raises UserError where it cannot."""
    try:
        return await serve(host, port, handler, on_close)
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
