"""PopPolling on the reference: one queue of one broker, and consumers that pop it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict, ModelValue
from mqcheck.worlds.terms import GROUP, TOPIC, function
from mqspec.core import pop_polling
from mqspec.core.pop_polling import (
    ALL_QUEUES,
    PollingKey,
    PollingResult,
    PopPollingState,
    PopRequest,
)
from mqspec.core.step import Step, apply

KEYS = {"all": PollingKey(TOPIC, GROUP, ALL_QUEUES), "one": PollingKey(TOPIC, GROUP, 0)}
NOBODY = ModelValue("Nobody")
HELD_MAX = 10


class PopPollingWorld(World):
    """Everything of a model of PopPolling. Each pop's time is up later than that of those
    before it, and as soon as the model says so."""

    module = "PopPolling"
    actions: ClassVar = {
        "PutMessage": (),
        "NotifyMessageArriving": (),
        "PopMessage": ("consumer",),
        "LockQueue": ("consumer",),
        "ReadQueue": ("consumer",),
        "Polling": ("consumer",),
        "Forget": ("consumer",),
    }

    def __init__(
        self, keys: Mapping[str, str], max_messages: int, max_pops: int, holds_at_once: bool
    ) -> None:
        self.keys = keys
        self.max_messages = max_messages
        self.max_pops = max_pops
        self.holds_at_once = holds_at_once
        self.broker = PopPollingState()
        self.available = self.arrivals = self.sent = self.pops = self.held_so_far = 0
        self.lock: str = NOBODY
        self.phase = dict.fromkeys(keys, "none")
        self.sees = dict.fromkeys(keys, False)
        self.last: frozenset[str] = frozenset()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> PopPollingWorld:
        """The world at the beginning of a model with these constants."""
        # Plain texts, which stay the same objects when a world is copied: pops are known by them.
        keys = {str(c): "all" for c in constants["WaitForAll"]}
        keys |= {str(c): "one" for c in constants["WaitForOne"]}
        return cls(
            dict(sorted(keys.items())),
            constants["MaxMessages"],
            constants["MaxPops"],
            constants["HoldsAtOnce"],
        )

    def domain(self, name: str) -> Iterable[object]:
        return {"consumer": self.keys}[name]

    def state(self) -> dict[str, object]:
        return {
            "available": self.available,
            "arrivals": self.arrivals,
            "sent": self.sent,
            "pops": self.pops,
            "lock": self.lock,
            "phase": FrozenDict(self.phase),
            "sees": FrozenDict(self.sees),
            "last": self.last,
            "pollingMap": function(
                KEYS,
                lambda key: tuple(
                    request.token for request in self.broker.polling_map.get(KEYS[key], ())
                ),
            ),
        }

    def put_message(self) -> None:
        require(self.sent < self.max_messages)
        self.sent += 1
        self.available += 1
        self.arrivals += 1

    def notify_message_arriving(self) -> None:
        require(self.arrivals > 0)
        self.arrivals -= 1
        self._wake(pop_polling.notify_message_arriving(self.broker, TOPIC, 0, self.sent, None))

    def pop_message(self, consumer: str) -> None:
        require(self.phase[consumer] == "none" and self.pops < self.max_pops)
        self.pops += 1
        self.phase[consumer] = "begins"

    def lock_queue(self, consumer: str) -> None:
        require(self.phase[consumer] == "begins")
        if self.lock == NOBODY:
            self.lock = consumer
            self.phase[consumer] = "reads"
        else:
            self._find_nothing(consumer, saw=self.available > 0)

    def read_queue(self, consumer: str) -> None:
        require(self.phase[consumer] == "reads")
        self.lock = NOBODY
        if not self.available:
            self._find_nothing(consumer, saw=False)
            return
        self.available -= 1
        self._answer(consumer)
        if self.available:
            self._wake(pop_polling.notify_group(self.broker, KEYS[self.keys[consumer]]))

    def polling(self, consumer: str) -> None:
        require(self.phase[consumer] == "found nothing")
        saw, self.sees[consumer] = self.sees[consumer], False
        self._hold(consumer, saw=saw)

    def forget(self, consumer: str) -> None:
        require(self.phase[consumer] == "held")
        step = pop_polling.forget(self.broker, KEYS[self.keys[consumer]], consumer)
        apply(self.broker, step.changes)
        require(step.result)
        self.phase[consumer] = "begins"
        self.last |= {consumer}

    def _find_nothing(self, consumer: str, *, saw: bool) -> None:
        if self.holds_at_once:
            self._hold(consumer, saw=saw)
        else:
            self.phase[consumer] = "found nothing"
            self.sees[consumer] = saw

    def _hold(self, consumer: str, *, saw: bool) -> None:
        key = KEYS[self.keys[consumer]]
        self.held_so_far += 1
        deadline = self.held_so_far + pop_polling.EARLY_MS
        now_ms = deadline if consumer in self.last else 0
        request = PopRequest(consumer, None, deadline)
        step = pop_polling.polling(self.broker, key, request, True, HELD_MAX, now_ms)
        apply(self.broker, step.changes)
        if step.result is not PollingResult.POLLING_SUC:
            self._answer(consumer)
            return
        self.phase[consumer] = "held"
        if saw:
            self._wake(pop_polling.notify_group(self.broker, key))

    def _answer(self, consumer: str) -> None:
        self.phase[consumer] = "none"
        self.last -= {consumer}

    def _wake(self, step: Step) -> None:
        apply(self.broker, step.changes)
        for consumer in step.result:
            self.phase[consumer] = "begins"
