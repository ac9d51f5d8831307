"""What consumes messages, and what it may say of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from mqspec.client.message import MessageExt

log = logging.getLogger(__name__)


class ConsumeStatus(Enum):
    """What a listener made of its messages (ConsumeConcurrentlyStatus); of an orderly listener
    RECONSUME_LATER means SUSPEND_CURRENT_QUEUE_A_MOMENT."""

    CONSUME_SUCCESS = "consumed"
    RECONSUME_LATER = "to be delivered again"


@dataclass(frozen=True, slots=True)
class ConsumeResult:
    """A status and what the real client's listeners set in their context."""

    status: ConsumeStatus
    ack_index: int | None = None  # with success: the last that is consumed; None: the last one
    delay_level_when_next_consume: int = 0  # 0: by the broker, -1: never, to the DLQ
    suspend_current_queue_time_ms: int | None = None  # of an orderly listener


Listener: TypeAlias = Callable[[Sequence[MessageExt]], Awaitable[ConsumeStatus | ConsumeResult]]
"""Consumes messages of one queue. An exception means RECONSUME_LATER."""


async def consume(listener: Listener, messages: Sequence[MessageExt]) -> ConsumeResult:
    """What the listener makes of them. Where the consumer ends meanwhile that is nothing, whatever
    the listener makes of its cancellation."""
    try:
        result = await listener(messages)
    except (Exception, asyncio.CancelledError):  # it may have waited for what was cancelled
        if not _is_ending():
            log.exception("the listener failed")
        result = ConsumeStatus.RECONSUME_LATER
    if _is_ending():
        raise asyncio.CancelledError
    return result if isinstance(result, ConsumeResult) else ConsumeResult(result)


def _is_ending() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
