"""Messages, as a producer gives them and as a consumer gets them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from mqspec.core.record import COMPRESSION_TYPE, Record, SysFlag, decode_properties
from mqspec.core.types import MessageQueue, Topic

TAGS, KEYS, UNIQ_KEY = "TAGS", "KEYS", "UNIQ_KEY"  # names of properties


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send."""

    topic: Topic
    body: bytes
    tags: str | None = None
    keys: str | None = None  # several are separated by spaces
    properties: Mapping[str, str] = field(default_factory=dict)

    def all_properties(self) -> dict[str, str]:
        """The properties with tags and keys among them."""
        named = {TAGS: self.tags, KEYS: self.keys}
        return {**self.properties, **{name: value for name, value in named.items() if value}}


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
        """The topic that it is stored under."""
        return self.record.topic

    @cached_property
    def body(self) -> bytes:
        """As it was sent. Raises ValueError for a compression other than zlib, which LZ4 and
        ZSTD are; the reference's own producer does not compress."""
        flags = self.record.sys_flag
        if not flags & SysFlag.COMPRESSED:
            return self.record.body
        if flags & COMPRESSION_TYPE not in (0, SysFlag.ZLIB):
            raise ValueError("a body compressed by LZ4 or ZSTD")
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
