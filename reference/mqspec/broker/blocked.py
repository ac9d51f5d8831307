"""Queues that are popped in order, and blocked by a batch: who waits is told when one is free
(ConsumerOrderInfoLockManager.java, 5.3.3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mqspec.core.offset_commit import OffsetKey
from mqspec.core.pop_order import OrderKey, is_blocked
from mqspec.core.pop_polling import PollingKey
from mqspec.service import clock_ms

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def wake_when_free(broker: Broker, key: OrderKey) -> None:
    """Have somebody told who waits, when a queue that is popped in order is not blocked any
    more."""
    delay_ms = broker.pop_order.order_info[key].free_at() - clock_ms()
    asyncio.get_running_loop().call_later(max(delay_ms, 0) / 1000, _lock_free, broker, key)


def wake_all_when_free(broker: Broker) -> None:
    """A broker starts: what was blocked stays so until its time is up."""
    for key in broker.pop_order.order_info:
        wake_when_free(broker, key)


def _lock_free(broker: Broker, key: OrderKey) -> None:
    if is_blocked(broker.pop_order, key, None, clock_ms()):
        return  # acknowledged and popped again, or changed
    next_offset = broker.offsets.offset_table.get(OffsetKey(*key), -1)
    if broker.store.max_offset(key.topic, key.queue_id) > next_offset:
        broker.pops.lock_free(PollingKey(*key))
        broker.notifications.lock_free(PollingKey(*key))
