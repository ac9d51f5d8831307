"""Deliveries as conversations: what waited is put into its real topic once its time has come.

Delayed messages are delivered level by level, each level in its order, and a level whose put fails
waits for the next time. Timer messages are taken in from their queue first, and then delivered
slot by slot. How far delivery has come moves behind each put, never before it: a broker that is
killed delivers again, and loses nothing.

Facts: ScheduleMessageService.java, TimerMessageStore.java (5.3.3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from mqspec.core import delay, timer
from mqspec.core.conversation import (
    Carry,
    Conversation,
    LogOnDisk,
    Look,
    Now,
    OthersTurn,
    Persist,
    ReadSpan,
    Store,
    Units,
)
from mqspec.core.delay import DelayState, TimeUp
from mqspec.core.log import SCHEDULE_TOPIC, PutResult, PutStatus, Span, Unit
from mqspec.core.publish import PUT_CODES
from mqspec.core.record import Record
from mqspec.core.timer import TIMER_TOPIC, TimerState

_AT_A_TIME: Final = 100  # messages before others get their turn


# Delayed messages


def deliver_delayed(state: DelayState, levels_ms: Sequence[int]) -> Conversation[None]:
    """Deliver what is due, level by level, of levels with these delays."""
    for level, delay_ms in enumerate(levels_ms, 1):
        while (yield from _deliver_some(state, level, delay_ms)):
            yield OthersTurn()


def _deliver_some(state: DelayState, level: int, delay_ms: int) -> Conversation[bool]:
    """Whether there may be more that is due."""
    queue_id, now_ms = delay.queue_of(level), (yield Now())
    queue: Span = yield ReadSpan(SCHEDULE_TOPIC, queue_id)
    first = delay.next_offset(state, level, queue)
    units: list[Unit] = yield Units(SCHEDULE_TOPIC, queue_id, first, _AT_A_TIME)
    for offset, unit in enumerate(units, first):
        event = TimeUp(level, offset, unit.tags_code, now_ms)
        step = delay.deliver(state, event, delay_ms)
        if not step.result or not (yield from _deliver(unit.position)):
            return False
        yield Carry(state, step, event)
    return len(units) == _AT_A_TIME


def _deliver(position: int) -> Conversation[bool]:
    """Whether a delayed message is delivered, or is no more."""
    message: Record | None = yield Look(position)
    copy = message and delay.delivered_copy(message)
    if copy is None:
        return True
    put: PutResult = yield Store(copy)
    return put.status is PutStatus.PUT_OK


# Timer messages


def deliver_timers(state: TimerState) -> Conversation[None]:
    """Take in what has come, and deliver what is due."""
    while (yield from _take_in(state)):
        yield OthersTurn()
    while (yield from deliver_slot(state)):
        yield OthersTurn()


def deliver_slot(state: TimerState) -> Conversation[bool]:
    """Deliver the first slot that is due. Returns whether there may be another one.

    Where a put fails, and where it is cancelled, what is not delivered stays in the wheel.
    """
    step = timer.dequeue(state, (yield Now()))
    due: timer.Due | None = step.result
    if due is None:
        yield Carry(state, step)
        return bool(step.changes)

    waiting = deque(due.queue_offsets)
    try:
        is_delivered = yield from _deliver_waiting(waiting, due)
    finally:
        yield Carry(state, timer.break_off(state, due.slot, waiting[0]) if waiting else step)
    return is_delivered


def _deliver_waiting(waiting: deque[int], due: timer.Due) -> Conversation[bool]:
    """Deliver the messages of a slot, each of which waits no more then. Whether all could be."""
    while waiting:
        # Where they lie is read first: to look at a queue is to dispatch what was put.
        positions: list[int] = []
        for offset in islice(waiting, _AT_A_TIME):
            positions.append((yield from _position(offset)))

        for position in positions:
            message: Record | None = yield Look(position)
            copy = message and timer.delivered_copy(message, due.deleted, (yield Now()))
            if copy is not None:
                put: PutResult = yield Store(copy)
                if put.status not in PUT_CODES:
                    return False
            waiting.popleft()
        yield OthersTurn()
    return True


def _take_in(state: TimerState) -> Conversation[bool]:
    """Take in some of what is visible. Returns whether there was any."""
    queue: Span = yield ReadSpan(TIMER_TOPIC, 0)
    first = state.queue_offset
    for offset in range(first, min(queue.max, first + _AT_A_TIME)):
        position = yield from _position(offset)
        message: Record | None = yield Look(position)
        yield Carry(state, timer.enqueue(state, offset, message))
    return first < queue.max


def _position(offset: int) -> Conversation[int]:
    """Where in the log a message of the timer queue lies; -1: it is no more."""
    units: list[Unit] = yield Units(TIMER_TOPIC, 0, offset, 1)
    return units[0].position if units else -1


class TimerProgress(NamedTuple):
    """How far the delivery of timer messages has come, as config/timercheck has it."""

    last_read_time: int  # ms: messages that are due before it have been delivered
    last_timer_queue_offset: int  # those before it are in Apache's timer log, or delivered
    master_timer_queue_offset: int  # those before it were taken in, or delivered


def persist_timers(state: TimerState, written: TimerProgress) -> Conversation[None]:
    """Every second the file is written, where more is delivered than it has. No delivery is in it
    before the log is on disk that holds the copy."""
    read_time = timer.delivered_before(state)
    if not timer.is_filled(state) or not state.queue_offset or read_time == written.last_read_time:
        return

    # What lies before is in the timer log, if Apache ever had the store.
    first_waiting = timer.first_waiting(state, written.last_timer_queue_offset)
    progress = TimerProgress(read_time, first_waiting, state.queue_offset)
    if (yield LogOnDisk()):
        yield Persist(progress)
