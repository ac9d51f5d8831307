"""Retry on the reference: one message and its copies, a broker and a consumer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from msgspec import structs

from mqcheck.replay import World, require
from mqcheck.worlds.conversing import Answers, converse
from mqcheck.worlds.terms import GROUP, TOPIC, function
from mqspec.core import delay, lock, retry
from mqspec.core.broker_states import BrokerStates
from mqspec.core.conversation import Count, Look, Put
from mqspec.core.lock import LockState
from mqspec.core.log import DELAY_LEVELS_MS, SCHEDULE_TOPIC, PutResult, PutStatus
from mqspec.core.metadata import BrokerConfig, MetadataState, SubscriptionGroupConfig
from mqspec.core.record import Record, encode_properties
from mqspec.core.response import Answer, Refusal
from mqspec.core.retry import RetrySend, SendBack
from mqspec.core.step import apply

CONFIG = BrokerConfig()
NOW_MS = 0


class RetryWorld(World):
    """Everything of a model of Retry."""

    module = "Retry"
    actions: ClassVar = {
        "Deliver": ("times",),
        "Consume": (),
        "Fail": (),
        "ConsumerSendMsgBack": ("answered",),
        "HandleRetryAndDlq": ("answered",),
        "LoseRequest": (),
    }

    def __init__(self, max_reconsume_times: int, max_losses: int, drops_send_back: bool) -> None:
        self.times = range(max_reconsume_times + 1)
        self.max_losses = max_losses
        config = SubscriptionGroupConfig(
            GROUP,
            retry_queue_nums=0 if drops_send_back else 1,
            retry_max_times=max_reconsume_times,
        )
        self.metadata = MetadataState(subscription_group_table={GROUP: config})
        self.stored: list[Record] = []
        self.held: Record | None = Record(TOPIC, b"")
        self.request = "none"
        self.consumed = self.losses = 0

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> RetryWorld:
        """The world at the beginning of a model with these constants."""
        names = ("MaxReconsumeTimes", "MaxLosses", "DropsSendBack")
        return cls(*(constants[name] for name in names))

    def domain(self, name: str) -> Iterable[object]:
        return {"times": self.times, "answered": (True, False)}[name]

    def state(self) -> dict[str, object]:
        waiting = [m.reconsume_times for m in self.stored if m.topic == retry.retry_topic(GROUP)]
        return {
            "retryTopic": function(self.times, waiting.count),
            "deadLetters": sum(m.topic == retry.dlq_topic(GROUP) for m in self.stored),
            "held": self.held.reconsume_times if self.held else len(self.times),
            "request": self.request,
            "consumed": self.consumed,
            "losses": self.losses,
        }

    def deliver(self, times: int) -> None:
        require(self.held is None)
        at = [(m.topic, m.reconsume_times) for m in self.stored]
        waits = retry.retry_topic(GROUP), times
        require(waits in at)
        self.held = self.stored.pop(at.index(waits))

    def consume(self) -> None:
        self._works()
        self.consumed += 1
        self.held = None

    def fail(self) -> None:
        self._works()
        self.request = "send back"

    def consumer_send_msg_back(self, answered: bool) -> None:
        require(self.request == "send back")
        self.send_back()
        self._answer("send", answered=answered)

    def send_back(self) -> None:
        """What is held is sent back, and the broker stores a copy of it."""
        event = SendBack(GROUP, 0, 0)
        states = BrokerStates(config=CONFIG, metadata=self.metadata)
        answers: Answers = {Look: lambda _: self.held, Put: self._put, Count: lambda _: None}
        assert converse(retry.send_back(states, event, NOW_MS), answers) == Answer()

    def handle_retry_and_dlq(self, answered: bool) -> None:
        require(self.request == "send")
        assert self.held is not None
        level = retry.FIRST_RETRY_LEVEL + self.held.reconsume_times
        copy = structs.replace(
            self.held,
            topic=retry.retry_topic(GROUP),
            properties=encode_properties({delay.LEVEL: str(level)}).encode(),
            reconsume_times=self.held.reconsume_times + 1,
        )
        step = retry.handle_retry_and_dlq(
            self.metadata,
            RetrySend(copy),
            is_lock_all_expired=lock.is_lock_all_expired(LockState(), GROUP, NOW_MS, 0),
            now_ms=NOW_MS,
        )
        apply(self.metadata, step.changes)
        self._store(step.result)
        self._answer("none", answered=answered)

    def _put(self, ask: Put) -> PutResult:
        self._store(ask.message)
        return PutResult(PutStatus.PUT_OK)

    def lose_request(self) -> None:
        require(self.request != "none")
        self._answer("send" if self.request == "send back" else "none", answered=False)

    def _works(self) -> None:
        require(self.held is not None and self.request == "none")

    def _store(self, copy: Record | Refusal) -> None:
        """The broker stores a copy; one that is to wait waits for no time here."""
        assert isinstance(copy, Record)
        placed: Record | None = delay.schedule_message(DELAY_LEVELS_MS, copy)
        if placed and placed.topic == SCHEDULE_TOPIC:
            placed = delay.delivered_copy(placed)
        self.stored += [placed] if placed else []

    def _answer(self, following: str, *, answered: bool) -> None:
        require(answered or self.losses < self.max_losses)
        if answered:
            self.held, self.request = None, "none"
        else:
            self.losses += 1
            self.request = following
