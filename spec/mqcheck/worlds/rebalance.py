"""Rebalance on the reference: the brokers' tables, and the members' services and queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import require
from mqcheck.values import ModelValue
from mqcheck.worlds.group import GroupWorld
from mqcheck.worlds.terms import GROUP, TOPIC, function, message_queue, rebalance_by_topic
from mqspec.core import offset_commit, rebalance
from mqspec.core.allocation import AVG, AVG_BY_CIRCLE, Strategy
from mqspec.core.step import apply

# What MC_Rebalance.tla calls by name.
_IDS: Mapping[str, Callable[[int], int]] = {"UniqueIds": lambda place: place, "OneId": lambda _: 1}
_STRATEGIES: Mapping[str, Callable[[int], Strategy]] = {
    "AllAveragely": lambda _: AVG,
    "MixedStrategies": lambda place: AVG if place == 1 else AVG_BY_CIRCLE,
}
_ROUTES: Mapping[str, Callable[[int], range]] = {
    "AllQueues": lambda _: range(3),
    "TwoQueues": lambda _: range(2),
    "MixedRoutes": lambda place: range(3 if place == 1 else 2),
}


class RebalanceWorld(GroupWorld):
    """Everything of a model of Rebalance."""

    module = "Rebalance"
    actions: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **GroupWorld.actions,
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
        super().__init__(brokers, ids, initial, notices)
        self.routes, self.strategies = routes, strategies
        self.consumers = {m: offset_commit.ConsumerState() for m in ids}
        self.services = {m: rebalance.RebalanceState(has_notified=False) for m in ids}
        self.cid_all: dict[str, tuple[str, ...] | None] = dict.fromkeys(ids)
        for member in initial:
            self._rebalance(member, tuple(initial))

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

    def state(self) -> dict[str, object]:
        no_list = ModelValue("NoList")
        return super().state() | {
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
        super().join(member)
        self.services[member] = rebalance.RebalanceState()

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

    def _stop(self, member: str, status: str) -> None:
        super()._stop(member, status)
        self.consumers[member] = offset_commit.ConsumerState()
        self.services[member] = rebalance.RebalanceState(has_notified=False)
        self.cid_all[member] = None

    def _rebalance(self, member: str, channels: tuple[str, ...]) -> None:
        who = rebalance.Member(GROUP, str(self.ids[member]), self.strategies[member])
        queues = tuple(map(message_queue, self.routes[member]))
        cids = tuple(str(self.ids[channel]) for channel in channels) or None
        rebalance_by_topic(self.consumers[member], who, rebalance.View(TOPIC, queues, cids))
