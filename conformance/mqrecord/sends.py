"""What producers send, and what comes of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mqrecord.messages import Known, known
from mqrecord.seen import Asked, Link, Rows, Seen, row
from mqrules import EventKind, Outcome
from mqspec.wire.bodies import decode_batch
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

CODES: Final = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)
_STORED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
    }
)
_SHORT: Final = {"topic": "b", "properties": "i", "batch": "m"}  # fields of 310 and 320


def messages(request: RemotingCommand) -> Iterator[Known]:
    """The messages of a send; none of another request. Raises KeyError or BodyError."""
    if request.code not in CODES:
        return
    if _field(request, "batch", "") == "true":
        yield from (known(one.properties) for one in decode_batch(request.body))
    else:
        yield known(_field(request, "properties", ""))


def send(seen: Seen, link: Link, asked: Asked, now_ms: float) -> Rows:
    """10, 310, 320: each try; where no answer is to come, that is all."""
    yield from sends(link, asked, Outcome.INVOKED)
    if asked.request.is_oneway:
        yield from sends(link, asked, Outcome.UNKNOWN)


def sent(seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float) -> Rows:
    """Likewise, answered: where it is stored. A half waits for the end of its transaction, and
    what is delayed is kept elsewhere until it is due."""
    if answer.code not in _STORED:
        yield from sends(link, asked, Outcome.FAILED)
        return
    queue_id = int(answer.ext_fields["queueId"])
    first = int(answer.ext_fields["queueOffset"])
    for at, of in enumerate(asked.messages):
        (one,) = sends(link, Asked(asked.request, (of,)), Outcome.OK)
        if of.is_half:
            one["outcome"] = Outcome.UNKNOWN.value
        elif not of.is_elsewhere:
            one |= {"queue_id": queue_id, "queue_offset": first + at}
        yield one


def sends(link: Link, asked: Asked, outcome: Outcome) -> Rows:
    """A row for each message of a send; nothing of another request."""
    for of in asked.messages:
        yield row(
            EventKind.SEND,
            outcome,
            topic=_field(asked.request, "topic", None),
            broker=link.broker,
            client_id=link.client.name,
            message_key=of.key,
            tag=of.tag,
        )


def _field(request: RemotingCommand, name: str, missing: str | None) -> str:
    """A field of a send, whose name is short in the newer requests."""
    written = name if request.code == RequestCode.SEND_MESSAGE else _SHORT[name]
    if missing is None:
        return request.ext_fields[written]
    return request.ext_fields.get(written, missing)
