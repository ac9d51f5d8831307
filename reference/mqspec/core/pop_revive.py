"""Reviving as a conversation: the revive log is read, and what is due comes back.

The log is read to its end before anything is revived, and the time is taken before that: an
acknowledgement that is in the log by then counts, whatever is due meanwhile. How far the log is
done with is committed last, behind what is revived or has a checkpoint of its own again.

Facts: PopReviveService.java (5.3.3).
"""

from __future__ import annotations

from typing import Final

from mqspec.core import pop
from mqspec.core.ack_message import STORED, append_to_revive_log
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import (
    Carry,
    Conversation,
    Get,
    Now,
    OthersTurn,
    ReadSpan,
    Store,
    Told,
)
from mqspec.core.log import GetMessageStatus, GetResult, PutResult, Span
from mqspec.core.metadata import create_topic_in_send_message_back
from mqspec.core.offset_commit import OffsetKey, commit_offset
from mqspec.core.pop import PoppedCheckPoint
from mqspec.core.record import Record, decode_record
from mqspec.core.revive_log import PopCheckPoint, decode, revive_topic

RETRY_QUEUE_NUM: Final = 1
_AT_A_TIME: Final = 32  # messages before others get their turn


def revive(broker: BrokerStates) -> Conversation[None]:
    """Read the revive log to its end, and bring back what is due."""
    now_ms: int = yield Now()  # before the log is read, or an acknowledgement could be overlooked
    yield Told("Pop", "now_ms", None, now_ms)
    for revive_qid in range(broker.config.revive_queue_num):
        yield from read_revive_log(broker, revive_qid)

    held = broker.pop.check_points.items()
    for revive_qid, each in [(at, each) for (at, _), each in held if pop.is_due(each, now_ms)]:
        yield from revive_check_point(broker, revive_qid, each)
        yield OthersTurn()

    for revive_qid in range(broker.config.revive_queue_num):
        yield from commit_revive_offset(broker, revive_qid)


def read_revive_log(broker: BrokerStates, revive_qid: int) -> Conversation[None]:
    """One queue of the revive log is read to its end."""
    while (yield from _read_some(broker, revive_qid)):
        yield OthersTurn()


def revive_check_point(
    broker: BrokerStates, revive_qid: int, held: PoppedCheckPoint
) -> Conversation[None]:
    """What is not acknowledged of a checkpoint goes to the group's retry topic; a message that
    cannot waits in a checkpoint of its own. For a topic or group that is no more nothing does."""
    check_point = held.check_point
    unacked = () if pop.is_forgotten(broker.metadata, check_point) else held.unacked
    for offset in unacked:
        if (yield from _retry(broker, check_point, offset)):
            continue
        again, now_ms = pop.re_put_ck(check_point, offset), (yield Now())
        if not (yield from append_to_revive_log(broker, revive_qid, again, now_ms)):
            return  # nothing can be stored: all of it again at the next time
    yield Carry(broker.pop, pop.revive(revive_qid, held))


def commit_revive_offset(broker: BrokerStates, revive_qid: int) -> Conversation[None]:
    """What is not needed any more of one queue of the revive log need not be read again."""
    step = pop.commit_revive_offset(
        broker.pop, broker.offsets, broker.config.cluster_name, revive_qid
    )
    yield Carry(broker.offsets, step)


def _read_some(broker: BrokerStates, revive_qid: int) -> Conversation[bool]:
    """Whether there may be more to read."""
    topic = revive_topic(broker.config.cluster_name)
    offset = broker.pop.scan_offset[revive_qid]
    span: Span = yield ReadSpan(topic, revive_qid)
    if offset >= span.max:
        return False
    found: GetResult = yield Get(topic, revive_qid, offset, _AT_A_TIME)
    for data in found.records:
        record = decode_record(data)
        if isinstance(record, Record):
            step = pop.consume_revive_message(
                broker.pop, revive_qid, record.queue_offset, decode(record)
            )
            yield Carry(broker.pop, step)
    yield Carry(broker.pop, pop.scanned(broker.pop, revive_qid, found.next_begin_offset))
    return found.next_begin_offset > offset


def _retry(broker: BrokerStates, check_point: PopCheckPoint, offset: int) -> Conversation[bool]:
    """Whether the message is in the retry topic, or is no more."""
    key = check_point.key
    found: GetResult = yield Get(key.topic, key.queue_id, offset, 1)
    if found.status is not GetMessageStatus.FOUND:
        return True
    record = decode_record(found.records[0], check_crc=False)
    if not isinstance(record, Record):
        return True

    message = pop.revived_message(check_point, record, broker.config, broker.store_host)
    yield from _create_retry_topic(broker, OffsetKey(message.topic, key.group, message.queue_id))
    put: PutResult = yield Store(message)
    return put.status in STORED


def _create_retry_topic(broker: BrokerStates, key: OffsetKey) -> Conversation[None]:
    """The group begins a topic that is created for it at its first message."""
    created = create_topic_in_send_message_back(
        broker.metadata, key.topic, RETRY_QUEUE_NUM, (yield Now())
    )
    if not created.changes:
        return
    yield Carry(broker.metadata, created)
    if key not in broker.offsets.offset_table:
        yield Carry(broker.offsets, commit_offset(broker.offsets, key, 0))
