"""Messages on their way into the store: where they wait first, and when their put is answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mqspec.core import delay, timer
from mqspec.core.log import PutResult, PutStatus
from mqspec.core.publish import PUT_CODES, waits_store_msg_ok
from mqspec.core.record import Record
from mqspec.service import clock_ms
from mqspec.wire.codec import RemotingCommand

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker


def put_message(broker: Broker, message: Record) -> PutResult:
    """Store a message; one that asks for a delay waits first. All messages that are not the
    broker's own come in here."""
    placed = schedule(broker, message, clock_ms())
    return PutResult(placed) if isinstance(placed, PutStatus) else put(broker, placed)


def put(broker: Broker, record: Record) -> PutResult:
    """Store a message where it belongs, and count it there (ADMIN-012)."""
    result = broker.store.put(record)
    if result.status in PUT_CODES:
        broker.stats.put[record.topic].add(1, result.wrote_bytes)
    return result


def schedule(broker: Broker, message: Record, now_ms: int) -> Record | PutStatus:
    """The message as it is stored: where it waits, if it asks for that; or why it is not."""
    timed = timer.schedule_timer(broker.config, message, now_ms)
    if isinstance(timed, PutStatus):
        return timed
    return delay.schedule_message(broker.store.delay_levels, timed)


def when_stored(
    broker: Broker,
    put: PutResult,
    answer: Callable[[PutStatus], RemotingCommand],
    *properties: bytes,
) -> RemotingCommand | Awaitable[RemotingCommand]:
    """The answer to a put: at once, or when it is on disk, where the store flushes synchronously
    and the message's properties do not say that its producer does not wait."""
    is_late = broker.store.config.sync_flush and put.status is PutStatus.PUT_OK
    if is_late and waits_store_msg_ok(b"".join(properties)):
        return _answer_flushed(broker, put.end, answer)
    return answer(put.status)


async def is_log_on_disk(broker: Broker) -> bool:
    """Whether all that the log holds now is on disk, once it was waited for."""
    broker.store.commit_commit_log()
    end = broker.store.unflushed.max
    return await broker.group_commit.flushed(end) is PutStatus.PUT_OK


async def _answer_flushed(
    broker: Broker, position: int, answer: Callable[[PutStatus], RemotingCommand]
) -> RemotingCommand:
    return answer(await broker.group_commit.flushed(position))
