"""Sends that arrive together are stored together: what the step of the log and its dispatch
cost beside their messages is paid once for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from mqspec.core.record import Batch
from mqspec.core.step import Change
from mqspec.service import Served
from mqspec.store.message_store import MessageStore, PutResult
from mqspec.transport import Connection, failure
from mqspec.wire.codec import RemotingCommand

TOGETHER_MAX: Final = 64  # sends
TOGETHER_BYTES_MAX: Final = 256 * 1024  # of their bodies; the last one may go beyond


class Checked(msgspec.Struct, frozen=True):
    """A send that may be stored."""

    connection: Connection
    request: RemotingCommand
    batch: Batch
    fields: dict[str, str]  # of the answer, but for those that the put gives
    made: tuple[Change, ...]  # topics


class Sends:
    """Has sends stored that were read together, or have waited together: at most `together`.
    `answer` makes of what became of it the answer to each."""

    def __init__(
        self,
        store: MessageStore,
        answer: Callable[[Checked, PutResult], Served],
        together: int = TOGETHER_MAX,
    ) -> None:
        self._store, self._answer = store, answer
        self._together = together
        self._checked: list[Checked] = []
        self._bytes = 0

    def add(self, send: Checked) -> None:
        """Have a send stored and answered, once what was read with it is checked too; at the
        latest in the next turn of the loop."""
        self._checked.append(send)
        self._bytes += len(send.request.body)
        is_enough = len(self._checked) >= self._together or self._bytes >= TOGETHER_BYTES_MAX
        if is_enough or len(send.batch.messages) > 1:  # a batch saves nothing by waiting
            self._put()
        elif len(self._checked) == 1:
            send.connection.after_read(self._put)

    def _put(self) -> None:
        sends, self._checked, self._bytes = self._checked, [], 0
        try:
            puts = self._store.put_together([send.batch for send in sends])
        except Exception as error:
            for send in sends:
                send.connection.answer(send.request, failure(send.request, error))
            return
        for send, put in zip(sends, puts, strict=True):
            try:
                answer = self._answer(send, put)
            except Exception as error:
                answer = failure(send.request, error)
            send.connection.answer(send.request, answer)
