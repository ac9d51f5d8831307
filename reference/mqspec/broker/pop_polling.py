"""Pops and notifications that are held, with their timers (PopLongPollingService.java, 5.3.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from mqspec.core import pop_polling
from mqspec.core.extra_info import notified_topic
from mqspec.core.group import SubscriptionData
from mqspec.core.log import Dispatch, TopicQueue, arrivals
from mqspec.core.pop_polling import (
    EARLY_MS,
    PollingKey,
    PollingResult,
    PopPollingState,
    PopRequest,
)
from mqspec.core.step import Step, apply
from mqspec.service import clock_ms
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand


@dataclass(frozen=True, slots=True, eq=False)
class HeldPop:
    """A request that is not answered yet."""

    connection: Connection
    request: RemotingCommand
    key: PollingKey
    born_time: int  # ms
    poll_time: int  # ms


class PopLongPolling:
    """The held requests of one kind. `carry_out` does one again: the answer, or None where it
    is held again. `size` is how many may be held for a key now."""

    def __init__(
        self, carry_out: Callable[[HeldPop], RemotingCommand | None], size: Callable[[], int]
    ) -> None:
        self._state = PopPollingState()
        self._carry_out = carry_out
        self._size = size

    def polling(self, held: HeldPop, wanted: SubscriptionData | None = None) -> PollingResult:
        """Hold a request, if it may be held."""
        now_ms = clock_ms()
        request = PopRequest(held, wanted, held.born_time + held.poll_time)
        step = pop_polling.polling(
            self._state, held.key, request, held.poll_time > 0, self._size(), now_ms
        )
        apply(self._state, step.changes)
        result = step.result
        assert isinstance(result, PollingResult)
        if result is PollingResult.POLLING_SUC:
            delay_ms = request.expired_ms - EARLY_MS - now_ms + 1
            asyncio.get_running_loop().call_later(delay_ms / 1000, self._time_up, held)
        return result

    @property
    def is_any(self) -> bool:
        """Whether one is held."""
        return bool(self._state.polling_map)

    def polling_num(self, key: PollingKey) -> int:
        """How many are held."""
        return len(self._state.polling_map.get(key, ()))

    def arrived(self, queue: TopicQueue, dispatches: Iterable[Dispatch]) -> None:
        """Messages of a queue became visible."""
        if not self._state.groups:
            return
        name, queue_id = queue
        topic = notified_topic(name)
        if topic in self._state.groups:
            for max_offset, tags_code, properties in arrivals(dispatches):
                self._wake(
                    pop_polling.notify_message_arriving(
                        self._state, topic, queue_id, max_offset, tags_code, properties
                    )
                )

    def notify(self, key: PollingKey) -> None:
        """There may be something for one that waits there."""
        self._wake(pop_polling.notify_group(self._state, key))

    def lock_free(self, key: PollingKey) -> None:
        """A queue is not blocked any more."""
        self._wake(pop_polling.notify_lock_free(self._state, key))

    def closed(self, connection: Connection) -> None:
        """A connection is closed."""

        def is_gone(token: Hashable) -> bool:
            return isinstance(token, HeldPop) and token.connection is connection

        apply(self._state, pop_polling.forget_closed(self._state, is_gone).changes)

    def _time_up(self, held: HeldPop) -> None:
        step = pop_polling.forget(self._state, held.key, held)
        apply(self._state, step.changes)
        if step.result:
            self._again(held)

    def _wake(self, step: Step) -> None:
        apply(self._state, step.changes)
        for held in step.result:
            # Once what woke it is wholly done, so that it gets all of a batch.
            asyncio.get_running_loop().call_soon(self._again, held)

    def _again(self, held: HeldPop) -> None:
        answer = self._carry_out(held)
        if answer is not None and not held.request.is_oneway:
            held.connection.send(answer)
