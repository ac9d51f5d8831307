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
from mqspec.wire.headers import SEND_V2_NAMES

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


def messages(request: RemotingCommand) -> Iterator[Known]:
    """The messages of a send; none of another request. Raises BodyError."""
    if request.code not in CODES:
        return
    if _field(request, "batch") == "true":
        yield from (known(one.properties) for one in decode_batch(request.body))
    else:
        yield known(_field(request, "properties"))


def send(seen: Seen, link: Link, asked: Asked, now_ms: float) -> Rows:
    """10, 310, 320: each try; where no answer is to come, that is all."""
    yield from sends(seen, link, asked, Outcome.INVOKED)
    if asked.request.is_oneway:
        yield from sends(seen, link, asked, Outcome.UNKNOWN)


def sent(seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float) -> Rows:
    """Likewise, answered: where it is stored. A half waits for the end of its transaction, and
    what is delayed is kept elsewhere until it is due."""
    if answer.code not in _STORED:
        yield from sends(seen, link, asked, Outcome.FAILED)
        return
    queue_id = int(answer.ext_fields["queueId"])
    first = int(answer.ext_fields["queueOffset"])
    rows = sends(seen, link, asked, Outcome.OK)
    for at, (one, of) in enumerate(zip(rows, asked.messages, strict=True)):
        if of.is_half:
            one["outcome"] = Outcome.UNKNOWN.value
        elif not of.is_elsewhere:
            one |= {"queue_id": queue_id, "queue_offset": first + at}
        yield one


def sends(seen: Seen, link: Link, asked: Asked, outcome: Outcome) -> Rows:
    """A row for each message of a send; nothing of another request."""
    for of in asked.messages:
        yield row(
            EventKind.SEND,
            outcome,
            topic=_field(asked.request, "topic"),
            broker=link.broker,
            client_id=link.client.name,
            message_key=of.key,
            tag=of.tag,
            value=seen.delay_ms(of.level),
        )


def _field(request: RemotingCommand, name: str) -> str:
    """A field of a send, whose name is short in the newer requests; empty where it is not there."""
    is_long = request.code == RequestCode.SEND_MESSAGE
    return request.ext_fields.get(name if is_long else SEND_V2_NAMES[name], "")
