"""CommitLog records, as a pull answers them and as they lie on disk."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

MAGIC = 0xDAA320A7  # of the format for topics of at most 127 bytes
MAGIC_V2 = 0xDAA320AB  # and of that for longer ones
_TOPIC_LENGTHS = {MAGIC: ">b", MAGIC_V2: ">h"}
_FIXED = struct.Struct(">iIiiiqqiq4siq4siiq")  # IPv4 hosts, up to preparedTransactionOffset

_STORE_PORT = struct.calcsize(">iIiiiqqiq4siq4s")  # its place in a record


@dataclass(frozen=True, slots=True)
class Record:
    """One message as stored (MessageExtEncoder.java, 5.3.3)."""

    size: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    born_timestamp: int
    store_host: bytes  # ip and port, as in a message id
    store_timestamp: int
    reconsume_times: int
    prepared_transaction_offset: int
    sys_flag: int
    body: bytes
    topic: str
    properties: Mapping[str, str]

    @property
    def message_id(self) -> str:
        """The offset message id: where it lies."""
        return (self.store_host + self.physical_offset.to_bytes(8, "big")).hex().upper()

    @property
    def key(self) -> str | None:
        return self.properties.get("KEYS")


def parse_records(data: bytes) -> list[Record]:
    """The records of a pull's body. Raises ValueError where they are none."""
    return list(_records(data))


def with_store_ports(data: bytes, ports: Mapping[int, int]) -> bytes:
    """The same records, as if they were stored at other ports of the same hosts."""
    changed, at = bytearray(data), 0
    while len(data) - at >= _FIXED.size:
        size: int = _FIXED.unpack_from(data, at)[0]
        port: int = struct.unpack_from(">i", data, at + _STORE_PORT)[0]
        struct.pack_into(">i", changed, at + _STORE_PORT, ports.get(port, port))
        at += max(size, _FIXED.size)
    return bytes(changed)


def _records(data: bytes) -> Iterator[Record]:
    at = 0
    while at < len(data):
        if len(data) - at < _FIXED.size:
            raise ValueError(f"a torn record at {at}")
        (size, magic, _crc, queue_id, flag, queue_offset, physical, sys_flag, born, _born_ip,
         _born_port, stored, store_ip, store_port, reconsumed, prepared) = _FIXED.unpack_from(
            data, at)  # fmt: skip
        if magic not in _TOPIC_LENGTHS:
            raise ValueError(f"no record at {at}: magic {magic:08x}")
        end = at + _FIXED.size
        body, end = _counted(data, end, ">i")
        topic, end = _counted(data, end, _TOPIC_LENGTHS[magic])
        properties, end = _counted(data, end, ">h")
        if end != at + size:
            raise ValueError(f"the record at {at} has {end - at} bytes and says {size}")
        yield Record(
            size=size,
            queue_id=queue_id,
            flag=flag,
            queue_offset=queue_offset,
            physical_offset=physical,
            born_timestamp=born,
            store_host=store_ip + struct.pack(">i", store_port),
            store_timestamp=stored,
            reconsume_times=reconsumed,
            prepared_transaction_offset=prepared,
            sys_flag=sys_flag,
            body=body,
            topic=topic.decode(),
            properties=dict(
                entry.split("\x01", 1) for entry in properties.decode().split("\x02") if entry
            ),
        )
        at = end


def _counted(data: bytes, at: int, form: str) -> tuple[bytes, int]:
    (size,) = struct.unpack_from(form, data, at)
    start = at + struct.calcsize(form)
    return data[start : start + size], start + size
