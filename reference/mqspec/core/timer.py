"""Timer: messages that are delivered at a time of their own, of which 5.x keeps a timer wheel.

A message that asks for a time is stored in the timer topic, with its real topic and queue kept
beside it. The wheel has a slot for each second, with the messages that are due in it; once the
second has passed they are copied to their real topics. So nothing comes early, and most comes
up to a second late (TIMER-002).

Apache 5.3.3 keeps its wheel in files of its own. Here it is in memory, and filled again from
the timer topic after each start, before anything leaves it: all that has to be on disk is up to
which second messages have been delivered, and up to which offset of the timer queue they have
been taken in. A broker that is killed delivers again what it delivered since that was written.

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
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import structs

from mqspec.core.delay import REAL_QUEUE_ID, REAL_TOPIC, TIMER_PROPERTIES, delay_level
from mqspec.core.java import LONG_BITS, java_number, wrapped
from mqspec.core.log import RETRY_TOPIC_PREFIX, PutStatus, is_indexed
from mqspec.core.metadata import BrokerConfig, MetadataState
from mqspec.core.record import (
    Host,
    Record,
    decode_properties,
    encode_properties,
    mentions,
    noted_properties,
)
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
_OUT_MS: Final = OUT_MS.encode()


class Waiting(NamedTuple):
    """A message in a slot, and with it those that came into the slot before: so one more costs
    the same in a slot of a million. The timer log of 5.3.3 links them the same way."""

    queue_offset: int
    deletes: str  # the message that it takes out of the slot; "": it is to be delivered itself
    first: int  # the least queue offset in the slot
    before: Waiting | None


class Due(NamedTuple):
    """A slot whose second has passed."""

    slot: int
    queue_offsets: list[int]  # of the messages to deliver, ascending
    deleted: frozenset[str]  # messages that are not to be delivered


@dataclass(slots=True)
class TimerState:
    """The wheel; the messages are in the log. Slots are named by the time, ms, at which their
    second begins."""

    read_time: int = 0  # slots before it are delivered, but for those in the wheel
    queue_offset: int = 0  # messages of the timer queue before it are in the wheel, or delivered
    wheel: dict[int, Waiting] = field(default_factory=dict)  # the newest message of each slot
    next_slot: int = field(default=0, compare=False)  # a bound: no slot before it has a message
    taken_before: int = 0  # what `queue_offset` was before the start


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
    one whose time is past is not delayed, nor one that enters no ConsumeQueue (DELAY-009). A delay
    level counts more than a time.

    Of several properties the delay in seconds counts first, then the one in ms (TIMER-003).
    """
    if not mentions(message.properties, _MARK) or not is_indexed(message.sys_flag):
        return message  # most messages: their properties need not be read
    properties = decode_properties(message.properties)
    if OUT_MS in properties or delay_level(properties) > 0:
        return message
    if properties.keys().isdisjoint((DELAY_S, DELAY_MS, DELIVER_MS)):
        return message
    if not config.timer_wheel_enable:
        return PutStatus.WHEEL_TIMER_NOT_ENABLE
    try:
        deliver_at = _deliver_at(properties, now_ms)
    except ValueError:
        return PutStatus.WHEEL_TIMER_MSG_ILLEGAL
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
    if now_ms < config.start_accept_send_request_time_stamp:
        remark = "recall failed, broker service not available"
        return Refusal(ResponseCode.SERVICE_NOT_AVAILABLE, remark)
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
    """A message of the timer queue enters the wheel; None: it is no more. Of those that were in
    the wheel before the start, only they do whose slots had not been reached; of the others all
    do, however early they are due."""
    taken = Change("queue_offset", None, queue_offset + 1)
    properties = decode_properties(message.properties) if message else {}
    out_ms = properties.get(OUT_MS, "")
    if not out_ms.isdecimal():
        return Step((taken,))
    slot = int(out_ms) // PRECISION_MS * PRECISION_MS
    if queue_offset < state.taken_before and slot < state.read_time:
        return Step((taken,))
    waiting = _added(state.wheel.get(slot), queue_offset, properties.get(DELETE_KEY, ""))
    bound = min(state.next_slot, slot)
    return Step((taken, Change("wheel", slot, waiting), Change("next_slot", None, bound)))


def dequeue(state: TimerState, now_ms: int) -> Step:
    """The first slot, if its second has passed. The changes are applied when its messages have
    been delivered. Result: a Due; None: nothing is due."""
    if not is_filled(state):
        return Step()
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
    waiting = _oldest_first(state.wheel[slot])
    offsets = [each.queue_offset for each in waiting if not each.deletes]
    deleted = frozenset(each.deletes for each in waiting if each.deletes)
    return Step(changes, result=Due(slot, offsets, deleted))


def break_off(state: TimerState, slot: int, queue_offset: int) -> Step:
    """Of a slot only the messages before an offset could be delivered: the others stay, and what
    takes messages out."""
    left = None
    for each in _oldest_first(state.wheel[slot]):
        if each.deletes or each.queue_offset >= queue_offset:
            left = _added(left, each.queue_offset, each.deletes)
    return Step((Change("wheel", slot, left),))


# Queries


def slot_of(deliver_at: int) -> int:
    """The slot of a time, ms: the second that it lies in, or that ends with it."""
    return (deliver_at - 1) // PRECISION_MS * PRECISION_MS


def is_filled(state: TimerState) -> bool:
    """Whether the wheel has all that it had before the start."""
    return state.queue_offset >= state.taken_before


def delivered_before(state: TimerState) -> int:
    """The slots before it are delivered: of all that was taken in, nothing waits in them."""
    return _first_slot(state, state.read_time)


def first_waiting(state: TimerState, since: int) -> int:
    """The first offset from `since` on whose message waits; the end of what was taken in where
    none does."""
    firsts = (
        # Seldom less: then the store was Apache's, whose timer log has what lies before.
        (each.first,) if each.first >= since else (one.queue_offset for one in _newest_first(each))
        for each in state.wheel.values()
    )
    waiting = (offset for offsets in firsts for offset in offsets if offset >= since)
    return min(waiting, default=state.queue_offset)


def delivered_copy(message: Record, deleted: Container[str], now_ms: int) -> Record | None:
    """What is put into the real topic of a message whose second has passed; None: it has none, or
    another message of the slot took it out, which names it by its topic, a plus and its UNIQ_KEY
    (TIMER-006)."""
    properties = decode_properties(message.properties)
    topic, queue_id = properties.get(REAL_TOPIC), properties.get(REAL_QUEUE_ID, "0")
    if topic is None or f"{topic}+{properties.get(_UNIQUE_KEY)}" in deleted:
        return None
    if not queue_id.isdecimal():
        return None  # somebody sent it here himself; it holds up no other
    properties |= {ENQUEUE_MS: str(message.store_timestamp), DEQUEUE_MS: str(now_ms)}
    return structs.replace(
        message,
        topic=topic,
        queue_id=int(queue_id),
        properties=noted_properties(message, properties),
    )


def recall_handle(broker: BrokerName, message: Record) -> str | None:
    """What the producer of a waiting message gets to name it by; None: it waits for no time.

    The time is that of the slot and one ms, so that it lies in it. What a message says of itself
    is believed, as by 5.3.3, which does not answer where the time is no number.
    """
    if not mentions(message.properties, _OUT_MS):
        return None
    properties = decode_properties(message.properties)
    topic = properties.get(REAL_TOPIC, RETRY_TOPIC_PREFIX)
    if topic.startswith(RETRY_TOPIC_PREFIX):
        return None
    try:
        time = str(java_number(properties.get(OUT_MS, ""), LONG_BITS) + 1)
    except ValueError:
        return None
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


def _deliver_at(properties: Mapping[str, str], now_ms: int) -> int:
    if DELAY_S in properties:
        delay_ms = wrapped(1000 * java_number(properties[DELAY_S], LONG_BITS))
        return wrapped(now_ms + delay_ms)
    if DELAY_MS in properties:
        return wrapped(now_ms + java_number(properties[DELAY_MS], LONG_BITS))
    return java_number(properties[DELIVER_MS], LONG_BITS)


def _added(before: Waiting | None, queue_offset: int, deletes: str) -> Waiting:
    return Waiting(queue_offset, deletes, before.first if before else queue_offset, before)


def _newest_first(waiting: Waiting | None) -> Iterator[Waiting]:
    while waiting:
        yield waiting
        waiting = waiting.before


def _oldest_first(waiting: Waiting) -> list[Waiting]:
    return list(_newest_first(waiting))[::-1]


def _first_slot(state: TimerState, before: int) -> int:
    """The first slot with a message, of those before a second; that second where there is none.
    Slots are tried one by one, as few are: a wheel may have one for each second of three days."""
    slots = range(state.next_slot, before, PRECISION_MS)
    if len(slots) > len(state.wheel):
        return min((before, *state.wheel))
    return next((slot for slot in slots if slot in state.wheel), before)


def _encoded(properties: Mapping[str, str]) -> bytes:
    return encode_properties(properties).encode(errors="replace")
