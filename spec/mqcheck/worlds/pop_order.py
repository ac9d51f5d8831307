"""PopOrder on the reference: one queue that a group pops in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.conversing import Answers, converse
from mqcheck.worlds.terms import BROKER, GROUP, TOPIC, offset_key, persist_offsets
from mqspec.core import ack_message, offset_commit, pop_order
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Count, Get, Persist, ReadSpan
from mqspec.core.extra_info import ORDER_REVIVE_QUEUE
from mqspec.core.group import SubscriptionData
from mqspec.core.log import GetMessageStatus, GetResult, Span
from mqspec.core.metadata import (
    BrokerConfig,
    MetadataState,
    SubscriptionGroupConfig,
    TopicConfig,
)
from mqspec.core.offset_commit import OffsetState
from mqspec.core.pop import INIT_MIN, Pop
from mqspec.core.pop_messages import Reading, pop_queue
from mqspec.core.pop_order import OrderInfo, OrderKey, PopOrderState
from mqspec.core.record import Record, encode_record, queue_offset_of
from mqspec.core.subscription import ALL, TAG

CONFIG = BrokerConfig(broker_name=BROKER)
WANTED = SubscriptionData(TOPIC)
KEY, OFFSET_KEY = OrderKey(TOPIC, GROUP, 0), offset_key(0)
INVISIBLE_MS = 60_000
METADATA = MetadataState(
    {TOPIC: TopicConfig(TOPIC)}, subscription_group_table={GROUP: SubscriptionGroupConfig(GROUP)}
)
NO_BATCH = FrozenDict(
    {"popTime": 0, "attempt": "nobody", "offsets": frozenset(), "acked": frozenset()}
)


class Receipt(NamedTuple):
    """What a consumer holds of one message, by its queue offset."""

    pop_time: int  # ms
    attempt: str
    offset: int


class PopOrderWorld(World):
    """Everything of a model of PopOrder, whose message k has queue offset k - 1 here. Its pop
    times are numbers of pops. Here a ms passes with each pop, and as many as a batch is invisible
    where the last batch is due."""

    module = "PopOrder"
    actions: ClassVar = {
        "Pop": ("attempt", "count"),
        "Reenter": ("attempt",),
        "Ack": ("receipt",),
        "Abandon": (),
        "TimeUp": (),
        "Persist": (),
        "Crash": (),
    }

    def __init__(self, messages: int, max_batch: int, attempts: Iterable[str]) -> None:
        self.messages, self.max_batch, self.attempts = messages, max_batch, tuple(attempts)
        self.offsets, self.orders = OffsetState(), PopOrderState()
        self.disk = self._files()
        self.receipts: frozenset[Receipt] = frozenset()
        self.due: frozenset[int] = frozenset()
        self.pop_times: tuple[int, ...] = (0,)  # ms, by number; the first is of no batch
        self.acked: frozenset[int] = frozenset()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> PopOrderWorld:
        """The world at the beginning of a model with these constants."""
        attempts = sorted(map(str, constants["Attempts"]))
        return cls(constants["Messages"], constants["MaxBatch"], attempts)

    def domain(self, name: str) -> Iterable[object]:
        return {
            "attempt": self.attempts,
            "count": range(1, self.max_batch + 1),
            "receipt": sorted(self.receipts),
        }[name]

    def state(self) -> dict[str, object]:
        offsets, orders = self._load()
        on_disk = {"offsetTable": _offset(offsets), "orderInfo": self._batch(orders)}
        return {
            "offsetTable": _offset(self.offsets),
            "orderInfo": self._batch(self.orders),
            "disk": FrozenDict(on_disk),
            "receipts": frozenset(
                FrozenDict(
                    {
                        "popTime": self._number(r.pop_time),
                        "attempt": r.attempt,
                        "offset": r.offset + 1,
                    }
                )
                for r in self.receipts
            ),
            "due": frozenset(map(self._number, self.due)),
            "popTime": len(self.pop_times),
            "acked": frozenset(offset + 1 for offset in self.acked),
        }

    def pop(self, attempt: str, count: int) -> None:
        first = _offset(self.offsets)
        require(first + count <= self.messages)
        require(all(r.pop_time in self.due for r in self.receipts if r.attempt == attempt))
        before = self.receipts
        self.receipts = frozenset(r for r in before if r.pop_time not in self.due)
        self._pop(attempt, count)

    def reenter(self, attempt: str) -> None:
        last = self._last()
        require(last.attempt_id == attempt)
        self.spend("MaxAbandons")
        self.receipts = frozenset(r for r in self.receipts if r.attempt != attempt)
        self._pop(attempt, last.offsets[-1] + 1 - _offset(self.offsets))

    def ack(self, receipt: Receipt) -> None:
        self.receipts -= {receipt}
        self.acked |= {receipt.offset}
        talk = ack_message.ack_orderly(
            self.broker, KEY, receipt.offset, receipt.pop_time, consumer=""
        )
        assert converse(talk, {}) is None

    def abandon(self) -> None:
        self.spend("MaxAbandons")
        self._expire()

    def time_up(self) -> None:
        require(all(r.pop_time != self._last().pop_time for r in self.receipts))
        self._expire()

    def persist(self) -> None:
        require(self.budgets["MaxCrashes"] > 0)
        self.spend("MaxPersists")
        orders: list[PopOrderState] = []
        talk = pop_order.persist_orders(self.orders, METADATA, now_ms=0)
        converse(talk, {Persist: lambda ask: orders.append(ask.state)})
        offsets = persist_offsets(self.offsets)
        self.disk = offsets, json.dumps(pop_order.persist(orders[0]))

    def crash(self) -> None:
        self.spend("MaxCrashes")
        self.offsets, self.orders = self._load()

    @property
    def broker(self) -> BrokerStates:
        """The broker, as conversations take it."""
        return BrokerStates(
            config=CONFIG, metadata=METADATA, offsets=self.offsets, pop_order=self.orders
        )

    def _pop(self, attempt: str, count: int) -> None:
        last, now_ms = self.orders.order_info.get(KEY), self.pop_times[-1] + 1
        if last and last.pop_time in self.due:
            now_ms = max(now_ms, last.free_at())
        reading = Reading(_asked(attempt, count), WANTED, ORDER_REVIVE_QUEUE, now_ms)
        answers: Answers = {
            ReadSpan: lambda _: Span(0, self.messages),
            Get: self._read,
            Count: lambda _: None,
        }
        converse(pop_queue(self.broker, reading, (TOPIC, 0)), answers)
        require(bool(reading.records))  # or it is blocked
        self.pop_times += (now_ms,)
        offsets = map(queue_offset_of, reading.records)
        self.receipts |= {Receipt(now_ms, attempt, offset) for offset in offsets}

    def _read(self, ask: Get) -> GetResult:
        end = min(ask.offset + ask.max_count, self.messages)
        records = tuple(
            encode_record(Record(TOPIC, b"", queue_offset=offset))
            for offset in range(ask.offset, end)
        )
        return GetResult(GetMessageStatus.FOUND, end, 0, self.messages, records)

    def _expire(self) -> None:
        """The time of the last batch is up."""
        last = self._last()
        require(last.pop_time not in self.due)
        self.due |= {last.pop_time}

    def _last(self) -> OrderInfo:
        last = self.orders.order_info.get(KEY)
        require(last is not None and len(last.acked) < len(last.offsets))
        assert last is not None
        return last

    def _files(self) -> tuple[str, str]:
        written = (
            offset_commit.persist(self.offsets),
            pop_order.persist(self.orders),
        )
        return json.dumps(written[0]), json.dumps(written[1])

    def _load(self) -> tuple[OffsetState, PopOrderState]:
        offsets, orders = map(json.loads, self.disk)
        return offset_commit.load(offsets), pop_order.load(orders)

    def _number(self, pop_time: int) -> int:
        """The model's number of a pop, by its time."""
        return self.pop_times.index(pop_time)

    def _batch(self, orders: PopOrderState) -> FrozenDict:
        info = orders.order_info.get(KEY)
        if info is None:
            return NO_BATCH
        return FrozenDict(
            {
                "popTime": self._number(info.pop_time),
                "attempt": info.attempt_id,
                "offsets": frozenset(offset + 1 for offset in info.offsets),
                "acked": frozenset(offset + 1 for offset in info.acked),
            }
        )


def _offset(offsets: OffsetState) -> int:
    return offsets.offset_table.get(OFFSET_KEY, 0)


def _asked(attempt: str, count: int) -> Pop:
    return Pop(
        group=GROUP,
        topic=TOPIC,
        queue_id=0,
        max_msg_nums=count,
        invisible_time=INVISIBLE_MS,
        poll_time=0,
        born_time=0,
        init_mode=INIT_MIN,
        exp_type=TAG,
        exp=ALL,
        order=True,
        attempt_id=attempt,
        consumer="",
    )
