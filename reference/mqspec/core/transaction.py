"""Transaction: messages that consumers see only if their producer says so afterwards.

The twin of Transaction.tla. A half message lies in the half topic until its producer ends it.
A commit writes the message to its real topic and then notes the half's offset in the op queue;
a rollback notes it only. Halves that are in no op message after a while are checked back: the
half is appended again, with one more on its count, and one member of the producer group is
asked. Whoever is asked ends it as if it had sent it.

Promised, and kept by Apache 5.3.3: nothing is seen before its commit (TX-001), a half without
an end is checked back (TX-006) and, after the last check, parked where operators find it
(TX-008). Broken there: a half with a delay is accepted, committed, and lost (TX-004), and its
end may be noted as that of another half, which nobody is asked about then (TX-006).

Never promised: that a commit counts once. Each COMMIT publishes, also one after a rollback, and
one for an older copy of the half (TX-005); and notes for the op queue wait in memory for up to
3 s, so that a broker which is killed forgets them and checks back what was ended (TX-017).

Facts: TransactionalMessageBridge.java, TransactionalMessageServiceImpl.java,
EndTransactionProcessor.java (5.3.3), and what 5.3.3 answered and stored.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec import structs

from mqspec.core.delay import HALF_TOPIC, REAL_QUEUE_ID, REAL_TOPIC, delay_level
from mqspec.core.java import LONG_BITS, java_number, wrapped
from mqspec.core.log import TRANSACTION_TYPE, Span
from mqspec.core.metadata import BrokerConfig
from mqspec.core.record import (
    PROPERTIES_BYTES_MAX,
    Record,
    SysFlag,
    decode_properties,
    encode_properties,
    mentions,
    noted_properties,
)
from mqspec.core.response import NOT_SET, Refusal, ResponseCode
from mqspec.core.step import Change, Step
from mqspec.core.types import Group, Topic

OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
OP_PROPERTIES: Final = b"WAIT\x01true\x02TAGS\x01d\x02"
CONSUMER_GROUP: Final = "CID_RMQ_SYS_TRANS"  # under which the offsets of both queues are kept

_PREPARED = "TRAN_MSG"
_PRODUCER_GROUP = "PGROUP"
_TRANSACTION_ID = "__transactionId__"
_UNIQUE_KEY = "UNIQ_KEY"
_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
_IMMUNITY_S = "CHECK_IMMUNITY_TIME_IN_SECONDS"
_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"  # of the half that a copy was made of
_MARKER = f"{_PREPARED}\x01".encode()


@dataclass(slots=True)
class TransactionState:
    """What a broker knows beside the half queue and the op queue, which are in the log."""

    half_offset: int = 0  # halves before it are ended, or were appended again
    op_offset: int = 0  # op messages before it name only halves before half_offset
    op_batch: tuple[int, ...] = ()  # halves that were ended, and are not yet in the op queue
    turn: int = 0  # whom of its group the next check-back asks


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """A producer says what becomes of a half message."""

    producer_group: Group | None
    tran_state_table_offset: int  # the half's queue offset
    commit_log_offset: int  # and its position
    is_commit: bool
    from_transaction_check: bool = False


class OpMessages:
    """The op messages that are not done, as the rounds of a check read them: each once. A half is
    in it that one of them names."""

    def __init__(self, offset: int) -> None:
        self.offset = offset  # of the first of them
        self.messages: deque[tuple[int, ...]] = deque()  # the halves that each names
        self._naming: Counter[int] = Counter()  # how many of them name a half

    def __contains__(self, half: int) -> bool:
        return half in self._naming

    def add(self, halves: tuple[int, ...]) -> None:
        """One more, which names these."""
        self.messages.append(halves)
        self._naming.update(halves)

    def forget(self, offset: int) -> None:
        """Those before an offset are done."""
        while self.offset < offset:
            for half in self.messages.popleft():
                self._naming[half] -= 1
                if not self._naming[half]:
                    del self._naming[half]
            self.offset += 1


@dataclass(frozen=True, slots=True)
class CheckRound:
    """The halves are looked at."""

    ops: OpMessages
    noted: Sequence[int]  # halves that were ended, and are in no op message yet
    half_queue: Span  # the halves to look at
    half: Callable[[int], Record | None]  # the one at a queue offset
    file_reserved_ms: int  # older halves are parked: their records will soon be deleted
    now_ms: int


# Sends


class PutFinal(NamedTuple):
    """Store the committed message."""

    message: Record


class Park(NamedTuple):
    """Store a half that is checked no more where operators find it."""

    message: Record


class PutBack(NamedTuple):
    """Append a half again; `is_checked`: and ask a producer of `group` about it."""

    message: Record
    group: Group
    is_checked: bool


# Actions


def is_prepared(message: Record) -> bool:
    """Whether a send is a half message. What old clients send back to a retry topic is not,
    though it has the mark."""
    if not mentions(message.properties, _MARKER):
        return False
    return is_marked(decode_properties(message.properties), message.reconsume_times)


def is_marked(properties: Mapping[str, str], reconsume_times: int) -> bool:
    """The same of properties. Raises ValueError where it is by the delay level, and that is no
    number."""
    if properties.get(_PREPARED, "").lower() != "true":
        return False
    return not (reconsume_times > 0 and delay_level(properties) > 0)


def prepare(message: Record) -> Record:
    """Transaction!Prepare. The half message, as it is stored: in the half topic, with its real
    topic and queue beside it, and as an ordinary record, so that it gets a queue offset.

    A delay is not heeded here (TX-004): the message that a commit makes of it will wait.
    """
    properties = decode_properties(message.properties)
    if _UNIQUE_KEY in properties:
        properties[_TRANSACTION_ID] = properties[_UNIQUE_KEY]
    properties |= {REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)}
    return structs.replace(
        message,
        topic=HALF_TOPIC,
        queue_id=0,
        sys_flag=message.sys_flag & ~TRANSACTION_TYPE,
        properties=_encoded(properties),
    )


def end_transaction(
    state: TransactionState,
    config: BrokerConfig,
    event: EndTransaction,
    half: Record | None,
    now_ms: int,
) -> Step:
    """Transaction!EndTransaction. `half` is the record at the position that the event names.

    A commit sends PutFinal; its changes are applied when that succeeded. Whether the half was
    ended before is not asked (TX-005). Result: a Refusal or None.
    """
    if half is None or half.topic != HALF_TOPIC:
        return _refused("Find prepared transaction message failed")
    properties = decode_properties(half.properties)
    immunity_s = properties.get(_IMMUNITY_S)
    if immunity_s and not event.from_transaction_check:
        immunity_ms = max(_immunity_ms(config, immunity_s), config.transaction_time_out)
        if now_ms - half.born_timestamp > immunity_ms:
            return Step(result=Refusal(ResponseCode.ILLEGAL_OPERATION, NOT_SET))
    if event.producer_group is None or event.producer_group != properties.get(_PRODUCER_GROUP):
        return _refused("The producer group wrong")
    if event.tran_state_table_offset != half.queue_offset:
        return _refused("The transaction state table offset wrong")
    if event.commit_log_offset != half.physical_offset:
        return _refused("The commit log offset wrong")
    noted = Change("op_batch", None, (*state.op_batch, half.queue_offset))
    if not event.is_commit:
        return Step((noted,))
    final = structs.replace(
        half,
        topic=real_topic(half),
        queue_id=int(properties.get(REAL_QUEUE_ID, "0")),
        sys_flag=half.sys_flag & ~TRANSACTION_TYPE | SysFlag.COMMIT,
        prepared_transaction_offset=half.physical_offset,
    )
    return Step((noted,), (PutFinal(final),))


def is_batch_full(state: TransactionState, config: BrokerConfig) -> bool:
    """Whether what was noted fills an op message, and does not wait any longer."""
    return len(_op_body(state)) > config.transaction_op_msg_max_size


def batch_send_op_message(state: TransactionState) -> Step:
    """Transaction!BatchSendOpMessage. What was noted goes to the op queue, as one message; the
    changes are applied when it is stored. Result: the message's body, b"" for none."""
    return Step((Change("op_batch", None, ()),), result=_op_body(state))


def check(state: TransactionState, config: BrokerConfig, event: CheckRound) -> Step:
    """Transaction!Check. Halves without an end are checked back, parked, or left in peace.

    They are in the order of their age, so that a half which is too young ends the round; one
    with an immunity of its own is appended again instead, and does not hold up the others.
    Result: whether the round came to the end of its halves.
    """
    noted = frozenset(event.noted)

    def is_ended(offset: int) -> bool:
        return offset in noted or offset in event.ops

    sends: list[Park | PutBack] = []
    first = max(state.half_offset, event.half_queue.min)
    half_offset = first
    while half_offset < event.half_queue.max:
        half = None if is_ended(half_offset) else event.half(half_offset)
        if half is not None:
            judged = _judge(config, event, half, is_ended)
            if judged is _Young.YOUNG:
                break
            if judged is not None:
                sends.append(judged)
        half_offset += 1
    done = takewhile(lambda op: all(offset < half_offset for offset in op), event.ops.messages)
    op_offset = event.ops.offset + sum(1 for _ in done)
    changes = [
        Change("half_offset", None, half_offset),
        Change("op_offset", None, op_offset),
    ]
    return Step(tuple(changes), tuple(sends), half_offset >= event.half_queue.max)


def resume_check(parked: Record) -> Record:
    """A half that was checked often enough is to be checked as often again: it is appended to the
    halves as if it never had been (TX-021). That it is one is not asked."""
    properties = decode_properties(parked.properties) | {_CHECK_TIMES: "0"}
    return structs.replace(parked, topic=HALF_TOPIC, queue_id=0, properties=_encoded(properties))


def next_producer(state: TransactionState, producers: int) -> Step:
    """The members of a producer group are asked in turn. Result: the
    number of the one to ask, of so many."""
    return Step((Change("turn", None, state.turn + 1),), result=state.turn % producers)


# Queries


def real_topic(half: Record) -> Topic:
    """Where a half message will go."""
    return decode_properties(half.properties).get(REAL_TOPIC, "")


def message_key(half: Record) -> str:
    """The id under which the producer knows its message."""
    return decode_properties(half.properties).get(_UNIQUE_KEY, "")


def as_producer_sees_it(half: Record) -> Record:
    """A half as the body of a check-back holds it: with its real topic and queue."""
    properties = decode_properties(half.properties)
    queue_id = int(properties.get(REAL_QUEUE_ID, "0"))
    shown = noted_properties(half, properties | {"WAIT": "false"})  # as 5.3.3 puts copies back
    return structs.replace(half, topic=real_topic(half), queue_id=queue_id, properties=shown)


def ended_halves(body: bytes) -> tuple[int, ...]:
    """The halves that an op message names."""
    return tuple(int(word) for word in body.decode().split(",") if word.isdecimal())


def _op_body(state: TransactionState) -> bytes:
    return "".join(f"{offset}," for offset in state.op_batch).encode()


class _Young(Enum):
    YOUNG = "young"


def _judge(
    config: BrokerConfig, event: CheckRound, half: Record, is_ended: Callable[[int], bool]
) -> Park | PutBack | _Young | None:
    """What becomes of one half that is not ended; None: nothing."""
    properties = decode_properties(half.properties)
    times = _number(properties.get(_CHECK_TIMES), 0)
    age_ms = event.now_ms - half.born_timestamp
    if times >= config.transaction_check_max or age_ms > event.file_reserved_ms:
        return _parked(half)
    group = properties.get(_PRODUCER_GROUP, "")
    immunity_s = properties.get(_IMMUNITY_S)
    if immunity_s is None:
        if 0 <= age_ms < config.transaction_time_out:
            return _Young.YOUNG
    elif age_ms < _immunity_ms(config, immunity_s):
        original = properties.setdefault(_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
        if is_ended(_number(original, -1)):
            return None
        return _put_back(half, properties, group, is_checked=False)
    properties[_CHECK_TIMES] = str(times + 1)
    return _put_back(half, properties, group, is_checked=True)


def _put_back(
    half: Record, properties: dict[str, str], group: Group, is_checked: bool
) -> Park | PutBack:
    """One that has no room for what is noted, and never will, is given up: or it would hold up
    all behind it."""
    encoded = _encoded(properties)
    if len(encoded) > PROPERTIES_BYTES_MAX:
        return _parked(half)
    return PutBack(structs.replace(half, properties=encoded), group, is_checked)


def _parked(half: Record) -> Park:
    return Park(structs.replace(half, topic=CHECK_MAX_TIME_TOPIC, queue_id=0))


def _immunity_ms(config: BrokerConfig, seconds: str) -> int:
    number = _number(seconds, -1)
    return config.transaction_time_out if number == -1 else wrapped(1000 * number)


def _number(text: str | None, default: int) -> int:
    try:
        return java_number(text or "", LONG_BITS)
    except ValueError:
        return default


def _encoded(properties: dict[str, str]) -> bytes:
    return encode_properties(properties).encode(errors="replace")


def _refused(remark: str) -> Step:
    return Step(result=Refusal(ResponseCode.SYSTEM_ERROR, remark))
