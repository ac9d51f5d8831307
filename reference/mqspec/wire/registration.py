"""The body of REGISTER_BROKER (103): all topics of a broker, plain or compressed.

Plain it is JSON: a RegisterBrokerBody, or, from a broker older than version 37, only the
TopicConfigSerializeWrapper that stands inside one. Compressed it is a zlib stream of items,
each after its length. (RegisterBrokerBody.java, 5.3.3)
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812, a class in all but its name
from typing import Any, Final, NamedTuple

from mqspec.core.metadata import DataVersion, TopicConfig
from mqspec.wire.bodies import BodyError, dumps, from_plain, loads, to_plain

BARE_WRAPPER_BELOW: Final = 37  # MQVersion.V3_0_11
COMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024  # of what a compressed body grows to

_I32 = Struct(">i")


class Registration(NamedTuple):
    """What a broker tells of its topics."""

    topics: tuple[TopicConfig, ...] = ()
    data_version: DataVersion = DataVersion()


def body_crc(body: bytes) -> int:
    """What the field bodyCrc32 holds, unless it is 0."""
    return zlib.crc32(body) & 0x7FFFFFFF


def encode_registration(topics: Iterable[TopicConfig], data_version: DataVersion) -> bytes:
    """The plain body."""
    table = {topic.topic_name: to_plain(topic) for topic in topics}
    wrapper = {"dataVersion": to_plain(data_version), "topicConfigTable": table}
    return dumps({"filterServerList": [], "topicConfigSerializeWrapper": wrapper})


def decode_registration(body: bytes, version: int, compressed: bool) -> Registration:
    """What a body says; of an empty one, nothing. Raises BodyError."""
    if not body:
        return Registration()
    if compressed:
        try:
            return _decode_compressed(body)
        except (zlib.error, StructError, IndexError, ValueError) as error:
            raise BodyError(f"not a compressed RegisterBrokerBody: {error}") from None

    data = loads(body)
    wrapper = data if version < BARE_WRAPPER_BELOW else _object(data, "topicConfigSerializeWrapper")
    table = _object(wrapper, "topicConfigTable")
    topics = tuple(from_plain(TopicConfig, {"topicName": name, **t}) for name, t in table.items())
    return Registration(topics, from_plain(DataVersion, _object(wrapper, "dataVersion")))


def _object(data: Any, key: str) -> Mapping[str, Any]:
    found = data.get(key) if isinstance(data, Mapping) else None
    if found in (None, "", []):  # null, for fastjson
        return {}
    if not isinstance(found, Mapping):
        raise BodyError(f"{key} is no object: {found!r:.40}")
    return found


def _decode_compressed(body: bytes) -> Registration:
    inflate = zlib.decompressobj()
    data = inflate.decompress(body, COMPRESSED_BYTES_MAX)
    if not inflate.eof:
        raise ValueError(f"it does not end within {COMPRESSED_BYTES_MAX} bytes")
    items = _Items(data)
    data_version = from_plain(DataVersion, loads(items.next()))
    topics = tuple(map(_decode_topic, (items.next() for _ in range(items.number()))))
    return Registration(topics, data_version)


def _decode_topic(line: bytes) -> TopicConfig:
    """`name readQueueNums writeQueueNums perm topicFilterType {attributes}`."""
    name, read, write, perm, filter_type, *attributes = line.decode().split(" ", 5)
    return TopicConfig(
        name,
        int(read),
        int(write),
        int(perm),
        filter_type,
        attributes=loads(attributes[0].encode()) if attributes else {},
    )


class _Items:
    """Reads numbers, and items that follow their length."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self) -> int:
        (value,) = _I32.unpack_from(self._data, self._at)
        self._at += _I32.size
        return int(value)

    def next(self) -> bytes:
        size = self.number()
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"an item of {size} bytes at {self._at}")
        self._at += size
        return self._data[self._at - size : self._at]
