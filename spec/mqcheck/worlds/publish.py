"""Publish on the reference: one producer, and the brokers of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.terms import TOPIC, function
from mqspec.core import producer, publish
from mqspec.core.metadata import BrokerConfig, MetadataState, TopicConfig
from mqspec.core.producer import STORED, ProducerState
from mqspec.core.response import Refusal, ResponseCode
from mqspec.core.step import apply
from mqspec.core.types import MessageQueue

# What MC_Publish.tla calls by name.
_QUEUES: Mapping[str, tuple[str, ...]] = {
    "TwoBrokers": ("a", "b"),
    "ThreeQueues": ("a", "a", "b"),
}
_METADATA = MetadataState({TOPIC: TopicConfig(TOPIC, 4, 4)})
_ENDS = ("ok", "refused", "unknown")
_FAST_MS, _SLOW_MS = 0, 15_000
_NOW_MS = 0


@dataclass(slots=True)
class _Sending:
    """One message, and what its sender knows."""

    outcome: str = "new"
    tries: int = 0
    tried: MessageQueue | None = None
    lost: int = 0
    not_store_ok: int = 0
    answer: str = "none"


class PublishWorld(World):
    """Everything of a model of Publish.

    Its clock stands still: that a broker was avoided long enough is told to its item alone.
    """

    module = "Publish"
    actions: ClassVar = {
        "SelectOneMessageQueue": ("message",),
        "CheckSend": ("request", "code"),
        "Receive": ("message", "latency"),
        "LoseAnswer": ("message", "goes_on"),
        "Elapse": ("broker",),
    }

    def __init__(
        self,
        messages: Iterable[int],
        brokers: tuple[str, ...],
        mode: str,
        max_tries: int,
        limits: tuple[int, int],
        avoids: bool,
        retries_not_store_ok: bool,
    ) -> None:
        self.queues = [MessageQueue(TOPIC, b, brokers[:i].count(b)) for i, b in enumerate(brokers)]
        self.brokers = sorted(set(brokers))
        self.mode = mode
        self.max_tries = max_tries if mode == "sync" else 1
        self.losses_left, self.refusals_left = self.limits = limits
        self.avoids = avoids
        self.retries_not_store_ok = retries_not_store_ok
        self.producer = ProducerState()
        self.sending = {m: _Sending() for m in messages}
        self.requests: set[tuple[int, int, MessageQueue]] = set()
        self.stored: dict[MessageQueue, tuple[int, ...]] = dict.fromkeys(self.queues, ())

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> PublishWorld:
        """The world at the beginning of a model with these constants."""
        return cls(
            sorted(constants["Messages"]),
            _QUEUES[constants["QueueBrokers"]],
            constants["Mode"],
            constants["MaxTries"],
            (constants["MaxLosses"], constants["MaxRefusals"]),
            constants["Avoids"],
            constants["RetriesNotStoreOk"],
        )

    def domain(self, name: str) -> Iterable[object]:
        return {
            "message": self.sending,
            "request": sorted(self.requests),
            "code": ("ok", "not store ok", "try again", "refused"),
            "latency": (_FAST_MS, _SLOW_MS) if self.avoids else (_FAST_MS,),
            "goes_on": (True, False),
            "broker": self.brokers,
        }[name]

    def state(self) -> dict[str, object]:
        turn = self.producer.send_which_queue.get(TOPIC, -1)
        sending = self.sending.values()
        return {
            "sendWhichQueue": turn % len(self.queues) + 1,
            "faultItemTable": function(self.brokers, self._fault_item),
            "requests": frozenset(
                FrozenDict({"message": m, "try": n, "queue": self._number(q)})
                for m, n, q in self.requests
            ),
            "stored": tuple(self.stored[q] for q in self.queues),
            "answer": tuple(one.answer for one in sending),
            "outcome": tuple(one.outcome for one in sending),
            "tries": tuple(one.tries for one in sending),
            "tried": tuple(self._number(one.tried) for one in sending),
            "lost": tuple(one.lost for one in sending),
            "notStoreOk": tuple(one.not_store_ok for one in sending),
            "losses": self.limits[0] - self.losses_left,
            "refusals": self.limits[1] - self.refusals_left,
        }

    def select_one_message_queue(self, message: int) -> None:
        one = self.sending[message]
        require(one.outcome in ("new", "to try"))
        if self.mode == "orderly":
            before = (self.sending[m] for m in self.sending if m < message)
            require(all(other.outcome in _ENDS for other in before))
            one.tried = self.queues[0]
        else:
            last_broker = one.tried.broker_name if one.tried else None
            now_ms = _NOW_MS if self.avoids else None
            step = producer.select_one_message_queue(
                self.producer, self.queues, last_broker, now_ms
            )
            apply(self.producer, step.changes)
            one.tried = step.result
        one.tries += 1
        one.outcome = "sent" if self.mode == "oneway" else "waits"
        assert one.tried is not None
        self.requests.add((message, one.tries, one.tried))

    def check_send(self, request: tuple[int, int, MessageQueue], code: str) -> None:
        message, number, queue = request
        require(code == "ok" or self.refusals_left > 0)
        self.refusals_left -= code != "ok"
        self.requests.remove(request)
        if _response_code(code, queue) in STORED:
            self.stored[queue] += (message,)
        one = self.sending[message]
        if one.outcome == "waits" and one.tries == number:
            one.answer = code

    def receive(self, message: int, latency: int) -> None:
        one = self.sending[message]
        require(one.outcome == "waits" and one.answer != "none")
        assert one.tried is not None
        code = _response_code(one.answer, one.tried)
        again = producer.is_tried_again(code, retries_not_store_ok=self.retries_not_store_ok)
        is_stored = code in STORED
        one.not_store_ok += is_stored and again
        self._end_try(one, again=again, is_stored=is_stored or one.not_store_ok > 0)
        self._update_fault_item(one.tried, latency, isolation=not is_stored, reachable=is_stored)

    def lose_answer(self, message: int, goes_on: bool) -> None:
        one = self.sending[message]
        require(one.outcome == "waits" and self.losses_left > 0)
        require(not goes_on or one.tries < self.max_tries)
        assert one.tried is not None
        self.losses_left -= 1
        one.lost += 1
        again = goes_on and producer.is_tried_again(None)
        self._end_try(one, again=again, is_stored=one.not_store_ok > 0)
        self._update_fault_item(one.tried, _SLOW_MS, isolation=True, reachable=True)

    def elapse(self, broker: str) -> None:
        item = self.producer.fault_item_table.get(broker)
        require(item is not None and item.start_timestamp_ms > _NOW_MS)
        assert item is not None
        self.producer.fault_item_table[broker] = replace(item, start_timestamp_ms=_NOW_MS)

    def _end_try(self, one: _Sending, *, again: bool, is_stored: bool) -> None:
        one.answer = "none"
        if again and one.tries < self.max_tries:
            one.outcome = "to try"
        elif is_stored:
            one.outcome = "ok"
        else:
            one.outcome = "unknown" if one.lost else "refused"

    def _update_fault_item(
        self, queue: MessageQueue, latency: int, *, isolation: bool, reachable: bool
    ) -> None:
        if self.avoids:
            step = producer.update_fault_item(
                self.producer,
                queue.broker_name,
                latency,
                _NOW_MS,
                isolation=isolation,
                reachable=reachable,
            )
            apply(self.producer, step.changes)

    def _fault_item(self, broker: str) -> FrozenDict:
        item = self.producer.fault_item_table.get(broker)
        return FrozenDict(
            {
                "available": item is None or item.start_timestamp_ms <= _NOW_MS,
                "reachable": item is None or item.reachable,
            }
        )

    def _number(self, queue: MessageQueue | None) -> int:
        return self.queues.index(queue) + 1 if queue else 0


def _response_code(code: str, queue: MessageQueue) -> ResponseCode:
    """How a broker answers: whether it may store the message is asked of the core."""
    if code == "not store ok":
        return ResponseCode.FLUSH_DISK_TIMEOUT
    event = publish.Send(
        topic="unknown" if code == "try again" else TOPIC,
        default_topic="",
        default_topic_queue_nums=0,
        queue_id=99 if code == "refused" else queue.queue_id,
        properties="",
        producer="127.0.0.1:1",
    )
    result = publish.check_send(_METADATA, BrokerConfig(), event, 0).result
    return result.code if isinstance(result, Refusal) else ResponseCode.SUCCESS
