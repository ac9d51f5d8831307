"""Most sends are like the one before: from the same producer, to the same topic, of a message
that asks nothing of the broker. What they have in common is checked once, for the first of them;
what each has of its own is stored and answered in one loop, for all that were read together.

The same comes of it as of `sending`, which is what to read first: the tests compare answers and
files byte by byte. Whatever is not usual goes that way, and all that is sent to a broker that
flushes synchronously or has a transient store pool.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec

from mqspec.core.log import Stored, TopicQueue
from mqspec.core.publish import is_plain
from mqspec.core.record import (
    Record,
    find_property,
    offset_message_id,
    offset_message_ids,
)
from mqspec.fast.run import Kind, Row, StoredRun, kind_of
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand, answer_format

KINDS_MAX: Final = 4096  # that are remembered
KIND_CHARS_MAX: Final = 2048  # of the fields in common, of each
_TIME_DIGITS_MAX: Final = 18  # more need not fit into a Java long

# The fields that sends of a kind share: all that are looked at, but for the queue, the time and
# the properties. Some producer may leave one out, or have a field "l": it is not usual.
_fields_in_common = itemgetter(*"abcdfhjkm")


class _Usual(msgspec.Struct, frozen=True, gc=False):
    """What is known of sends of a kind."""

    kind: Kind
    is_batch: bool
    stamp: str  # what the broker adds to the properties
    answer: str  # the format of the answer's header: see _answer_format
    queues: dict[str, TopicQueue]  # that were met, by id as text


class UsualSend(NamedTuple):
    """A send that may be stored."""

    connection: Connection
    request: RemotingCommand
    row: Row
    is_batch: bool
    unique_key: str
    answer: str  # see _answer_format


class UsualSends:
    """The kinds of sends that were accepted since topics, groups and options last changed."""

    def __init__(self) -> None:
        self._usual: dict[tuple[str, ...], _Usual] = {}

    def forget(self) -> None:
        """What was accepted may not be any more."""
        self._usual.clear()

    def learn(
        self,
        connection: Connection,
        request: RemotingCommand,
        message: Record,
        stamp: str,
        fields: Mapping[str, str],
    ) -> None:
        """A send was accepted, as `core.publish.is_usual` says with all of its kind: its message
        as it is stored, what was added to its properties, and the fields of the answer."""
        known = request.ext_fields
        text = str(message.queue_id)
        try:
            # Interned: of many topics' kinds all other fields are the same strings, in the caches.
            key = tuple(map(sys.intern, (connection.peer, *_fields_in_common(known))))
        except KeyError:
            return
        region_id, trace_on = fields["MSG_REGION"], fields["TRACE_ON"]
        if (
            "l" in known
            or known["e"] != text
            or len("".join(key)) > KIND_CHARS_MAX
            or not region_id.isascii()
        ):
            return
        if len(self._usual) >= KINDS_MAX:
            self.forget()
        usual = self._usual.get(key)
        if usual is None:
            is_batch = known["m"].lower() == "true"
            answer = _answer_format(region_id, trace_on)
            usual = self._usual[key] = _Usual(kind_of(message), is_batch, stamp, answer, {})
        usual.queues[text] = message.topic, message.queue_id

    def read(self, connection: Connection, request: RemotingCommand) -> UsualSend | None:
        """A request as a usual send; None where it is none, or was not met yet."""
        fields, body = request.ext_fields, request.body
        try:
            usual = self._usual[connection.peer, *_fields_in_common(fields)]
            queue = usual.queues[fields["e"]]
            properties, born = fields["i"], fields["g"]
        except KeyError:
            return None
        unique_key = find_property(properties, "UNIQ_KEY")
        if not (
            is_plain(properties)
            and unique_key.isalnum()
            and unique_key.isascii()
            and born.isdecimal()
            and len(born) <= _TIME_DIGITS_MAX
            and body
            and "l" not in fields
        ):
            return None
        own = (properties + usual.stamp).encode(errors="replace")
        row = Row(usual.kind, queue, int(born), body, own)
        return UsualSend(connection, request, row, usual.is_batch, unique_key, usual.answer)


@lru_cache
def _answer_format(region_id: str, trace_on: str) -> str:
    """Of the header, with places for queueId, transactionId, msgId, queueOffset and opaque."""
    fields = {
        "MSG_REGION": region_id.replace("%", "%%"),
        "TRACE_ON": trace_on,
        "queueId": "%d",
        "transactionId": "%s",
        "msgId": "%s",
        "queueOffset": "%d",
    }
    return answer_format(RemotingCommand(0).response(ext_fields=fields))


def answer_usual(sends: Sequence[UsualSend], stored: StoredRun | Stored) -> None:
    """Answer sends that are stored, a run of them or a batch."""
    host = sends[0].row.kind.origin.store_host
    if isinstance(stored, Stored):
        message_ids = [offset_message_ids(host, stored.positions)]
        offsets: Sequence[int] = (stored.queue_offset,)
    else:
        message_ids = [offset_message_id(host, position) for position in stored.positions]
        offsets = stored.queue_offsets
    for send, message_id, queue_offset in zip(sends, message_ids, offsets, strict=True):
        connection, request, row, _, unique_key, answer = send
        if not request.is_oneway:
            header = answer % (row.queue[1], unique_key, message_id, queue_offset, request.opaque)
            connection.send_header(header.encode())
