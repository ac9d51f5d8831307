"""Delay on the reference: the queues of the levels, and a broker that is killed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.conversing import converse, written
from mqcheck.worlds.terms import TOPIC
from mqspec.core import delay, due_messages, log
from mqspec.core.conversation import Look, Now, ReadSpan, Store, Units
from mqspec.core.delay import DelayState
from mqspec.core.log import PutResult, PutStatus, Span, Unit
from mqspec.core.record import Record, encode_properties


class DelayWorld(World):
    """Everything of a model of Delay. A unit of its time is a ms here, and a level's delay has
    as many as its number."""

    module = "Delay"
    actions: ClassVar = {
        "ScheduleMessage": ("level",),
        "Deliver": ("level",),
        "FailToDeliver": ("level",),
        "Persist": (),
        "Load": (),
        "Tick": (),
    }

    def __init__(self, levels: int, max_messages: int, max_time: int) -> None:
        self.delays_ms = tuple(range(1, levels + 1))
        self.max_messages, self.max_time = max_messages, max_time
        self.broker = DelayState()
        self.disk = json.dumps(delay.persist(self.broker))
        self.now = 0
        self.queues: dict[int, tuple[Record, ...]] = {
            delay.queue_of(level): () for level in self.delays_ms
        }
        self.delivered: dict[int, tuple[FrozenDict, ...]] = dict.fromkeys(self.delays_ms, ())

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> DelayWorld:
        """The world at the beginning of a model with these constants."""
        return cls(max(constants["Delays"]), constants["MaxMessages"], constants["MaxTime"])

    def domain(self, name: str) -> Iterable[object]:
        return {"level": self.delays_ms}[name]

    def state(self) -> dict[str, object]:
        tables = self.broker.offset_table, delay.load(json.loads(self.disk)).offset_table
        in_memory, on_disk = (
            tuple(table.get(level, 0) for level in self.delays_ms) for table in tables
        )
        return {
            "queue": tuple(tuple(map(self._due, self._queue(n))) for n in self.delays_ms),
            "now": self.now,
            "offsetTable": in_memory,
            "disk": on_disk,
            "delivered": tuple(self.delivered.values()),
        }

    def schedule_message(self, level: int) -> None:
        number = len(self._queue(level)) + 1
        require(number <= self.max_messages and self.now + level <= self.max_time)
        asks = encode_properties({delay.LEVEL: str(level)}).encode()
        message = Record(TOPIC, str(number).encode(), asks, store_timestamp=self.now)
        waits = delay.schedule_message(self.delays_ms, message)
        self.queues[waits.queue_id] += (waits,)

    def deliver(self, level: int) -> None:
        copy = self._look(level, PutStatus.PUT_OK)
        if copy.topic == TOPIC:
            put = FrozenDict({"message": int(copy.body), "time": self.now})
            self.delivered[level] += (put,)

    def fail_to_deliver(self, level: int) -> None:
        self._look(level, PutStatus.CREATE_MAPPED_FILE_FAILED)
        self.spend("MaxFailures")

    def persist(self) -> None:
        (delivered,) = written(lambda: delay.persist_progress(self.broker), lambda: None)
        self.disk = json.dumps(delay.persist(delivered))

    def load(self) -> None:
        self.spend("MaxCrashes")
        self.broker = delay.load(json.loads(self.disk))

    def tick(self) -> None:
        require(self.now < self.max_time)
        self.now += 1

    def _look(self, level: int, status: PutStatus) -> Record:
        """A round of deliveries that sees one more message, of this level. What it puts into the
        real topic, which ends so."""
        queue_id, queue = delay.queue_of(level), self._queue(level)
        put: list[Record] = []

        def units(ask: Units) -> list[Unit]:
            is_seen = ask.queue_id == queue_id and ask.offset < len(queue)
            return [Unit(ask.offset, 0, self._due(queue[ask.offset]))] if is_seen else []

        def store(ask: Store) -> PutResult:
            put.append(ask.message)
            return PutResult(status)

        converse(
            due_messages.deliver_delayed(self.broker, self.delays_ms),
            {
                ReadSpan: lambda ask: Span(0, len(self.queues[ask.queue_id])),
                Units: units,
                Look: lambda ask: queue[ask.position],
                Now: lambda _: self.now,
                Store: store,
            },
        )
        require(bool(put))
        (copy,) = put
        return copy

    def _queue(self, level: int) -> tuple[Record, ...]:
        return self.queues[delay.queue_of(level)]

    def _due(self, message: Record) -> int:
        """What the ConsumeQueue keeps of it."""
        own, stored = [message.properties], message.store_timestamp
        return log.unit_tags_codes(message.topic, own, b"", stored, self.delays_ms)[0]
