"""The strings in which POP tells where messages were popped from (ExtraInfoUtil.java, 5.3.3).

An answer names, by topic and queue, where each read began and which offsets it gave; the
client makes a receipt handle of that for every message, and shows it again to acknowledge the
message or to change its invisible time:

    ckQueueOffset popTime invisibleTime reviveQid topicFlag brokerName queueId [msgQueueOffset]

In an answer, entries are joined by `;` and their fields by a blank: `topicFlag queueId
startOffset`, `topicFlag queueId offset,offset,...`, and, of an ordered pop, how often messages
were delivered before: `topicFlag qo<queueId>%<offset> count` of each message that was, and
`topicFlag queueId count` of the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mqspec.core.java import INT_BITS, LONG_BITS, java_number
from mqspec.core.log import RETRY_TOPIC_PREFIX
from mqspec.core.types import Group, Topic

NORMAL_TOPIC: Final = "0"
RETRY_TOPIC: Final = "1"
RETRY_TOPIC_V2: Final = "2"
ORDER_REVIVE_QUEUE: Final = 999  # the reviveQid of an ordered pop, which writes no checkpoint

_FIELDS_MIN: Final = 6  # up to the broker's name, the last that a broker needs


class ReceiptHandle(NamedTuple):
    """What a consumer shows for a message that it popped."""

    ck_queue_offset: int  # where the read began that gave it
    pop_time: int  # ms
    invisible_time: int  # ms
    revive_qid: int  # the queue of the revive topic that its checkpoint is in
    topic_flag: str
    broker_name: str
    queue_id: int
    queue_offset: int

    def __str__(self) -> str:
        return " ".join(map(str, self))


class OrderCount(NamedTuple):
    """How often messages of an ordered queue were delivered before."""

    by_offset: Mapping[int, int]  # of those that were
    least: int  # of all messages of the pop


class HandleError(ValueError):
    """A receipt handle lacks a field, or a number in it is none."""


def pop_retry_topic(topic: Topic, group: Group, v2: bool = False) -> Topic:
    """Where messages of a topic go that a group did not acknowledge in time.

    The name of version 1 is ambiguous where a topic or a group has a `_`. That of version 2 is
    not, but its `+` stands in no name that a client may create.
    """
    return f"{RETRY_TOPIC_PREFIX}{group}{'+' if v2 else '_'}{topic}"


def real_topic(topic: Topic, group: Group, topic_flag: str) -> Topic:
    """The topic that a batch acknowledgement means. Raises HandleError."""
    if topic_flag == NORMAL_TOPIC:
        return topic
    if topic_flag not in (RETRY_TOPIC, RETRY_TOPIC_V2):
        raise HandleError("getRetry fail, format is wrong")
    return pop_retry_topic(topic, group, topic_flag == RETRY_TOPIC_V2)


def normal_topic(topic: Topic, group: Group) -> Topic:
    """The topic whose messages a pop retry topic of the group holds; of any other: itself."""
    for v2 in (True, False):
        prefix = pop_retry_topic("", group, v2)
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return topic


def notified_topic(topic: Topic) -> Topic:
    """Whose waiting pops a message in this topic wakes: those of the topic that a pop retry topic
    of version 2 belongs to. Of version 1 nobody can tell which that is."""
    return topic.partition("+")[2] if topic_flag(topic) == RETRY_TOPIC_V2 else topic


def topic_flag(topic: Topic) -> str:
    """How answers and handles name the kind of a topic."""
    if not topic.startswith(RETRY_TOPIC_PREFIX):
        return NORMAL_TOPIC
    return RETRY_TOPIC_V2 if "+" in topic else RETRY_TOPIC


def parse_handle(extra_info: str | None) -> ReceiptHandle:
    """What a consumer shows. The queue and the offset need not be there: requests name them.

    Raises HandleError, with the words of 5.3.3.
    """
    if extra_info is None:
        raise HandleError("split extraInfo is null")
    parts = extra_info.split(" ")
    if len(parts) < _FIELDS_MIN:
        raise HandleError(f"getBrokerName fail, extraInfoStrs length {len(parts)}")
    try:
        ck_queue_offset, pop_time, invisible_time = (java_number(n, LONG_BITS) for n in parts[:3])
        revive_qid = java_number(parts[3], INT_BITS)
        return ReceiptHandle(
            ck_queue_offset,
            pop_time,
            invisible_time,
            revive_qid,
            parts[4],
            parts[5],
            int(parts[6]) if len(parts) > 6 else -1,
            int(parts[7]) if len(parts) > 7 else -1,
        )
    except ValueError as error:
        raise HandleError(f"NumberFormatException: {error}") from None


def start_offset_info(topic: Topic, queue_id: int, start_offset: int) -> str:
    """An entry of startOffsetInfo."""
    return f"{topic_flag(topic)} {queue_id} {start_offset}"


def msg_offset_info(topic: Topic, queue_id: int, offsets: Sequence[int]) -> str:
    """An entry of msgOffsetInfo."""
    return f"{topic_flag(topic)} {queue_id} {','.join(map(str, offsets))}"


def order_count_info(topic: Topic, queue_id: int, count: OrderCount) -> str:
    """The entries of orderCountInfo for one queue."""
    flag = topic_flag(topic)
    entries = [f"{flag} qo{queue_id}%{offset} {times}" for offset, times in count.by_offset.items()]
    return ";".join((*entries, f"{flag} {queue_id} {count.least}"))


def parse_start_offset_info(text: str) -> dict[tuple[str, int], int]:
    """Where each read began, by kind of topic and queue. Raises ValueError where that is not
    told, or told twice."""
    found: dict[tuple[str, int], int] = {}
    for entry in filter(None, text.split(";")):
        flag, queue_id, start_offset = entry.split(" ")
        if (flag, int(queue_id)) in found:
            raise ValueError(f"{entry!r:.40}: told twice")
        found[flag, int(queue_id)] = int(start_offset)
    return found


def parse_order_count_info(text: str) -> dict[tuple[str, str], int]:
    """How often messages were delivered before, by kind of topic and `qo<queueId>%<offset>`, or
    `queueId` for all others of the queue. Raises ValueError where an entry is none."""
    found: dict[tuple[str, str], int] = {}
    for entry in filter(None, text.split(";")):
        flag, place, count = entry.split(" ")
        found[flag, place] = int(count)
    return found
