"""TopicRoute on the reference: a broker, its nameserver, a producer and the members of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.terms import BROKER, GROUP, TOPIC, function, rebalance_by_topic
from mqspec.core import (
    metadata,
    producer,
    publish,
    pull,
    push_consumer,
    rebalance,
    route,
)
from mqspec.core.allocation import AVG
from mqspec.core.consumer_filter import ConsumerFilterState
from mqspec.core.group import GroupState, SubscriptionData
from mqspec.core.metadata import BrokerConfig, MetadataState, SubscriptionGroupConfig, TopicConfig
from mqspec.core.offset_commit import ConsumerState
from mqspec.core.pull import PullSysFlag
from mqspec.core.response import Refusal
from mqspec.core.route import RouteState, TopicRouteData
from mqspec.core.step import apply

CONFIG = BrokerConfig()
OTHER_TOPIC = TopicConfig("other")  # a broker that has one topic only is refused at first
NOW_MS = 0


class TopicRouteWorld(World):
    """Everything of a model of TopicRoute, which has several initial states."""

    module = "TopicRoute"
    actions: ClassVar = {
        "UpdateTopic": ("read", "write"),
        "RegisterBroker": (),
        "UpdateMemberRoute": ("member",),
        "UpdateProducerRoute": (),
        "RebalanceByTopic": ("member",),
        "SendMessage": ("queue",),
        "PullMessage": ("member", "queue"),
    }

    def __init__(self, members: Iterable[int], max_queues: int, max_messages: int) -> None:
        self.queues, self.max_messages = range(max_queues), max_messages
        self.broker = MetadataState(
            {OTHER_TOPIC.topic_name: OTHER_TOPIC},
            subscription_group_table={GROUP: SubscriptionGroupConfig(GROUP)},
        )
        self.nameserver = RouteState()
        self.members = {member: ConsumerState() for member in members}
        self.max_offset = dict.fromkeys(self.queues, 0)
        self.consumed = dict.fromkeys(self.queues, 0)
        self.start_from({"topicConfig": {"read": 1, "write": 1}})

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> TopicRouteWorld:
        """The world at the beginning of a model with these constants."""
        return cls(sorted(constants["Members"]), constants["MaxQueues"], constants["MaxMessages"])

    def start_from(self, initial: Mapping[str, Any]) -> TopicRouteWorld:
        numbers = initial["topicConfig"]
        self._update_topic(numbers["read"], numbers["write"])
        self.register_broker()
        self.producer_route = self._route()
        self.member_route = {member: self._route() for member in self.members}
        for member in self.members:
            self.rebalance_by_topic(member)
        return self

    def domain(self, name: str) -> Iterable[object]:
        numbers = range(1, len(self.queues) + 1)
        return {
            "read": numbers,
            "write": numbers,
            "member": self.members,
            "queue": self.queues,
        }[name]

    def state(self) -> dict[str, object]:
        return {
            "topicConfig": _numbers(self.broker.topic_config_table[TOPIC]),
            "routeData": _numbers(self._route().queue_datas[0]),
            "memberRoute": tuple(_numbers(r.queue_datas[0]) for r in self.member_route.values()),
            "producerRoute": _numbers(self.producer_route.queue_datas[0]),
            "processQueueTable": tuple(
                frozenset(mq.queue_id for mq in state.process_queue_table)
                for state in self.members.values()
            ),
            "maxOffset": function(self.queues, lambda q: self.max_offset[q]),
            "consumed": function(self.queues, lambda q: self.consumed[q]),
        }

    def update_topic(self, read: int, write: int) -> None:
        self.spend("MaxChanges")
        self._update_topic(read, write)

    def _update_topic(self, read: int, write: int) -> None:
        topic = TopicConfig(TOPIC, read, write)
        step = metadata.update_topic(self.broker, CONFIG, topic, NOW_MS)
        require(step.result is None)
        apply(self.broker, step.changes)

    def register_broker(self) -> None:
        event = route.RegisterBroker(
            CONFIG.cluster_name,
            BROKER,
            "127.0.0.1:10911",
            route.MASTER_ID,
            "channel",
            tuple(self.broker.topic_config_table.values()),
            self.broker.topic_data_version,
        )
        apply(self.nameserver, route.register_broker(self.nameserver, event, NOW_MS).changes)

    def update_member_route(self, member: int) -> None:
        self.member_route[member] = self._route()

    def update_producer_route(self) -> None:
        self.producer_route = self._route()

    def rebalance_by_topic(self, member: int) -> None:
        queues = push_consumer.subscribe_queues(TOPIC, self.member_route[member])
        view = rebalance.View(TOPIC, queues, tuple(map(str, self.members)))
        who = rebalance.Member(GROUP, str(member), AVG)
        rebalance_by_topic(self.members[member], who, view)

    def send_message(self, queue: int) -> None:
        require(sum(self.max_offset.values()) < self.max_messages)
        known = producer.publish_queues(TOPIC, self.producer_route)
        require(queue in [mq.queue_id for mq in known])
        event = publish.Send(
            topic=TOPIC,
            default_topic="",
            default_topic_queue_nums=0,
            queue_id=queue,
            properties="",
            producer="127.0.0.1:1",
        )
        result = publish.check_send(self.broker, CONFIG, event, NOW_MS).result
        require(not isinstance(result, Refusal))
        self.max_offset[queue] += 1

    def pull_message(self, member: int, queue: int) -> None:
        held = [mq.queue_id for mq in self.members[member].process_queue_table]
        require(queue in held and self.consumed[queue] < self.max_offset[queue])
        event = pull.Pull(
            group=GROUP,
            topic=TOPIC,
            queue_id=queue,
            queue_offset=self.consumed[queue],
            max_msg_nums=1,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            commit_offset=0,
            suspend_timeout_ms=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
            consumer=str(member),
        )
        found = pull.check_pull(
            self.broker, GroupState(), ConsumerFilterState(), CONFIG, event, NOW_MS
        )
        require(isinstance(found.result, SubscriptionData))
        self.consumed[queue] += 1

    def _route(self) -> TopicRouteData:
        """What the nameserver answers."""
        found = route.pick_topic_route(self.nameserver, TOPIC)
        assert found is not None
        return found


def _numbers(queues: TopicConfig | route.QueueData) -> FrozenDict:
    return FrozenDict({"read": queues.read_queue_nums, "write": queues.write_queue_nums})
