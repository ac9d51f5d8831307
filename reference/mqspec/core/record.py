"""The CommitLog record: the one layout of a message on disk and in the body of a pull.

All integers are big-endian (CommitLog.java, MessageExtEncoder.java, MessageDecoder.java,
5.3.3). A record is

    totalSize i32 · magic i32 · bodyCRC i32 · queueId i32 · flag i32 · queueOffset i64 ·
    physicalOffset i64 · sysFlag i32 · bornTimestamp i64 · bornHost (4 or 16) + port i32 ·
    storeTimestamp i64 · storeHost (4 or 16) + port i32 · reconsumeTimes i32 ·
    preparedTransactionOffset i64 · body (i32 + n) · topic (i8 or i16 + n) ·
    properties (i16 + n)

A segment of the log ends with a blank: `encode_blank`.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import lru_cache
from ipaddress import ip_address
from operator import mul
from struct import Struct
from typing import NamedTuple, TypeAlias

import msgspec

Buffer: TypeAlias = bytes | bytearray | memoryview


class Magic(IntEnum):
    """What kind of record it is, by the version of its topic's length field."""

    V1 = 0xDAA320A7
    V2 = 0xDAA320AB
    BLANK = 0xCBD43194


class SysFlag(IntFlag):
    """The bits of a message's system flag (MessageSysFlag.java, 5.3.3)."""

    COMPRESSED = 1 << 0
    MULTI_TAGS = 1 << 1
    PREPARED = 1 << 2
    COMMIT = 2 << 2
    ROLLBACK = 3 << 2
    BORN_HOST_V6 = 1 << 4
    STORE_HOST_V6 = 1 << 5
    NEED_UNWRAP = 1 << 6
    INNER_BATCH = 1 << 7
    LZ4 = 1 << 8
    ZSTD = 2 << 8
    ZLIB = 3 << 8


COMPRESSION_TYPE = 7 << 8  # the three bits that LZ4, ZSTD and ZLIB are values of

V1_TOPIC_BYTES_MAX = 127
TOPIC_BYTES_MAX = 0x7FFF
PROPERTIES_BYTES_MAX = 0x7FFF
BLANK_BYTES_MIN = 8  # a segment always keeps room for its closing blank
HEAD_BYTES = 8  # of a record or a blank: its size and its magic

# As plain integers: operators of enumerations cost more than the rest of a record.
_V1, _V2 = int(Magic.V1), int(Magic.V2)
_BORN_HOST_V6, _STORE_HOST_V6 = int(SysFlag.BORN_HOST_V6), int(SysFlag.STORE_HOST_V6)
_HOSTS_V6 = _BORN_HOST_V6 | _STORE_HOST_V6

_HEAD = Struct(">iIiiiqqiq")  # totalSize .. bornTimestamp
_PORT = _I32 = Struct(">i")
_I64 = Struct(">q")
_TAIL = Struct(">iqi")  # reconsumeTimes, preparedTransactionOffset, body length
_I16 = Struct(">h")
_OWN = "iIiiiqq"  # totalSize .. physicalOffset
# What messages of a batch share: sysFlag .. preparedTransactionOffset, and what the system flag
# says of the hosts, by the bytes of the address of either host.
_SHARED = {
    (born, store): (
        Struct(f">iq{born}siq{store}siiq"),
        _BORN_HOST_V6 * (born == 16) | _STORE_HOST_V6 * (store == 16),
    )
    for born in (4, 16)
    for store in (4, 16)
}
# Of that what makes an outline, by what the system flag says of the hosts.
_OUTLINES = tuple(
    Struct(f">iIii4xqqi8x{born}x4xq{store}x16xi") for store in (4, 16) for born in (4, 16)
)
_BLANK = Struct(">iI")
_QUEUE_OFFSET_AT = 20
CRC_MASK = 0x7FFFFFFF  # CRC-32 without its highest bit: Java's int is never negative

_FEW_UNITS = 12  # of a text: so few are hashed faster one by one
_POWERS_OF_31 = tuple(pow(31, n, 1 << 32) for n in range(256))

_new_tuple = tuple.__new__

_MESSAGE_ID = re.compile("[0-9A-Fa-f]{32}([0-9A-Fa-f]{24})?")

_NAME_VALUE = "\x01"
_PROPERTY = "\x02"
_PROPERTY_BYTE = 2


class Host(NamedTuple):
    """An IP address, as its 4 or 16 bytes, and a port."""

    address: bytes
    port: int

    @classmethod
    def parse(cls, address: str, port: int) -> Host:
        """From the address's text. Raises ValueError where it is not an IP address."""
        return cls(ip_address(address).packed, port)

    def __str__(self) -> str:
        return f"{ip_address(self.address)}:{self.port}"


NOWHERE = Host(bytes(4), 0)


class Record(msgspec.Struct, frozen=True, gc=False):
    """A message as it is stored. Offsets and the store timestamp may be given later."""

    topic: str
    body: bytes  # as stored: compressed where the system flag says so
    properties: bytes = b""  # as stored: see decode_properties
    queue_id: int = 0
    flag: int = 0  # the user's
    queue_offset: int = 0  # in messages
    physical_offset: int = 0  # in bytes, of the whole log
    sys_flag: int = 0  # the bits for IPv6 follow the hosts
    born_timestamp: int = 0  # ms
    born_host: Host = NOWHERE
    store_timestamp: int = 0  # ms
    store_host: Host = NOWHERE
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    size: int = 0  # in bytes, of a decoded record

    @property
    def message_id(self) -> str:
        """The offset message id: store host and physical offset, in upper-case hex.

        Not unique: a log that lost its tail uses the same offsets again.
        """
        return offset_message_id(self.store_host, self.physical_offset)


class BatchMessage(msgspec.Struct, frozen=True, gc=False):
    """What a message of a batch has of its own."""

    body: bytes
    properties: bytes = b""
    flag: int = 0


class Batch(msgspec.Struct, frozen=True, gc=False):
    """What is stored as one: a message, or several for one queue."""

    shared: Record  # the message, or what they have in common
    messages: Sequence[Record | BatchMessage]  # of a message: itself
    beside: bytes = b""  # what is stored behind the own properties of each


def alone(message: Record) -> Batch:
    """A message that is not of a batch."""
    return Batch(message, (message,))


class Outline(NamedTuple):
    """What tells whether a record in the log needs anything: its queue and its places."""

    topic: str
    queue_id: int
    queue_offset: int  # in messages
    physical_offset: int  # in bytes, of the whole log
    sys_flag: int
    store_timestamp: int  # ms
    size: int  # in bytes


@dataclass(frozen=True, slots=True)
class Blank:
    """The filler at the end of a segment; `size` bytes reach to the segment's end."""

    size: int


@dataclass(frozen=True, slots=True)
class Bad:
    """No record: the bytes are torn, damaged or something else."""

    why: str


class Origin(NamedTuple):
    """Where a message comes from, and what else its record has from sysFlag to
    preparedTransactionOffset, but for the times."""

    layout: struct.Struct
    sys_flag: int
    born_host: Host
    store_host: Host
    reconsume_times: int
    prepared_transaction_offset: int

    def pack(self, born_timestamp: int, store_timestamp: int) -> bytes:
        """The bytes of all that, with the times."""
        layout, sys_flag, born_host, store_host, *behind = self
        return layout.pack(
            sys_flag, born_timestamp, *born_host, store_timestamp, *store_host, *behind
        )


def origin_of(message: Record) -> Origin:
    """That of a message; of messages with the same one, the same object."""
    return _origin(
        message.sys_flag,
        message.born_host,
        message.store_host,
        message.reconsume_times,
        message.prepared_transaction_offset,
    )


@lru_cache(maxsize=4096)
def _origin(sys_flag: int, born_host: Host, store_host: Host, *behind: int) -> Origin:
    layout, hosts_v6 = _SHARED[len(born_host.address), len(store_host.address)]
    return Origin(layout, sys_flag & ~_HOSTS_V6 | hosts_v6, born_host, store_host, *behind)


class Layout(msgspec.Struct, frozen=True):
    """How the records of a topic lie in the log, from and at hosts with addresses of a length."""

    before_body: Struct  # what a record has of its own, what is shared, and the body's length
    magic: int
    topic: bytes  # with its length before it
    before_properties: Struct  # the topic, and the length of the properties
    overhead: int  # bytes of a record beside its body and its properties

    def size(self, batch: Batch, own_bytes: int) -> int:
        """The bytes of all its records, of which so many are bodies and own properties."""
        return own_bytes + (self.overhead + len(batch.beside)) * len(batch.messages)

    def encode(
        self,
        pieces: list[bytes],
        batch: Batch,
        position: int,
        queue_offsets: Iterable[int],
        store_timestamp: int,
    ) -> tuple[list[int], list[int]]:
        """Add the bytes of a batch's records, in pieces, with the place that it got. Result: the
        position and the size of each. Raises struct.error where properties are longer than the
        format holds."""
        message, beside = batch.shared, batch.beside
        magic, topic, queue_id = self.magic, self.topic, message.queue_id
        beside_bytes = len(beside)
        overhead = self.overhead + beside_bytes
        shared = origin_of(message).pack(message.born_timestamp, store_timestamp)
        pack_head, pack_topic, crc32 = (
            self.before_body.pack,
            self.before_properties.pack,
            zlib.crc32,
        )
        positions: list[int] = []
        sizes: list[int] = []
        for one, queue_offset in zip(batch.messages, queue_offsets, strict=False):
            body, own, flag = one.body, one.properties, one.flag
            body_bytes, own_bytes = len(body), len(own)
            size = overhead + body_bytes + own_bytes
            crc = crc32(body) & CRC_MASK
            head = pack_head(
                size, magic, crc, queue_id, flag, queue_offset, position, shared, body_bytes
            )
            pieces += head, body, pack_topic(topic, own_bytes + beside_bytes), own, beside
            positions.append(position)
            sizes.append(size)
            position += size

        return positions, sizes


def layout_of(message: Record) -> Layout:
    """That of a message, and of others of its topic and its hosts. Version 2 where the topic needs
    it. Raises ValueError where it is longer than the format holds."""
    return _layout(message.topic, len(message.born_host[0]), len(message.store_host[0]))


@lru_cache(maxsize=4096)
def _layout(topic: str, born_bytes: int, store_bytes: int) -> Layout:
    data = topic.encode()
    if len(data) > TOPIC_BYTES_MAX:
        raise ValueError(f"a topic of {len(data)} bytes, at most {TOPIC_BYTES_MAX}")
    is_v2 = len(data) > V1_TOPIC_BYTES_MAX
    field = (_I16.pack(len(data)) if is_v2 else bytes((len(data),))) + data
    shared, _ = _SHARED[born_bytes, store_bytes]
    before_body = _struct(f">{_OWN}{shared.size}si")
    before_properties = _struct(f">{len(field)}sh")
    overhead = before_body.size + before_properties.size
    magic = _V2 if is_v2 else _V1
    return Layout(before_body, magic, field, before_properties, overhead)


@lru_cache
def _struct(format_: str) -> Struct:
    return Struct(format_)


def encode_record(record: Record) -> bytes:
    """The record's bytes.

    Raises ValueError where the topic or the properties are longer than the format holds.
    """
    if len(record.properties) > PROPERTIES_BYTES_MAX:
        what = f"properties of {len(record.properties)} bytes"
        raise ValueError(f"{what}, at most {PROPERTIES_BYTES_MAX}")
    place = record.physical_offset, (record.queue_offset,), record.store_timestamp
    pieces: list[bytes] = []
    layout_of(record).encode(pieces, alone(record), *place)
    return b"".join(pieces)


def queue_offset_of(data: Buffer) -> int:
    """The queue offset, in messages, of a record as it lies in the log."""
    return int(_I64.unpack_from(data, _QUEUE_OFFSET_AT)[0])


def encode_blank(size: int) -> bytes:
    """The head of a blank that fills `size` bytes; the rest of them has no meaning."""
    return _BLANK.pack(size, Magic.BLANK)


def size_in(head: Buffer) -> int:
    """The size that a record gives itself in its first 8 bytes; 0 where they are no record's."""
    if len(head) < HEAD_BYTES:
        return 0
    size, magic = _BLANK.unpack_from(head)
    return int(size) if magic in (_V1, _V2) else 0


def decode_record(buffer: Buffer, at: int = 0, check_crc: bool = True) -> Record | Blank | Bad:
    """The record that starts at byte `at`; never raises, whatever the bytes are.

    As the real one, only a body that is not empty has its CRC checked.
    """
    left = len(buffer) - at
    if left < _BLANK.size:
        return Bad(f"{left} bytes left, a record has more")
    size, magic = _BLANK.unpack_from(buffer, at)
    if magic == Magic.BLANK:
        return Blank(size)
    if magic not in (Magic.V1, Magic.V2):
        return Bad(f"magic {magic:#010x}")
    if not _HEAD.size <= size <= left:
        return Bad(f"size {size}, {left} bytes left")
    try:
        return _decode(bytes(buffer[at : at + size]), magic == Magic.V1, check_crc)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        return Bad(f"a record of {size} bytes, torn inside: {error}")


def _decode(data: bytes, v1: bool, check_crc: bool) -> Record | Bad:
    (_, _, crc, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp) = (
        _HEAD.unpack_from(data)
    )
    born_host, at = _host(data, _HEAD.size, sys_flag & _BORN_HOST_V6)
    (store_timestamp,) = _I64.unpack_from(data, at)
    store_host, at = _host(data, at + _I64.size, sys_flag & _STORE_HOST_V6)
    reconsume_times, prepared_transaction_offset, body_bytes = _TAIL.unpack_from(data, at)
    at += _TAIL.size
    topic_at = at + body_bytes
    body = data[at:topic_at]
    if v1:
        topic_bytes = data[topic_at]
        at = topic_at + 1
    else:
        (topic_bytes,) = _I16.unpack_from(data, topic_at)
        at = topic_at + 2

    properties_at = at + topic_bytes
    topic = data[at:properties_at]
    (properties_bytes,) = _I16.unpack_from(data, properties_at)
    at = properties_at + 2
    if min(body_bytes, topic_bytes, properties_bytes) < 0 or (v1 and topic_bytes > 127):
        return Bad("a negative length")
    if at + properties_bytes != len(data):
        return Bad(f"size {len(data)}, the lengths inside add up to {at + properties_bytes}")
    if check_crc and body and body_crc(body) != crc:
        return Bad("the body's CRC does not match")
    return Record(
        topic=topic.decode(),
        body=body,
        properties=data[at:],
        queue_id=queue_id,
        flag=flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=sys_flag,
        born_timestamp=born_timestamp,
        born_host=born_host,
        store_timestamp=store_timestamp,
        store_host=store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
        size=len(data),
    )


def decode_outline(buffer: memoryview, at: int = 0) -> Outline | None:
    """The outline of the record that starts at byte `at`, its CRC checked; None where
    `decode_record` finds no record. A log is walked with this at several times its speed."""
    layout = _OUTLINES[0]
    try:
        found = layout.unpack_from(buffer, at)
        if v6 := (found[6] & _HOSTS_V6) >> 4:
            layout = _OUTLINES[v6]
            found = layout.unpack_from(buffer, at)
        (
            size,
            magic,
            crc,
            queue_id,
            queue_offset,
            physical_offset,
            sys_flag,
            store_timestamp,
            body_bytes,
        ) = found
        topic_at = at + layout.size + body_bytes
        if magic == _V1:
            topic_bytes = buffer[topic_at]
            topic_begin = topic_at + 1
        elif magic == _V2:
            (topic_bytes,) = _I16.unpack_from(buffer, topic_at)
            topic_begin = topic_at + 2
        else:
            return None
        topic_end = topic_begin + topic_bytes
        (properties_bytes,) = _I16.unpack_from(buffer, topic_end)
        topic = str(buffer[topic_begin:topic_end], "utf-8")
    except (struct.error, IndexError, UnicodeDecodeError):
        return None

    if (
        body_bytes < 0
        or topic_bytes < 0
        or properties_bytes < 0
        or (magic == _V1 and topic_bytes > V1_TOPIC_BYTES_MAX)
        or topic_end + 2 + properties_bytes != at + size
        or at + size > len(buffer)
        or (body_bytes and zlib.crc32(buffer[topic_at - body_bytes : topic_at]) & CRC_MASK != crc)
    ):
        return None

    # As Outline(...), at half its price: a tenth of the walk.
    return _new_tuple(
        Outline,
        (topic, queue_id, queue_offset, physical_offset, sys_flag, store_timestamp, size),
    )


def _host(data: bytes, at: int, v6: int) -> tuple[Host, int]:
    end = at + (16 if v6 else 4)
    (port,) = _PORT.unpack_from(data, end)
    return Host(data[at:end], port), end + _PORT.size


def body_crc(body: Buffer) -> int:
    """The CRC of a body, as a record holds it."""
    return zlib.crc32(body) & CRC_MASK


def offset_message_id(store_host: Host, physical_offset: int) -> str:
    """32 hex digits, or 56 where the store's host has an IPv6 address."""
    return f"{_host_part(store_host)}{physical_offset:016X}"


def offset_message_ids(store_host: Host, physical_offsets: Sequence[int]) -> str:
    """Those of several records, with commas between them."""
    if len(physical_offsets) == 1:  # as most often: half the price
        return offset_message_id(store_host, physical_offsets[0])
    host = _host_part(store_host)
    each = struct.pack(f">{len(physical_offsets)}q", *physical_offsets)
    return host + each.hex(",", _I64.size).upper().replace(",", f",{host}")


@lru_cache(maxsize=64)
def _host_part(store_host: Host) -> str:
    return (store_host.address + _PORT.pack(store_host.port)).hex().upper()


def position_of(message_id: str) -> int:
    """The physical offset that an offset message id holds. Raises ValueError where it is none."""
    if not _MESSAGE_ID.fullmatch(message_id):
        raise ValueError(f"{message_id!r:.80} is no message id")
    return int(message_id[-2 * _I64.size :], 16)


def encode_properties(properties: Mapping[str, str]) -> str:
    """Properties as one string: name, \\x01, value, \\x02 of each."""
    pairs = properties.items()
    return "".join(f"{name}{_NAME_VALUE}{value}{_PROPERTY}" for name, value in pairs)


def noted_properties(message: Record, properties: Mapping[str, str]) -> bytes:
    """Those of a copy of a message, in which something is noted; the message's own where a
    record has no room for that."""
    encoded = encode_properties(properties).encode(errors="replace")
    return encoded if len(encoded) <= PROPERTIES_BYTES_MAX else message.properties


def decode_properties(text: str | bytes) -> dict[str, str]:
    """Properties by name. An entry without a name or with an empty value is not readable."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    entries = [entry.partition(_NAME_VALUE) for entry in text.split(_PROPERTY)]
    return {name: value for name, _, value in entries if name and value}


def mentions(properties: bytes, word: bytes) -> bool:
    """Whether a word stands anywhere in properties: without it they need not be read."""
    # `in` takes four times as long: it takes the word for a number first, and that fails.
    return properties.find(word) >= 0


def find_property(text: str, name: str) -> str:
    """The value of one property, as `decode_properties` gives it, most often without reading the
    others; empty where it is not there."""
    before, found, behind = text.rpartition(f"{name}{_NAME_VALUE}")
    if not found:
        return ""
    value = behind.partition(_PROPERTY)[0]
    if value and (not before or before[-1] == _PROPERTY):
        return value
    return decode_properties(text).get(name, "")  # it may be of another name, or in a value


def find_values(own: Sequence[bytes], beside: bytes, name: bytes) -> list[bytes]:
    """The value of one property of each of several messages, as `decode_properties` gives it;
    empty where it is not there. Properties are those of each, and behind them what is `beside`
    all, as in a Batch; `name` is with its \\x01."""
    if beside and (shared := _last_value(beside, name)):
        return [shared] * len(own)
    values = []
    for properties in own:
        before, found, behind = properties.rpartition(name)
        if found:
            behind = behind.partition(b"\x02")[0]
            if not behind or (before and before[-1] != _PROPERTY_BYTE):
                behind = _last_value(properties, name)  # it may be of another name, or in a value
            values.append(behind)
        else:
            values.append(b"")

    return values


def _last_value(properties: bytes, name: bytes) -> bytes:
    entries = properties.split(b"\x02")
    values = [each[len(name) :] for each in entries if each.startswith(name)]
    return next(filter(None, reversed(values)), b"")


def string_hash(text: str, before: int = 0) -> int:
    """Java's String.hashCode: over UTF-16 code units, in 32 signed bits. `before` is the hash
    of what stands before the text, if anything does."""
    units: Sequence[int]
    if text.isascii():
        units = text.encode("ascii")
    else:
        data = text.encode("utf-16-be", "surrogatepass")
        units = struct.unpack(f">{len(data) // 2}H", data)

    code = before
    if len(units) <= _FEW_UNITS:
        for unit in units:
            code = code * 31 + unit
    else:
        for at in range(0, len(units), len(_POWERS_OF_31)):
            # A polynomial of some hundred units at a time: most of its work is done in C.
            block = units[at : at + len(_POWERS_OF_31)]
            code *= pow(31, len(block), 1 << 32)
            code += sum(map(mul, reversed(block), _POWERS_OF_31))

    code &= 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


@lru_cache(maxsize=1024)
def tags_code(tags: str | bytes) -> int:
    """What a ConsumeQueue keeps of a message's TAGS: their hash, 0 without tags."""
    text = tags.decode(errors="replace") if isinstance(tags, bytes) else tags
    return string_hash(text) if text else 0
