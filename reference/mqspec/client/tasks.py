"""The work that a client does beside what it is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

log = logging.getLogger(__name__)


async def sleep_ms(delay_ms: int) -> None:
    """Wait for some milliseconds."""
    await asyncio.sleep(delay_ms / 1000)


async def first(event: Coroutine[Any, Any, object], timeout_ms: int) -> None:
    """Wait for an event, or for the time to be over."""
    # Not wait_for: before Python 3.12 that one forgets a cancellation that comes with the event.
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_ms / 1000):
            await event


class Tasks:
    """Tasks that end together. One that fails is logged, and the others go on."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this, once."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def every(
        self,
        interval_ms: int,
        action: Callable[[], Awaitable[None]],
        first_delay_ms: int | None = None,
    ) -> None:
        """Do this again and again, first after `first_delay_ms`, or one interval. Where it fails,
        it is done again all the same."""

        async def repeat() -> None:
            await sleep_ms(interval_ms if first_delay_ms is None else first_delay_ms)
            while True:
                try:
                    await action()
                except Exception:
                    log.exception("what a client does every %d ms failed", interval_ms)
                await sleep_ms(interval_ms)

        self.spawn(repeat())

    async def cancel(self) -> None:
        """End all of them, and wait until they have ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            log.error("a task of the client failed", exc_info=error)
