"""Rebalance on the reference: the brokers' tables, and the members' services and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any, ClassVar

from mqcheck.replay import ReplayError, World, require
from mqcheck.values import FrozenDict, ModelValue
from mqcheck.worlds.terms import GROUP, TOPIC, function, message_queue
from mqspec.core import group, offset_commit, rebalance
from mqspec.core.allocation import AVG, AVG_BY_CIRCLE, Strategy
from mqspec.core.step import Step, apply

# What MC_Rebalance.tla calls by name.
_IDS: Mapping[str, Callable[[int], int]] = {"UniqueIds": lambda place: place, "OneId": lambda _: 1}
_STRATEGIES: Mapping[str, Callable[[int], Strategy]] = {
    "AllAveragely": lambda _: AVG,
    "MixedStrategies": lambda place: AVG if place == 1 else AVG_BY_CIRCLE,
}
_ROUTES: Mapping[str, Callable[[int], range]] = {
    "AllQueues": lambda _: range(3),
    "MixedRoutes": lambda place: range(3 if place == 1 else 2),
}


class RebalanceWorld(World):
    """Everything of a model of Rebalance."""

    module = "Rebalance"
    actions: ClassVar = {
        "Join": ("member",),
        "Leave": ("member",),
        "Crash": ("member",),
        "RegisterConsumer": ("member", "broker"),
        "UnregisterConsumer": ("member", "broker"),
        "CloseChannel": ("member", "broker"),
        "ScanNotActiveChannel": ("member", "broker"),
        "LoseNotice": ("member",),
        "NotifyConsumerIdsChanged": ("member",),
        "DoRebalance": ("member", "broker"),
        "RebalanceByTopic": ("member",),
    }

    def __init__(
        self,
        brokers: Iterable[str],
        ids: Mapping[str, int],
        initial: Iterable[str],
        routes: Mapping[str, Iterable[int]],
        strategies: Mapping[str, Strategy],
        notices: bool,
    ) -> None:
        self.brokers = {b: group.GroupState() for b in brokers}
        self.ids, self.routes, self.strategies = ids, routes, strategies
        self.sends_notices = notices
        self.consumers = {m: offset_commit.ConsumerState() for m in ids}
        self.services = {m: rebalance.RebalanceState(has_notified=False) for m in ids}
        self.status = dict.fromkeys(ids, "out")
        self.cid_all: dict[str, tuple[str, ...] | None] = dict.fromkeys(ids)
        self.notices: set[str] = set()
        self._begin(tuple(initial))

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> RebalanceWorld:
        """The world at the beginning of a model with these constants."""
        places = {m: place for place, m in enumerate(sorted(constants["Members"]), start=1)}
        return cls(
            sorted(constants["Brokers"]),
            {m: _IDS[constants["ClientId"]](place) for m, place in places.items()},
            sorted(constants["InitialMembers"]),
            {m: _ROUTES[constants["MqAll"]](place) for m, place in places.items()},
            {m: _STRATEGIES[constants["Strategy"]](place) for m, place in places.items()},
            notices=constants["Notices"] != "none",
        )

    def domain(self, name: str) -> Iterable[object]:
        return {"member": self.ids, "broker": self.brokers}[name]

    def state(self) -> dict[str, object]:
        no_list = ModelValue("NoList")
        return {
            "consumerTable": function(self.brokers, lambda b: frozenset(self._channels(b))),
            "notices": frozenset(self.notices),
            "status": FrozenDict(self.status),
            "processQueueTable": function(
                self.ids,
                lambda m: frozenset(q.queue_id for q in self.consumers[m].process_queue_table),
            ),
            "hasNotified": function(self.ids, lambda m: self.services[m].has_notified),
            "cidAll": function(
                self.ids,
                lambda m: no_list if (read := self.cid_all[m]) is None else frozenset(read),
            ),
        }

    def join(self, member: str) -> None:
        require(self.status[member] == "out")
        self.status[member] = "in"
        self.services[member] = rebalance.RebalanceState()

    def leave(self, member: str) -> None:
        self._stop(member, "left")

    def crash(self, member: str) -> None:
        self._stop(member, "crashed")

    def register_consumer(self, member: str, broker: str) -> None:
        require(self.status[member] == "in" and member not in self._channels(broker))
        self._heartbeat(member, broker, now_ms=0)

    def unregister_consumer(self, member: str, broker: str) -> None:
        require(self.status[member] == "left" and member in self._channels(broker))
        self._carry(broker, group.unregister_consumer(self.brokers[broker], GROUP, member))

    def close_channel(self, member: str, broker: str) -> None:
        require(self.status[member] in ("in", "crashed") and member in self._channels(broker))
        self._carry(broker, group.close_channel(self.brokers[broker], member))

    def scan_not_active_channel(self, member: str, broker: str) -> None:
        require(self.status[member] == "crashed" and member in self._channels(broker))
        now_ms = group.CHANNEL_EXPIRED_TIMEOUT_MS + 1
        others = [other for other in self._channels(broker) if other != member]
        for other in others:
            self._heartbeat(other, broker, now_ms)
        self._carry(broker, group.scan_not_active_channel(self.brokers[broker], now_ms))
        for other in others:
            self._heartbeat(other, broker, now_ms=0)

    def lose_notice(self, member: str) -> None:
        require(member in self.notices)
        self.notices.remove(member)

    def notify_consumer_ids_changed(self, member: str) -> None:
        require(member in self.notices)
        self.notices.remove(member)
        if self.status[member] == "in":
            service = self.services[member]
            apply(service, rebalance.notify_consumer_ids_changed(service).changes)

    def do_rebalance(self, member: str, broker: str) -> None:
        require(self.status[member] == "in" and self.cid_all[member] is None)
        service = self.services[member]
        apply(service, rebalance.do_rebalance(service).changes)
        self.cid_all[member] = self._channels(broker)

    def rebalance_by_topic(self, member: str) -> None:
        channels = self.cid_all[member]
        require(channels is not None)
        self.cid_all[member] = None
        self._rebalance(member, channels or ())

    def _begin(self, initial: tuple[str, ...]) -> None:
        for member, broker in product(initial, self.brokers):
            self._heartbeat(member, broker, now_ms=0)
        self.notices.clear()
        for member in initial:
            self.status[member] = "in"
            self._rebalance(member, initial)

    def _stop(self, member: str, status: str) -> None:
        require(self.status[member] == "in")
        self.status[member] = status
        self.consumers[member] = offset_commit.ConsumerState()
        self.services[member] = rebalance.RebalanceState(has_notified=False)
        self.cid_all[member] = None

    def _rebalance(self, member: str, channels: tuple[str, ...]) -> None:
        state = self.consumers[member]
        who = rebalance.Member(GROUP, str(self.ids[member]), self.strategies[member])
        queues = tuple(map(message_queue, self.routes[member]))
        cids = tuple(str(self.ids[channel]) for channel in channels) or None
        step = rebalance.rebalance_by_topic(state, who, rebalance.View(TOPIC, queues, cids), 0)
        apply(state, step.changes)
        for mq in step.result.added:
            apply(state, offset_commit.add_message_queue(state, mq, 0, 0, 0).changes)

    def _channels(self, broker: str) -> tuple[str, ...]:
        """The members that a broker lists, by channel; their ids are what it answers."""
        state = self.brokers[broker]
        info = state.consumer_table.get(GROUP)
        channels = tuple(map(str, info.channel_info_table)) if info else ()
        listed = group.consumer_id_list(state, GROUP) or []
        if sorted(map(str, listed)) != sorted(str(self.ids[channel]) for channel in channels):
            raise ReplayError(f"{broker} lists {listed} for the channels {channels}")
        return channels

    def _heartbeat(self, member: str, broker: str, now_ms: int) -> None:
        info = group.ClientChannelInfo(str(self.ids[member]), "JAVA", 0, now_ms)
        subscribed = (group.SubscriptionData(TOPIC),)
        event = group.RegisterConsumer(GROUP, member, info, subscribed)
        self._carry(broker, group.register_consumer(self.brokers[broker], event))

    def _carry(self, broker: str, step: Step) -> None:
        apply(self.brokers[broker], step.changes)
        if self.sends_notices:
            sent = (s for s in step.sends if isinstance(s, group.NotifyConsumerIdsChanged))
            self.notices |= {str(notice.channel) for notice in sent}
