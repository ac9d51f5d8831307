"""What producers make of their transactions."""

from __future__ import annotations

from typing import Final

from mqrecord.seen import Asked, Link, Row, Rows, Seen, row
from mqrules import EventKind, Outcome
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import ResponseCode

# By `commitOrRollback`; of any other value nothing comes.
_KINDS: Final = {"8": EventKind.PUBLISH, "12": EventKind.ROLLBACK}


def end(seen: Seen, link: Link, asked: Asked, now_ms: float) -> Rows:
    """37: what becomes of a half; mostly nobody answers."""
    if asked.request.is_oneway:
        yield from _ended(link, asked, Outcome.UNKNOWN)


def ended(seen: Seen, link: Link, asked: Asked, answer: RemotingCommand, now_ms: float) -> Rows:
    """37, answered."""
    went = Outcome.OK if answer.code == ResponseCode.SUCCESS else Outcome.FAILED
    yield from _ended(link, asked, went)


def _ended(link: Link, asked: Asked, went: Outcome) -> Rows:
    """The message is named by its unique key, as its half is."""
    fields = asked.request.ext_fields
    kind = _KINDS.get(fields.get("commitOrRollback", ""))
    if kind and fields.get("msgId"):
        who: Row = {"client_id": link.client.name, "broker": link.broker}
        yield row(kind, went, topic=fields.get("topic"), message_key=fields["msgId"], **who)
