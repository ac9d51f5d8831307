"""Delay: messages that wait on the broker before consumers see them, level by level.

The twin of Delay.tla. A message that asks for a level is stored in the schedule topic, in
the queue of that level, with its real topic and queue kept beside it. All messages of a level
wait equally long, so each queue is in the order in which its messages are due, and one offset
a queue says how far delivery has come. A delivery puts a copy into the real topic.

Promised, and kept by Apache 5.3.3: a message is delivered at least once (DELAY-003) and not
before its time (DELAY-002), the messages of a level in their order (DELAY-004). Not promised:
once only. The offsets are written each 10 s, and a broker that is killed in between delivers
again what it delivered since (DELAY-008).

Facts: HookUtils.java, ScheduleMessageService.java (5.3.3), and what 5.3.3 answered and stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from msgspec import structs

from mqspec.core.conversation import Conversation, LogOnDisk, Persist, Told, note_whole
from mqspec.core.java import INT_BITS, java_number
from mqspec.core.log import SCHEDULE_TOPIC, Span, is_indexed
from mqspec.core.record import Record, decode_properties, encode_properties, mentions
from mqspec.core.step import Change, Step

DELIVER_INTERVAL_MS: Final = 100  # how often each queue is looked at
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"

LEVEL: Final = "DELAY"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
TIMER_PROPERTIES: Final = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")

_LEVEL_NAME = f"{LEVEL}\x01".encode()


@dataclass(slots=True)
class DelayState:
    """How far the delivery of each level has come; the messages are in the log."""

    offset_table: dict[int, int] = field(default_factory=dict)
    """By level: the queue offset of the next message to deliver."""


class TimeUp(NamedTuple):
    """The next message of a level is looked at."""

    level: int
    offset: int  # where it is in the level's queue
    deliver_at: int  # ms: the tags code of its ConsumeQueue unit
    now_ms: int


def delay_level(properties: Mapping[str, str]) -> int:
    """The level that a message asks for, 0: none. Raises ValueError where it is no number."""
    return java_number(properties.get(LEVEL, "0"), INT_BITS)


def queue_of(level: int) -> int:
    """The queue of the schedule topic in which the messages of a level wait."""
    return level - 1


# Actions


def schedule_message(levels: Sequence[int], message: Record) -> Record:
    """Delay!ScheduleMessage. A message that asks for a level goes to the schedule topic, in the
    place of its own; one above the last level gets the last one (DELAY-001).

    A level makes the message's timer properties void; what enters no ConsumeQueue waits for
    nothing (DELAY-009). Raises ValueError where the level is no number.
    """
    if not mentions(message.properties, _LEVEL_NAME) or not is_indexed(message.sys_flag):
        return message  # most messages: their properties need not be read
    properties = decode_properties(message.properties)
    asked = delay_level(properties)
    level = min(asked, len(levels))
    if level <= 0:
        return message
    if asked > level:
        properties[LEVEL] = str(level)
    for name in TIMER_PROPERTIES:
        properties.pop(name, None)
    properties |= {
        REAL_TOPIC: message.topic,
        REAL_QUEUE_ID: str(message.queue_id),
    }
    return structs.replace(
        message,
        topic=SCHEDULE_TOPIC,
        queue_id=queue_of(level),
        properties=encode_properties(properties).encode(errors="replace"),
    )


def deliver(state: DelayState, event: TimeUp, delay_ms: int) -> Step:
    """Delay!Deliver. The next message of a level is put into its real topic once its time has
    come. The change is applied when that put succeeded, so that a failed one is tried again.

    Result: whether it is due. A time further away than the level's delay is not believed: the
    clock went back, or the level was shortened, and the message is delivered now.
    """
    due = event.deliver_at <= event.now_ms or event.deliver_at > event.now_ms + delay_ms
    if not due:
        return Step(result=False)
    change = Change("offset_table", event.level, event.offset + 1)
    return Step((change,), result=True)


def delivered_copy(message: Record) -> Record | None:
    """The message that a delivery puts into the real topic; None: there is nowhere to put it.

    The properties stay as they are, DELAY and the real topic's name too (DELAY-006). A half
    message that lies in the schedule topic, as those of Apache 5.3.3 may, is dropped.
    """
    properties = decode_properties(message.properties)
    topic, queue_id = properties.get(REAL_TOPIC), properties.get(REAL_QUEUE_ID, "")
    if topic is None or topic == HALF_TOPIC or not queue_id.isdecimal():
        return None
    return structs.replace(message, topic=topic, queue_id=int(queue_id))


def next_offset(state: DelayState, level: int, queue: Span) -> int:
    """Where the delivery of a level goes on, within what its queue holds."""
    return max(queue.min, min(state.offset_table.get(level, 0), queue.max))


# The file


def load(content: Mapping[str, Any]) -> DelayState:
    """Delay!Load. A broker that was killed knows no more than what delayOffset.json holds.

    Raises ValueError where that is not what a broker writes.
    """
    table = content.get("offsetTable", {})
    if not isinstance(table, Mapping):
        raise ValueError("offsetTable is not an object")
    offsets: dict[int, int] = {}
    for level, offset in table.items():
        if not isinstance(offset, int) or isinstance(offset, bool):
            raise ValueError(f"the offset of level {level!r:.20} is not an integer")
        offsets[int(level)] = offset
    return DelayState(offsets)


def persist(state: DelayState) -> dict[str, Any]:
    """Delay!Persist. What delayOffset.json holds, beside its dataVersion."""
    return {"offsetTable": dict(state.offset_table)}


def persist_progress(state: DelayState) -> Conversation[None]:
    """Every 10 s the file is written. It holds what was delivered when this began, and is not
    written before those messages are on disk: or a crash of the machine could take a message that
    the file calls delivered."""
    delivered = DelayState(dict(state.offset_table))
    yield Told("Delay", "offset_table", None, delivered.offset_table)

    if (yield LogOnDisk()):
        yield Persist(delivered)
        yield note_whole("Delay", "disk", delivered.offset_table)
