"""Pop on the reference: one queue of a topic, the group's retry topic, and the revive log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from msgspec import structs

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.conversing import Answers, converse
from mqcheck.worlds.terms import (
    BROKER,
    GROUP,
    TOPIC,
    load_offsets,
    offset_file,
    persist_offsets,
    sequence_or_function,
)
from mqspec.core import ack_message, pop, pop_revive, revive_log
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Append, Count, Get, Now, ReadSpan, Store
from mqspec.core.extra_info import ReceiptHandle, pop_retry_topic, topic_flag
from mqspec.core.group import SubscriptionData
from mqspec.core.log import GetMessageStatus, GetResult, PutResult, PutStatus, Span
from mqspec.core.metadata import (
    BrokerConfig,
    MetadataState,
    SubscriptionGroupConfig,
    TopicConfig,
)
from mqspec.core.offset_commit import OffsetKey, OffsetState
from mqspec.core.pop_messages import Reading, pop_queue
from mqspec.core.record import Record, encode_record, queue_offset_of
from mqspec.core.response import Answer
from mqspec.core.revive_log import REVIVE_GROUP, CheckPointKey, PopCheckPoint

WANTED = SubscriptionData(TOPIC)
CONFIG = BrokerConfig(broker_name=BROKER)
TOPICS = {"topic": TOPIC, "retry": pop_retry_topic(TOPIC, GROUP, CONFIG.enable_retry_topic_v2)}
QUEUES = {topic: queue for queue, topic in TOPICS.items()}
KEYS = {queue: OffsetKey(topic, GROUP, 0) for queue, topic in TOPICS.items()}
REVIVE_TOPIC = revive_log.revive_topic(CONFIG.cluster_name)
REVIVE_KEY = OffsetKey(REVIVE_TOPIC, REVIVE_GROUP, 0)
INVISIBLE_MS = 60_000
METADATA = MetadataState(
    {topic: TopicConfig(topic, 1, 1) for topic in TOPICS.values()},
    subscription_group_table={GROUP: SubscriptionGroupConfig(GROUP)},
)


class Receipt(NamedTuple):
    """What a consumer holds of a message."""

    topic: str
    start_offset: int  # of the pop
    pop_time: int
    offset: int
    message: int


class PopWorld(World):
    """Everything of a model of Pop, whose place k is queue offset k - 1 here. Its clock stands
    still: that a checkpoint's time is up is told to that one alone. Actions have the names that
    TLC has for them."""

    module = "Pop"
    actions: ClassVar = {
        "PopMessage": ("queue", "count"),
        "Acks": ("receipt",),
        "ChangeInvisibleTime": ("receipt",),
        "Abandon": ("held",),
        "TimesUp": ("time",),
        "ConsumeReviveMessage": (),
        "Revives": ("check_point",),
        "Persist": (),
        "Crash": ("end",),
    }

    def __init__(self, messages: int, max_batch: int, changes_late: bool = False) -> None:
        self.messages, self.max_batch = messages, max_batch
        self.changes_late = changes_late
        self.log: tuple[Record, ...] = ()  # checkpoints, acknowledgements, messages to try again
        self.flushed = 0
        self.offsets = OffsetState()
        self.read: tuple[bytes, ...] = ()  # by the last pop
        self.disk = offset_file(self.offsets)
        self.disk_scanned = self.scanned = 0  # as places in the log
        self.broker = pop.restart(self.offsets, CONFIG, {0: Span(0, 0)})
        self.handles: frozenset[Receipt] = frozenset()
        self.late: frozenset[Receipt] = frozenset()
        self.replaced: frozenset[int] = frozenset()
        self.due: dict[int, int] = {}
        self.pop_time = 1

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> PopWorld:
        """The world at the beginning of a model with these constants."""
        return cls(constants["Messages"], constants["MaxBatch"], constants["ChangesLate"])

    def domain(self, name: str) -> Iterable[object]:
        return {
            "queue": TOPICS,
            "count": range(1, self.max_batch + 1),
            "held": sorted(self.handles),
            "receipt": sorted(self.handles | self.late),
            "time": sorted({receipt.pop_time for receipt in self.late} | self.replaced),
            "check_point": list(self.broker.check_points),
            "end": range(self.flushed, len(self.log) + 1),
        }[name]

    def state(self) -> dict[str, object]:
        return {
            "log": tuple(map(self._entry, self.log)),
            "flushed": self.flushed,
            "offsetTable": _offsets(self.offsets),
            "disk": self._on_disk(),
            "scanOffset": self._scan_offset(),
            "checkPoints": sequence_or_function(
                {
                    _key(key): self._messages(key.topic, held.unacked)
                    for (_, key), held in self.broker.check_points.items()
                }
            ),
            "handles": frozenset(map(_receipt, self.handles)),
            "late": frozenset(map(_receipt, self.late)),
            "replaced": self.replaced,
            "due": sequence_or_function(self.due),
            "popTime": self.pop_time,
        }

    def pop_message(self, queue: str, count: int) -> None:
        topic = TOPICS[queue]
        reading = Reading(_asked(count), WANTED, revive_qid=0, pop_time=self.pop_time)
        place = topic, 0
        converse(pop_queue(self.states, reading, place), self._answers())
        require(len(reading.records) == count)
        (first, *_) = offsets = tuple(map(queue_offset_of, self.read))
        self.handles |= {
            Receipt(topic, first, self.pop_time, offset, _number(self._queue(topic)[offset]))
            for offset in offsets
        }
        self.pop_time += 1

    def acks(self, receipt: Receipt) -> None:
        talk = ack_message.ack(
            self.states,
            (receipt.topic, 0),
            GROUP,
            receipt.offset,
            str(_handle(receipt)),
            consumer="",
            now_ms=self.pop_time,
        )
        assert converse(talk, self._answers()) == Answer()
        self.handles -= {receipt}
        self.late -= {receipt}

    def change_invisible_time(self, receipt: Receipt) -> None:
        require(self.changes_late or receipt.pop_time not in self.due)
        self.spend("MaxChanges")
        talk = ack_message.change_message_invisible_time(
            self.states,
            (receipt.topic, 0),
            GROUP,
            receipt.offset,
            str(_handle(receipt)),
            INVISIBLE_MS,
            consumer="",
            now_ms=self.pop_time,
        )
        told = converse(talk, self._answers()).ext_fields
        new = receipt._replace(start_offset=receipt.offset, pop_time=int(told["popTime"]))
        self.handles = self.handles - {receipt} | {new}
        self.late -= {receipt}
        self.replaced |= {receipt.pop_time}
        self.pop_time += 1

    def abandon(self, held: Receipt) -> None:
        self.spend("MaxAbandons")
        self.handles -= {held}
        self.late |= {held}

    def times_up(self, time: int) -> None:
        require(time not in self.due)
        self.due[time] = len(self.log)

    def consume_revive_message(self) -> None:
        require(self.scanned < len(self.log))
        converse(pop_revive.read_revive_log(self.states, 0), self._answers())
        self.scanned = len(self.log)

    def revives(self, check_point: tuple[int, CheckPointKey]) -> None:
        held = self.broker.check_points[check_point]
        key = held.check_point.key
        now_ms = held.check_point.revive_time
        now_ms += pop.REVIVE_DELAY_MS + 1 if key.pop_time in self.due else 0
        require(pop.is_due(held, now_ms) and self.scanned >= self.due[key.pop_time])
        converse(pop_revive.revive_check_point(self.states, 0, held), self._answers())

    def persist(self) -> None:
        require(self.budgets["MaxCrashes"] > 0)
        self.spend("MaxPersists")
        before = self._on_disk()
        converse(pop_revive.commit_revive_offset(self.states, 0), self._answers())
        needed = self.offsets.offset_table.get(REVIVE_KEY, -1) + 1
        is_all_done = needed == self.broker.scan_offset[0]
        self.disk_scanned = self.scanned if is_all_done else self._place(needed)
        self.disk = persist_offsets(self.offsets, self._flush)
        require(self._on_disk() != before)

    def crash(self, end: int) -> None:
        self.spend("MaxCrashes")
        self.log = self.log[:end]
        self.flushed = end
        self.offsets = load_offsets(self.disk)
        queues = {0: Span(0, self._revive_count(end))}
        self.broker = pop.restart(self.offsets, CONFIG, queues)
        self.scanned = self.disk_scanned
        self.due = {time: min(place, end) for time, place in self.due.items()}

    def _flush(self) -> None:
        self.flushed = len(self.log)

    @property
    def states(self) -> BrokerStates:
        """The broker, as conversations take it."""
        return BrokerStates(config=CONFIG, metadata=METADATA, offsets=self.offsets, pop=self.broker)

    def _answers(self) -> Answers:
        return {
            ReadSpan: self._span,
            Get: self._read,
            Append: self._append,
            Store: self._append,
            Now: lambda _: self.pop_time,
            Count: lambda _: None,
        }

    def _append(self, ask: Append | Store) -> PutResult:
        self.log += (ask.message,)
        return PutResult(PutStatus.PUT_OK)

    def _span(self, ask: ReadSpan) -> Span:
        return Span(0, len(self._queue(ask.topic)))

    def _read(self, ask: Get) -> GetResult:
        held = self._queue(ask.topic)
        if ask.offset >= len(held):
            status = GetMessageStatus.OFFSET_OVERFLOW_ONE
            return GetResult(status, ask.offset, 0, len(held))
        end = min(ask.offset + ask.max_count, len(held))
        self.read = tuple(
            encode_record(structs.replace(held[offset], queue_offset=offset))
            for offset in range(ask.offset, end)
        )
        return GetResult(GetMessageStatus.FOUND, end, 0, len(held), self.read)

    def _queue(self, topic: str) -> tuple[Record, ...]:
        """The messages of a topic; those of the topic that is popped are not in this log."""
        if topic == TOPIC:
            return tuple(Record(TOPIC, str(n).encode()) for n in range(1, self.messages + 1))
        return tuple(record for record in self.log if record.topic == topic)

    def _revive_count(self, end: int) -> int:
        return sum(record.topic == REVIVE_TOPIC for record in self.log[:end])

    def _place(self, offset: int) -> int:
        """Where a message of the revive topic lies in the log."""
        places = [i for i, record in enumerate(self.log) if record.topic == REVIVE_TOPIC]
        return places[offset]

    def _scan_offset(self) -> int | None:
        """How much of the log is read: None where the core has read another part of it."""
        has_read = self.broker.scan_offset[0]
        return self.scanned if has_read == self._revive_count(self.scanned) else None

    def _entry(self, record: Record) -> FrozenDict:
        """A record as an entry of the model's log."""
        if record.topic != REVIVE_TOPIC:
            return FrozenDict({"kind": "retry", "msg": _number(record)})
        message = revive_log.decode(record)
        assert message is not None
        key = _key(message.key)
        if isinstance(message, PopCheckPoint):
            messages = self._messages(message.key.topic, message.offsets)
            return FrozenDict({"kind": "ck", "key": key, "msgs": messages})
        return FrozenDict({"kind": "ack", "key": key, "place": message.offsets[0] + 1})

    def _messages(self, topic: str, offsets: Iterable[int]) -> object:
        queue = self._queue(topic)
        return sequence_or_function({offset + 1: _number(queue[offset]) for offset in offsets})

    def _on_disk(self) -> FrozenDict:
        offsets = load_offsets(self.disk)
        return FrozenDict({"offsetTable": _offsets(offsets), "scanOffset": self.disk_scanned})


def _asked(count: int) -> pop.Pop:
    return pop.Pop(
        group=GROUP,
        topic=TOPIC,
        queue_id=0,
        max_msg_nums=count,
        invisible_time=INVISIBLE_MS,
        poll_time=0,
        born_time=0,
        init_mode=pop.INIT_MIN,
        exp_type="TAG",
        exp="*",
        order=False,
        attempt_id=None,
        consumer="",
    )


def _handle(receipt: Receipt) -> ReceiptHandle:
    flag, offset = topic_flag(receipt.topic), receipt.offset
    start, time = receipt.start_offset, receipt.pop_time
    return ReceiptHandle(start, time, INVISIBLE_MS, 0, flag, BROKER, 0, offset)


def _number(message: Record) -> int:
    return int(message.body)


def _offsets(offsets: OffsetState) -> FrozenDict:
    return FrozenDict({queue: offsets.offset_table.get(key, 0) for queue, key in KEYS.items()})


def _key(key: CheckPointKey) -> tuple[str, int, int]:
    return QUEUES[key.topic], key.start_offset + 1, key.pop_time


def _receipt(receipt: Receipt) -> FrozenDict:
    queue = QUEUES[receipt.topic]
    return FrozenDict(
        {
            "key": (queue, receipt.start_offset + 1, receipt.pop_time),
            "queue": queue,
            "place": receipt.offset + 1,
            "msg": receipt.message,
        }
    )
