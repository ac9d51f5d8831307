"""Route: which brokers have which queues of a topic, as one nameserver was told.

Brokers register, with all their topics, at every nameserver; nameservers do not talk to each
other. A broker is gone when it says so, when its connection closes, or when it has not
registered for 120 s. A route may name queues that are no more, and miss some that are:
clients ask again every 30 s.

A broker's queues are those of its master. Once that is gone, they are those of the replica
with the least id, which is the prime slave; it is read only where brokers let it act as master.

Left out, as it is off by default or gone: a slave in a master's place in routes
(supportActingMaster), telling brokers of a new least id (notifyMinBrokerIdChanged), filter
servers, static topics.

Facts: RouteInfoManager.java (5.3.3), and what 5.3.3 answered over the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from mqspec.core.metadata import DataVersion, Perm, TopicConfig
from mqspec.core.response import NOT_SET, SEE_FAQ, Answer, ResponseCode
from mqspec.core.step import REMOVED, Change, Step
from mqspec.core.types import BrokerName, Topic

BROKER_EXPIRED_MS: Final = 120_000
MASTER_ID: Final = 0


@dataclass(frozen=True, slots=True)
class QueueData:
    """The queues of a topic on one broker (QueueData.java)."""

    broker_name: BrokerName = ""
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 0  # 1 inherit, 2 write, 4 read
    topic_sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class BrokerData:
    """The addresses of a broker and its replicas, by broker id, 0 the master."""

    cluster: str
    broker_name: BrokerName
    broker_addrs: Mapping[int, str]
    enable_acting_master: bool = False
    zone_name: str | None = None


@dataclass(frozen=True, slots=True)
class BrokerMemberGroup:
    """A broker and its replicas, as these ask for each other: the answer to request 901."""

    cluster: str | None
    broker_name: BrokerName | None
    broker_addrs: Mapping[int, str]


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

    broker_name: BrokerName
    last_update_ms: int
    timeout_ms: int
    data_version: DataVersion
    channel: Hashable
    ha_server_address: str | None = None  # where its replicas read its log


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
    enable_acting_master: bool | None = None  # None: a broker that knows of no such thing
    ha_server_address: str | None = None
    zone_name: str | None = None


class Registered(NamedTuple):
    """The answer to a broker: to a replica, where its master is."""

    master_address: str | None = None
    ha_server_address: str | None = None


def register_broker(
    state: RouteState, event: RegisterBroker, now_ms: int, *, deletes_topics: bool = False
) -> Step:
    """Route!RegisterBroker. Result: Registered, or None where it is refused.

    Refused is a first registration of exactly one topic, which looks like the report of one
    new topic from a broker that was forgotten meanwhile; its name is remembered all the same
    (NAMESRV-005). One that comes from another address with an older state is answered as if
    it were taken (NAMESRV-011); of equal ones the last counts (NAMESRV-015). Topics that are
    no longer reported stay (NAMESRV-006), unless `deletes_topics`.
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
        if address != event.address or broker_id == event.broker_id
    }
    known = replace(
        broker,
        enable_acting_master=bool(event.enable_acting_master),
        zone_name=event.zone_name,
        broker_addrs=others,
    )
    here = BrokerAddr(event.cluster, event.address)
    holder = others.get(event.broker_id)
    if holder not in (None, event.address):
        live = state.broker_live_table.get(BrokerAddr(event.cluster, str(holder)))
        if live and live.data_version.state_version > event.data_version.state_version:
            changes.append(Change("broker_addr_table", event.broker_name, known))
            changes.append(Change("broker_live_table", here, REMOVED))
            return Step(tuple(changes), result=Registered())
    if holder is None and len(event.topics) == 1:
        changes.append(Change("broker_addr_table", event.broker_name, known))
        return Step(tuple(changes))
    addresses = {**others, event.broker_id: event.address}
    known = replace(known, broker_addrs=addresses)
    changes.append(Change("broker_addr_table", event.broker_name, known))
    is_prime_slave = event.enable_acting_master is not None and event.broker_id == min(addresses)
    if event.broker_id == MASTER_ID or is_prime_slave:
        if deletes_topics:
            kept = {topic.topic_name for topic in event.topics}
            changes += _remove_queues(state, event.broker_name, lambda topic: topic not in kept)
        changes += _register_topics(state, event, is_first=holder is None)
    live_info = BrokerLiveInfo(
        event.broker_name,
        now_ms,
        event.timeout_ms,
        event.data_version,
        event.channel,
        event.ha_server_address,
    )
    changes.append(Change("broker_live_table", here, live_info))
    return Step(tuple(changes), result=_master_of(state, event, addresses))


def _master_of(
    state: RouteState, event: RegisterBroker, addresses: Mapping[int, str]
) -> Registered:
    master = addresses.get(MASTER_ID)
    if event.broker_id == MASTER_ID or master is None:
        return Registered()
    live = state.broker_live_table.get(BrokerAddr(event.cluster, master))
    return Registered(master, live.ha_server_address) if live else Registered()


def _register_topics(state: RouteState, event: RegisterBroker, is_first: bool) -> Iterator[Change]:
    live = state.broker_live_table.get(BrokerAddr(event.cluster, event.address))
    is_changed = is_first or live is None or live.data_version != event.data_version
    is_read_only = event.broker_id != MASTER_ID and event.enable_acting_master
    for topic in event.topics:
        queues = state.topic_queue_table.get(topic.topic_name, {})
        if is_changed or event.broker_name not in queues:
            data = QueueData(
                event.broker_name,
                topic.read_queue_nums,
                topic.write_queue_nums,
                topic.perm & ~Perm.WRITE if is_read_only else topic.perm,
                topic.topic_sys_flag,
            )
            yield Change("topic_queue_table", topic.topic_name, {**queues, event.broker_name: data})


def unregister_broker(state: RouteState, address: BrokerAddr, broker_name: BrokerName) -> Step:
    """Route!UnregisterBroker. A broker is gone, and with the last of its replicas its queues.

    The id that it had does not matter; the address does.
    """
    changes = [Change("broker_live_table", address, REMOVED)]
    broker = state.broker_addr_table.get(broker_name)
    if broker is None:
        return Step(tuple(changes))
    rest = {i: at for i, at in broker.broker_addrs.items() if at != address.address}
    if rest:
        changes.append(Change("broker_addr_table", broker_name, replace(broker, broker_addrs=rest)))
        if broker.enable_acting_master and min(rest) != MASTER_ID:
            changes += _set_perm(state, broker_name, lambda perm: perm & ~Perm.WRITE)
        return Step(tuple(changes))
    changes.append(Change("broker_addr_table", broker_name, REMOVED))
    names = state.cluster_addr_table.get(address.cluster, ())
    names = tuple(name for name in names if name != broker_name)
    changes.append(Change("cluster_addr_table", address.cluster, names or REMOVED))
    changes += _remove_queues(state, broker_name)
    return Step(tuple(changes))


def _remove_queues(
    state: RouteState, broker_name: BrokerName, is_meant: Callable[[Topic], bool] = lambda _: True
) -> Iterator[Change]:
    for topic, queues in state.topic_queue_table.items():
        if broker_name in queues and is_meant(topic):
            others = {name: data for name, data in queues.items() if name != broker_name}
            yield Change("topic_queue_table", topic, others or REMOVED)


def broker_heartbeat(state: RouteState, address: BrokerAddr, now_ms: int) -> Step:
    """A broker says only that it is there; of a stranger it is ignored."""
    live = state.broker_live_table.get(address)
    if live is None:
        return Step()
    heard = replace(live, last_update_ms=now_ms)
    return Step((Change("broker_live_table", address, heard),))


def query_data_version(
    state: RouteState, address: BrokerAddr, data_version: DataVersion | None, now_ms: int
) -> Step:
    """A broker asks whether it has to register again, which counts as a
    heartbeat. Result: whether its topics changed, and the DataVersion that is known or None."""
    live = state.broker_live_table.get(address)
    known = live.data_version if live else None
    is_changed = known is None or known != data_version
    heartbeat = broker_heartbeat(state, address, now_ms)
    return Step(heartbeat.changes, result=(is_changed, known))


def brokers_of_channel(
    state: RouteState, channel: Hashable
) -> Iterator[tuple[BrokerAddr, BrokerName]]:
    """Who registered over a connection: all of them are gone when it closes (NAMESRV-010)."""
    return (
        (address, live.broker_name)
        for address, live in state.broker_live_table.items()
        if live.channel == channel
    )


def expired_brokers(
    state: RouteState, now_ms: int
) -> Iterator[tuple[BrokerAddr, BrokerName, Hashable]]:
    """The brokers that were not heard of for their time-out, with their connections, which are
    to be closed."""
    return (
        (address, live.broker_name, live.channel)
        for address, live in state.broker_live_table.items()
        if live.last_update_ms + live.timeout_ms < now_ms
    )


def wipe_write_perm(state: RouteState, broker_name: BrokerName) -> Step:
    """No route offers a broker's queues to producers any more, until it
    registers a change. Result: of how many topics."""
    changes = tuple(_set_perm(state, broker_name, lambda perm: perm & ~Perm.WRITE))
    return Step(changes, result=len(changes))


def add_write_perm(state: RouteState, broker_name: BrokerName) -> Step:
    """The opposite, and more: all become readable as well, whatever they
    were before (NAMESRV-019). Result: of how many topics."""
    changes = tuple(_set_perm(state, broker_name, lambda _: Perm.READ | Perm.WRITE))
    return Step(changes, result=len(changes))


def _set_perm(
    state: RouteState, broker_name: BrokerName, change: Callable[[int], int]
) -> Iterator[Change]:
    for topic, queues in state.topic_queue_table.items():
        if data := queues.get(broker_name):
            data = replace(data, perm=change(data.perm))
            yield Change("topic_queue_table", topic, {**queues, broker_name: data})


def delete_topic(state: RouteState, topic: Topic, cluster: str | None) -> Step:
    """An administrator takes a topic out of the routes, of one cluster or of
    all. It is back as soon as a broker registers it."""
    queues = state.topic_queue_table.get(topic)
    if queues is None:
        return Step()
    gone = state.cluster_addr_table.get(cluster, ()) if cluster else tuple(queues)
    left = {name: data for name, data in queues.items() if name not in gone}
    return Step((Change("topic_queue_table", topic, left or REMOVED),))


def register_topic(state: RouteState, topic: Topic, queue_datas: tuple[QueueData, ...]) -> Step:
    """Somebody else than a broker puts a topic into the routes; the queues
    of the brokers up to the first that is not known are taken, of a new topic none then."""
    queues = dict(state.topic_queue_table.get(topic, {}))
    is_new = not queues
    for data in queue_datas:
        if data.broker_name not in state.broker_addr_table:
            if is_new:
                return Step()
            break
        queues[data.broker_name] = data
    return Step((Change("topic_queue_table", topic, queues),)) if queues else Step()


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


def broker_member_group(
    state: RouteState, cluster: str | None, broker_name: BrokerName | None
) -> BrokerMemberGroup:
    """A broker's replicas; none where it is not known."""
    broker = state.broker_addr_table.get(broker_name) if broker_name is not None else None
    return BrokerMemberGroup(cluster, broker_name, broker.broker_addrs if broker else {})


def topics_of_cluster(state: RouteState, cluster: str) -> list[Topic]:
    """The topics that brokers of a cluster have."""
    names = set(state.cluster_addr_table.get(cluster, ()))
    return [topic for topic, queues in state.topic_queue_table.items() if names & queues.keys()]


def system_topics(state: RouteState) -> tuple[list[Topic], str | None]:
    """The names of clusters and brokers, which are topics too, and the address of any broker."""
    clusters = state.cluster_addr_table.items()
    topics = dict.fromkeys(topic for cluster, names in clusters for topic in (cluster, *names))
    addresses = (
        address
        for broker in state.broker_addr_table.values()
        for address in broker.broker_addrs.values()
    )
    return list(topics), next(addresses, None)


def topics_of_unit(state: RouteState, is_meant: Callable[[int], bool]) -> list[Topic]:
    """The topics whose topicSysFlag, as any broker has it, is meant."""
    return [
        topic
        for topic, queues in state.topic_queue_table.items()
        if is_meant(next(iter(queues.values())).topic_sys_flag)
    ]


# How requests are answered


CRC_NOT_MATCHED: Final = Answer(ResponseCode.SYSTEM_ERROR, "crc32 not match")
"""To 103, whose body is not what its sender has summed up."""

NOT_REGISTERED: Final = Answer(ResponseCode.SYSTEM_ERROR, "register broker failed")
"""To 103, where `register_broker` takes nothing."""

NOT_READY: Final = Answer(ResponseCode.SYSTEM_ERROR, "name server not ready")
"""To 105, while brokers may not have told all that they have."""

MEMBER_GROUP_SHOWN: Final = Answer(remark=NOT_SET)
"""To 901, beside its body."""

DISABLED: Final = Answer(ResponseCode.SYSTEM_ERROR, "disable")
"""To requests for lists of topics, where an option forbids them."""


def no_route(topic: Topic | None) -> Answer:
    """To 105, where no broker has the topic, or none is named."""
    name = "null" if topic is None else topic
    remark = f"No topic route info in name server for the topic: {name}{SEE_FAQ}"
    return Answer(ResponseCode.TOPIC_NOT_EXIST, remark)
