"""MC_Release on the reference: a broker, a member that goes, and one that takes its queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, ClassVar

from mqcheck.replay import NotEnabled, World, require
from mqcheck.worlds.terms import GROUP, TOPIC, message_queue
from mqspec.core import group, lock, offset_commit, rebalance
from mqspec.core.allocation import AVG
from mqspec.core.group import ClientChannelInfo, GroupState, RegisterConsumer
from mqspec.core.lock import LockBatch, LockState
from mqspec.core.metadata import BrokerConfig
from mqspec.core.offset_commit import ConsumerState
from mqspec.core.rebalance import RebalanceState
from mqspec.core.step import Step, apply

MQ = message_queue(0)
GOES, STAYS = "a", "b"  # client ids and channels: the first of them is given the queue
UNIT_MS = group.SCAN_INTERVAL_MS
MAX_LIVE_MS = BrokerConfig().rebalance_lock_max_live_time_ms
AGES = ("heartbeat", "lock", "scan", "rebalance")


class ReleaseWorld(World):
    """Everything of a model of MC_Release. How long a lock or a member lives, and how often it is
    looked for, is the reference's; a unit of the model's time is 10 s."""

    module = "MC_Release"
    actions: ClassVar = {"Remove": (), "Scan": (), "Rebalance": (), "Tick": ()}

    def __init__(self) -> None:
        self.ending, self.arrives, self.ordered = "stopped", False, False
        self.now_ms = 0
        self.since_ms = dict.fromkeys(AGES, 0)  # when each of these was last
        self.groups, self.locks = GroupState(), LockState()
        self.consumer, self.service = ConsumerState(), RebalanceState(has_notified=False)

    @classmethod
    def of(cls, _: Mapping[str, Any]) -> ReleaseWorld:
        """The world of a model with the figures of 5.3.3."""
        return cls()

    def start_from(self, initial: Mapping[str, Any]) -> ReleaseWorld:
        self.ending, self.arrives = initial["ending"], initial["arrives"]
        self.ordered = initial["ordered"]
        self.since_ms = {name: -UNIT_MS * initial[name] for name in AGES}

        for channel, heard_ms in ((GOES, self.since_ms["heartbeat"]), (STAYS, self.now_ms)):
            info = ClientChannelInfo(channel, "JAVA", 0, heard_ms)
            event = RegisterConsumer(GROUP, channel, info, subscriptions=())
            apply(self.groups, group.register_consumer(self.groups, event).changes)
        # An instant before: in the model a lock is free that is as old as it may be.
        self._lock(GOES, self.since_ms["lock"] - 1)
        ended = rebalance.rebalanced(self.service, True, self.since_ms["rebalance"])
        apply(self.service, ended.changes)
        return self

    def domain(self, name: str) -> Iterable[object]:
        raise AssertionError(name)  # no action has parameters

    def state(self) -> dict[str, object]:
        return {
            "ending": self.ending,
            "arrives": self.arrives,
            "ordered": self.ordered,
            "known": GOES in self._ids(),
            "wakes": self.service.has_notified or not self.service.balanced,
            **{name: self._age(name) for name in AGES},
            "waited": self.now_ms // UNIT_MS,
            "owned": self._owns(),
        }

    def remove(self) -> None:
        require(not self._owns() and GOES in self._ids() and self.ending != "silent")
        if self.ending == "stopped":
            event = LockBatch(GROUP, GOES, (MQ,))
            apply(self.locks, lock.unlock_batch(self.locks, event).changes)
            self._tell(group.unregister_consumer(self.groups, GROUP, GOES))
        else:
            self._tell(group.close_channel(self.groups, GOES))

    def scan(self) -> None:
        require(not self._owns() and self._age("scan") * UNIT_MS == group.SCAN_INTERVAL_MS)
        self._tell(group.scan_not_active_channel(self.groups, self.now_ms))
        self.since_ms["scan"] = self.now_ms

    def rebalance(self) -> None:
        """The 1 s between two of them is no time in the model, whose member asks again for a lock
        only where the lock is free, or the timer has it ask."""
        is_known, service = GOES in self._ids(), self.service
        is_timer = self._age("rebalance") * UNIT_MS == rebalance.WAIT_INTERVAL_MS
        require(not self._owns())
        require(rebalance.next_rebalance_ms(service, min_ms=0) <= self.now_ms)

        apply(service, rebalance.do_rebalance(service).changes)
        is_balanced = self._by_topic()
        require(is_timer or is_known or self._owns())
        apply(service, rebalance.rebalanced(service, is_balanced, self.now_ms).changes)
        self.since_ms["rebalance"] = service.last_rebalance_ms

    def tick(self) -> None:
        require(not self._owns())
        for action in (ReleaseWorld.remove, ReleaseWorld.scan, ReleaseWorld.rebalance):
            try:
                action(deepcopy(self))
            except NotEnabled:
                continue
            raise NotEnabled  # time passes when nothing is due
        self.now_ms += UNIT_MS
        heard = ClientChannelInfo(STAYS, "JAVA", 0, self.now_ms)
        event = RegisterConsumer(GROUP, STAYS, heard, subscriptions=())
        apply(self.groups, group.register_consumer(self.groups, event).changes)

    def _by_topic(self) -> bool:
        """The one that stays takes what is its share. Whether it has that now."""
        who = rebalance.Member(GROUP, STAYS, AVG, orderly=self.ordered)
        view = rebalance.View(TOPIC, (MQ,), tuple(self._ids()))
        step = rebalance.rebalance_by_topic(self.consumer, who, view, self.now_ms)
        apply(self.consumer, step.changes)
        outcome: rebalance.Rebalanced = step.result
        for mq in outcome.added:
            if self.ordered and not self._lock(STAYS, self.now_ms):
                return False
            held = offset_commit.add_message_queue(self.consumer, mq, 0, 0, self.now_ms)
            apply(self.consumer, held.changes)
        return outcome.balanced

    def _lock(self, member: str, now_ms: int) -> bool:
        step = lock.try_lock_batch(self.locks, LockBatch(GROUP, member, (MQ,)), now_ms, MAX_LIVE_MS)
        apply(self.locks, step.changes)
        return MQ in step.result

    def _tell(self, step: Step) -> None:
        """The group has changed, and the one that stays is told, where that arrives."""
        apply(self.groups, step.changes)
        for send in step.sends:
            if self.arrives and send.channel == STAYS:
                noticed = rebalance.notify_consumer_ids_changed(self.service)
                apply(self.service, noticed.changes)

    def _ids(self) -> list[str]:
        return [str(name) for name in group.consumer_id_list(self.groups, GROUP) or ()]

    def _age(self, name: str) -> int:
        return (self.now_ms - self.since_ms[name]) // UNIT_MS

    def _owns(self) -> bool:
        return MQ in self.consumer.process_queue_table
