"""The clock of delayed messages (ScheduleMessageService.java, 5.3.3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mqspec.broker.carrying import carry
from mqspec.broker.stored import put
from mqspec.core import delay
from mqspec.core.delay import TimeUp
from mqspec.core.log import SCHEDULE_TOPIC, PutStatus, Span
from mqspec.service import clock_ms

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

_AT_A_TIME: Final = 100  # deliveries before others get their turn


async def deliver_delayed(broker: Broker) -> None:
    """Deliver what is due, level by level. A level whose put fails waits for the next time."""
    for level, delay_ms in enumerate(broker.store.delay_levels, 1):
        while _deliver_some(broker, level, delay_ms):
            await asyncio.sleep(0)


def _deliver_some(broker: Broker, level: int, delay_ms: int) -> bool:
    """Whether there may be more that is due."""
    store, queue_id, now_ms = broker.store, delay.queue_of(level), clock_ms()
    queue = Span(
        store.min_offset(SCHEDULE_TOPIC, queue_id), store.max_offset(SCHEDULE_TOPIC, queue_id)
    )
    first = delay.next_offset(broker.delay, level, queue)
    units = store.units(SCHEDULE_TOPIC, queue_id, first, _AT_A_TIME)
    for offset, unit in enumerate(units, first):
        event = TimeUp(level, offset, unit.tags_code, now_ms)
        step = delay.deliver(broker.delay, event, delay_ms)
        if not step.result or not _put(broker, unit.position):
            return False
        carry(broker, "delay", step, event)
    return len(units) == _AT_A_TIME


def _put(broker: Broker, position: int) -> bool:
    """Whether the message is delivered, or is no more."""
    message = broker.store.look_message_by_offset(position)
    copy = message and delay.delivered_copy(message)
    return copy is None or put(broker, copy).status is PutStatus.PUT_OK
