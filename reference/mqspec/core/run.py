"""Run: many messages, each alone and for a queue of its own, in one loop.

What comes of it is what `log.append_message`, `record.Layout.encode` and `log.dispatch_of` make
of one message after the other, at a third of the price; the tests compare them byte by byte.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

import msgspec

from mqspec.core.log import Dispatch, LogState, Span, TopicQueue, unit_tags_codes
from mqspec.core.publish import ENDED
from mqspec.core.record import (
    BLANK_BYTES_MIN,
    CRC_MASK,
    PROPERTIES_BYTES_MAX,
    Layout,
    Record,
)
from mqspec.core.step import Change, Step

# Of a message in the body of a batch: flag, and length of the body that follows, behind which come
# two bytes of length and the properties (mqspec.wire.bodies.encode_batch).
_BATCH_HEAD = Struct(">12xii")


class Kind(msgspec.Struct, frozen=True, gc=False):
    """What messages share that one producer sends to one topic."""

    message: Record  # any of them
    layout: Layout


class Row(NamedTuple):
    """What a message, or a batch, has of its own."""

    kind: Kind
    queue: TopicQueue
    born_timestamp: int  # ms
    body: bytes
    properties: bytes  # as they are stored; of a batch: behind the own ones of each message


class Limits(NamedTuple):
    """Beyond which messages are not put in a run."""

    segment_size: int
    max_message_size: int  # of a body, bytes


class InQueue(NamedTuple):
    """The messages of one queue, which follow each other there: three columns."""

    queue_offset: int  # of the first one
    positions: list[int]
    sizes: list[int]
    properties: list[bytes]


class StoredRun(msgspec.Struct, frozen=True, gc=False):
    """A run that got its places."""

    end: int  # position behind the last one
    in_queue: Mapping[TopicQueue, InQueue]
    store_timestamp: int  # ms
    beside: bytes = b""  # what is stored behind the own properties of each

    def dispatches(self, delay_levels: Sequence[int]) -> Iterator[Dispatch]:
        """One for each queue."""
        at, beside = self.store_timestamp, self.beside
        for queue, (first, positions, sizes, own) in self.in_queue.items():
            codes = unit_tags_codes(queue[0], own, beside, at, delay_levels)
            yield Dispatch(queue, first, True, positions, sizes, codes, at, 0, own, beside)


class AppendedRun(NamedTuple):
    """What is to be written, and where everything is."""

    begin: int  # position
    encoded: bytes  # all records
    places: Sequence[tuple[int, int]]  # of each: its position and its queue offset
    stored: StoredRun


def append_run(state: LogState, rows: Sequence[Row], limits: Limits, store_timestamp: int) -> Step:
    """Log!AppendMessage, once a message, in a broker without a transient store pool. The result
    is an AppendedRun; or None, and nothing is done, where they are to be put one by one: a limit
    of messages is broken, or the segment has no room for all."""
    max_message_size = limits.max_message_size
    begin = state.commit_log.max
    position = begin
    next_offsets = state.topic_queue_table
    in_queue: dict[TopicQueue, InQueue] = {}
    places: list[tuple[int, int]] = []
    pieces: list[bytes] = []
    crc32, last, born = zlib.crc32, None, None
    for kind, queue, born_timestamp, body, own in rows:
        if kind is not last:
            last, born = kind, None
            message, layout = kind.message, kind.layout
            overhead, magic, topic = layout.overhead, layout.magic, layout.topic
            pack_head, pack_topic = layout.before_body.pack, layout.before_properties.pack
            flag = message.flag
        if born_timestamp != born:  # many are born in the same ms
            born = born_timestamp
            shared = layout.pack_shared(message, born, store_timestamp)
        body_bytes, own_bytes = len(body), len(own)
        if body_bytes > max_message_size or own_bytes > PROPERTIES_BYTES_MAX:
            return Step()
        mine = in_queue.get(queue)
        if mine is None:
            mine = in_queue[queue] = InQueue(next_offsets.get(queue, 0), [], [], [])
        queue_offset, positions, sizes, properties = mine
        queue_offset += len(positions)
        size = overhead + body_bytes + own_bytes
        positions.append(position)
        sizes.append(size)
        properties.append(own)
        places.append((position, queue_offset))
        crc = crc32(body) & CRC_MASK
        head = pack_head(
            size, magic, crc, queue[1], flag, queue_offset, position, shared, body_bytes
        )
        pieces += head, body, pack_topic(topic, own_bytes), own
        position += size
    stored = StoredRun(position, in_queue, store_timestamp)
    return _appended(state, limits, AppendedRun(begin, b"".join(pieces), places, stored))


def append_batch(state: LogState, row: Row, limits: Limits, store_timestamp: int) -> Step:
    """The same for the messages in the body of one, for one queue. The result is None also where
    the body is not that of a batch."""
    kind, queue, born_timestamp, data, beside = row
    message, layout = kind.message, kind.layout
    pack_head, pack_topic = layout.before_body.pack, layout.before_properties.pack
    magic, topic, queue_id = layout.magic, layout.topic, queue[1]
    shared = layout.pack_shared(message, born_timestamp, store_timestamp)
    beside_bytes = len(beside)
    overhead, own_bytes_max = layout.overhead + beside_bytes, PROPERTIES_BYTES_MAX - beside_bytes
    begin = position = state.commit_log.max
    queue_offset = first = state.topic_queue_table.get(queue, 0)
    mine = InQueue(first, [], [], [])
    _, positions, sizes, properties = mine
    pieces: list[bytes] = []
    at, whole = 0, len(data)
    crc32, read_head, head_bytes = zlib.crc32, _BATCH_HEAD.unpack_from, _BATCH_HEAD.size
    if whole > limits.max_message_size:
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
            if body_bytes < 0 or own_bytes > own_bytes_max or at > whole or own[-1:] not in ENDED:
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
    except (struct.error, IndexError):
        return Step()
    stored = StoredRun(position, {queue: mine}, store_timestamp, beside)
    return _appended(state, limits, AppendedRun(begin, b"".join(pieces), ((begin, first),), stored))


def _appended(state: LogState, limits: Limits, run: AppendedRun) -> Step:
    begin, end = run.begin, run.stored.end
    room = limits.segment_size - begin % limits.segment_size
    if end - begin + BLANK_BYTES_MIN > room:
        return Step()
    changes = [
        Change("commit_log", None, Span(state.commit_log.min, end)),
        Change("committed_where", None, end),
    ]
    for queue, mine in run.stored.in_queue.items():
        next_offset = mine.queue_offset + len(mine.positions)
        changes.append(Change("topic_queue_table", queue, next_offset))
    return Step(tuple(changes), result=run)
