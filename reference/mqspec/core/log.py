"""Log: messages appended to one CommitLog, dispatched to a ConsumeQueue for each queue.

The twin of Log.tla. The CommitLog is one long array of records, cut into segments that no
record crosses; a ConsumeQueue is the list of where its queue's records lie. A record gets
its queue offset when it is appended, and becomes visible to consumers when it is dispatched,
which is a step of its own.

Promised, and kept by Apache 5.3.3 while it runs: the records of a queue have consecutive
queue offsets (LOG-002), one ConsumeQueue unit each (LOG-003), and a put that fails takes no
offset (LOG-005). What a crash does to this is the matter of `recovery`.

The contents lie in files, which the shell in `mqspec.store` writes; the state here holds
their ends. Positions are in bytes of the whole log, queue offsets in messages.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import msgspec

from mqspec.core.java import INT_BITS, java_number
from mqspec.core.record import (
    BLANK_BYTES_MIN,
    PROPERTIES_BYTES_MAX,
    V1_TOPIC_BYTES_MAX,
    Batch,
    Record,
    SysFlag,
    find_values,
    tags_code,
)
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import Topic

TopicQueue: TypeAlias = tuple[Topic, int]  # a topic and a queue id: one queue of this broker

UNIT_LAYOUT: Final = Struct(">qiq")  # of a ConsumeQueue unit
UNIT_BYTES: Final = UNIT_LAYOUT.size

RETRY_TOPIC_PREFIX = "%RETRY%"
RETRY_TOPIC_BYTES_MAX = 255
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_DELAY_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DELAY = re.compile(r"(\d+)([smhd])")

TRANSACTION_TYPE = int(SysFlag.ROLLBACK)  # the two bits
_INNER_BATCH = int(SysFlag.INNER_BATCH)
_NOT_INDEXED = (int(SysFlag.PREPARED), int(SysFlag.ROLLBACK))


@dataclass(frozen=True, slots=True)
class Limits:
    """How much at once, with the names and defaults of MessageStoreConfig.java (5.3.3)."""

    max_message_size: int = 4 * 1024 * 1024  # of a body, bytes
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024  # of one pull
    max_transfer_count_on_message_in_memory: int = 32  # messages of one pull
    max_filter_message_size: int = 16_000  # bytes of a ConsumeQueue that one pull scans, at least
    max_msgs_num_batch: int = 64  # messages that are found by a key
    default_query_max_num: int = 32  # messages that are looked for by a unique key


class PutStatus(StrEnum):
    """How a put ended (PutMessageStatus.java, 5.3.3). The message is stored where it is
    PUT_OK or FLUSH_DISK_TIMEOUT."""

    PUT_OK = "PUT_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    SERVICE_NOT_AVAILABLE = "SERVICE_NOT_AVAILABLE"
    CREATE_MAPPED_FILE_FAILED = "CREATE_MAPPED_FILE_FAILED"
    MESSAGE_ILLEGAL = "MESSAGE_ILLEGAL"
    PROPERTIES_SIZE_EXCEEDED = "PROPERTIES_SIZE_EXCEEDED"
    WHEEL_TIMER_MSG_ILLEGAL = "WHEEL_TIMER_MSG_ILLEGAL"
    WHEEL_TIMER_NOT_ENABLE = "WHEEL_TIMER_NOT_ENABLE"


class GetMessageStatus(StrEnum):
    """How a read of a queue ended (GetMessageStatus.java, 5.3.3)."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_RESET = "OFFSET_RESET"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


class Span(NamedTuple):
    """A half-open range: `min` is the first in it, `max` the first after it."""

    min: int
    max: int


EMPTY = Span(0, 0)


class PutResult(msgspec.Struct, frozen=True, gc=False):
    """Where a message, or a batch, is stored. Its consumers will see it where the status is
    PUT_OK or FLUSH_DISK_TIMEOUT."""

    status: PutStatus
    queue_offset: int = -1  # of the first message
    end: int = 0  # position behind the last message
    message_ids: str = ""  # the offset message ids, with commas between them
    store_timestamp: int = 0  # ms
    wrote_bytes: int = 0  # of the records


class GetResult(NamedTuple):
    """What a read of a queue found."""

    status: GetMessageStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    records: tuple[bytes, ...] = ()  # as they lie in the log


class Unit(NamedTuple):
    """One entry of a ConsumeQueue: where a record lies, and what tag filters see of it."""

    position: int
    size: int
    tags_code: int


@dataclass(slots=True)
class LogState:
    """Where everything ends. The shell applies the changes that the actions return."""

    commit_log: Span = EMPTY  # positions that hold records, written or about to be
    committed_where: int = 0  # position: everything before it is in the files, for all to read
    flushed_where: int = 0  # position: everything before it survives a crash
    reput_from_offset: int = 0  # position: everything before it is dispatched
    topic_queue_table: dict[TopicQueue, int] = field(default_factory=dict)  # next queue offset
    consume_queue: dict[TopicQueue, Span] = field(default_factory=dict)  # queue offsets


class Put(msgspec.Struct, frozen=True, gc=False):
    """A message, or a batch, for one queue."""

    queue: TopicQueue
    size: int  # of the encoded records, bytes
    count: int = 1  # of them
    indexed: bool = True  # False: a prepared or rollback record, which enters no ConsumeQueue


class Append(msgspec.Struct, frozen=True):
    """Puts reach the broker, together."""

    puts: Sequence[Put]
    segment_size: int
    transient_store_pool: bool = False


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The place that a put got: of a batch, that of its first record."""

    position: int
    queue_offset: int
    blank: Span | None = None  # the end of the segment before, where it was closed


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A message, or a batch, that got its place."""

    queue: TopicQueue
    queue_offset: int  # of the first one
    indexed: bool
    positions: Sequence[int]  # of each record
    sizes: Sequence[int]  # of each, bytes
    properties: Sequence[bytes]  # of each its own
    beside: bytes  # what is stored behind them
    store_timestamp: int  # ms
    sys_flag: int

    @property
    def end(self) -> int:
        """The position behind the last one."""
        return self.positions[-1] + self.sizes[-1]

    def dispatch(self, delay_levels: Sequence[int]) -> Dispatch:
        """What its dispatcher sees."""
        at, own, beside = self.store_timestamp, self.properties, self.beside
        codes = unit_tags_codes(self.queue[0], own, beside, at, delay_levels)
        columns = self.positions, self.sizes, codes
        return Dispatch(
            self.queue, self.queue_offset, self.indexed, *columns, at, self.sys_flag, own, beside
        )


class Dispatch(msgspec.Struct, frozen=True, gc=False):
    """Records of a queue that follow each other there, as the dispatcher sees them."""

    queue: TopicQueue
    queue_offset: int  # of the first one
    indexed: bool
    positions: Sequence[int]  # of each
    sizes: Sequence[int]  # of each, bytes
    tags_codes: Sequence[int]
    store_timestamp: int = 0  # ms
    sys_flag: int = 0
    # By which consumers filter, and the index finds: of each its own, and what is beside all.
    properties: Sequence[bytes] = ()
    beside: bytes = b""

    @property
    def unit(self) -> Unit:
        """The unit of the first one."""
        return Unit(self.positions[0], self.sizes[0], self.tags_codes[0])

    @property
    def next_offset(self) -> int:
        """The queue offset behind the last one."""
        return self.queue_offset + len(self.tags_codes)

    @property
    def end(self) -> int:
        """The position behind the last one."""
        return self.positions[-1] + self.sizes[-1]


def append_message(state: LogState, event: Append) -> Step:
    """Log!AppendMessage, once a record. A record never spans two segments, nor does a batch:
    where the room left would not hold it and a closing blank, the segment is closed and it
    starts the next one (LOG-004).

    The queue offset is taken only here, once all checks are passed, so that a failed put
    leaves no hole (LOG-005). The result is an Appended for each put, or None where no segment
    is big enough: Apache 5.3.3 answers that one as stored, and does not store it.
    """
    segment_size = event.segment_size
    places: list[Appended | None] = []
    next_offsets: dict[TopicQueue, int] = {}
    first, before = state.commit_log
    end = before
    for put in event.puts:
        with_blank = put.size + BLANK_BYTES_MIN
        if with_blank > segment_size:
            places.append(None)
            continue
        room = segment_size - end % segment_size
        blank = Span(end, end + room) if with_blank > room else None
        position = blank.max if blank else end
        queue, queue_offset = put.queue, 0
        if put.indexed:
            table = next_offsets if queue in next_offsets else state.topic_queue_table
            queue_offset = table.get(queue, 0)
            next_offsets[queue] = queue_offset + put.count
        places.append(Appended(position, queue_offset, blank))
        end = position + put.size
    if end == before:
        return Step(result=places)
    changes = [Change("commit_log", None, Span(first, end))]
    for queue, next_offset in next_offsets.items():
        changes.append(Change("topic_queue_table", queue, next_offset))
    if not event.transient_store_pool:
        changes.append(Change("committed_where", None, end))
    return Step(tuple(changes), result=places)


def commit(state: LogState) -> Step:
    """Log!Commit. With a transient store pool: what has been appended so far is written."""
    return Step((Change("committed_where", None, state.commit_log.max),))


def is_transient_store_pool_deficient(state: LogState, segment_size: int, pool_size: int) -> bool:
    """Whether all buffers of the pool are in use: one is for each segment that holds what is not
    committed, until that is, and for the segment at the end."""
    first, last = state.committed_where // segment_size, state.commit_log.max // segment_size
    return last - first + 1 >= pool_size


def flush(state: LogState, position: int) -> Step:
    """Log!Flush. What has been committed before a position is on disk."""
    return Step((Change("flushed_where", None, max(position, state.flushed_where)),))


def may_dispatch(state: LogState, end: int, sync_flush: bool) -> bool:
    """The guard of Log!Dispatch, of records up to the position `end`. With synchronous flush
    nothing is visible that a crash could still take away (LOG-007); with asynchronous flush it
    may be (LOG-008). What is in a transient store pool is not visible yet."""
    return end <= (state.flushed_where if sync_flush else state.committed_where)


def dispatch(state: LogState, events: Sequence[Dispatch]) -> Step:
    """Log!Dispatch, of the next records in the log, once a record. Its unit goes to its
    ConsumeQueue and makes it visible.

    The result is by queue those that become visible: they follow each other. The others enter
    no ConsumeQueue, or have their unit already (LOG-003). A queue whose next record is ahead of
    it begins anew there; 5.3.3 appends that record's unit at an offset that is not its own.
    """
    of_queue: dict[TopicQueue, list[Dispatch]] = {}
    for event in events:
        if event.indexed:
            of_queue.setdefault(event.queue, []).append(event)
    visible: dict[TopicQueue, list[Dispatch]] = {}
    changes = [Change("reput_from_offset", None, events[-1].end)]
    for queue, records in of_queue.items():
        span = state.consume_queue.get(queue, EMPTY)
        if has_unit(span, records[0].queue_offset):  # only where it is done again
            records = [each for each in records if not has_unit(span, each.queue_offset)]
        if records:
            grown = grow(span, records[0].queue_offset, records[-1].next_offset)
            changes.append(Change("consume_queue", queue, grown))
            visible[queue] = records
    return Step(tuple(changes), result=visible)


def grow(span: Span, begin: int, end: int) -> Span:
    """What a queue that holds `span` holds once the records with these queue offsets are there."""
    follows = span.min < span.max == begin
    return Span(span.min if follows else begin, end)


def units(dispatches: Iterable[Dispatch]) -> Iterator[tuple[int, int, int]]:
    """The fields of the unit of each record."""
    return itertools.chain.from_iterable(
        zip(each.positions, each.sizes, each.tags_codes, strict=True) for each in dispatches
    )


def pack_units(fields: Iterable[tuple[int, int, int]]) -> bytes:
    """Units as they lie in a ConsumeQueue."""
    return b"".join(itertools.starmap(UNIT_LAYOUT.pack, fields))


def arrivals(dispatches: Iterable[Dispatch]) -> Iterator[tuple[int, int, str]]:
    """What those who wait for a message are told of each that becomes visible: the queue offset
    behind it, its tags code and its properties."""
    for each in dispatches:
        max_offsets = itertools.count(each.queue_offset + 1)
        for max_offset, code, own in zip(
            max_offsets, each.tags_codes, each.properties, strict=False
        ):
            yield max_offset, code, (own + each.beside).decode(errors="replace")


def has_unit(span: Span, queue_offset: int) -> bool:
    """Whether a queue that holds `span` has the unit of a record already, or is past it."""
    return span.min < span.max and queue_offset < span.max


def check_messages(batch: Batch, max_message_size: int) -> int | PutStatus:
    """The bytes of their bodies and own properties, or which of the limits of messages they break,
    in the order in which 5.3.3 checks them (HookUtils.checkBeforePutMessage,
    MessageExtEncoder.encode)."""
    if not may_be_stored(batch.shared.topic, batch.shared.sys_flag):
        return PutStatus.MESSAGE_ILLEGAL
    own_bytes_max = PROPERTIES_BYTES_MAX - len(batch.beside)
    total = 0
    for message in batch.messages:
        body_bytes, own_bytes = len(message.body), len(message.properties)
        if own_bytes > own_bytes_max:
            return PutStatus.PROPERTIES_SIZE_EXCEEDED
        if body_bytes > max_message_size:
            return PutStatus.MESSAGE_ILLEGAL
        total += body_bytes + own_bytes
    return total


def may_be_stored(topic: Topic, sys_flag: int) -> bool:
    """Whether any message of a topic with a system flag may be."""
    # The flag is for queues of a kind that no topic has here.
    return _may_be_topic(topic) and not sys_flag & _INNER_BATCH


@lru_cache(maxsize=4096)
def _may_be_topic(topic: Topic) -> bool:
    is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
    return len(topic.encode()) <= (RETRY_TOPIC_BYTES_MAX if is_retry else V1_TOPIC_BYTES_MAX)


def is_indexed(sys_flag: int) -> bool:
    """Whether a record enters a ConsumeQueue: prepared and rollback ones do not."""
    return sys_flag & TRANSACTION_TYPE not in _NOT_INDEXED


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """The delays of level 1, 2 and so on, in ms, of messageDelayLevel, such as "1s 5s 10m".

    Raises ValueError.
    """
    found = [_DELAY.fullmatch(word) for word in text.split()]
    if not found or None in found:
        raise ValueError(f"{text!r:.60} is not a list of delays")
    return tuple(int(match[1]) * _DELAY_UNITS_MS[match[2]] for match in found if match)


DELAY_LEVELS_MS: Final = parse_delay_levels(DELAY_LEVELS)


def unit_tags_codes(
    topic: Topic,
    own: Sequence[bytes],
    beside: bytes,
    store_timestamp: int,
    delay_levels: Sequence[int] = DELAY_LEVELS_MS,
) -> list[int]:
    """What a ConsumeQueue keeps of the properties of each message of a batch: the hash of its
    tags, or, in the schedule topic, the time in ms at which it is due (CommitLog.java, 5.3.3)."""
    codes = list(map(tags_code, find_values(own, beside, b"TAGS\x01")))
    if topic == SCHEDULE_TOPIC:
        for number, text in enumerate(find_values(own, beside, b"DELAY\x01")):
            if (level := _level(text)) > 0:
                due_after = delay_levels[min(level, len(delay_levels)) - 1]
                codes[number] = store_timestamp + due_after
    return codes


def _level(text: bytes) -> int:
    # Whatever lies in the log is dispatched: where it is no number, as without a level.
    try:
        return java_number(text.decode(errors="replace"), INT_BITS)
    except ValueError:
        return 0


def queue_offsets(first: int, indexed: bool) -> Iterator[int]:
    """Those of a batch's records: without end, from the first one on. What enters no
    ConsumeQueue takes none."""
    return itertools.count(first, int(indexed))


def dispatch_of_record(record: Record, delay_levels: Sequence[int] = DELAY_LEVELS_MS) -> Dispatch:
    """The dispatch of a record as it lies in the log."""
    stored = Stored(
        (record.topic, record.queue_id),
        record.queue_offset,
        is_indexed(record.sys_flag),
        (record.physical_offset,),
        (record.size,),
        (record.properties,),
        b"",
        record.store_timestamp,
        record.sys_flag,
    )
    return stored.dispatch(delay_levels)


def check_offset(span: Span, offset: int) -> tuple[GetMessageStatus, int] | None:
    """What a read at `offset` answers before it looks at any message: the status and the
    next offset to ask for. None: there are messages at it.

    In the order of DefaultMessageStore.getMessage (5.3.3).
    """
    if span.max == 0:
        return GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
    if offset < span.min:
        return GetMessageStatus.OFFSET_TOO_SMALL, span.min
    if offset == span.max:
        return GetMessageStatus.OFFSET_OVERFLOW_ONE, offset
    if offset > span.max:
        return GetMessageStatus.OFFSET_OVERFLOW_BADLY, span.max
    return None


def is_batch_full(limits: Limits, max_count: int, count: int, total_bytes: int, size: int) -> bool:
    """Whether a pull that holds `count` messages of `total_bytes` takes no further one of
    `size` bytes. The first message is always taken, whatever its size."""
    return count > 0 and (
        count >= min(max_count, limits.max_transfer_count_on_message_in_memory)
        or total_bytes + size > limits.max_transfer_bytes_on_message_in_memory
    )


def delete_topic(state: LogState, topic: Topic) -> Step:
    """A topic is deleted: its queues are no more, and start at 0 if it comes again (ADMIN-003).
    Its records stay in the log. Result: the queues that it had."""
    queues = [queue for queue in state.topic_queue_table if queue[0] == topic]
    changes = (
        Change(variable, queue, REMOVED)
        for queue in queues
        for variable in ("topic_queue_table", "consume_queue")
    )
    return Step(tuple(changes), result=queues)
