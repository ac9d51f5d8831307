"""Route: which brokers have which queues of a topic, as one nameserver was told.

Brokers register, with all their topics, at every nameserver; nameservers do not talk to each
other. A broker is gone when it says so, when its connection closes, or when it has not
registered for 120 s. A route may name queues that are no more, and miss some that are:
clients ask again every 30 s.

Facts: RouteInfoManager.java (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mqspec.core.metadata import DataVersion, TopicConfig
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import BrokerName, Topic

BROKER_EXPIRED_MS: Final = 120_000
SCAN_NOT_ACTIVE_BROKER_MS: Final = 5_000
MASTER_ID: Final = 0


@dataclass(frozen=True, slots=True)
class QueueData:
    """The queues of a topic on one broker (QueueData.java)."""

    broker_name: BrokerName
    read_queue_nums: int
    write_queue_nums: int
    perm: int  # 1 inherit, 2 write, 4 read
    topic_sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The addresses of a broker and its replicas, by broker id, 0 the master."""

    cluster: str
    broker_name: BrokerName
    broker_addrs: Mapping[int, str]
    enable_acting_master: bool = False


@dataclass(frozen=True, slots=True)
class TopicRouteData:
    """Where a topic is: the answer to request 105 (TopicRouteData.java)."""

    queue_datas: tuple[QueueData, ...] = ()
    broker_datas: tuple[BrokerData, ...] = ()
    filter_server_table: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    order_topic_conf: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Everybody: the answer to request 106."""

    broker_addr_table: Mapping[BrokerName, BrokerData]
    cluster_addr_table: Mapping[str, tuple[BrokerName, ...]]


class BrokerAddr(NamedTuple):
    """One process: a broker or one of its replicas."""

    cluster: str
    address: str


@dataclass(frozen=True, slots=True)
class BrokerLiveInfo:
    """When and how a broker was last heard of."""

    last_update_ms: int
    timeout_ms: int
    data_version: DataVersion
    channel: Hashable


@dataclass(slots=True)
class RouteState:
    """What one nameserver knows."""

    topic_queue_table: dict[Topic, Mapping[BrokerName, QueueData]] = field(default_factory=dict)
    broker_addr_table: dict[BrokerName, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, tuple[BrokerName, ...]] = field(default_factory=dict)
    broker_live_table: dict[BrokerAddr, BrokerLiveInfo] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RegisterBroker:
    """A broker tells of itself, and of its topics."""

    cluster: str
    broker_name: BrokerName
    address: str
    broker_id: int
    channel: Hashable
    topics: tuple[TopicConfig, ...]
    data_version: DataVersion
    timeout_ms: int = BROKER_EXPIRED_MS
    enable_acting_master: bool = False


class Registered(NamedTuple):
    """The answer to a broker: to a replica, where its master is."""

    master_address: str | None


def register_broker(state: RouteState, event: RegisterBroker, now_ms: int) -> Step:
    """Route!RegisterBroker. Result: Registered, or None where it is refused.

    Refused is a first registration of exactly one topic, which looks like the report of one
    new topic from a broker that was forgotten meanwhile; its name is remembered all the same
    (NAMESRV-005). One that comes from another address with an older state is answered as if
    it were taken (NAMESRV-011). Topics that are no longer reported stay (NAMESRV-006).
    """
    clusters = state.cluster_addr_table.get(event.cluster, ())
    if event.broker_name not in clusters:
        clusters = (*clusters, event.broker_name)
    changes = [Change("cluster_addr_table", event.cluster, clusters)]
    broker = state.broker_addr_table.get(event.broker_name) or BrokerData(
        event.cluster, event.broker_name, {}
    )
    # A process has one id: where it had another, it changed its role.
    others = {
        broker_id: address
        for broker_id, address in broker.broker_addrs.items()
        if address != event.address
    }
    is_first = event.broker_id not in broker.broker_addrs
    known = replace(broker, enable_acting_master=event.enable_acting_master, broker_addrs=others)
    here = BrokerAddr(event.cluster, event.address)
    if event.broker_id in others:
        holder = BrokerAddr(event.cluster, others[event.broker_id])
        live = state.broker_live_table.get(holder)
        if live and live.data_version.state_version > event.data_version.state_version:
            changes.append(Change("broker_addr_table", event.broker_name, known))
            changes.append(Change("broker_live_table", here, REMOVED))
            return Step(tuple(changes), result=Registered(None))
    if is_first and len(event.topics) == 1:
        changes.append(Change("broker_addr_table", event.broker_name, known))
        return Step(tuple(changes))
    addresses = {**others, event.broker_id: event.address}
    known = replace(known, broker_addrs=addresses)
    changes.append(Change("broker_addr_table", event.broker_name, known))
    if event.broker_id == MASTER_ID:
        changes += _register_topics(state, event, is_first)
    live_info = BrokerLiveInfo(now_ms, event.timeout_ms, event.data_version, event.channel)
    changes.append(Change("broker_live_table", BrokerAddr(event.cluster, event.address), live_info))
    master = None if event.broker_id == MASTER_ID else addresses.get(MASTER_ID)
    return Step(tuple(changes), result=Registered(master))


def _register_topics(state: RouteState, event: RegisterBroker, is_first: bool) -> Iterator[Change]:
    live = state.broker_live_table.get(BrokerAddr(event.cluster, event.address))
    is_changed = is_first or live is None or live.data_version != event.data_version
    for topic in event.topics:
        queues = state.topic_queue_table.get(topic.topic_name, {})
        if is_changed or event.broker_name not in queues:
            data = QueueData(
                event.broker_name,
                topic.read_queue_nums,
                topic.write_queue_nums,
                topic.perm,
                topic.topic_sys_flag,
            )
            yield Change("topic_queue_table", topic.topic_name, {**queues, event.broker_name: data})


def unregister_broker(
    state: RouteState, address: BrokerAddr, broker_name: BrokerName, broker_id: int
) -> Step:
    """Route!UnregisterBroker. A broker is gone, and with the last of its replicas its queues."""
    changes = [Change("broker_live_table", address, REMOVED)]
    broker = state.broker_addr_table.get(broker_name)
    if broker is None:
        return Step(tuple(changes))
    rest = {
        i: at for i, at in broker.broker_addrs.items() if (i, at) != (broker_id, address.address)
    }
    if rest:
        left = replace(broker, broker_addrs=rest)
        return Step((*changes, Change("broker_addr_table", broker_name, left)))
    changes.append(Change("broker_addr_table", broker_name, REMOVED))
    names = state.cluster_addr_table.get(broker.cluster, ())
    names = tuple(name for name in names if name != broker_name)
    changes.append(Change("cluster_addr_table", broker.cluster, names or REMOVED))
    for topic, queues in state.topic_queue_table.items():
        if broker_name in queues:
            others = {name: data for name, data in queues.items() if name != broker_name}
            changes.append(Change("topic_queue_table", topic, others or REMOVED))
    return Step(tuple(changes))


def brokers_of_channel(
    state: RouteState, channel: Hashable
) -> Iterator[tuple[BrokerAddr, BrokerName, int]]:
    """Who registered over a connection: all of them are gone when it closes (NAMESRV-010)."""
    return (who for who, live in _live_brokers(state) if live.channel == channel)


def expired_channels(state: RouteState, now_ms: int) -> set[Hashable]:
    """The connections of brokers that have not registered for their time-out. They are to be
    closed, and with them go the brokers."""
    return {
        live.channel
        for live in state.broker_live_table.values()
        if live.last_update_ms + live.timeout_ms < now_ms
    }


def _live_brokers(
    state: RouteState,
) -> Iterator[tuple[tuple[BrokerAddr, BrokerName, int], BrokerLiveInfo]]:
    for broker in state.broker_addr_table.values():
        for broker_id, address in broker.broker_addrs.items():
            at = BrokerAddr(broker.cluster, address)
            if live := state.broker_live_table.get(at):
                yield (at, broker.broker_name, broker_id), live


def pick_topic_route(state: RouteState, topic: Topic) -> TopicRouteData | None:
    """The route of a topic; None where no broker that is there has it."""
    queues = state.topic_queue_table.get(topic, {})
    brokers = tuple(
        broker for name in queues if (broker := state.broker_addr_table.get(name)) is not None
    )
    return TopicRouteData(tuple(queues.values()), brokers) if brokers else None


def cluster_info(state: RouteState) -> ClusterInfo:
    """All brokers, by name and by cluster."""
    return ClusterInfo(dict(state.broker_addr_table), dict(state.cluster_addr_table))


def topics_of_cluster(state: RouteState, cluster: str) -> list[Topic]:
    """The topics that brokers of a cluster have."""
    names = set(state.cluster_addr_table.get(cluster, ()))
    return [topic for topic, queues in state.topic_queue_table.items() if names & queues.keys()]
