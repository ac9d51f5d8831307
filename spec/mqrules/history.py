"""Histories: what happened in a run, an event a row, in Parquet or JSON lines.

A message is identified by the key that its producer gave it, never by its message id,
which is not guaranteed unique. The order of two events is known only within a process
(`seq`) and along `cause`; clocks of different processes are never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """What a process did."""

    SEND = "send"
    RECEIVE = "receive"
    ACK = "ack"
    COMMIT = "commit"
    QUERY_OFFSET = "query_offset"
    ASSIGN = "assign"
    REVOKE = "revoke"
    SUBSCRIBE = "subscribe"
    JOIN = "join"
    LEAVE = "leave"
    LOCK = "lock"
    UNLOCK = "unlock"
    CRASH = "crash"
    RESTART = "restart"


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
    seq: int  # position within `process`, from 0
    process: str  # who recorded it
    kind: EventKind
    outcome: Outcome
    time_ns: int  # the process's own monotonic-enough clock, ns since the epoch
    peer: str | None = None  # whom it talked to: a broker's name, a client id
    cause: str | None = None  # `process/seq` of the event that made this one happen
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
    value: int | None = None  # of commit and query_offset: the offset
