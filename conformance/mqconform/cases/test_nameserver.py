"""The nameserver: what brokers tell it and what it tells clients.

Brokers here are connections of the case that register under names and addresses of its own.
"""

from __future__ import annotations

import struct
import zlib

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import Connection, eventually
from mqconform.requests import Request
from mqconform.scene import Scene

REGISTERED = "test_a_registered_broker_is_in_the_route"


class Broker:
    """A broker that is nothing but its registrations."""

    def __init__(self, scene: Scene, port: int = 1, twin: Broker | None = None) -> None:
        self.connection: Connection = scene.connect_nameserver()
        self.name: str = twin.name if twin else scene.name("B")
        self.cluster: str = twin.cluster if twin else scene.name("C")
        self.address = f"127.0.0.1:{port}"

    def request(self, topics: dict[str, int], state_version: int = 0) -> Request:
        return requests.register_broker(
            self.name, self.address, topics, cluster=self.cluster, state_version=state_version
        )

    def register(self, topics: dict[str, int], state_version: int = 0) -> int:
        return self.connection.call(self.request(topics, state_version)).code


def queues(scene: Scene, topic: str) -> dict[str, int]:
    """The read queues of a topic by broker, as the route says; empty where there is none."""
    answer = scene.nameserver.call(requests.route(topic))
    if answer.code == 17:
        return {}
    return {data["brokerName"]: data["readQueueNums"] for data in answer.json()["queueDatas"]}


@case("NAMESRV-001", party="nameserver")
def test_a_registered_broker_is_in_the_route(scene: Scene) -> None:
    broker, topic, other = Broker(scene, 7), scene.name("T"), scene.name("T")
    assert broker.register({topic: 3, other: 1}) == 0
    route = scene.nameserver.call(requests.route(topic)).json()
    (data,) = route["queueDatas"]
    assert (data["brokerName"], data["readQueueNums"], data["writeQueueNums"], data["perm"]) == (
        broker.name, 3, 3, 6)  # fmt: skip
    (found,) = route["brokerDatas"]
    assert found["brokerName"] == broker.name
    assert found["cluster"] == broker.cluster
    assert found["brokerAddrs"] == {"0": "127.0.0.1:7"}


@case("NAMESRV-001", party="nameserver", after=REGISTERED)
def test_a_topic_may_lie_on_several_brokers(scene: Scene) -> None:
    one, two, topic, other = Broker(scene), Broker(scene), scene.name("T"), scene.name("T")
    assert one.register({topic: 4, other: 1}) == 0
    assert two.register({topic: 2, other: 1}) == 0
    assert queues(scene, topic) == {one.name: 4, two.name: 2}


@case("NAMESRV-002", party="nameserver")
def test_an_unknown_topic_has_no_route(scene: Scene) -> None:
    topic = scene.name("T")
    answer = scene.nameserver.call(requests.route(topic))
    assert answer.code == 17
    assert answer.remark
    assert answer.remark.startswith(f"No topic route info in name server for the topic: {topic}")
    missing = scene.nameserver.call(Request(requests.GET_ROUTEINFO_BY_TOPIC))
    assert missing.code == 17
    assert missing.remark
    assert "for the topic: null" in missing.remark


@case("NAMESRV-003", party="nameserver")
@pytest.mark.parametrize(
    ("version", "standard", "key"),
    [(0, False, b"{0:"), (400, False, b"{0:"), (401, False, b'{"0":'), (479, False, b'{"0":'),
     (0, True, b'{"0":')],
)  # fmt: skip
def test_the_version_decides_how_broker_ids_are_written(
    scene: Scene, version: int, standard: bool, key: bytes
) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}) == 0
    request = requests.route(topic)
    if standard:
        request = request.having(acceptStandardJsonOnly=True)
    answer = scene.nameserver.call(request, version=version)
    assert b'"brokerAddrs":' + key in answer.body
    assert answer.json()["brokerDatas"][0]["brokerAddrs"] == {"0": broker.address}


@case("NAMESRV-004", party="nameserver")
def test_the_cluster_info_lists_every_broker(scene: Scene) -> None:
    broker = Broker(scene)
    assert broker.register({}) == 0
    info = scene.nameserver.call(Request(requests.GET_BROKER_CLUSTER_INFO)).json()
    assert info["brokerAddrTable"][broker.name]["brokerAddrs"] == {"0": broker.address}
    assert info["clusterAddrTable"][broker.cluster] == [broker.name]
    assert set(scene.broker_names) <= set(info["brokerAddrTable"])


@case("NAMESRV-005", party="nameserver")
def test_a_first_registration_of_one_topic_is_refused(scene: Scene) -> None:
    broker, topic = Broker(scene), scene.name("T")
    assert broker.register({topic: 1}) == 1
    assert broker.register({topic: 1}) == 1
    assert queues(scene, topic) == {}


@case("NAMESRV-006", party="nameserver", after=REGISTERED)
def test_a_broker_may_add_one_topic(scene: Scene) -> None:
    broker, topics = Broker(scene), [scene.name("T") for _ in range(3)]
    assert broker.register({topics[0]: 1, topics[1]: 2}) == 0
    assert broker.register({topics[2]: 3}) == 0
    assert [queues(scene, topic) for topic in topics] == [
        {broker.name: 1}, {broker.name: 2}, {broker.name: 3}]  # fmt: skip


@case("NAMESRV-007", party="nameserver")
@pytest.mark.parametrize(("version", "read"), [(36, False), (37, True)])
def test_an_old_registration_has_another_body(scene: Scene, version: int, read: bool) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    request = broker.request({topic: 1, other: 1})
    assert broker.connection.call(request, version=version).code == 0
    assert queues(scene, topic) == ({broker.name: 1} if read else {})


@case("NAMESRV-008", party="nameserver")
def test_a_wrong_checksum_is_refused(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    request = broker.request({topic: 1, other: 1})
    right = zlib.crc32(request.body) & 0x7FFFFFFF
    wrong = broker.connection.call(request.having(bodyCrc32=right ^ 1))
    assert (wrong.code, wrong.remark) == (1, "crc32 not match")
    assert queues(scene, topic) == {}
    assert broker.connection.call(request.having(bodyCrc32=right)).code == 0
    assert queues(scene, topic) == {broker.name: 1}


@case("NAMESRV-009", party="nameserver", after=REGISTERED)
def test_a_broker_that_unregisters_is_in_no_route(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}) == 0
    request = requests.unregister_broker(broker.name, broker.address, cluster=broker.cluster)
    assert broker.connection.call(request).code == 0
    assert eventually(lambda: queues(scene, topic) == {})


@case("NAMESRV-010", party="nameserver", after=REGISTERED)
def test_a_broker_whose_connection_closes_is_in_no_route(scene: Scene) -> None:
    one, two, topic, other = Broker(scene), Broker(scene), scene.name("T"), scene.name("T")
    assert one.register({topic: 4, other: 1}) == 0
    assert two.register({topic: 2, other: 1}) == 0
    one.connection.close()
    assert eventually(lambda: queues(scene, topic) == {two.name: 2})


@case("NAMESRV-011", party="nameserver", after=REGISTERED)
def test_an_older_state_does_not_take_a_broker_id_over(scene: Scene) -> None:
    topic, other = scene.name("T"), scene.name("T")
    holder = Broker(scene, 10)
    older = Broker(scene, 11, twin=holder)
    newer = Broker(scene, 12, twin=holder)
    assert holder.register({topic: 1, other: 1}, state_version=5) == 0
    assert older.register({topic: 2, other: 1}, state_version=3) == 0
    assert queues(scene, topic) == {holder.name: 1}
    assert newer.register({topic: 3, other: 1}, state_version=7) == 0
    assert queues(scene, topic) == {holder.name: 3}


@case("NAMESRV-012", party="nameserver")
def test_a_compressed_registration_is_read(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    version = b'{"counter":1,"stateVersion":0,"timestamp":1}'
    lines = [f"{name} 3 3 6 SINGLE_TAG {{}}".encode() for name in (topic, other)]
    items = [sized(version), count(lines), *map(sized, lines), sized(b"[]"), count([])]
    request = broker.request({}).having(compressed=True)
    body = zlib.compress(b"".join(items))
    assert broker.connection.call(Request(request.code, request.fields, body)).code == 0
    assert queues(scene, topic) == {broker.name: 3}


@case("NAMESRV-013", party="nameserver", after=REGISTERED)
def test_the_topic_list_names_every_topic(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}) == 0
    answer = scene.nameserver.call(Request(requests.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
    assert {topic, other} <= set(answer.json()["topicList"])


@case("NAMESRV-014", party="nameserver")
@pytest.mark.parametrize(
    ("left_out", "code"),
    [("brokerId", 1), ("haServerAddr", 0), ("compressed", 0), ("bodyCrc32", 0)],
)
def test_a_registration_without_a_field(scene: Scene, left_out: str, code: int) -> None:
    broker = Broker(scene)
    request = broker.request({scene.name("T"): 1, scene.name("T"): 1}).without(left_out)
    assert broker.connection.call(request).code == code


def sized(item: bytes) -> bytes:
    return struct.pack(">i", len(item)) + item


def count(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items))
