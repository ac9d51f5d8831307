"""Timer messages: their clock, and 370 (TimerMessageStore.java, RecallMessageProcessor.java,
5.3.3)."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from mqspec.broker.carrying import carry
from mqspec.broker.conversing import served
from mqspec.broker.processor.sending import born_host
from mqspec.broker.stored import put
from mqspec.core import recall, timer
from mqspec.core.publish import PUT_CODES
from mqspec.core.timer import TIMER_TOPIC, TimerState
from mqspec.service import Served, clock_ms
from mqspec.store.timer_check import TimerCheck, read_timer_check, write_timer_check
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand

if TYPE_CHECKING:
    from pathlib import Path

    from mqspec.broker.broker import Broker

_AT_A_TIME: Final = 100  # messages, before others get their turn


def recall_message(broker: Broker, connection: Connection, request: RemotingCommand) -> Served:
    """370."""
    event = timer.Recall(
        request.ext_fields.get("topic", "null"),
        request.ext_fields.get("recallHandle", ""),
        request.ext_fields.get("producerGroup", ""),
        born_host(connection.peer),
        broker.store_host,
    )
    return served(broker, request, recall.recall_message(broker, event, clock_ms()))


def load(broker: Broker) -> TimerState:
    """Where the wheel is to go on. It is filled from the store while the broker serves."""
    first, end = broker.store.min_offset(TIMER_TOPIC, 0), broker.store.max_offset(TIMER_TOPIC, 0)
    check = read_timer_check(_path(broker))
    taken = min(check.master_timer_queue_offset, end)
    return TimerState(check.last_read_time, first, taken_before=taken)


async def deliver(broker: Broker) -> None:
    """Take in what has come, and deliver what is due."""
    while _take_in(broker):
        await asyncio.sleep(0)
    while await deliver_slot(broker):
        await asyncio.sleep(0)


async def deliver_slot(broker: Broker) -> bool:
    """Deliver the first slot that is due. Returns whether there may be another one.

    Where a put fails, and where it is cancelled, what is not delivered stays in the wheel.
    """
    state = broker.timer
    step = timer.dequeue(state, clock_ms())
    due = step.result
    waiting = deque(due.queue_offsets if due else ())
    is_delivered = True
    try:
        while waiting and is_delivered:
            # Where they lie is read first: to look at a queue is to dispatch what was put.
            for position in [_position(broker, each) for each in islice(waiting, _AT_A_TIME)]:
                message = broker.store.look_message_by_offset(position)
                copy = message and timer.delivered_copy(message, due.deleted, clock_ms())
                is_delivered = copy is None or put(broker, copy).status in PUT_CODES
                if not is_delivered:
                    break
                waiting.popleft()
            await asyncio.sleep(0)
    finally:
        if waiting:
            step = timer.break_off(state, due.slot, waiting[0])
        carry(broker, "timer", step)
    return bool(step.changes) and is_delivered


def progress(broker: Broker) -> TimerCheck | None:
    """How far delivery has come; None where nothing is to be written. It may be persisted once
    the log is on disk as it is now: no delivery is, before the copy."""
    state, old = broker.timer, read_timer_check(_path(broker))
    read_time = timer.delivered_before(state)
    if not timer.is_filled(state) or not state.queue_offset or read_time == old.last_read_time:
        return None
    return old._replace(
        last_read_time=read_time,
        # What lies before is in the timer log, if Apache ever had the store.
        last_timer_queue_offset=timer.first_waiting(state, old.last_timer_queue_offset),
        master_timer_queue_offset=state.queue_offset,
    )


def persist(broker: Broker, check: TimerCheck) -> None:
    """On disk when this returns."""
    write_timer_check(_path(broker), check)


def _take_in(broker: Broker) -> bool:
    """Take in some of what is visible. Returns whether there was any."""
    state, end = broker.timer, broker.store.max_offset(TIMER_TOPIC, 0)
    first = state.queue_offset
    for offset in range(first, min(end, first + _AT_A_TIME)):
        message = broker.store.look_message_by_offset(_position(broker, offset))
        carry(broker, "timer", timer.enqueue(state, offset, message))
    return first < end


def _position(broker: Broker, offset: int) -> int:
    """Where in the log a message of the timer queue lies; -1: it is no more."""
    for unit in broker.store.units(TIMER_TOPIC, 0, offset, 1):
        return unit.position
    return -1


def _path(broker: Broker) -> Path:
    return broker.store.root / "config" / "timercheck"
