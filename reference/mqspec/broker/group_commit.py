"""Synchronous flush: one sync of the log for all puts that wait (GroupCommitService, 5.3.3)."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from mqspec.core.log import PutStatus
from mqspec.store.message_store import MessageStore

SYNC_FLUSH_TIMEOUT_S: Final = 5.0

log = logging.getLogger(__name__)


class GroupCommit:
    """Brings a store's log to disk, in a thread, as often as somebody puts."""

    def __init__(self, store: MessageStore, timeout_s: float = SYNC_FLUSH_TIMEOUT_S) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._wanted = 0  # position: all before it is to be on disk
        self._flushing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """See to it that what was put is on disk soon."""
        self._wanted = self._store.unflushed.max
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def flushed(self, position: int) -> PutStatus:
        """Wait until all before a position is on disk: how the put ended that waits for it."""
        try:
            async with asyncio.timeout(self._timeout_s):
                while (span := self._store.unflushed).min < position:
                    if span.max < position:  # it is in a transient store pool yet
                        self._store.commit_commit_log()
                    self.begin()
                    assert self._flushing
                    await asyncio.shield(self._flushing)
        except (TimeoutError, OSError) as error:
            log.error("the log is not on disk: %s", str(error) or "the sync takes too long")
            return PutStatus.FLUSH_DISK_TIMEOUT
        return PutStatus.PUT_OK

    async def close(self) -> None:
        """Wait until no thread is at the log."""
        if self._flushing:
            await asyncio.wait([self._flushing])

    async def _flush(self) -> None:
        # What is wanted while a sync is under way is for the next one, which is one for all of it.
        while (span := self._store.unflushed).min < self._wanted:
            await asyncio.to_thread(self._store.sync_commit_log, span)
            self._store.note_flushed(span.max)
