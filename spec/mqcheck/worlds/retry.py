"""Retry on the reference: messages and their copies, a broker and the members of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from msgspec import structs

from mqcheck.replay import NotEnabled, World, require
from mqcheck.values import FrozenDict, ModelValue
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
NOTHING = ModelValue("Nothing")


class RetryWorld(World):
    """Everything of a model of Retry. A message is known by its body."""

    module = "Retry"
    actions: ClassVar = {
        "Deliver": ("member", "message", "times"),
        "Consume": ("member",),
        "Fail": ("member",),
        "ConsumerSendMsgBack": ("member", "answered"),
        "HandleRetryAndDlq": ("member", "answered"),
        "LoseRequest": ("member",),
        "Crash": ("member",),
    }

    def __init__(
        self,
        messages: Iterable[str],
        members: Iterable[str],
        max_reconsume_times: int,
        *,
        drops_send_back: bool,
    ) -> None:
        self.times = range(max_reconsume_times + 1)
        config = SubscriptionGroupConfig(
            GROUP,
            retry_queue_nums=0 if drops_send_back else 1,
            retry_max_times=max_reconsume_times,
        )
        self.metadata = MetadataState(subscription_group_table={GROUP: config})
        self.stored = [Record(TOPIC, message.encode()) for message in messages]
        self.held: dict[str, Record | None] = dict.fromkeys(members)
        self.request = dict.fromkeys(self.held, "none")
        self.consumed = dict.fromkeys(messages, 0)

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> RetryWorld:
        """The world at the beginning of a model with these constants."""
        return cls(
            sorted(constants["Messages"]),
            sorted(constants["Members"]),
            constants["MaxReconsumeTimes"],
            drops_send_back=constants["DropsSendBack"],
        )

    def domain(self, name: str) -> Iterable[object]:
        domains: dict[str, Iterable[object]] = {
            "member": self.held,
            "message": self.consumed,
            "times": self.times,
            "answered": (True, False),
        }
        return domains[name]

    def state(self) -> dict[str, object]:
        return {
            "waiting": function(self.consumed, self._waiting),
            "deadLetters": function(self.consumed, self._dead),
            "held": function(self.held, self._held),
            "request": FrozenDict(self.request),
            "consumed": FrozenDict(self.consumed),
        }

    def deliver(self, member: str, message: str, times: int) -> None:
        require(self.held[member] is None)
        wanted = (message.encode(), times)
        found = [n for n, m in enumerate(self.stored) if _waits(m) and _copy(m) == wanted]
        require(bool(found))
        self.held[member] = self.stored.pop(found[0])

    def consume(self, member: str) -> None:
        copy = self._asking(member, "none")
        self.consumed[copy.body.decode()] += 1
        self.held[member] = None

    def fail(self, member: str) -> None:
        self._asking(member, "none")
        self.request[member] = "send back"

    def consumer_send_msg_back(self, member: str, answered: bool) -> None:
        self.send_back(self._asking(member, "send back"))
        self._answer(member, "send", answered=answered)

    def send_back(self, copy: Record) -> None:
        """A message is sent back, and the broker stores a copy of it."""
        event = SendBack(GROUP, 0, 0)
        states = BrokerStates(config=CONFIG, metadata=self.metadata)
        answers: Answers = {Look: lambda _: copy, Put: self._put, Count: lambda _: None}
        assert converse(retry.send_back(states, event, NOW_MS), answers) == Answer()

    def handle_retry_and_dlq(self, member: str, answered: bool) -> None:
        held = self._asking(member, "send")
        level = retry.FIRST_RETRY_LEVEL + held.reconsume_times
        copy = structs.replace(
            held,
            topic=retry.retry_topic(GROUP),
            properties=encode_properties({delay.LEVEL: str(level)}).encode(),
            reconsume_times=held.reconsume_times + 1,
        )
        step = retry.handle_retry_and_dlq(
            self.metadata,
            RetrySend(copy),
            is_lock_all_expired=lock.is_lock_all_expired(LockState(), GROUP, NOW_MS, 0),
            now_ms=NOW_MS,
        )
        apply(self.metadata, step.changes)
        self._store(step.result)
        self._answer(member, "none", answered=answered)

    def _put(self, ask: Put) -> PutResult:
        self._store(ask.message)
        return PutResult(PutStatus.PUT_OK)

    def lose_request(self, member: str) -> None:
        require(self.request[member] != "none")
        following = "send" if self.request[member] == "send back" else "none"
        self._answer(member, following, answered=False)

    def crash(self, member: str) -> None:
        copy = self.held[member]
        if copy is None:
            raise NotEnabled
        self.spend("MaxCrashes")
        self.stored.append(copy)
        self.held[member], self.request[member] = None, "none"

    def _asking(self, member: str, request: str) -> Record:
        """What a member works on that asks this of the broker."""
        copy = self.held[member]
        if copy is None or self.request[member] != request:
            raise NotEnabled
        return copy

    def _store(self, copy: Record | Refusal) -> None:
        """The broker stores a copy; one that is to wait waits for no time here."""
        assert isinstance(copy, Record)
        placed: Record | None = delay.schedule_message(DELAY_LEVELS_MS, copy)
        if placed and placed.topic == SCHEDULE_TOPIC:
            placed = delay.delivered_copy(placed)
        self.stored += [placed] if placed else []

    def _answer(self, member: str, following: str, *, answered: bool) -> None:
        if answered:
            self.held[member], self.request[member] = None, "none"
        else:
            self.spend("MaxLosses")
            self.request[member] = following

    def _waiting(self, message: str) -> FrozenDict:
        times = [m.reconsume_times for m in self.stored if _waits(m) and m.body == message.encode()]
        return function(self.times, times.count)

    def _dead(self, message: str) -> int:
        return sum(m.body == message.encode() and not _waits(m) for m in self.stored)

    def _held(self, member: str) -> object:
        copy = self.held[member]
        if copy is None:
            return NOTHING
        return FrozenDict({"message": copy.body.decode(), "times": copy.reconsume_times})


def _waits(copy: Record) -> bool:
    """Whether a copy is to be delivered: from its queue, or from the retry topic."""
    return copy.topic in (TOPIC, retry.retry_topic(GROUP))


def _copy(record: Record) -> tuple[bytes, int]:
    return record.body, record.reconsume_times
