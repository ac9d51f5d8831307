"""Sends that arrive together are stored together: what the step of the log and its dispatch
cost beside their messages is paid once for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from mqspec.broker.fast.usual_sends import UsualSend, answer_usual
from mqspec.broker.stats import Traffic
from mqspec.core.log import PutResult, Stored
from mqspec.core.record import Batch
from mqspec.core.step import Change
from mqspec.core.types import Topic
from mqspec.service import Served
from mqspec.store.message_store import MessageStore
from mqspec.transport import Connection, Handler, failure
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
    `answer` makes of what became of it the answer to each; usual ones are counted in `traffic`."""

    def __init__(
        self,
        store: MessageStore,
        answer: Callable[[Checked, PutResult], Served],
        one_by_one: Handler,
        traffic: Mapping[Topic, Traffic],
        together: int = TOGETHER_MAX,
    ) -> None:
        self._store, self._answer, self._traffic = store, answer, traffic
        self._one_by_one = one_by_one
        self._together = together
        self._checked: list[Checked] = []
        self._usual: list[UsualSend] = []
        self._bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether no send waits for others."""
        return not (self._usual or self._checked)

    def add(self, send: Checked) -> None:
        """Have a send stored and answered, once what was read with it is checked too; at the
        latest in the next turn of the loop."""
        if self._usual:
            self._put()  # what came first is stored first
        self._checked.append(send)
        self._wait(len(self._checked), send.connection, send.request, len(send.batch.messages) > 1)

    def add_usual(self, send: UsualSend) -> None:
        """The same for a usual one."""
        if self._checked or send.is_batch:
            self._put()
        self._usual.append(send)
        self._wait(len(self._usual), send.connection, send.request, send.is_batch)

    def _wait(
        self, count: int, connection: Connection, request: RemotingCommand, is_batch: bool
    ) -> None:
        self._bytes += len(request.body)
        # A batch saves nothing by waiting.
        if is_batch or count >= self._together or self._bytes >= TOGETHER_BYTES_MAX:
            self._put()
        elif count == 1:
            connection.after_read(self._put)

    def _put(self) -> None:
        usual, self._usual = self._usual, []
        if usual:
            self._put_usual(usual)  # or they are checked now
        checked, self._checked = self._checked, []
        if checked:
            self._put_checked(checked)
        self._bytes = 0

    def _put_usual(self, sends: list[UsualSend]) -> None:
        try:
            run = self._store.put_run([send.row for send in sends], sends[0].is_batch)
            if run is None:
                for send in sends:
                    send.connection.serve(send.request, self._one_by_one)
                return
        except Exception as error:
            for send in sends:
                send.connection.answer(send.request, failure(send.request, error))
            return
        stored = run.stored
        if isinstance(stored, Stored):
            self._traffic[stored.queue[0]].add(len(stored.sizes), sum(stored.sizes))
        else:
            for (topic, _), size in zip(stored.queues, stored.sizes, strict=True):
                self._traffic[topic].add(1, size)
        answer_usual(sends, stored)

    def _put_checked(self, sends: list[Checked]) -> None:
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
