"""Requests that wait for messages: who is held, what wakes them, and when what was put is
dispatched for them (PullRequestHoldService.java, ReputMessageService, 5.3.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mqspec.broker.carrying import carry
from mqspec.core import long_polling
from mqspec.core.log import PutStatus, arrivals
from mqspec.core.pull import Pull
from mqspec.core.step import Step
from mqspec.service import clock_ms
from mqspec.store.message_store import Visible
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

REPUT_BYTES: Final = 4 * 1024 * 1024  # of the log, dispatched at once: each queue costs a write


@dataclass(frozen=True, slots=True, eq=False)
class HeldPull:
    """A pull that is not answered yet; `again` carries it out once more."""

    connection: Connection
    request: RemotingCommand
    pull: Pull
    again: Callable[[HeldPull], RemotingCommand | None]


def arrived(broker: Broker, visible: Callable[[], Visible]) -> None:
    """Messages became visible: whoever waits for one of them is woken."""
    if not is_any(broker):
        return
    for queue, dispatches in visible().items():
        broker.pops.arrived(queue, dispatches)
        broker.notifications.arrived(queue, dispatches)
        if queue in broker.long_polling.pull_request_table:
            for max_offset, tags_code, properties in arrivals(dispatches):
                step = long_polling.notify_message_arriving(
                    broker.long_polling, queue, max_offset, tags_code, clock_ms(), properties
                )
                _wake(broker, step)


def check_hold_request(broker: Broker) -> None:
    """Look at every queue for which a pull is held."""
    step = long_polling.check_hold_request(
        broker.long_polling, lambda queue: broker.store.max_offset(*queue), clock_ms()
    )
    _wake(broker, step)


def closed(broker: Broker, connection: Connection) -> None:
    """A connection is closed: nothing of it is held any more."""

    def is_gone(token: Hashable) -> bool:
        return isinstance(token, HeldPull) and token.connection is connection

    broker.pops.closed(connection)
    broker.notifications.closed(connection)
    step = long_polling.forget_pull_requests(broker.long_polling, is_gone)
    carry(broker, "long_polling", step)


def is_any(broker: Broker) -> bool:
    """Whether anybody waits for a message."""
    return bool(
        broker.long_polling.pull_request_table or broker.pops.is_any or broker.notifications.is_any
    )


def settle_soon(broker: Broker) -> PutStatus:
    """Something was put. Where nobody waits for a message it is dispatched when somebody looks,
    or when much has come: together it costs less."""
    if broker.store.config.sync_flush:
        broker.group_commit.begin()
    elif not broker.reputs and _is_reput_due(broker):
        # Once the answer is out: who waits for it need not wait for this.
        broker.reputs = True
        asyncio.get_running_loop().call_soon(_reput, broker)
    return PutStatus.PUT_OK


def _is_reput_due(broker: Broker) -> bool:
    return bool(broker.store.undispatched_bytes >= REPUT_BYTES or is_any(broker) or broker.trace)


def _reput(broker: Broker) -> None:
    broker.reputs = False
    broker.store.reput()


def _wake(broker: Broker, step: Step) -> None:
    carry(broker, "long_polling", step)
    for token in step.result:
        # Once the put that woke it is wholly done, so that it gets all of a batch.
        asyncio.get_running_loop().call_soon(_again, token)


def _again(held: HeldPull) -> None:
    """Carry a held pull out again, and answer it, whatever there is."""
    answer = held.again(held)
    if answer is not None and not held.request.is_oneway:
        held.connection.send(answer)
