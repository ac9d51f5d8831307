"""The revive log: what POP remembers of a message between its pop and its acknowledgement.

Checkpoints and acknowledgements are messages of the topic rmq_sys_REVIVE_LOG_<cluster>, told
apart by their tags, with a JSON object as body, as 5.3.3 writes them (PopCheckPoint.java,
AckMsg.java, BatchAckMsg.java). They are as durable as any message; nothing else is needed to
find the popped messages again after a crash.

Apache RocketMQ lets each of them wait in its timer until shortly before it is needed. Here they
enter the revive topic at once: what was acknowledged is then known before its time is up,
however far a timer is behind.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from mqspec.core.record import Host, Record, decode_properties, encode_properties
from mqspec.core.types import Group, Topic

REVIVE_GROUP: Final = "CID_RMQ_SYS_REVIVE_GROUP"
ACK_TIME_INTERVAL_MS: Final = 1_000  # how long before its time a checkpoint is needed

CK_TAG: Final = "ck"
ACK_TAG: Final = "ack"
BATCH_ACK_TAG: Final = "bAck"


class CheckPointKey(NamedTuple):
    """What an acknowledgement and its checkpoint have in common."""

    topic: Topic
    group: Group
    queue_id: int
    start_offset: int
    pop_time: int  # ms
    broker_name: str


@dataclass(frozen=True, slots=True)
class PopCheckPoint:
    """Messages of one queue were given to a consumer, and are invisible for a while."""

    key: CheckPointKey
    invisible_time: int  # ms
    offsets: tuple[int, ...]  # of the messages, ascending
    re_put_times: int = 0  # how often reviving it failed

    @property
    def revive_time(self) -> int:
        """When its messages are due again, ms."""
        return self.key.pop_time + self.invisible_time


@dataclass(frozen=True, slots=True)
class AckMsg:
    """Messages of a checkpoint are consumed."""

    key: CheckPointKey
    invisible_time: int  # ms; not stored
    offsets: tuple[int, ...]
    batch: bool = False


ReviveMessage: TypeAlias = PopCheckPoint | AckMsg


def revive_topic(cluster: str) -> Topic:
    """The topic of the revive log."""
    return f"rmq_sys_REVIVE_LOG_{cluster}"


def encode(
    message: ReviveMessage, topic: Topic, revive_qid: int, host: Host, now_ms: int
) -> Record:
    """The message of the revive topic."""
    fields, tag, due = (
        _check_point(message) if isinstance(message, PopCheckPoint) else _ack(message)
    )
    named = message.key.start_offset if tag == CK_TAG else message.offsets[0]
    key = message.key
    unique = (key.topic, key.queue_id, named, key.group, key.pop_time, key.broker_name, tag)
    properties = {
        "TIMER_DELIVER_MS": str(due),
        "UNIQ_KEY": "@".join(map(str, unique)),
        "TAGS": tag,
    }
    return Record(
        topic=topic,
        body=json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode(),
        properties=encode_properties(properties).encode(),
        queue_id=revive_qid,
        born_timestamp=now_ms,
        born_host=host,
        store_host=host,
    )


def decode(record: Record) -> ReviveMessage | None:
    """What a message of the revive topic says; None: nothing that a broker writes."""
    tag = decode_properties(record.properties).get("TAGS")
    try:
        fields = json.loads(record.body)
        key = CheckPointKey(
            str(fields["t"]),
            str(fields["c"]),
            int(fields["q"]),
            int(fields["so"]),
            int(fields["pt"]),
            str(fields["bn"]),
        )
        if tag == CK_TAG:
            return _read_check_point(fields, key)
        if tag == ACK_TAG:
            return AckMsg(key, 0, (int(fields["ao"]),))
        if tag == BATCH_ACK_TAG:
            return AckMsg(key, 0, tuple(map(int, fields["aol"])), batch=True)
    except (ValueError, TypeError, KeyError):
        pass
    return None


def _check_point(ck: PopCheckPoint) -> tuple[dict[str, Any], str, int]:
    key = ck.key
    fields: dict[str, Any] = {
        "bm": 0,
        "bn": key.broker_name,
        "c": key.group,
        "d": [offset - key.start_offset for offset in ck.offsets],
        "it": ck.invisible_time,
        "n": len(ck.offsets),
        "pt": key.pop_time,
        "q": key.queue_id,
        "ro": 0,
        "so": key.start_offset,
        "t": key.topic,
    }
    if ck.re_put_times:
        fields["rp"] = str(ck.re_put_times)
    return fields, CK_TAG, ck.revive_time - ACK_TIME_INTERVAL_MS


def _ack(ack: AckMsg) -> tuple[dict[str, Any], str, int]:
    key = ack.key
    fields: dict[str, Any] = {
        "ao": -1 if ack.batch else ack.offsets[0],
        "bn": key.broker_name,
        "c": key.group,
        "pt": key.pop_time,
        "q": key.queue_id,
        "so": key.start_offset,
        "t": key.topic,
    }
    if ack.batch:
        fields["aol"] = list(ack.offsets)
    return fields, BATCH_ACK_TAG if ack.batch else ACK_TAG, key.pop_time + ack.invisible_time


def _read_check_point(fields: Mapping[str, Any], key: CheckPointKey) -> PopCheckPoint:
    differences = fields.get("d") or range(int(fields["n"]))  # none: of an older version
    return PopCheckPoint(
        key,
        int(fields["it"]),
        tuple(key.start_offset + int(difference) for difference in differences),
        int(fields.get("rp") or 0),
    )
