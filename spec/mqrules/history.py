"""Histories: what happened in a run, an event a row, in Parquet or JSON lines.

Order. `process` is the recorder, and `seq` the order in which it saw things: a recorder
that drives several clients writes all of them under one process, in one sequence, and
`client_id` says which client did it; of several clients of one id it has the rank of all
but the first behind it, as `ID #2`. Events of different processes are ordered only along
`cause`; clocks of different processes are never compared, and where order decides and
there is none, an audit says undecidable. A member is a pair (process, client_id): two
clients of one id are told apart by their recorders.

Identity. A message is identified by the key that its producer gave it, unique within the
run, never by its message id, which is not guaranteed unique. Without a key it is identified
by its place. A place is (topic, broker, queue_id, queue_offset, store_epoch) of the stored
record; of a redelivery it is that in the retry topic.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SECOND: Final = " #"  # in a client id, before the rank of another client of one id


class EventKind(StrEnum):
    """What a process did."""

    SEND = "send"  # each try `invoked`, then what came of all; once `ok`, with its place
    RECEIVE = "receive"  # handed to the consumer, in this order: group, client_id, place, attempt
    ACK = "ack"  # consumed (`ok`) or given back to be retried (`failed`): as receive
    COMMIT = "commit"  # value; `unknown` where one-way; of a tool that resets a group as well
    # value: from where the member reads on; None: no offset kept. With itself as its peer: a seek.
    QUERY_OFFSET = "query_offset"
    ASSIGN = "assign"  # the member starts to own a queue
    REVOKE = "revoke"  # the member has stopped owning it
    SUBSCRIBE = "subscribe"  # group, client_id, topic; tag: the expression
    JOIN = "join"
    LEAVE = "leave"
    PUBLISH = "publish"  # a producer commits its transaction: message_key; mostly `unknown`
    ROLLBACK = "rollback"  # or does not
    VIEW = "view"  # the member was told another list of its group: value ids, and in `tag` which
    LOCK = "lock"
    UNLOCK = "unlock"
    CRASH = "crash"  # of the client `client_id`; without one, of the broker `peer`
    RESTART = "restart"  # of either, likewise


class Outcome(StrEnum):
    """How an event ended. `unknown`: no answer, so it may have happened or not."""

    INVOKED = "invoked"
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row of a history. A field that does not apply is None."""

    run: str  # the run, unique
    seq: int  # position within the process, from 0
    process: str  # who recorded it: one sequence, whatever the number of its clients
    kind: EventKind
    outcome: Outcome
    time_ns: int  # the process's own monotonic-enough clock, ns since the epoch
    peer: str | None = None  # whom it talked to: a broker's name, a client id
    cause: str | None = None  # `process/seq` of an event of this run that made this one happen
    topic: str | None = None
    broker: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    store_epoch: int | None = None  # counts the lives of a queue's store: lost tails reuse offsets
    message_key: str | None = None
    message_id: str | None = None
    group: str | None = None
    client_id: str | None = None
    tag: str | None = None
    attempt: int | None = None  # 0 for the first delivery
    # Of commit and query_offset: the offset. Of a send and a receive: the delay of its level, ms.
    value: int | None = None
