"""Conversations: requests and clocks that take several steps, or read between them.

An action is one step. What takes more is a conversation: a generator that yields what is to be
done or read next, gets the answer, and in the end returns its result. So the order of the steps
is decided here, and whoever carries them out decides nothing: the shell, in one loop for all of
them, with files and sockets; a world of `mqcheck`, with the variables of a model; a test, with
a list. What is replayed is what runs.

What fails where it is carried out, or is cancelled while it waits, fails where it was yielded.

The states that a conversation is given are those that its steps change: after a `Carry` it sees
what was carried. What it yields, and what the answer to that is::

    step of a state     Carry           the step's result
    reads               ReadSpan        the Span of a queue's offsets
                        Get             the GetResult
                        OffsetByTime    an offset
                        Look            the Record, or None
                        Units           the Units of a queue
                        IsAllVisible    whether all that a queue holds can be read
                        Producers       the open channels of a producer group
                        Now             the time, ms
    writes              Put, Store,     the PutResult
                        Append
                        Persist         None, once the file is on disk
    waits               LogOnDisk       whether all that the log holds now is on disk
                        Flushed         the PutStatus of a put that waits for the disk
                        OthersTurn      None, once others had their turn
    holds and wakes     HoldPop         the PollingResult
                        NotifyPops      None
    asks a producer     CheckBack       None
    counts              NextReviveQueue a queue id
                        Count           None
    tells a trace       Note, Told      None
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from mqspec.core.group import SubscriptionData
from mqspec.core.pop_polling import PollingKey
from mqspec.core.record import Record
from mqspec.core.step import Change, Step
from mqspec.core.types import Group, Topic


class Ask(msgspec.Struct, frozen=True, gc=False):
    """What a conversation yields."""


class Carry(Ask, frozen=True, gc=False):
    """Apply a step to a state. Answer: the step's result."""

    state: Any
    step: Step
    event: object = None  # what the action was given, where the trace needs that


class ReadSpan(Ask, frozen=True, gc=False):
    """Answer: the Span of a queue, from its first message to behind its last."""

    topic: Topic
    queue_id: int


class Get(Ask, frozen=True, gc=False):
    """Read messages of a queue. Answer: the GetResult."""

    topic: Topic
    queue_id: int
    offset: int
    max_count: int
    wanted: SubscriptionData | None = None  # None: all


class OffsetByTime(Ask, frozen=True, gc=False):
    """Answer: the offset of a queue's first message that is not older, or of its end."""

    topic: Topic
    queue_id: int
    time_ms: int


class Look(Ask, frozen=True, gc=False):
    """Answer: the Record at a position of the log, None where there is none."""

    position: int  # bytes


class Units(Ask, frozen=True, gc=False):
    """Answer: the Units of a queue from an offset on, at most so many; none where there is
    nothing."""

    topic: Topic
    queue_id: int
    offset: int
    max_count: int


class IsAllVisible(Ask, frozen=True, gc=False):
    """Answer: whether all that was stored in a queue can be read."""

    topic: Topic
    queue_id: int


class Producers(Ask, frozen=True, gc=False):
    """Answer: the channels of a producer group that are open, a sequence."""

    group: Group


class Now(Ask, frozen=True, gc=False):
    """Answer: the time, ms."""


class Put(Ask, frozen=True, gc=False):
    """Store a message of a client, where it waits first if it asks for a delay. Answer: the
    PutResult."""

    message: Record


class Store(Ask, frozen=True, gc=False):
    """Store a message where it belongs, whatever it asks for. Answer: the PutResult."""

    message: Record


class Append(Ask, frozen=True, gc=False):
    """Store a message that is the broker's own, and no part of its topic's traffic. Answer: the
    PutResult."""

    message: Record


class Persist(Ask, frozen=True, gc=False):
    """Write a state to its file. Answer: None, once it is on disk."""

    state: Any


class LogOnDisk(Ask, frozen=True, gc=False):
    """Flush the log. Answer: whether all that it held then is on disk."""


class Flushed(Ask, frozen=True, gc=False):
    """Wait for a put. Answer: the PutStatus, once the log is on disk up to its end, or could not
    be written."""

    end: int  # bytes


class OthersTurn(Ask, frozen=True, gc=False):
    """Let requests be served before there is more: what takes long is done in parts. Answer:
    None."""


class HoldPop(Ask, frozen=True, gc=False):
    """Hold a request that waits for messages to pop. Answer: the PollingResult."""

    kind: Literal["pops", "notifications"]
    token: Hashable  # the shell's name for the request
    key: PollingKey
    born_time: int  # ms
    poll_time: int  # ms
    wanted: SubscriptionData | None


class NotifyPops(Ask, frozen=True, gc=False):
    """There may be something for a pop that is held. Answer: None."""

    key: PollingKey


class CheckBack(Ask, frozen=True, gc=False):
    """Ask a producer, which need not answer, what became of a half message. Answer: None."""

    channel: Hashable
    half: Record  # as the producer sees it, with its place in the half queue and in the log
    message_id: str


class NextReviveQueue(Ask, frozen=True, gc=False):
    """Answer: the queue of the revive topic for the checkpoints of one more pop."""


class Count(Ask, frozen=True, gc=False):
    """Count a request for the statistics, by what it is one of. Answer: None."""

    kind: Literal["got", "sent_back", "missed"]
    key: tuple[Topic, Group]
    messages: int
    size: int  # of their records, bytes


class Note(Ask, frozen=True, gc=False):
    """Write to the trace what a file, or the log, holds now. Answer: None."""

    module: str  # of TLA+
    step: Step
    event: object = None


class Told(Ask, frozen=True, gc=False):
    """Write to the trace what is about to be told of a variable. Answer: None."""

    module: str  # of TLA+
    variable: str
    key: Hashable | None
    value: object


T = TypeVar("T")
Conversation: TypeAlias = Generator[Ask, Any, T]


def note_whole(module: str, variable: str, value: object) -> Note:
    """To the trace: all of a variable."""
    return Note(module, Step((Change(variable, None, value),)))
