"""PopOrder on the reference: one queue that a group pops in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.conversing import converse
from mqcheck.worlds.terms import GROUP, TOPIC, offset_key, persist_offsets
from mqspec.core import offset_commit, pop_order
from mqspec.core.conversation import Persist
from mqspec.core.metadata import MetadataState, SubscriptionGroupConfig, TopicConfig
from mqspec.core.offset_commit import OffsetState
from mqspec.core.pop_order import OrderInfo, OrderKey, PopOrderState
from mqspec.core.step import apply

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

    pop_time: int
    attempt: str
    offset: int


class PopOrderWorld(World):
    """Everything of a model of PopOrder, whose message k has queue offset k - 1 here. Its clock
    stands still: that a batch's time is up is told to its queue alone."""

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
        self.offsets, self.broker = OffsetState(), PopOrderState()
        self.disk = self._files()
        self.receipts: frozenset[Receipt] = frozenset()
        self.due: frozenset[int] = frozenset()
        self.pop_time = 1
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
        on_disk = {"offsetTable": _offset(offsets), "orderInfo": _batch(orders)}
        return {
            "offsetTable": _offset(self.offsets),
            "orderInfo": _batch(self.broker),
            "disk": FrozenDict(on_disk),
            "receipts": frozenset(
                FrozenDict({"popTime": r.pop_time, "attempt": r.attempt, "offset": r.offset + 1})
                for r in self.receipts
            ),
            "due": self.due,
            "popTime": self.pop_time,
            "acked": frozenset(offset + 1 for offset in self.acked),
        }

    def pop(self, attempt: str, count: int) -> None:
        first = _offset(self.offsets)
        require(first + count <= self.messages)
        require(all(r.pop_time in self.due for r in self.receipts if r.attempt == attempt))
        self._pop(attempt, tuple(range(first, first + count)))
        self.receipts = frozenset(
            r for r in self.receipts if r.pop_time not in self.due or r.pop_time == self.pop_time
        )
        self.pop_time += 1

    def reenter(self, attempt: str) -> None:
        last = self._last()
        require(last.attempt_id == attempt)
        self.spend("MaxAbandons")
        self.receipts = frozenset(r for r in self.receipts if r.attempt != attempt)
        self._pop(attempt, tuple(range(_offset(self.offsets), last.offsets[-1] + 1)))
        self.pop_time += 1

    def ack(self, receipt: Receipt) -> None:
        self.receipts -= {receipt}
        self.acked |= {receipt.offset}
        if receipt.offset < _offset(self.offsets):
            return
        step = pop_order.ack(self.broker, KEY, receipt.offset, receipt.pop_time)
        if step.result is not None:
            self._commit(step.result)
        apply(self.broker, step.changes)

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
        talk = pop_order.persist_orders(self.broker, METADATA, now_ms=0)
        converse(talk, {Persist: lambda ask: orders.append(ask.state)})
        self.disk = persist_offsets(self.offsets), json.dumps(pop_order.persist(orders[0]))

    def crash(self) -> None:
        self.spend("MaxCrashes")
        self.offsets, self.broker = self._load()

    def _pop(self, attempt: str, offsets: tuple[int, ...]) -> None:
        last = self.broker.order_info.get(KEY)
        now_ms = last.free_at() if last and last.pop_time in self.due else 0
        require(not pop_order.is_blocked(self.broker, KEY, attempt, now_ms))
        batch = OrderInfo(self.pop_time, INVISIBLE_MS, offsets, attempt_id=attempt)
        apply(self.broker, pop_order.pop(self.broker, KEY, batch).changes)
        self._commit(offsets[0])
        self.receipts |= {Receipt(self.pop_time, attempt, offset) for offset in offsets}

    def _expire(self) -> None:
        """The time of the last batch is up."""
        last = self._last()
        require(last.pop_time not in self.due)
        self.due |= {last.pop_time}

    def _last(self) -> OrderInfo:
        last = self.broker.order_info.get(KEY)
        require(last is not None and len(last.acked) < len(last.offsets))
        assert last is not None
        return last

    def _commit(self, offset: int) -> None:
        step = offset_commit.commit_offset(self.offsets, OFFSET_KEY, offset)
        apply(self.offsets, step.changes)

    def _files(self) -> tuple[str, str]:
        written = offset_commit.persist(self.offsets), pop_order.persist(self.broker)
        return json.dumps(written[0]), json.dumps(written[1])

    def _load(self) -> tuple[OffsetState, PopOrderState]:
        offsets, orders = map(json.loads, self.disk)
        return offset_commit.load(offsets), pop_order.load(orders)


def _offset(offsets: OffsetState) -> int:
    return offsets.offset_table.get(OFFSET_KEY, 0)


def _batch(orders: PopOrderState) -> FrozenDict:
    info = orders.order_info.get(KEY)
    if info is None:
        return NO_BATCH
    return FrozenDict(
        {
            "popTime": info.pop_time,
            "attempt": info.attempt_id,
            "offsets": frozenset(offset + 1 for offset in info.offsets),
            "acked": frozenset(offset + 1 for offset in info.acked),
        }
    )
