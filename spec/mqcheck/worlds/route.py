"""Route on the reference: the processes of one broker, and a nameserver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from mqcheck.replay import World, require
from mqcheck.values import FrozenDict
from mqcheck.worlds.terms import BROKER, NONE, function
from mqspec.core import route
from mqspec.core.metadata import DataVersion, TopicConfig
from mqspec.core.route import BrokerAddr, RouteState
from mqspec.core.step import apply

CLUSTER = "cluster"
IDS = (0, 1)
SYSTEM_TOPIC = TopicConfig("system")  # no broker has less
NOW_MS = 0


class RouteWorld(World):
    """Everything of a model of Route. Its clock stands still: that a process was silent for too
    long is the step itself."""

    module = "Route"
    actions: ClassVar = {
        "RegisterBroker": ("process",),
        "CreateTopic": ("process", "topic"),
        "UnregisterBroker": ("request",),
        "ScanNotActiveBroker": ("process",),
        "Shutdown": ("process",),
        "Die": ("process",),
        "Switch": ("process",),
        "Restart": (),
    }

    def __init__(
        self,
        processes: Iterable[str],
        master: str,
        all_topics: Iterable[int],
        topics: Iterable[int],
    ) -> None:
        self.nameserver = RouteState()
        self.role = {process: 0 if process == master else 1 for process in processes}
        self.running = frozenset(self.role)
        self.all_topics, self.topics = tuple(all_topics), frozenset(topics)
        self.network: frozenset[tuple[str, int]] = frozenset()

    @classmethod
    def of(cls, constants: Mapping[str, Any]) -> RouteWorld:
        """The world at the beginning of a model with these constants."""
        return cls(
            sorted(constants["Processes"]),
            constants["Master"],
            sorted(constants["Topics"]),
            constants["InitialTopics"],
        )

    def domain(self, name: str) -> Iterable[object]:
        return {
            "process": self.role,
            "topic": self.all_topics,
            "request": sorted(self.network),
        }[name]

    def state(self) -> dict[str, object]:
        broker = self.nameserver.broker_addr_table.get(BROKER)
        addresses = broker.broker_addrs if broker else {}
        live = self.nameserver.broker_live_table
        return {
            "brokerAddrTable": FrozenDict({i: addresses.get(i, NONE) for i in IDS}),
            "brokerLiveTable": function(
                self.role,
                lambda p: live[_address(p)].data_version.counter if _address(p) in live else NONE,
            ),
            "topicQueueTable": frozenset(
                int(name)
                for name in self.nameserver.topic_queue_table
                if name != SYSTEM_TOPIC.topic_name
            ),
            "running": self.running,
            "role": FrozenDict(self.role),
            "topics": self.topics,
            "network": frozenset(
                FrozenDict({"process": process, "brokerId": broker_id})
                for process, broker_id in self.network
            ),
        }

    def register_broker(self, process: str) -> None:
        require(process in self.running)
        topics = (TopicConfig(str(topic)) for topic in sorted(self.topics))
        self._register(process, SYSTEM_TOPIC, *topics)

    def create_topic(self, process: str, topic: int) -> None:
        require(process in self.running and self.role[process] == 0)
        require(topic not in self.topics)
        self.topics |= {topic}
        self._register(process, TopicConfig(str(topic)))

    def unregister_broker(self, request: tuple[str, int]) -> None:
        self.network -= {request}
        process, _ = request
        self._unregister(process)

    def scan_not_active_broker(self, process: str) -> None:
        live = self.nameserver.broker_live_table.get(_address(process))
        require(live is not None)
        assert live is not None
        if process in self.running:
            self.spend("MaxPerturbations")
        late_ms = live.last_update_ms + live.timeout_ms + 1
        expired = route.expired_brokers(self.nameserver, late_ms)
        require(_address(process) in [address for address, _, _ in expired])
        self._unregister(process)

    def shutdown(self, process: str) -> None:
        self._end(process)
        self.network |= {(process, self.role[process])}

    def die(self, process: str) -> None:
        self._end(process)

    def switch(self, process: str) -> None:
        self.spend("MaxPerturbations")
        require(process in self.running)
        require(all(self.role[other] != 0 for other in self.running))
        self.role[process] = 0

    def restart(self) -> None:
        self.spend("MaxPerturbations")
        self.nameserver = RouteState()

    def _end(self, process: str) -> None:
        self.spend("MaxPerturbations")
        require(process in self.running)
        self.running -= {process}

    def _register(self, process: str, *topics: TopicConfig) -> None:
        version = DataVersion(len(self.topics))
        event = route.RegisterBroker(
            CLUSTER, BROKER, process, self.role[process], process, topics, version
        )
        apply(self.nameserver, route.register_broker(self.nameserver, event, NOW_MS).changes)

    def _unregister(self, process: str) -> None:
        step = route.unregister_broker(self.nameserver, _address(process), BROKER)
        apply(self.nameserver, step.changes)


def _address(process: str) -> BrokerAddr:
    return BrokerAddr(CLUSTER, process)
