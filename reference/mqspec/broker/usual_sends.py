"""Most sends are like the one before: from the same producer, to the same topic, of a message
that asks nothing of the broker. What they have in common is checked once, for the first of them;
what each has of its own is stored and answered in one loop, for all that were read together.

The same comes of it as of `sending`, which is what to read first: the tests compare answers and
files byte by byte. Whatever is not usual goes that way, and all that is sent to a broker that
writes a trace, flushes synchronously or has a transient store pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from mqspec.core.log import TopicQueue
from mqspec.core.publish import is_plain
from mqspec.core.record import (
    Record,
    find_property,
    layout_of,
    offset_message_id,
    offset_message_ids,
)
from mqspec.core.run import AppendedRun, Kind, Row
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand, answer_format

KINDS_MAX: Final = 4096  # that are remembered
KIND_CHARS_MAX: Final = 2048  # of the fields in common, of each
_TIME_DIGITS_MAX: Final = 18  # more need not fit into a Java long

# The fields that sends of a kind share: all that are looked at, but for the queue, the time and
# the properties. Some producer may leave one out, or have a field "l": it is not usual.
_fields_in_common = itemgetter(*"abcdfhjkm")


class _Usual(msgspec.Struct, frozen=True):
    """What is known of sends of a kind."""

    kind: Kind
    is_batch: bool
    stamp: str  # what the broker adds to the properties
    # By queue id, as text: the queue, and of the answer's header the format, with places for
    # transactionId, msgId, queueOffset and opaque.
    queues: dict[str, tuple[TopicQueue, str]]


class UsualSend(NamedTuple):
    """A send that may be stored."""

    connection: Connection
    request: RemotingCommand
    row: Row
    is_batch: bool
    unique_key: str
    answer: str  # of its header the format, with places for what the put gives


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
            key = connection.peer, *_fields_in_common(known)
        except KeyError:
            return
        constant = {name: fields[name] for name in ("MSG_REGION", "TRACE_ON", "queueId")}
        if (
            "l" in known
            or known["e"] != text
            or len("".join(key)) > KIND_CHARS_MAX
            or not "".join(constant.values()).isascii()
        ):
            return
        if len(self._usual) >= KINDS_MAX:
            self.forget()
        usual = self._usual.get(key)
        if usual is None:
            kind = Kind(replace(message, body=b"", properties=b""), layout_of(message))
            usual = self._usual[key] = _Usual(kind, known["m"].lower() == "true", stamp, {})
        marks = {"transactionId": "%s", "msgId": "%s", "queueOffset": "%d"}
        escaped = {name: value.replace("%", "%%") for name, value in constant.items()}
        format_ = answer_format(request.response(ext_fields={**escaped, **marks}))
        usual.queues[text] = (message.topic, message.queue_id), format_

    def read(self, connection: Connection, request: RemotingCommand) -> UsualSend | None:
        """A request as a usual send; None where it is none, or was not met yet."""
        fields, body = request.ext_fields, request.body
        try:
            usual = self._usual[connection.peer, *_fields_in_common(fields)]
            queue, answer = usual.queues[fields["e"]]
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
        return UsualSend(connection, request, row, usual.is_batch, unique_key, answer)


def answer_usual(sends: Sequence[UsualSend], run: AppendedRun) -> None:
    """Answer sends that are stored."""
    for send, (position, queue_offset) in zip(sends, run.places, strict=True):
        connection, request, row, is_batch, unique_key, answer = send
        if request.is_oneway:
            continue
        host = row.kind.message.store_host
        if is_batch:
            message_ids = offset_message_ids(host, run.stored.in_queue[row.queue].positions)
        else:
            message_ids = offset_message_id(host, position)
        header = answer % (unique_key, message_ids, queue_offset, request.opaque)
        connection.send_header(header.encode())
