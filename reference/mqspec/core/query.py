"""How it is answered who looks for messages by key, by position, or in a ConsumeQueue.

Facts: QueryMessageProcessor.java, AdminBrokerProcessor.queryConsumeQueue (5.3.3), and what 5.3.3
answered over the wire.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mqspec.core.log import Span
from mqspec.core.response import NOT_SET, Answer, ResponseCode
from mqspec.core.types import Topic


def by_key(records: Sequence[bytes], fields: Mapping[str, str]) -> Answer:
    """The answer to request 12, with how far the index is."""
    if records:
        return Answer(ext_fields=fields, body=b"".join(records))
    remark = "can not find message, maybe time range not correct"
    return Answer(ResponseCode.QUERY_NOT_FOUND, remark, fields)


def by_position(record: bytes | None, position: int) -> Answer:
    """The answer to request 33."""
    if record:
        return Answer(body=record)
    remark = f"can not find message by the offset, {position}"
    return Answer(ResponseCode.SYSTEM_ERROR, remark)


def check_consume_queue(topic: Topic, queue_id: int, index: int, queue: Span) -> Answer | None:
    """The answer to request 321 where there is nothing to show."""
    if queue.max == 0:
        return Answer(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    if not queue.min <= index < queue.max:
        return Answer(remark=f"Index {index} of {queue_id}@{topic} is not exist!")
    return None


CONSUME_QUEUE_SHOWN: Final = Answer(remark=NOT_SET)
"""The answer to request 321, beside its body."""
