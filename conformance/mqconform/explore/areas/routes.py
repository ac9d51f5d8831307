"""What a nameserver knows: brokers and their replicas that register, change and go, and routes.

Brokers here are connections that register under names of their own. A nameserver takes out who
unregisters or hangs up soon after its answer: that is waited for, alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from hypothesis import strategies as st

from mqconform import requests
from mqconform.cluster import cluster_info
from mqconform.connection import Connection, eventually
from mqconform.explore.edges import COUNTS
from mqconform.explore.player import NAMESERVER, DepartureError, Program, World
from mqconform.explore.possible import branch
from mqconform.frame import Frame
from mqconform.requests import Request
from mqspec.core import route as core
from mqspec.core.metadata import DataVersion, TopicConfig
from mqspec.core.response import ResponseCode
from mqspec.core.step import apply

CLIENTS: Final = 3
BROKERS: Final = 3
CLUSTERS: Final = (0, 1, 0)  # of each broker: two have one
PLACES: Final = 2  # addresses of a broker: processes that may have any of its ids
PERMS: Final = (6, 6, 4, 2, 7, 1)
TIMESTAMP: Final = 7


@dataclass(frozen=True)
class Setting:
    topics: int


class _AtNameserver:
    broker = NAMESERVER
    place = ()


@dataclass(frozen=True)
class _Asked(_AtNameserver):
    client: int

    def connection(self, world: World) -> Connection:
        return world.named_connection(self.client)


@dataclass(frozen=True)
class _OfProcess(_AtNameserver):
    """What a process of a broker does, over a connection of its own."""

    name: int  # of the broker, a number
    at: int  # which of its addresses

    @property
    def client(self) -> int:
        return CLIENTS + self.name * PLACES + self.at

    def connection(self, world: World) -> Connection:
        return world.named_connection(self.client)

    @property
    def address(self) -> core.BrokerAddr:
        """As the model names it."""
        return core.BrokerAddr(_cluster(self.name), f"{self.name}:{self.at}")

    def about(self, world: World) -> dict[str, str]:
        names = _names(world)
        return {
            "name": names[_broker(self.name)],
            "address": names[self.address.address],
            "cluster": names[_cluster(self.name)],
        }


@dataclass(frozen=True)
class Register(_OfProcess):
    broker_id: int
    topics: tuple[tuple[int, int, int, int], ...]  # topic, queues to read, to write, permission
    counter: int
    state_version: int
    rules = (
        "NAMESRV-001", "NAMESRV-005", "NAMESRV-006", "NAMESRV-011", "NAMESRV-015", "NAMESRV-016",
        "NAMESRV-017", "NAMESRV-026",
    )  # fmt: skip

    def request(self, world: World) -> Request:
        names = _names(world)
        wanted = {names[_topic(topic)]: rest for topic, *rest in self.topics}
        about = self.about(world)
        request = requests.register_broker(
            about["name"], about["address"], dict.fromkeys(wanted, 1), cluster=about["cluster"]
        )
        body = json.loads(request.body)
        wrapper = body["topicConfigSerializeWrapper"]
        for topic, (read, write, perm) in wanted.items():
            config = wrapper["topicConfigTable"][topic]
            config |= {"readQueueNums": read, "writeQueueNums": write, "perm": perm}
        wrapper["dataVersion"] = {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": TIMESTAMP,
        }
        return requests.with_body(request, body).having(
            brokerId=self.broker_id, haServerAddr=about["address"]
        )

    def seen(self, world: World, answer: Frame) -> Any:
        told = _told(world)
        return answer.code, *(
            told.get(answer.fields.get(name)) for name in ("masterAddr", "haServerAddr")
        )

    def allowed(self, state: core.RouteState) -> Iterator[tuple[Any, core.RouteState]]:
        event = core.RegisterBroker(
            *(self.address.cluster, _broker(self.name), self.address.address, self.broker_id),
            channel=self.client,
            topics=tuple(
                TopicConfig(_topic(topic), read, write, perm)
                for topic, read, write, perm in self.topics
            ),
            data_version=DataVersion(self.counter, self.state_version, TIMESTAMP),
            enable_acting_master=False,
            ha_server_address=self.address.address,
        )
        step = core.register_broker(state, event, 0)
        told = step.result or core.Registered()
        code = ResponseCode.SUCCESS if step.result else ResponseCode.SYSTEM_ERROR
        answer = int(code), told.master_address, told.ha_server_address
        yield answer, branch(state, step.changes, apply)


@dataclass(frozen=True)
class _Going(_OfProcess):
    """A process that is there goes, and the nameserver takes it out; None where it is not there."""

    rules: ClassVar[tuple[str, ...]] = ()

    def act(self, world: World) -> Any:
        if not self._is_told(world):
            return None
        told = self.go(world)
        if not eventually(lambda: not self._is_told(world)):
            raise DepartureError(f"{self} is still there\n  rules: {', '.join(self.rules)}")
        return told

    def allowed(self, state: core.RouteState) -> Iterator[tuple[Any, core.RouteState]]:
        known = state.broker_addr_table.get(_broker(self.name))
        is_there = known is not None and self.address.address in known.broker_addrs.values()
        yield self.gone(state) if is_there else (None, state)

    def go(self, world: World) -> Any:
        """What is seen of it, which is not None."""
        raise NotImplementedError

    def gone(self, state: core.RouteState) -> tuple[Any, core.RouteState]:
        """What may be seen of it, and the state behind it."""
        raise NotImplementedError

    def _is_told(self, world: World) -> bool:
        """Whether the nameserver tells of it."""
        group = Group(0, self.name)
        answer = group.connection(world).call(group.request(world))
        return self.address.address in group.addresses(world, answer).values()


@dataclass(frozen=True)
class Unregister(_Going):
    """It says so."""

    rules = ("NAMESRV-009",)

    def go(self, world: World) -> int:
        about = self.about(world)
        request = requests.unregister_broker(
            about["name"], about["address"], cluster=about["cluster"]
        )
        return self.connection(world).call(request).code

    def gone(self, state: core.RouteState) -> tuple[Any, core.RouteState]:
        step = core.unregister_broker(state, self.address, _broker(self.name))
        return 0, branch(state, step.changes, apply)


@dataclass(frozen=True)
class HangUp(_Going):
    """Its connection ends."""

    rules = ("NAMESRV-010",)

    def go(self, world: World) -> bool:
        world.hang_up_name(self.client)
        return True

    def gone(self, state: core.RouteState) -> tuple[Any, core.RouteState]:
        for address, name in list(core.brokers_of_channel(state, self.client)):
            state = branch(state, core.unregister_broker(state, address, name).changes, apply)
        return True, state


@dataclass(frozen=True)
class Route(_Asked):
    topic: int
    rules = "NAMESRV-001", "NAMESRV-002", "NAMESRV-026", "NAMESRV-027"

    def request(self, world: World) -> Request:
        return requests.route(_names(world)[_topic(self.topic)])

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code:
            return (answer.code,)
        told, found = _told(world), answer.json()
        names = "readQueueNums", "writeQueueNums", "perm"
        queues = ((told[each["brokerName"]], *map(each.get, names)) for each in found["queueDatas"])
        brokers = (
            (told[each["brokerName"]], told[each["cluster"]], *_addresses(world, each))
            for each in found["brokerDatas"]
        )
        return 0, tuple(sorted(queues)), tuple(sorted(brokers))

    def allowed(self, state: core.RouteState) -> Iterator[tuple[Any, core.RouteState]]:
        found = core.pick_topic_route(state, _topic(self.topic))
        if found is None:
            yield (int(ResponseCode.TOPIC_NOT_EXIST),), state
            return
        queues = (
            (each.broker_name, each.read_queue_nums, each.write_queue_nums, each.perm)
            for each in found.queue_datas
        )
        brokers = (
            (each.broker_name, each.cluster, *sorted(each.broker_addrs.items()))
            for each in found.broker_datas
        )
        yield (0, tuple(sorted(queues)), tuple(sorted(brokers))), state


@dataclass(frozen=True)
class Group(_Asked):
    """The processes of a broker."""

    name: int
    rules = ("NAMESRV-033",)

    def request(self, world: World) -> Request:
        names = _names(world)
        fields = {
            "clusterName": names[_cluster(self.name)],
            "brokerName": names[_broker(self.name)],
        }
        return Request(requests.GET_BROKER_MEMBER_GROUP, fields)

    def addresses(self, world: World, answer: Frame) -> dict[int, str]:
        return dict(_addresses(world, answer.json()["brokerMemberGroup"]))

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, tuple(sorted(self.addresses(world, answer).items()))

    def allowed(self, state: core.RouteState) -> Iterator[tuple[Any, core.RouteState]]:
        found = core.broker_member_group(state, _cluster(self.name), _broker(self.name))
        yield (0, tuple(sorted(found.broker_addrs.items()))), state


@dataclass(frozen=True)
class Topics(_Asked):
    """The topics of a cluster."""

    cluster: int
    rules = ("NAMESRV-032",)

    def request(self, world: World) -> Request:
        cluster = _names(world)[f"C{self.cluster}"]
        return Request(requests.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})

    def seen(self, world: World, answer: Frame) -> Any:
        told = _told(world)
        return answer.code, tuple(sorted(told[each] for each in answer.json()["topicList"]))

    def allowed(self, state: core.RouteState) -> Iterator[tuple[Any, core.RouteState]]:
        yield (0, tuple(sorted(core.topics_of_cluster(state, f"C{self.cluster}")))), state


@dataclass(frozen=True)
class Everybody(_Asked):
    """All brokers and clusters, of which those of this world are looked at."""

    rules = ("NAMESRV-004",)

    def request(self, world: World) -> Request:
        return Request(requests.GET_BROKER_CLUSTER_INFO)

    def seen(self, world: World, answer: Frame) -> Any:
        if answer.code:  # a registration of this round may have come between
            answer = cluster_info(self.connection(world))
        told, info = _told(world), answer.json()
        brokers, clusters = info["brokerAddrTable"], info["clusterAddrTable"]
        return (
            answer.code,
            sorted(
                (told[name], *_addresses(world, brokers[name])) for name in brokers.keys() & told
            ),
            sorted(
                (told[name], *sorted(told[one] for one in clusters[name]))
                for name in clusters.keys() & told
            ),
        )

    def allowed(self, state: core.RouteState) -> Iterator[tuple[Any, core.RouteState]]:
        info = core.cluster_info(state)
        brokers, clusters = info.broker_addr_table, info.cluster_addr_table
        told = (
            0,
            sorted((name, *sorted(each.broker_addrs.items())) for name, each in brokers.items()),
            sorted((name, *sorted(names)) for name, names in clusters.items()),
        )
        yield told, state


@dataclass(frozen=True)
class Permit(_Asked):
    """An administrator takes the write permission of a broker's queues, or gives it back."""

    name: int
    gives: bool
    rules = "NAMESRV-018", "NAMESRV-019"

    def request(self, world: World) -> Request:
        code = (
            requests.ADD_WRITE_PERM_OF_BROKER if self.gives else requests.WIPE_WRITE_PERM_OF_BROKER
        )
        return Request(code, {"brokerName": _names(world)[_broker(self.name)]})

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code, answer.number("addTopicCount" if self.gives else "wipeTopicCount")

    def allowed(self, state: core.RouteState) -> Iterator[tuple[Any, core.RouteState]]:
        change = core.add_write_perm if self.gives else core.wipe_write_perm
        step = change(state, _broker(self.name))
        yield (0, step.result), branch(state, step.changes, apply)


@dataclass(frozen=True)
class Delete(_Asked):
    """An administrator takes a topic out of the routes, of one cluster or of all."""

    topic: int
    cluster: int | None
    rules = ("NAMESRV-025",)

    def request(self, world: World) -> Request:
        names = _names(world)
        fields = {"topic": names[_topic(self.topic)]}
        if self.cluster is not None:
            fields["clusterName"] = names[f"C{self.cluster}"]
        return Request(requests.DELETE_TOPIC_IN_NAMESRV, fields)

    def seen(self, world: World, answer: Frame) -> Any:
        return answer.code

    def allowed(self, state: core.RouteState) -> Iterator[tuple[Any, core.RouteState]]:
        cluster = None if self.cluster is None else f"C{self.cluster}"
        step = core.delete_topic(state, _topic(self.topic), cluster)
        yield 0, branch(state, step.changes, apply)


def _broker(name: int) -> str:
    return f"B{name}"


def _cluster(name: int) -> str:
    """Of a broker."""
    return f"C{CLUSTERS[name]}"


def _topic(number: int) -> str:
    return f"T{number}"


def _names(world: World) -> Mapping[str, str]:
    """What the model's names are in truth."""
    names: Mapping[str, str] = world.notes["names"]
    return names


def _told(world: World) -> Mapping[str | None, str]:
    """What names are in the model."""
    told: Mapping[str | None, str] = world.notes["told"]
    return told


def _addresses(world: World, found: Mapping[str, Any]) -> list[tuple[int, str]]:
    told = _told(world)
    return sorted((int(number), told[at]) for number, at in found["brokerAddrs"].items())


class Area:
    name = "routes"
    about = "brokers and replicas at a nameserver, and routes"
    within_s = 60.0  # a broker that registers no more is gone after 120 s

    def programs(self) -> st.SearchStrategy[Program[Setting]]:
        return _programs()

    def begin(self, world: World, setting: Setting) -> core.RouteState:
        topics = map(_topic, range(setting.topics))
        brokers = map(_broker, range(BROKERS))
        names = {name: world.scene.name(name[0]) for name in ("C0", "C1", *topics, *brokers)}
        for broker in range(BROKERS):
            for at in range(PLACES):
                # Nobody connects to it; no other program has it.
                names[f"{broker}:{at}"] = f"{names[_broker(broker)]}.invalid:{1 + at}"
        world.notes["names"] = names
        world.notes["told"] = {real: name for name, real in names.items()}
        return core.RouteState()

    def settle(self, world: World, round_: Sequence[Any]) -> None:
        pass

    def last(self, world: World, setting: Setting) -> Sequence[Any]:
        groups = (Group(0, broker) for broker in range(BROKERS))
        clusters = (Topics(0, cluster) for cluster in set(CLUSTERS))
        routes = (Route(0, topic) for topic in range(setting.topics))
        return [*routes, *groups, *clusters, Everybody(0)]


@st.composite
def _programs(draw: st.DrawFn) -> Program[Setting]:
    setting = Setting(draw(st.sampled_from((2, 3, 20, 70))))
    numbers = st.integers(0, min(2, setting.topics - 1))
    asked: dict[str, Any] = {"client": st.integers(0, CLIENTS - 1)}
    process: dict[str, Any] = {
        "name": st.integers(0, BROKERS - 1),
        "at": st.integers(0, PLACES - 1),
    }
    counts, perms = st.sampled_from(COUNTS), st.sampled_from(PERMS)
    few = st.lists(
        st.tuples(numbers, counts, counts, perms), max_size=3, unique_by=lambda each: each[0]
    )
    every = st.tuples(counts, counts, perms).map(
        lambda rest: [(number, *rest) for number in range(setting.topics)]
    )
    registering = st.builds(
        Register,
        **process,
        broker_id=st.sampled_from((0, 0, 0, 1, 2)),
        topics=(few | every).map(tuple),
        counter=st.integers(1, 3),
        state_version=st.sampled_from((0, 0, 1)),
    )
    clusters = st.sampled_from(sorted(set(CLUSTERS)))
    asking = st.one_of(
        st.builds(Route, **asked, topic=numbers),
        st.builds(Route, **asked, topic=numbers),
        st.builds(Group, **asked, name=process["name"]),
        st.builds(Topics, **asked, cluster=clusters),
        st.builds(Everybody, **asked),
    )
    administering = st.one_of(
        st.builds(Permit, **asked, name=process["name"], gives=st.booleans()),
        st.builds(Delete, **asked, topic=numbers, cluster=st.none() | clusters),
    )
    going = st.builds(Unregister, **process) | st.builds(HangUp, **process)
    rounds = st.one_of(
        st.lists(registering, min_size=1, max_size=2),
        st.lists(registering | asking | administering, min_size=1, max_size=4),
        going.map(lambda op: [op]),
    )
    drawn = draw(st.lists(rounds, min_size=8, max_size=24))
    return Program(setting, tuple(map(tuple, drawn)))


AREA: Final = Area()
