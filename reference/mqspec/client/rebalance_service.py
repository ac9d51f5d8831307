"""The rebalance of a member: when it looks at its topics again, and what it takes and gives up.

core.rebalance decides both; this waits, asks who is in the group, and has the member carry out
what was decided.

Facts: client/impl/consumer/{RebalanceService,RebalanceImpl}.java, 5.3.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from mqspec.client.clock import now_ms
from mqspec.client.instance import ClientInstance
from mqspec.client.member_config import MemberConfig
from mqspec.client.member_trace import MemberTrace
from mqspec.client.membership import member_ids
from mqspec.client.message import RETRY_TOPIC_PREFIX
from mqspec.client.tasks import first
from mqspec.core.group import SubscriptionData
from mqspec.core.offset_commit import ConsumerState
from mqspec.core.rebalance import (
    Member,
    Rebalanced,
    RebalanceState,
    View,
    do_rebalance,
    next_rebalance_ms,
    notify_consumer_ids_changed,
    rebalance_by_topic,
    rebalanced,
)
from mqspec.core.step import Step, apply
from mqspec.core.types import ClientId, Group, MessageQueue, Topic

log = logging.getLogger(__name__)


class RebalanceWork(Protocol):
    """A member, as its rebalance sees it."""

    group: Group
    instance: ClientInstance
    is_broadcasting: bool
    state: ConsumerState
    subscriptions: dict[Topic, SubscriptionData]
    trace: MemberTrace

    @property
    def client_id(self) -> ClientId:
        """Its id in the group."""

    @property
    def is_orderly(self) -> bool:
        """Whether its queues are locked."""

    @property
    def consuming(self) -> frozenset[MessageQueue]:
        """The queues on whose messages an orderly listener works."""

    def subscribed_queues(self, topic: Topic) -> tuple[MessageQueue, ...] | None:
        """Where messages of a topic may be; None where no route is known."""

    async def carry_out(self, step: Step) -> None:
        """Apply a step to its state, and send what is to be sent."""

    async def forget(self, removed: Iterable[MessageQueue]) -> None:
        """Queues are not in its table any more."""

    async def start_on(self, mq: MessageQueue) -> bool:
        """Begin to hold a queue; whether it is held now."""

    async def announce_change(self) -> None:
        """Tell brokers that it holds other queues than before."""


class RebalanceService:
    """The rebalances of one member."""

    def __init__(self, member: RebalanceWork, config: MemberConfig) -> None:
        self._member, self._config = member, config
        self._state = RebalanceState()
        self._wake = asyncio.Event()
        self.is_paused = False  # topics are not looked at

    def immediately(self) -> None:
        """Rebalance as soon as the last one is a second ago."""
        self._carry(notify_consumer_ids_changed(self._state))
        self._wake.set()

    async def run(self) -> None:
        """Rebalance again and again."""
        config = self._config
        intervals = config.rebalance_wait_interval_ms, config.rebalance_min_interval_ms
        while True:
            while (wait_ms := next_rebalance_ms(self._state, *intervals) - now_ms()) > 0:
                self._wake.clear()
                await first(self._wake.wait(), wait_ms)

            self._carry(do_rebalance(self._state))
            balanced = not self.is_paused
            for topic in () if self.is_paused else self._member.subscriptions:
                balanced &= await self._try_topic(topic)
            self._carry(rebalanced(self._state, balanced, now_ms()))

    def _carry(self, step: Step) -> None:
        self._member.trace.step(step, "Rebalance")
        apply(self._state, step.changes)

    async def _try_topic(self, topic: Topic) -> bool:
        """A topic that fails stops no other, and is tried again (RebalanceImpl.doRebalance)."""
        try:
            return await self._by_topic(topic)
        except Exception:
            log.exception("%s: %s is not rebalanced", self._member.group, topic)
            return topic.startswith(RETRY_TOPIC_PREFIX)

    async def _by_topic(self, topic: Topic) -> bool:
        """Whether the member now has its share of the topic, and no more."""
        member = self._member
        view = await self._view(topic)
        member.trace.told("view", topic, view)
        step = rebalance_by_topic(member.state, self._as_core_knows_it(), view, now_ms())
        outcome: Rebalanced = step.result

        await member.carry_out(step)
        await member.forget(outcome.removed)
        started = [await member.start_on(mq) for mq in outcome.added]
        if outcome.removed or any(started):
            await member.announce_change()
        return outcome.balanced and all(started)

    async def _view(self, topic: Topic) -> View:
        """What the member knows of a topic and its group."""
        member = self._member
        ids: tuple[ClientId, ...] | None = ()
        if not member.is_broadcasting:
            ids = await member_ids(member.instance, member.group, topic)
        # In this order: to ask for the members may have brought the topic's route.
        return View(topic, member.subscribed_queues(topic), ids, member.consuming)

    def _as_core_knows_it(self) -> Member:
        member, config = self._member, self._config
        return Member(
            member.group,
            member.client_id,
            config.strategy,
            config.message_model,
            member.is_orderly,
        )
