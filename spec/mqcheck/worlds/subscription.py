"""Subscription on the reference: the members of a group, and one broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.conversing import converse
from mqcheck.worlds.terms import GROUP, TOPIC, function
from mqspec.core import group, pull, push_consumer, subscription
from mqspec.core.broker_states import BrokerStates
from mqspec.core.consumer_filter import ConsumerFilterState
from mqspec.core.conversation import Count, Get
from mqspec.core.group import SubscriptionData
from mqspec.core.heartbeat import Consumer, Heartbeat, heart_beat
from mqspec.core.log import GetMessageStatus, GetResult
from mqspec.core.metadata import (
    MetadataState,
    SubscriptionGroupConfig,
    TopicConfig,
)
from mqspec.core.pull import PullSysFlag
from mqspec.core.record import tags_code
from mqspec.core.response import Refusal

# What MC_Subscription.tla calls by name; members are numbered in the order of their names.
_QUEUES: Mapping[str, tuple[str, ...]] = {"OneOfEach": ("Aa", "BB", "C")}
_WANTED: Mapping[str, Callable[[int], frozenset[str]]] = {
    "Different": lambda place: frozenset({"C"} if place else {"Aa"}),
    "Equal": lambda _: frozenset({"Aa", "C"}),
    "First": lambda _: frozenset({"Aa"}),
}
_FILTERS = ConsumerFilterState()  # all of the model want by tags
_METADATA = MetadataState(
    {TOPIC: TopicConfig(TOPIC)}, subscription_group_table={GROUP: SubscriptionGroupConfig(GROUP)}
)


class SubscriptionWorld(World):
    """Everything of a model of Subscription. Its hash is Java's here: `Aa` and `BB` collide."""

    module = "Subscription"
    actions: ClassVar = {
        "SendHeartbeat": ("member",),
        "RenewSubVersion": ("member", "version"),
        "Subscribe": ("member", "version"),
        "RegisterConsumer": ("member",),
        "CheckPull": ("member",),
        "MoveQueue": ("member",),
    }

    def __init__(
        self,
        wanted: Mapping[str, tuple[frozenset[str], frozenset[str]]],
        queue_tags: tuple[str, ...],
        max_version: int,
        max_moves: int,
        posts_subscription: bool,
    ) -> None:
        self.members = tuple(wanted)
        self.after = {m: after for m, (_, after) in wanted.items()}
        self.queue_tags = queue_tags
        self.max_version = max_version
        self.moves_left = max_moves
        self.posts_subscription = posts_subscription
        self.broker = group.GroupState()
        self.subscribed = {m: _data(before, 1) for m, (before, _) in wanted.items()}
        self.heartbeat: dict[str, SubscriptionData] = {}
        self.owner = self.members[0]
        self.next_offset = 0
        self.pulled: tuple[FrozenDict, ...] = ()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> SubscriptionWorld:
        """The world at the beginning of a model with these constants."""
        before, after = _WANTED[constants["Before"]], _WANTED[constants["After"]]
        return cls(
            {m: (before(i), after(i)) for i, m in enumerate(sorted(constants["Members"]))},
            _QUEUES[constants["QueueTags"]],
            constants["MaxVersion"],
            constants["MaxMoves"],
            constants["PostsSubscription"],
        )

    def domain(self, name: str) -> Iterable[object]:
        return {"member": self.members, "version": range(1, self.max_version + 1)}[name]

    def state(self) -> dict[str, object]:
        return {
            "subscriptionTable": _told(group.subscription(self.broker, GROUP, TOPIC)),
            "subscribed": function(self.members, lambda m: self.subscribed[m].tags_set),
            "subVersion": function(self.members, lambda m: self.subscribed[m].sub_version),
            "heartbeat": function(self.members, lambda m: _told(self.heartbeat.get(m))),
            "owner": self.owner,
            "nextOffset": self.next_offset,
            "pulled": self.pulled,
        }

    def send_heartbeat(self, member: str) -> None:
        known = group.subscription(self.broker, GROUP, TOPIC)
        own = self.subscribed[member]
        require(member not in self.heartbeat)
        require(known is None or own.sub_version > known.sub_version)
        self.heartbeat[member] = own
        self.pulled = ()

    def renew_sub_version(self, member: str, version: int) -> None:
        self._renew(member, self.subscribed[member].tags_set, version)

    def subscribe(self, member: str, version: int) -> None:
        require(self.subscribed[member].tags_set != self.after[member])
        self._renew(member, self.after[member], version)

    def register_consumer(self, member: str) -> None:
        require(member in self.heartbeat)
        info = group.ClientChannelInfo(member, "JAVA", 0, 0)
        event = group.RegisterConsumer(GROUP, member, info, (self.heartbeat.pop(member),))
        beat = Heartbeat(info, member, [Consumer(event, (TOPIC,), unit_mode=False)])
        converse(heart_beat(self._states(), beat, now_ms=0), {})
        self.pulled = ()

    def check_pull(self, member: str) -> None:
        require(member == self.owner and self.next_offset < len(self.queue_tags))
        own, tag = self.subscribed[member], self.queue_tags[self.next_offset]
        event = pull.Pull(
            group=GROUP,
            topic=TOPIC,
            queue_id=0,
            queue_offset=self.next_offset,
            max_msg_nums=1,
            sys_flag=PullSysFlag.SUBSCRIPTION if self.posts_subscription else 0,
            commit_offset=0,
            suspend_timeout_ms=0,
            subscription=own.sub_string,
            sub_version=own.sub_version,
            expression_type=own.expression_type,
            consumer=member,
        )
        filters: list[SubscriptionData] = []

        def read(ask: Get) -> GetResult:
            assert ask.wanted is not None
            filters.append(ask.wanted)
            if subscription.is_matched_by_consume_queue(ask.wanted, tags_code(tag)):
                records = (tag.encode(),)
                return GetResult(GetMessageStatus.FOUND, ask.offset + 1, 0, ask.offset + 1, records)
            return GetResult(GetMessageStatus.NO_MATCHED_MESSAGE, ask.offset + 1, 0, ask.offset + 1)

        talk = pull.pull_message(self._states(), event, token=None, now_ms=0, is_first=True)
        answer = converse(talk, {Get: read, Count: lambda _: None})
        require(not isinstance(answer, Refusal) and answer is not None and bool(filters))
        assert answer is not None
        delivered = bool(answer.body) and push_consumer.is_wanted(own, tag)
        version = filters[0].sub_version
        fields = {"by": member, "tag": tag, "filter": version, "delivered": delivered}
        self.pulled = (FrozenDict(fields),)
        self.next_offset += 1

    def move_queue(self, member: str) -> None:
        require(member != self.owner and self.moves_left > 0)
        self.moves_left -= 1
        self.owner = member
        self.pulled = ()

    def _states(self) -> BrokerStates:
        """The broker, as conversations take it."""
        topics = dict(_METADATA.topic_config_table)  # with more, once a heartbeat came
        metadata = replace(_METADATA, topic_config_table=topics)
        return BrokerStates(metadata=metadata, groups=self.broker, filters=_FILTERS)

    def _renew(self, member: str, tags: frozenset[str], version: int) -> None:
        require(version > self.subscribed[member].sub_version)
        self.subscribed[member] = _data(tags, version)
        self.heartbeat.setdefault(member, self.subscribed[member])
        self.pulled = ()


def _data(tags: frozenset[str], version: int) -> SubscriptionData:
    expression = " || ".join(sorted(tags))
    return subscription.build_subscription_data(TOPIC, expression, version)


def _told(data: SubscriptionData | None) -> FrozenDict:
    tags, version = (data.tags_set, data.sub_version) if data else (frozenset(), 0)
    return FrozenDict({"tags": tags, "version": version})
