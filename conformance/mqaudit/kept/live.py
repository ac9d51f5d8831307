"""A topic of a live broker: its queues, how far they go, and what they hold.

Whoever reads is nobody's member: it pulls for the group of Apache's own tools, commits nothing and
sends no heartbeat, so that no group sees it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from mqrules import UserError
from mqspec.client.instance import NOT_ANSWERED, BrokerError, ClientInstance
from mqspec.client.offset_store import ask_offset
from mqspec.client.pull import PullRequest, pull
from mqspec.core.pull import PullSysFlag
from mqspec.core.push_consumer import subscribe_queues
from mqspec.core.record import Record
from mqspec.core.subscription import ALL, build_subscription_data
from mqspec.core.types import MessageQueue
from mqspec.wire.codes import RequestCode

GROUP: Final = "TOOLS_CONSUMER"  # MixAll.TOOLS_CONSUMER_GROUP, 5.3.3
_PULLED: Final = 32  # messages at once: what a broker gives of what is in its memory
_BATCH_ROWS: Final = 4096

COLUMNS: Final[Mapping[str, pa.DataType]] = {
    "topic": pa.string(),
    "broker": pa.string(),
    "queue_id": pa.int64(),
    "queue_offset": pa.int64(),
    "physical_offset": pa.int64(),
    "sys_flag": pa.int64(),
    "born_timestamp_ms": pa.int64(),
    "store_timestamp_ms": pa.int64(),
    "reconsume_times": pa.int64(),
    "prepared_transaction_offset": pa.int64(),
    "store_host": pa.string(),
    "properties": pa.binary(),
    "body": pa.binary(),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Offsets [begin, end) of a queue."""

    topic: str
    broker: str
    queue_id: int
    begin: int
    end: int


def spans(nameserver: str, topics: Sequence[str]) -> list[Span]:
    """What the queues of topics hold now. Raises UserError where nobody answers, or no such
    topic is known."""
    return asyncio.run(_spans(nameserver, topics))


def batches(nameserver: str, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
    """The messages of some queues, each in the order of its offsets."""
    schema = pa.schema(list(COLUMNS.items()))
    for span in spans:
        begin = span.begin
        while begin < span.end:
            rows, begin = asyncio.run(_read(nameserver, span, begin))
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema)


async def _spans(nameserver: str, topics: Sequence[str]) -> list[Span]:
    found: list[Span] = []
    async with _reached(nameserver) as instance:
        for topic in topics:
            route = await instance.update_route(topic)
            if route is None:
                raise UserError(nameserver, f"knows no topic {topic!r}", "name one that it knows")
            for mq in subscribe_queues(topic, route):
                begin, end = [
                    await ask_offset(instance, code, mq, {})
                    for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
                ]
                found.append(Span(topic, mq.broker_name, mq.queue_id, begin, end))
    return found


async def _read(nameserver: str, span: Span, begin: int) -> tuple[list[dict[str, Any]], int]:
    """Messages from an offset on, some thousands at most, and where to go on."""
    mq = MessageQueue(span.topic, span.broker, span.queue_id)
    rows: list[dict[str, Any]] = []
    async with _reached(nameserver) as instance:
        await instance.update_route(span.topic)
        while begin < span.end and len(rows) < _BATCH_ROWS:
            request = PullRequest(
                GROUP,
                mq,
                build_subscription_data(span.topic, ALL),
                begin,
                min(_PULLED, span.end - begin),
                PullSysFlag.SUBSCRIPTION,
            )
            result = await pull(instance, request)
            records = [message.record for message in result.messages]
            rows += [_row(span, record) for record in records if record.queue_offset < span.end]
            # What is gone from the front since is passed; a queue that began again ends it.
            begin = result.next_begin_offset if result.next_begin_offset > begin else span.end
    return rows, begin


@asynccontextmanager
async def _reached(nameserver: str) -> AsyncIterator[ClientInstance]:
    instance = ClientInstance(nameserver)
    await instance.start()
    try:
        yield instance
    except (*NOT_ANSWERED, BrokerError) as error:
        raise UserError(nameserver, f"a broker does not answer: {error}") from None
    finally:
        await instance.close()


def _row(span: Span, record: Record) -> dict[str, Any]:
    return {
        "topic": span.topic,
        "broker": span.broker,
        "queue_id": span.queue_id,
        "queue_offset": record.queue_offset,
        "physical_offset": record.physical_offset,
        "sys_flag": int(record.sys_flag),
        "born_timestamp_ms": record.born_timestamp,
        "store_timestamp_ms": record.store_timestamp,
        "reconsume_times": record.reconsume_times,
        "prepared_transaction_offset": record.prepared_transaction_offset,
        "store_host": str(record.store_host),
        "properties": record.properties,
        "body": record.body,
    }
