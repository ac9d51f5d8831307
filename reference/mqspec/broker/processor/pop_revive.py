"""The revive log and its clock (PopReviveService.java, 5.3.3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from mqspec.broker.carrying import carry, note_told
from mqspec.broker.conversing import converse
from mqspec.broker.stored import put
from mqspec.core import pop
from mqspec.core.ack_message import STORED, append_to_revive_log
from mqspec.core.log import GetMessageStatus, Span
from mqspec.core.metadata import create_topic_in_send_message_back
from mqspec.core.offset_commit import OffsetKey, commit_offset
from mqspec.core.pop import PopState
from mqspec.core.record import Record, decode_record
from mqspec.core.revive_log import PopCheckPoint, decode, revive_topic
from mqspec.service import clock_ms

if TYPE_CHECKING:
    from mqspec.broker.broker import Broker

_AT_A_TIME: Final = 32  # messages before others get their turn
RETRY_QUEUE_NUM: Final = 1


def load(broker: Broker) -> PopState:
    """The state with which a broker starts."""
    topic = revive_topic(broker.config.cluster_name)
    store = broker.store
    queues = {
        revive_qid: Span(store.min_offset(topic, revive_qid), store.max_offset(topic, revive_qid))
        for revive_qid in range(broker.config.revive_queue_num)
    }
    return pop.restart(broker.offsets, broker.config, queues)


async def revive(broker: Broker) -> None:
    """Read the revive log to its end, and bring back what is due."""
    now_ms = clock_ms()  # before the log is read, or an acknowledgement could be overlooked
    note_told(broker, "Pop", "now_ms", None, now_ms)
    for revive_qid in range(broker.config.revive_queue_num):
        while _consume_some(broker, revive_qid):
            await asyncio.sleep(0)
    due = [(at, held) for at, held in broker.pop.check_points.items() if pop.is_due(held, now_ms)]
    for (revive_qid, _), held in due:
        if pop.is_forgotten(broker.metadata, held.check_point):
            carry(broker, "pop", pop.revive(revive_qid, held))
        else:
            _revive(broker, revive_qid, held)
        await asyncio.sleep(0)
    for revive_qid in range(broker.config.revive_queue_num):
        step = pop.commit_revive_offset(
            broker.pop, broker.offsets, broker.config.cluster_name, revive_qid
        )
        carry(broker, "offsets", step)


def _consume_some(broker: Broker, revive_qid: int) -> bool:
    """Whether there may be more to read."""
    topic = revive_topic(broker.config.cluster_name)
    offset = broker.pop.scan_offset[revive_qid]
    if offset >= broker.store.max_offset(topic, revive_qid):
        return False
    found = broker.store.get(topic, revive_qid, offset, _AT_A_TIME)
    for data in found.records:
        record = decode_record(data)
        if isinstance(record, Record):
            step = pop.consume_revive_message(
                broker.pop, revive_qid, record.queue_offset, decode(record)
            )
            carry(broker, "pop", step)
    carry(broker, "pop", pop.scanned(broker.pop, revive_qid, found.next_begin_offset))
    return found.next_begin_offset > offset


def _revive(broker: Broker, revive_qid: int, held: pop.PoppedCheckPoint) -> None:
    check_point = held.check_point
    for offset in held.unacked:
        if not _retry(broker, check_point, offset):
            again = pop.re_put_ck(check_point, offset)
            if not converse(broker, append_to_revive_log(broker, revive_qid, again, clock_ms())):
                return  # nothing can be stored: all of it again at the next time
    carry(broker, "pop", pop.revive(revive_qid, held))


def _retry(broker: Broker, check_point: PopCheckPoint, offset: int) -> bool:
    """Whether the message is in the retry topic, or is no more."""
    key = check_point.key
    found = broker.store.get(key.topic, key.queue_id, offset, 1)
    if found.status is not GetMessageStatus.FOUND:
        return True
    record = decode_record(found.records[0], check_crc=False)
    if not isinstance(record, Record):
        return True
    message = pop.revived_message(check_point, record, broker.config, broker.store_host)
    made = create_topic_in_send_message_back(
        broker.metadata, message.topic, RETRY_QUEUE_NUM, clock_ms()
    )
    if made.changes:
        carry(broker, "metadata", made)
        offset_key = OffsetKey(message.topic, key.group, message.queue_id)
        if offset_key not in broker.offsets.offset_table:
            carry(broker, "offsets", commit_offset(broker.offsets, offset_key, 0))
    return put(broker, message).status in STORED
