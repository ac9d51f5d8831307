"""Run: many messages, each alone and for a queue of its own, in one loop.

What comes of it is what `log.append_message`, `record.Layout.encode` and `log.dispatch` make
of one message after the other, at a third of the price; the tests compare them byte by byte.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

from mqspec.core.log import (
    EMPTY,
    UNIT_LAYOUT,
    Dispatch,
    LogState,
    Span,
    Stored,
    TopicQueue,
    grow,
    has_unit,
)
from mqspec.core.publish import ENDED
from mqspec.core.record import (
    BLANK_BYTES_MIN,
    CRC_MASK,
    PROPERTIES_BYTES_MAX,
    Origin,
    Record,
    find_values,
    layout_of,
    origin_of,
    tags_code,
)
from mqspec.core.step import Change, Step
from mqspec.core.types import Topic

# Of a message in the body of a batch: flag, and length of the body that follows, behind which come
# two bytes of length and the properties (mqspec.wire.bodies.encode_batch).
_BATCH_HEAD = Struct(">12xii")


class Kind(NamedTuple):
    """What messages share that one producer sends to one topic."""

    origin: Origin
    pack_head: Callable[..., bytes]  # these five are the layout's
    pack_topic: Callable[..., bytes]
    overhead: int
    magic: int
    topic: bytes
    flag: int  # the user's; of a batch, each message has its own


def kind_of(message: Record) -> Kind:
    """That of a message."""
    layout = layout_of(message)
    return Kind(
        origin_of(message),
        layout.before_body.pack,
        layout.before_properties.pack,
        layout.overhead,
        layout.magic,
        layout.topic,
        message.flag,
    )


class Row(NamedTuple):
    """What a message, or a batch, has of its own."""

    kind: Kind
    queue: TopicQueue
    born_timestamp: int  # ms
    body: bytes
    properties: bytes  # as they are stored; of a batch: behind the own ones of each message


class StoredRun(NamedTuple):
    """Messages, each alone, that got their places: columns, in the order of the log."""

    queues: Sequence[TopicQueue]
    queue_offsets: Sequence[int]
    positions: Sequence[int]
    sizes: Sequence[int]
    properties: Sequence[bytes]
    store_timestamps: Sequence[int]  # ms

    @property
    def end(self) -> int:
        """The position behind the last one."""
        return self.positions[-1] + self.sizes[-1]


class AppendedRun(NamedTuple):
    """What is to be written, and where it all is."""

    encoded: bytes  # all records
    stored: StoredRun | Stored


def append_run(
    state: LogState,
    rows: Sequence[Row],
    segment_size: int,
    max_message_size: int,
    store_timestamp: int,
) -> Step:
    """Log!AppendMessage, once a message, in a broker without a transient store pool. The result
    is an AppendedRun; or None, and nothing is done, where they are to be put one by one: a limit
    of messages is broken, or the segment has no room for all."""
    position = state.commit_log.max
    before = state.topic_queue_table
    next_offsets: dict[TopicQueue, int] = {}
    queue_offsets: list[int] = []
    positions: list[int] = []
    sizes: list[int] = []
    pieces: list[bytes] = []
    crc32, last, born, packed = zlib.crc32, None, None, None
    for kind, queue, born_timestamp, body, own in rows:
        if kind is not last:
            last = kind
            origin, pack_head, pack_topic, overhead, magic, topic, flag = kind
        if born_timestamp != born or origin is not packed:  # many are born in the same ms
            born, packed = born_timestamp, origin
            shared = origin.pack(born, store_timestamp)
        body_bytes, own_bytes = len(body), len(own)
        if body_bytes > max_message_size or own_bytes > PROPERTIES_BYTES_MAX:
            return Step()
        queue_offset = next_offsets.get(queue)
        if queue_offset is None:
            queue_offset = before.get(queue, 0)
        next_offsets[queue] = queue_offset + 1
        size = overhead + body_bytes + own_bytes
        queue_offsets.append(queue_offset)
        positions.append(position)
        sizes.append(size)
        crc = crc32(body) & CRC_MASK
        head = pack_head(
            size, magic, crc, queue[1], flag, queue_offset, position, shared, body_bytes
        )
        pieces += head, body, pack_topic(topic, own_bytes), own
        position += size
    queues, properties = [row.queue for row in rows], [row.properties for row in rows]
    timestamps = [store_timestamp] * len(rows)
    stored = StoredRun(queues, queue_offsets, positions, sizes, properties, timestamps)
    return _appended(state, segment_size, AppendedRun(b"".join(pieces), stored), next_offsets)


def append_batch(
    state: LogState, row: Row, segment_size: int, max_message_size: int, store_timestamp: int
) -> Step:
    """The same for the messages in the body of one, for one queue. The result is None also where
    the body is not that of a batch."""
    kind, queue, born_timestamp, data, beside = row
    origin, pack_head, pack_topic, overhead, magic, topic, _ = kind
    shared, queue_id = origin.pack(born_timestamp, store_timestamp), queue[1]
    beside_bytes = len(beside)
    overhead += beside_bytes
    position = state.commit_log.max
    queue_offset = first = state.topic_queue_table.get(queue, 0)
    positions: list[int] = []
    sizes: list[int] = []
    properties: list[bytes] = []
    pieces: list[bytes] = []
    at, whole = 0, len(data)
    crc32, read_head, head_bytes = zlib.crc32, _BATCH_HEAD.unpack_from, _BATCH_HEAD.size
    if whole > max_message_size:
        return Step()
    try:
        while at < whole:
            flag, body_bytes = read_head(data, at)
            body_at = at + head_bytes
            body_end = body_at + body_bytes
            own_bytes = data[body_end] << 8 | data[body_end + 1]
            own_at = body_end + 2
            at = own_at + own_bytes
            body, own = data[body_at:body_end], data[own_at:at]
            if body_bytes < 0 or at > whole or own[-1:] not in ENDED:
                return Step()
            size = overhead + body_bytes + own_bytes
            positions.append(position)
            sizes.append(size)
            properties.append(own)
            crc = crc32(body) & CRC_MASK
            head = pack_head(
                size, magic, crc, queue_id, flag, queue_offset, position, shared, body_bytes
            )
            pieces += head, body, pack_topic(topic, own_bytes + beside_bytes), own, beside
            position += size
            queue_offset += 1
    except (struct.error, IndexError):  # it is torn, or properties are too long
        return Step()
    columns = positions, sizes, properties
    stored = Stored(queue, first, True, *columns, beside, store_timestamp, origin.sys_flag)
    run = AppendedRun(b"".join(pieces), stored)
    return _appended(state, segment_size, run, {queue: queue_offset})


def _appended(
    state: LogState, segment_size: int, run: AppendedRun, next_offsets: Mapping[TopicQueue, int]
) -> Step:
    begin, end = run.stored.positions[0], run.stored.end
    if begin % segment_size + (end - begin) + BLANK_BYTES_MIN > segment_size:
        return Step()
    changes = [
        Change("commit_log", None, Span(state.commit_log.min, end)),
        Change("committed_where", None, end),
    ]
    for queue, next_offset in next_offsets.items():
        changes.append(Change("topic_queue_table", queue, next_offset))
    return Step(tuple(changes), result=run)


def together(runs: Sequence[StoredRun]) -> StoredRun:
    """Runs that follow each other, as one."""
    if len(runs) == 1:
        return runs[0]
    return StoredRun(*map(list, map(itertools.chain.from_iterable, zip(*runs, strict=True))))


def dispatch_run(state: LogState, run: StoredRun, is_dead: Callable[[Topic, int], bool]) -> Step:
    """Log!Dispatch, once a message; `is_dead` says of a topic and a position whose message enters
    no queue any more. The result is by queue the units that become visible, as they are written,
    and before them the queue offset of the first one."""
    codes = map(tags_code, find_values(run.properties, b"", b"TAGS\x01"))
    units = map(UNIT_LAYOUT.pack, run.positions, run.sizes, codes)
    by_queue: dict[TopicQueue, list[Any]] = {}
    for queue, queue_offset, position, unit in zip(
        run.queues, run.queue_offsets, run.positions, units, strict=True
    ):
        mine = by_queue.get(queue)
        if mine is not None:
            mine.append(unit)
        elif not is_dead(queue[0], position):
            by_queue[queue] = [queue_offset, unit]
    changes = [Change("reput_from_offset", None, run.end)]
    spans = state.consume_queue
    found = {}
    for queue, (first, *of_queue) in by_queue.items():
        span, end = spans.get(queue, EMPTY), first + len(of_queue)
        if has_unit(span, first):  # only where it is done again
            del of_queue[: span.max - first]
            first = span.max
        if not of_queue:
            continue
        found[queue] = first, b"".join(of_queue)
        grown = grow(span, first, end)
        changes.append(Change("consume_queue", queue, grown))
    return Step(tuple(changes), result=found)


def visible(
    run: StoredRun, units: Mapping[TopicQueue, tuple[int, bytes]]
) -> Mapping[TopicQueue, Sequence[Dispatch]]:
    """The dispatches of those that `dispatch_run` gave the units of."""
    own = dict(zip(run.positions, run.properties, strict=True))
    found = {}
    for queue, (queue_offset, packed) in units.items():
        positions, sizes, codes = zip(*UNIT_LAYOUT.iter_unpack(packed), strict=True)
        properties = [own[position] for position in positions]
        dispatch = Dispatch(
            queue, queue_offset, True, positions, sizes, codes, properties=properties
        )
        found[queue] = (dispatch,)
    return found
