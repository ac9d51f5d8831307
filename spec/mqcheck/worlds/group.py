"""Group on the reference: the brokers' tables of the members of one group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any, ClassVar

from mqcheck.replay import ReplayError, World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.terms import GROUP, TOPIC, function
from mqspec.core import group
from mqspec.core.step import Step, apply


class GroupWorld(World):
    """Everything of a model of Group."""

    module = "Group"
    actions: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "Join": ("member",),
        "Leave": ("member",),
        "Crash": ("member",),
        "RegisterConsumer": ("member", "broker"),
        "UnregisterConsumer": ("member", "broker"),
        "CloseChannel": ("member", "broker"),
        "ScanNotActiveChannel": ("member", "broker"),
        "LoseNotice": ("member",),
    }

    def __init__(
        self,
        brokers: Iterable[str],
        ids: Mapping[str, int],
        initial: Iterable[str],
        notices: bool,
    ) -> None:
        self.brokers = {b: group.GroupState() for b in brokers}
        self.ids = ids
        self.sends_notices = notices
        self.status = dict.fromkeys(ids, "out") | dict.fromkeys(initial, "in")
        self.notices: set[str] = set()
        for member, broker in product(initial, self.brokers):
            self._heartbeat(member, broker, now_ms=0)
        self.notices.clear()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> GroupWorld:
        """The world at the beginning of a model with these constants."""
        return cls(
            sorted(constants["Brokers"]),
            {m: place for place, m in enumerate(sorted(constants["Members"]), start=1)},
            sorted(constants["InitialMembers"]),
            notices=constants["Notices"] != "none",
        )

    def domain(self, name: str) -> Iterable[object]:
        return {"member": self.ids, "broker": self.brokers}[name]

    def state(self) -> dict[str, object]:
        return {
            "consumerTable": function(self.brokers, lambda b: frozenset(self._channels(b))),
            "notices": frozenset(self.notices),
            "status": FrozenDict(self.status),
        }

    def join(self, member: str) -> None:
        require(self.status[member] == "out")
        self.spend("MaxPerturbations")
        self.status[member] = "in"

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
        if self.status[member] == "in":
            self.spend("MaxPerturbations")
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

    def _stop(self, member: str, status: str) -> None:
        require(self.status[member] == "in")
        self.spend("MaxPerturbations")
        self.status[member] = status

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
