"""LongPolling on the reference: one queue of one broker, and consumers that pull it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.terms import TOPIC, function
from mqspec.core import long_polling
from mqspec.core.long_polling import LongPollingState, PullRequest
from mqspec.core.record import tags_code
from mqspec.core.response import ResponseCode
from mqspec.core.step import Step, apply
from mqspec.core.subscription import build_subscription_data, is_matched_by_consume_queue

QUEUE = (TOPIC, 0)
WANTED = build_subscription_data(TOPIC, "A")


class LongPollingWorld(World):
    """Everything of a model of LongPolling. A unit of its time is a ms here."""

    module = "LongPolling"
    actions: ClassVar = {
        "PutMessage": ("tag",),
        "Dispatch": (),
        "PullMessage": ("consumer",),
        "SuspendPullRequest": ("consumer",),
        "NotifyMessageArriving": (),
        "CheckHoldRequest": (),
        "Tick": (),
    }

    def __init__(
        self,
        consumers: Iterable[str],
        max_messages: int,
        suspend_timeout: int,
        check_interval: int,
    ) -> None:
        self.consumers = tuple(consumers)
        self.max_messages = max_messages
        self.suspend_timeout = suspend_timeout
        self.check_interval = check_interval
        self.broker = LongPollingState()
        self.queue: tuple[str, ...] = ()
        self.max_offset = 0
        self.arrived = 0
        self.now = 0
        self.last_check = 0
        self.reading: set[str] = set()
        self.pull_from = dict.fromkeys(self.consumers, 0)
        self.began = dict.fromkeys(self.consumers, 0)  # pulls that are under way, when
        self.answers: frozenset[FrozenDict] = frozenset()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> LongPollingWorld:
        """The world at the beginning of a model with these constants."""
        return cls(
            sorted(constants["Consumers"]),
            constants["MaxMessages"],
            constants["SuspendTimeout"],
            constants["CheckInterval"],
        )

    def domain(self, name: str) -> Iterable[object]:
        return {"consumer": self.consumers, "tag": ("A", "B")}[name]

    def state(self) -> dict[str, object]:
        held = self._held()
        return {
            "queue": self.queue,
            "maxOffset": self.max_offset,
            "arrived": self.arrived,
            "reading": frozenset(self.reading),
            "pullRequestTable": frozenset(held),
            "pullFromThisOffset": function(
                self.consumers,
                lambda c: held[c].pull_from_this_offset if c in held else self.pull_from[c],
            ),
            "waited": function(self.consumers, lambda c: self._waited(c) if c in held else 0),
            "sinceCheck": self.now - self.last_check,
            "answers": self.answers,
        }

    def put_message(self, tag: str) -> None:
        require(len(self.queue) < self.max_messages)
        self.queue = (*self.queue, tag)
        self.answers = frozenset()

    def dispatch(self) -> None:
        require(self.arrived == self.max_offset < len(self.queue))
        self.max_offset += 1
        self.answers = frozenset()

    def pull_message(self, consumer: str) -> None:
        require(consumer not in self.reading and consumer not in self._held())
        self.began[consumer] = self.now
        self.answers = frozenset()
        if self._code(consumer) is ResponseCode.PULL_NOT_FOUND:
            self.reading.add(consumer)
        else:
            self._answer((consumer,), "read")

    def suspend_pull_request(self, consumer: str) -> None:
        require(consumer in self.reading)
        self.reading.remove(consumer)
        deadline = self.began[consumer] + self.suspend_timeout
        request = PullRequest(consumer, self.pull_from[consumer], WANTED, deadline)
        self._carry(long_polling.suspend_pull_request(self.broker, QUEUE, request))
        self.answers = frozenset()

    def notify_message_arriving(self) -> None:
        require(self.arrived < self.max_offset)
        code = tags_code(self.queue[self.arrived])
        self.arrived += 1
        step = long_polling.notify_message_arriving(
            self.broker, QUEUE, self.arrived, code, self.now
        )
        self._answer(self._carry(step), "arrival")

    def check_hold_request(self) -> None:
        require(self.now - self.last_check == self.check_interval)
        self.last_check = self.now
        step = long_polling.check_hold_request(self.broker, lambda _: self.max_offset, self.now)
        self._answer(self._carry(step), "check")

    def tick(self) -> None:
        require(self.now - self.last_check < self.check_interval and not self.reading)
        self.now += 1
        self.answers = frozenset()

    def _held(self) -> dict[str, PullRequest]:
        held = self.broker.pull_request_table.get(QUEUE, ())
        return {str(request.token): request for request in held}

    def _waited(self, consumer: str) -> int:
        return self.now - self.began[consumer]

    def _carry(self, step: Step) -> tuple[str, ...]:
        apply(self.broker, step.changes)
        return step.result or ()

    def _code(self, consumer: str) -> ResponseCode:
        seen = self.queue[self.pull_from[consumer] : self.max_offset]
        if not seen:
            return ResponseCode.PULL_NOT_FOUND
        if any(is_matched_by_consume_queue(WANTED, tags_code(tag)) for tag in seen):
            return ResponseCode.SUCCESS
        return ResponseCode.PULL_RETRY_IMMEDIATELY

    def _answer(self, woken: Iterable[str], by: str) -> None:
        self.answers = frozenset(
            FrozenDict({"to": c, "code": int(self._code(c)), "by": by, "waited": self._waited(c)})
            for c in woken
        )
        for answer in self.answers:
            self.pull_from[answer["to"]] = self.max_offset
