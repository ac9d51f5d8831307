"""Messages, as a producer gives them and as a consumer gets them."""

from __future__ import annotations

import importlib
import itertools
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from struct import Struct
from typing import Final

from msgspec import structs

from mqspec.core.record import COMPRESSION_TYPE, Record, SysFlag, decode_properties
from mqspec.core.types import MessageQueue, Topic

# Names of properties (MessageConst.java, 5.3.3).
TAGS, KEYS, UNIQ_KEY, WAIT = "TAGS", "KEYS", "UNIQ_KEY", "WAIT"
DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS = "DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TRAN_MSG, PGROUP, TRANSACTION_ID = "TRAN_MSG", "PGROUP", "__transactionId__"
RETRY_TOPIC, ORIGIN_MESSAGE_ID = "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"
RECONSUME_TIME, MAX_RECONSUME_TIMES = "RECONSUME_TIME", "MAX_RECONSUME_TIMES"

RETRY_TOPIC_PREFIX: Final = "%RETRY%"  # of the topic of a group's messages that come again

# Fields of a Message that travel as a property.
_PROPERTIES: Final = {
    "tags": TAGS,
    "keys": KEYS,
    "delay_level": DELAY,
    "delay_time_sec": TIMER_DELAY_SEC,
    "delay_time_ms": TIMER_DELAY_MS,
    "deliver_time_ms": TIMER_DELIVER_MS,
}

_UNIQUE_ID: Final = Struct(">4sH4sIH")
_SOME_ADDRESS, _SOME_LOADER = os.urandom(4), os.urandom(4)
_COUNTER: Final = itertools.count()

# Libraries that read what zlib does not, by the name that pyarrow has for it.
_CODECS: Final = {SysFlag.LZ4: "lz4", SysFlag.ZSTD: "zstd"}


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send. At most one of the delays says when it may be consumed."""

    topic: Topic
    body: bytes
    tags: str | None = None
    keys: str | None = None  # several are separated by spaces
    properties: Mapping[str, str] = field(default_factory=dict)
    flag: int = 0  # the user's
    delay_level: int | None = None  # 1 to 18: 1s 5s 10s 30s 1m .. 10m 20m 30m 1h 2h
    delay_time_sec: int | None = None
    delay_time_ms: int | None = None
    deliver_time_ms: int | None = None  # since the epoch
    wait_store_msg_ok: bool = True  # for the disk, where the broker flushes synchronously

    def all_properties(self) -> dict[str, str]:
        """The properties with those that are fields here among them."""
        named = {name: getattr(self, attribute) for attribute, name in _PROPERTIES.items()}
        given = {name: str(value) for name, value in named.items() if value not in (None, "")}
        return {**self.properties, **given, WAIT: str(self.wait_store_msg_ok).lower()}


@dataclass(frozen=True)
class MessageExt:
    """A message that was received, and where it is stored."""

    record: Record
    queue: MessageQueue

    @cached_property
    def properties(self) -> dict[str, str]:
        """By name."""
        return decode_properties(self.record.properties)

    @property
    def topic(self) -> Topic:
        """The topic that it was sent to: of a message that comes again, not the retry topic."""
        if self.record.topic.startswith(RETRY_TOPIC_PREFIX):
            return self.properties.get(RETRY_TOPIC, self.record.topic)
        return self.record.topic

    @cached_property
    def body(self) -> bytes:
        """As it was sent. Raises ValueError where it is compressed in a way that only a library
        reads, LZ4 or ZSTD, and there is no pyarrow."""
        flags = self.record.sys_flag
        if not flags & SysFlag.COMPRESSED:
            return self.record.body
        if (codec := _CODECS.get(SysFlag(flags & COMPRESSION_TYPE))) is not None:
            return _decompress(self.record.body, codec)
        return zlib.decompress(self.record.body)

    @property
    def tags(self) -> str | None:
        """Its tag: the whole property."""
        return self.properties.get(TAGS)

    @property
    def keys(self) -> str | None:
        """Its keys, separated by spaces."""
        return self.properties.get(KEYS)

    @property
    def message_id(self) -> str:
        """The one that its producer gave it, else that of its place; neither is unique."""
        return self.properties.get(UNIQ_KEY) or self.record.message_id

    @property
    def queue_offset(self) -> int:
        """Its place in the queue."""
        return self.record.queue_offset

    @property
    def reconsume_times(self) -> int:
        """How often it was sent back so far."""
        return self.record.reconsume_times

    def after_failure(self) -> MessageExt:
        """The message as it is consumed again by a consumer that could not send it back."""
        times = self.record.reconsume_times + 1
        return MessageExt(structs.replace(self.record, reconsume_times=times), self.queue)


def create_unique_id() -> str:
    """A new UNIQ_KEY: 32 hex digits, laid out as those of the real client, of which tools read when
    the message was sent (MessageClientIDSetter.java, 5.3.3). In place of an address there is what
    no other process has."""
    now = datetime.now()
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    span_ms = int((now.timestamp() - month.timestamp()) * 1000)
    pid, count = os.getpid() & 0xFFFF, next(_COUNTER) & 0xFFFF
    return _UNIQUE_ID.pack(_SOME_ADDRESS, pid, _SOME_LOADER, span_ms, count).hex().upper()


def _decompress(body: bytes, codec: str) -> bytes:
    try:
        arrow = importlib.import_module("pyarrow")
    except ModuleNotFoundError:
        raise ValueError(f"the body is compressed by {codec}: install pyarrow to read it") from None
    data: bytes = arrow.input_stream(arrow.py_buffer(body), compression=codec).read()
    return data
