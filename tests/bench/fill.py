"""Stores to measure on, filled by the store's own `put` and closed cleanly."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from mqspec.core.log import PutStatus
from mqspec.core.record import Batch, Host, Record
from mqspec.core.types import Topic
from mqspec.service import clock_ms
from mqspec.store.message_store import MessageStore, StoreConfig

QUEUES: Final = 4  # of each topic
_HOST: Final = Host.parse("127.0.0.1", 10911)
_TOGETHER: Final = 32  # messages that are put at once


def topics(count: int) -> list[Topic]:
    """Their names."""
    return [f"Topic{i}" for i in range(count)]


def fill(root: Path, topic_count: int, messages: int, body_bytes: int) -> None:
    """Store so many messages, the queues of all topics in turn."""
    store = MessageStore(root, StoreConfig(), clock_ms)
    store.open()
    numbered = _messages(topic_count, body_bytes)
    queues = topic_count * QUEUES
    for begin in range(0, messages, queues * _TOGETHER):
        some = list(islice(numbered, min(queues * _TOGETHER, messages - begin)))
        for i in range(min(queues, len(some))):
            of_queue = some[i::queues]
            put = store.put_batch(Batch(of_queue[0], of_queue))
            assert put.status is PutStatus.PUT_OK
    store.close()


def _messages(topic_count: int, body_bytes: int) -> Iterator[Record]:
    queues = cycle((topic, i) for topic in topics(topic_count) for i in range(QUEUES))
    for number, (topic, queue_id) in enumerate(queues):
        yield Record(
            topic=topic,
            body=b"x" * body_bytes,
            properties=b"UNIQ_KEY\x01%032X\x02WAIT\x01true\x02TAGS\x01T\x02" % number,
            queue_id=queue_id,
            born_timestamp=clock_ms(),
            born_host=_HOST,
            store_host=_HOST,
        )
