"""Timer: messages that are delivered at a time of their own, of which 5.x keeps a timer wheel.

A message that asks for a time is stored in the timer topic, with its real topic and queue kept
beside it. The wheel has a slot for each second, with the messages that are due in it; once the
second has passed they are copied to their real topics. So nothing comes early, and most comes
up to a second late (TIMER-002).

Apache 5.3.3 keeps its wheel in files of its own. Here it is in memory, and filled from the
timer topic at each start: all that has to be on disk is up to which second messages have been
delivered, and up to which offset of the timer queue they have been taken in. A broker that is
killed delivers again what it delivered since that was written.

A store goes both ways with messages that wait (TIMER-012, TIMER-013). Of Apache's files only
that progress is read: what it took in lies in the timer topic too. Apache has no wheel of ours:
it takes in from the first message on that waits, and so delivers again what was delivered
behind that one. And what it rolled, of a delay above two days, is in the topic once more for
each roll, and delivered as often here.

Facts: HookUtils.java, TimerMessageStore.java, TimerCheckpoint.java (5.3.3), and what 5.3.3
answered and stored.
"""

from __future__ import annotations

from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from mqspec.core.delay import REAL_QUEUE_ID, REAL_TOPIC, TIMER_PROPERTIES, delay_level
from mqspec.core.log import RETRY_TOPIC_PREFIX, PutStatus
from mqspec.core.metadata import BrokerConfig, MetadataState
from mqspec.core.record import Host, Record, decode_properties, encode_properties, mentions
from mqspec.core.response import Refusal, ResponseCode
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import BrokerName, Group, Topic

TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
PRECISION_MS: Final = 1000  # timerPrecisionMs: how long a slot is
DELIVER_INTERVAL_MS: Final = 100  # how often the wheel is looked at
FLUSH_INTERVAL_MS: Final = 1000  # timerFlushIntervalMs: of the second that was reached

DELAY_S, DELAY_MS, DELIVER_MS = TIMER_PROPERTIES
OUT_MS: Final = "TIMER_OUT_MS"  # the slot
DELETE_KEY: Final = "TIMER_DEL_UNIQKEY"  # the message that is not to be delivered
ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
_UNIQUE_KEY = "UNIQ_KEY"
_HANDLE_VERSION = "v1"
_RECALL = {"TAGS": "_RECALL_TAG_"}
_RECALL_BODY = b"0"
_MARK: Final = b"TIMER_D"  # in the names of all three properties that ask for a time


@dataclass(slots=True)
class TimerState:
    """The wheel; the messages are in the log. Slots are named by the time, ms, at which their
    second begins."""

    read_time: int = 0  # slots before it are delivered, but for those in the wheel
    queue_offset: int = 0  # messages of the timer queue before it are in the wheel
    wheel: dict[int, tuple[int, ...]] = field(default_factory=dict)  # slot: queue offsets
    next_slot: int = field(default=0, compare=False)  # a bound: no slot before it has a message


class Recall(NamedTuple):
    """A producer does not want a message any more that waits for its time."""

    topic: Topic
    recall_handle: str  # what `recall_handle` said when it was sent
    producer_group: Group
    born_host: Host
    store_host: Host


# Actions


def schedule_timer(config: BrokerConfig, message: Record, now_ms: int) -> Record | PutStatus:
    """A message that asks for a time to come goes to the timer topic, in the place of its own;
    one whose time is past is not delayed. A delay level counts more than a time.

    Of several properties the delay in seconds counts first, then the one in ms (TIMER-003).
    """
    if not mentions(message.properties, _MARK):
        return message  # most messages: their properties need not be read
    properties = decode_properties(message.properties)
    if OUT_MS in properties or delay_level(properties) > 0:
        return message
    try:
        deliver_at = _deliver_at(properties, now_ms)
    except ValueError:
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    if deliver_at is None:
        return message
    if not config.timer_wheel_enable:
        return PutStatus.WHEEL_TIMER_NOT_ENABLE
    if deliver_at <= now_ms:
        is_delete = DELETE_KEY in properties
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL if is_delete else message
    if deliver_at - now_ms > 1000 * config.timer_max_delay_sec:
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
    properties |= {
        OUT_MS: str(slot_of(deliver_at)),
        REAL_TOPIC: message.topic,
        REAL_QUEUE_ID: str(message.queue_id),
    }
    return structs.replace(message, topic=TIMER_TOPIC, queue_id=0, properties=_encoded(properties))


def recall_message(
    metadata: MetadataState, config: BrokerConfig, event: Recall, now_ms: int
) -> Record | Refusal:
    """What is stored to take a message out of its slot: one for the same slot that names it
    (TIMER-006). That the message is, and still waits, is not asked (TIMER-010)."""
    if not config.recall_message_enable:
        return Refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
    if event.topic not in metadata.topic_config_table:
        remark = f"recall failed, the topic[{event.topic}] not exist"
        return Refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
    words = _handle_words(event.recall_handle)
    if words is None:
        return Refusal(ResponseCode.ILLEGAL_OPERATION, "recall handle is invalid")
    topic, broker, time, key = words
    if topic != event.topic:
        return Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, topic not match")
    if broker != config.broker_name:
        remark = "recall failed, broker service not available"
        return Refusal(ResponseCode.ILLEGAL_OPERATION, remark)
    left_ms = int(time) - now_ms if time.isdecimal() else -1
    if not 0 < left_ms < 1000 * config.timer_max_delay_sec:
        return Refusal(ResponseCode.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
    properties = _RECALL | {
        DELETE_KEY: f"{topic}+{key}",
        _UNIQUE_KEY: key,
        DELIVER_MS: time,
        "BORN_TIMESTAMP": str(now_ms),
        "TRACE_CONTEXT": "",
        "PGROUP": event.producer_group,
    }
    return Record(
        topic=topic,
        body=_RECALL_BODY,
        properties=_encoded(properties),
        born_timestamp=now_ms,
        born_host=event.born_host,
        store_host=event.store_host,
    )


def recalled_key(recall_handle: str) -> str:
    """The UNIQ_KEY of the message that a good handle names."""
    words = _handle_words(recall_handle)
    assert words
    return words[-1]


def enqueue(state: TimerState, queue_offset: int, message: Record | None) -> Step:
    """A message of the timer queue enters the wheel; None: it is no more."""
    taken = Change("queue_offset", None, queue_offset + 1)
    out_ms = _out_ms(message)
    if out_ms is None:
        return Step((taken,))
    entered = Change("wheel", out_ms, (*state.wheel.get(out_ms, ()), queue_offset))
    return Step((taken, entered, Change("next_slot", None, min(state.next_slot, out_ms))))


def dequeue(state: TimerState, now_ms: int) -> Step:
    """The first slot, if its second has passed. The changes are applied when its messages have
    been delivered. Result: the queue offsets in it; None: nothing is due."""
    this_second = now_ms // PRECISION_MS * PRECISION_MS
    slot = _first_slot(state, this_second)
    if slot == this_second:
        turned = (
            Change("read_time", None, this_second),
            Change("next_slot", None, max(state.next_slot, this_second)),
        )
        return Step(turned if state.read_time < this_second else ())
    changes = (
        Change("wheel", slot, REMOVED),
        Change("read_time", None, max(state.read_time, slot + PRECISION_MS)),
        Change("next_slot", None, slot + PRECISION_MS),
    )
    return Step(changes, result=state.wheel[slot])


def recover(
    messages: Iterable[tuple[int, Record | None]], read_time: int, queue_offset: int
) -> TimerState:
    """The state after a restart, which has the progress of before: of the messages in the timer
    queue before `queue_offset`, those wait whose slots had not been reached; and all behind it,
    which no wheel had, however early they are due."""
    state = TimerState(read_time, queue_offset)
    for offset, message in messages:
        out_ms = _out_ms(message)
        if out_ms is None or (offset < queue_offset and out_ms < read_time):
            continue
        state.wheel[out_ms] = (*state.wheel.get(out_ms, ()), offset)
        state.queue_offset = max(state.queue_offset, offset + 1)
    state.next_slot = min(state.wheel, default=0)
    return state


# Queries


def slot_of(deliver_at: int) -> int:
    """The slot of a time, ms: the second that it lies in, or that ends with it."""
    return (deliver_at - 1) // PRECISION_MS * PRECISION_MS


def delivered_before(state: TimerState, stored_ms: int | None) -> int:
    """The slots before it are delivered, and no message comes into one of them: not one that is
    stored and not visible yet, the first of them at `stored_ms`. When that one is due was
    reckoned a moment before."""
    coming = [] if stored_ms is None else [slot_of(stored_ms) - PRECISION_MS]
    return min((*coming, _first_slot(state, state.read_time)))


def first_waiting(state: TimerState, since: int) -> int:
    """The first offset from `since` on whose message waits; the end of what was taken in where
    none does."""
    waiting = (offset for slot in state.wheel.values() for offset in slot if offset >= since)
    return min(waiting, default=state.queue_offset)


def delivered_copies(messages: Iterable[Record], now_ms: int) -> list[Record]:
    """What is put into the real topics of the messages of one slot. A message that names another
    one, as its topic, a plus and its UNIQ_KEY, takes that out of its slot, and is not delivered
    itself (TIMER-006)."""
    found = [(message, decode_properties(message.properties)) for message in messages]
    deleted = {properties[DELETE_KEY] for _, properties in found if DELETE_KEY in properties}
    return [
        _delivered(message, properties, now_ms)
        for message, properties in found
        if DELETE_KEY not in properties
        and REAL_TOPIC in properties
        and f"{properties[REAL_TOPIC]}+{properties.get(_UNIQUE_KEY)}" not in deleted
    ]


def recall_handle(broker: BrokerName, message: Record) -> str | None:
    """What the producer of a waiting message gets to name it by; None: it waits for no time.

    The time is that of the slot and one ms, so that it lies in it.
    """
    if message.topic != TIMER_TOPIC:
        return None
    properties = decode_properties(message.properties)
    topic = properties[REAL_TOPIC]
    if topic.startswith(RETRY_TOPIC_PREFIX):
        return None
    time = str(int(properties[OUT_MS]) + 1)
    words = (_HANDLE_VERSION, topic, broker, time, properties.get(_UNIQUE_KEY, ""))
    return urlsafe_b64encode(" ".join(words).encode()).decode()


def _handle_words(handle: str) -> tuple[str, str, str, str] | None:
    """Topic, broker name, time and UNIQ_KEY; None: it is no handle."""
    try:
        text = b64decode(handle + "=" * (-len(handle) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    version, *words = text.decode(errors="replace").split(" ")
    if version != _HANDLE_VERSION or len(words) < 4:
        return None
    topic, broker, time, key = words[:4]
    return topic, broker, time, key


def _deliver_at(properties: Mapping[str, str], now_ms: int) -> int | None:
    if DELAY_S in properties:
        return now_ms + 1000 * int(properties[DELAY_S])
    if DELAY_MS in properties:
        return now_ms + int(properties[DELAY_MS])
    return int(properties[DELIVER_MS]) if DELIVER_MS in properties else None


def _first_slot(state: TimerState, before: int) -> int:
    """The first slot with a message, of those before a second; that second where there is none.
    Slots are tried one by one, as few are: a wheel may have one for each second of three days."""
    slots = range(state.next_slot, before, PRECISION_MS)
    if len(slots) > len(state.wheel):
        return min((before, *state.wheel))
    return next((slot for slot in slots if slot in state.wheel), before)


def _out_ms(message: Record | None) -> int | None:
    text = decode_properties(message.properties).get(OUT_MS, "") if message else ""
    return int(text) // PRECISION_MS * PRECISION_MS if text.isdecimal() else None


def _delivered(message: Record, properties: dict[str, str], now_ms: int) -> Record:
    properties |= {ENQUEUE_MS: str(message.store_timestamp), DEQUEUE_MS: str(now_ms)}
    return structs.replace(
        message,
        topic=properties[REAL_TOPIC],
        queue_id=int(properties.get(REAL_QUEUE_ID, "0")),
        properties=_encoded(properties),
    )


def _encoded(properties: Mapping[str, str]) -> bytes:
    return encode_properties(properties).encode(errors="replace")
