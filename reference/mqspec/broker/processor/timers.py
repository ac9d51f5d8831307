"""Timer messages: where their wheel goes on, and 370 (RecallMessageProcessor.java, 5.3.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mqspec.broker.conversing import served
from mqspec.broker.processor.sending import born_host
from mqspec.core import recall, timer
from mqspec.core.timer import TIMER_TOPIC, TimerState
from mqspec.service import Served, clock_ms
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


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
    written = broker.files.load_timers()
    taken = min(written.master_timer_queue_offset, end)
    return TimerState(written.last_read_time, first, taken_before=taken)
