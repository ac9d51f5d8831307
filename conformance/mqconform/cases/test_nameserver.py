"""The nameserver: what brokers tell it and what it tells clients.

Brokers here are connections of the case that register under names and addresses of its own.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import struct
import zlib
from collections.abc import Callable
from ipaddress import IPv4Address

import pytest

from mqconform import requests
from mqconform.case import at_edges, case
from mqconform.cluster import cluster_info
from mqconform.connection import Connection, eventually
from mqconform.frame import Frame
from mqconform.requests import Request
from mqconform.scene import Scene, config_of, done

REGISTERED = "test_a_registered_broker_is_in_the_route"
CLOSED = "test_a_broker_whose_connection_closes_is_in_no_route"
EXPIRY_S = 20.0  # for a nameserver, which looks each 5 s, to find that a broker is silent


_HOSTS = itertools.count(int(IPv4Address("127.0.0.1")))


def new_host() -> str:
    """An address that no other broker of the run has; cases take them side by side."""
    return str(IPv4Address(next(_HOSTS)))


class Broker:
    """A broker that is nothing but its registrations.

    A twin has the name of another; `broker_id` 0 is a master. `connection` may be another
    broker's.
    """

    def __init__(
        self,
        scene: Scene,
        port: int = 1,
        twin: Broker | None = None,
        broker_id: int = 0,
        connection: Connection | None = None,
    ) -> None:
        self.connection: Connection = connection or scene.connect_nameserver()
        self.name: str = twin.name if twin else scene.name("B")
        self.cluster: str = twin.cluster if twin else scene.name("C")
        # Versions below 5 take brokers of one address for one, whatever their names are.
        self.address = f"{new_host()}:{port}"
        self.broker_id = broker_id

    def request(self, topics: dict[str, int], state_version: int = 0, counter: int = 1) -> Request:
        request = requests.register_broker(
            self.name, self.address, topics, cluster=self.cluster, state_version=state_version
        )
        version = b'{"counter":%d,"stateVersion":%d,"timestamp":7}' % (counter, state_version)
        body = re.sub(rb'(?<="dataVersion": )\{[^}]*\}', version, request.body)
        return requests.with_body(request, body).having(brokerId=self.broker_id)

    def register(
        self, topics: dict[str, int], state_version: int = 0, counter: int = 1, **fields: object
    ) -> int:
        """The code of the answer. A field that is None is left out, as by an older broker."""
        left_out = [name for name, value in fields.items() if value is None]
        request = self.request(topics, state_version, counter).having(**fields).without(*left_out)
        return self.connection.call(request).code

    def permit(self, code: int) -> Frame:
        """Have a nameserver take the write permission of all topics, or give it."""
        return self.connection.call(Request(code, {"brokerName": self.name}))

    def ask(self, code: int, body: bytes = b"") -> Frame:
        """A request whose fields say who asks."""
        fields = {
            "brokerName": self.name,
            "brokerAddr": self.address,
            "clusterName": self.cluster,
            "brokerId": str(self.broker_id),
        }
        return self.connection.call(Request(code, fields, body))


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
    assert found["brokerAddrs"] == {"0": broker.address}


@case("NAMESRV-001", party="nameserver", after=REGISTERED)
def test_a_topic_may_lie_on_several_brokers(scene: Scene) -> None:
    one, two, topic, other = Broker(scene), Broker(scene), scene.name("T"), scene.name("T")
    assert one.register({topic: 4, other: 1}) == 0
    assert two.register({topic: 2, other: 1}) == 0
    assert queues(scene, topic) == {one.name: 4, two.name: 2}


def queues(scene: Scene, topic: str) -> dict[str, int]:
    """The read queues of a topic by broker, as the route says; empty where there is none."""
    answer = scene.nameserver.call(requests.route(topic))
    if answer.code == 17:
        return {}
    return {data["brokerName"]: data["readQueueNums"] for data in answer.json()["queueDatas"]}


def perms(scene: Scene, topic: str) -> dict[str, int]:
    """The permissions of a topic by broker, as the route says."""
    answer = scene.nameserver.call(requests.route(topic))
    return {data["brokerName"]: data["perm"] for data in answer.json()["queueDatas"]}


def addresses(scene: Scene, topic: str) -> list[dict[str, str]]:
    """The addresses of the brokers of a topic by broker id, as the route says."""
    answer = scene.nameserver.call(requests.route(topic))
    return [data["brokerAddrs"] for data in answer.json()["brokerDatas"]]


@case("NAMESRV-002", party="nameserver")
def test_an_unknown_topic_has_no_route(scene: Scene) -> None:
    topic = scene.name("T")
    answer = scene.nameserver.call(requests.route(topic))
    assert answer.code == 17
    missing = scene.nameserver.call(Request(requests.GET_ROUTEINFO_BY_TOPIC))
    with scene.apaches():  # no client asks so
        assert missing.code == 17
    with scene.identical("the wording of the remark"):
        said = f"No topic route info in name server for the topic: {topic}"
        assert (answer.remark or "").startswith(said)
        assert "for the topic: null" in (missing.remark or "")


@case("NAMESRV-003", party="nameserver")
@at_edges("NAMESRV-003", "version of the request")
def test_the_version_decides_how_broker_ids_are_written(
    scene: Scene, value: int, fits: bool
) -> None:
    with contextlib.nullcontext() if fits else scene.apaches():  # all read quoted ones
        has_broker_ids(scene, value, requests.route, b'{"0":' if fits else b"{0:")


@case("NAMESRV-003", party="nameserver")
def test_who_asks_for_json_gets_quoted_broker_ids(scene: Scene) -> None:
    def request(topic: str) -> Request:
        return requests.route(topic).having(acceptStandardJsonOnly=True)

    has_broker_ids(scene, 0, request, b'{"0":')


def has_broker_ids(
    scene: Scene, version: int, asking: Callable[[str], Request], key: bytes
) -> None:
    """A route has its broker ids so, asked for in this version."""
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}) == 0
    request = asking(topic)
    answer = scene.nameserver.call(request, version=version)
    assert b'"brokerAddrs":' + key in answer.body
    assert answer.json()["brokerDatas"][0]["brokerAddrs"] == {"0": broker.address}


@case("NAMESRV-004", party="nameserver")
def test_the_cluster_info_lists_every_broker(scene: Scene) -> None:
    broker = Broker(scene)
    assert broker.register({}) == 0
    info = cluster_info(scene.nameserver).json()
    assert info["brokerAddrTable"][broker.name]["brokerAddrs"] == {"0": broker.address}
    assert info["clusterAddrTable"][broker.cluster] == [broker.name]
    assert set(scene.broker_names) <= set(info["brokerAddrTable"])


@case("NAMESRV-004", party="nameserver", after="test_a_replica_is_told_of_its_master")
def test_the_cluster_info_lists_every_replica(scene: Scene) -> None:
    master = Broker(scene, 20)
    replicas = [Broker(scene, 20 + n, twin=master, broker_id=n) for n in (1, 2, 3)]
    for broker in (master, *replicas):
        assert broker.register({}) == 0
    info = cluster_info(scene.nameserver).json()
    addresses = {str(each.broker_id): each.address for each in (master, *replicas)}
    assert info["brokerAddrTable"][master.name]["brokerAddrs"] == addresses
    assert info["clusterAddrTable"][master.cluster] == [master.name]


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
@at_edges("NAMESRV-007", "version of the registration")
def test_an_old_registration_has_another_body(scene: Scene, value: int, fits: bool) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    request = broker.request({topic: 1, other: 1})
    assert broker.connection.call(request, version=value).code == 0
    assert queues(scene, topic) == ({broker.name: 1} if fits else {})


@case("NAMESRV-008", party="nameserver")
def test_a_wrong_checksum_is_refused(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    request = broker.request({topic: 1, other: 1})
    right = zlib.crc32(request.body) & 0x7FFFFFFF
    wrong = broker.connection.call(request.having(bodyCrc32=right ^ 1))
    assert wrong.code == 1
    scene.worded(wrong, "crc32 not match")
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
    lines = [f"{name} 3 3 6 SINGLE_TAG".encode() for name in (topic, other)]
    items = [sized(version), count(lines), *map(sized, lines), sized(b"[]"), count([])]
    request = broker.request({}).having(compressed=True)
    body = zlib.compress(b"".join(items))
    assert broker.connection.call(requests.with_body(request, body)).code == 0
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


@case("NAMESRV-015", party="nameserver", after=REGISTERED)
def test_of_equal_registrations_of_one_id_the_last_counts(scene: Scene) -> None:
    topic, other = scene.name("T"), scene.name("T")
    first = Broker(scene, 10)
    second = Broker(scene, 11, twin=first)
    for broker in (first, second, first):
        assert broker.register({topic: 1, other: 1}) == 0
        assert addresses(scene, topic) == [{"0": broker.address}]


@case("NAMESRV-015", party="nameserver", after=REGISTERED)
def test_a_report_of_one_topic_takes_a_place_as_well(scene: Scene) -> None:
    topic, other, new = scene.name("T"), scene.name("T"), scene.name("T")
    first = Broker(scene, 12)
    second = Broker(scene, 13, twin=first)
    assert first.register({topic: 1, other: 1}) == 0
    assert second.register({new: 1}) == 0
    assert addresses(scene, topic) == addresses(scene, new) == [{"0": second.address}]


@case("NAMESRV-016", "NAMESRV-017", party="nameserver", after=REGISTERED)
def test_queues_are_those_of_the_newest_data_version(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")

    def register(read: int, write: int, counter: int) -> tuple[int, int]:
        request = broker.request({topic: 1, other: 1}, counter=counter)
        body = json.loads(request.body)
        config = body["topicConfigSerializeWrapper"]["topicConfigTable"][topic]
        config |= {"readQueueNums": read, "writeQueueNums": write}
        assert broker.connection.call(requests.with_body(request, body)).code == 0
        (data,) = scene.nameserver.call(requests.route(topic)).json()["queueDatas"]
        return data["readQueueNums"], data["writeQueueNums"]

    assert register(8, 4, counter=1) == (8, 4)
    assert register(9, 9, counter=1) == (8, 4)
    assert register(8, 12, counter=2) == (8, 12)
    assert register(2, 1, counter=3) == (2, 1)


@case("NAMESRV-018", "NAMESRV-019", party="nameserver", after=REGISTERED)
def test_write_permission_is_taken_and_given_back(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}) == 0
    wiped = broker.permit(requests.WIPE_WRITE_PERM_OF_BROKER)
    assert (wiped.code, wiped.fields["wipeTopicCount"]) == (0, "2")
    assert perms(scene, topic) == {broker.name: 4}
    assert broker.register({topic: 1, other: 1}) == 0
    assert perms(scene, topic) == {broker.name: 4}, "nothing changed at the broker"
    added = broker.permit(requests.ADD_WRITE_PERM_OF_BROKER)
    assert (added.code, added.fields["addTopicCount"]) == (0, "2")
    assert perms(scene, topic) == {broker.name: 6}
    for code, count in (
        (requests.WIPE_WRITE_PERM_OF_BROKER, "wipeTopicCount"),
        (requests.ADD_WRITE_PERM_OF_BROKER, "addTopicCount"),
    ):
        nobody = scene.nameserver.call(Request(code, {"brokerName": scene.name("B")}))
        assert (nobody.code, nobody.fields[count]) == (0, "0")


@case("NAMESRV-019", party="nameserver", after=REGISTERED)
def test_write_permission_comes_with_read_permission(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    request = broker.request({topic: 1, other: 1})
    unreadable = request.body.replace(b'"perm": 6', b'"perm": 1')
    assert broker.connection.call(requests.with_body(request, unreadable)).code == 0
    assert perms(scene, topic) == {broker.name: 1}
    assert broker.permit(requests.ADD_WRITE_PERM_OF_BROKER).code == 0
    assert perms(scene, topic) == {broker.name: 6}


@case("NAMESRV-020", party="nameserver", after=REGISTERED)
def test_a_silent_broker_is_in_no_route(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}, heartbeatTimeoutMillis=500) == 0
    assert queues(scene, topic) == {broker.name: 1}
    assert eventually(lambda: queues(scene, topic) == {}, within=EXPIRY_S)
    assert broker.connection.is_closed()


@case("NAMESRV-021", party="nameserver", after="test_a_silent_broker_is_in_no_route")
def test_a_heartbeat_keeps_a_broker(scene: Scene) -> None:
    topic, other = scene.name("T"), scene.name("T")
    heard, silent = Broker(scene), Broker(scene)
    for broker in (heard, silent):
        # Longer than a busy machine keeps this case from its next heartbeat.
        assert broker.register({topic: 1, other: 1}, heartbeatTimeoutMillis=6000) == 0

    def silent_is_gone() -> bool:
        assert heard.ask(requests.BROKER_HEARTBEAT).code == 0
        return silent.name not in queues(scene, topic)

    assert eventually(silent_is_gone, within=EXPIRY_S)
    assert queues(scene, topic) == {heard.name: 1}
    nobody = Broker(scene)
    assert nobody.ask(requests.BROKER_HEARTBEAT).code == 0, "of a stranger too"


@case("NAMESRV-001", party="nameserver")
def test_a_route_has_as_many_queues_as_the_topic(scene: Scene) -> None:
    """More and fewer, as an administrator makes them."""
    topic = scene.topic(1)
    for read, write in ((16, 16), (17, 64), (300, 8), (2, 1)):
        expected = {scene.broker_names[0]: read}
        assert scene.is_routed(
            requests.create_topic(topic, read, write),
            lambda wanted=expected: queues(scene, topic) == wanted,  # type: ignore[misc]
        )


@case("NAMESRV-022", party="nameserver")
def test_the_kv_config(scene: Scene) -> None:
    namespace, call = scene.name("NS"), scene.nameserver.call

    def request(code: int, key: str = "k") -> Request:
        return Request(code, {"namespace": namespace, "key": key})

    unknown = call(request(requests.GET_KV_CONFIG))
    assert unknown.code == 22
    scene.worded(unknown, f"No config item, Namespace: {namespace} Key: k")
    assert call(request(requests.GET_KVLIST_BY_NAMESPACE)).code == 22
    assert call(request(requests.PUT_KV_CONFIG).having(value="v")).code == 0
    assert call(request(requests.PUT_KV_CONFIG).having(value="w")).code == 0
    found = call(request(requests.GET_KV_CONFIG))
    assert (found.code, found.fields["value"]) == (0, "w")
    assert call(request(requests.GET_KVLIST_BY_NAMESPACE)).json() == {"table": {"k": "w"}}
    assert call(request(requests.GET_KV_CONFIG, "other")).code == 22
    assert call(request(requests.DELETE_KV_CONFIG)).code == 0
    assert call(request(requests.GET_KV_CONFIG)).code == 22
    assert call(request(requests.GET_KVLIST_BY_NAMESPACE)).json() == {"table": {}}
    incomplete = call(request(requests.PUT_KV_CONFIG).without("key"))
    assert incomplete.code != 0
    with scene.apaches():  # no tool asks so
        assert incomplete.code == 1
    scene.worded(incomplete, "namespace or key is null")


@case("NAMESRV-022", party="nameserver", after="test_the_kv_config")
def test_a_key_is_deleted_and_those_like_it_stay(scene: Scene) -> None:
    namespace, call = scene.name("NS"), scene.nameserver.call
    keys = ["k", "kk", "K", "k2", "k" * 255, "k "]

    def request(code: int, key: str) -> Request:
        return Request(code, {"namespace": namespace, "key": key})

    for key in keys:
        assert call(request(requests.PUT_KV_CONFIG, key).having(value=f"v{key}")).code == 0
    for number, key in enumerate(keys):
        assert call(request(requests.DELETE_KV_CONFIG, key)).code == 0
        assert call(request(requests.GET_KV_CONFIG, key)).code == 22
        left = {other: f"v{other}" for other in keys[number + 1 :]}
        assert call(request(requests.GET_KVLIST_BY_NAMESPACE, "")).json() == {"table": left}


def put_order(scene: Scene, topic: str, order: str) -> None:
    fields = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": order}
    assert scene.nameserver.call(Request(requests.PUT_KV_CONFIG, fields)).code == 0


@case("NAMESRV-023", party="nameserver", after="test_the_kv_config")
def test_a_broker_is_told_of_ordered_topics(scene: Scene) -> None:
    broker, topic = Broker(scene), scene.name("T")
    put_order(scene, topic, "broker-a:4")
    answer = broker.connection.call(broker.request({}))
    assert answer.code == 0
    assert answer.json()["table"][topic] == "broker-a:4"


@case("NAMESRV-024", party="nameserver", after=REGISTERED)
def test_a_broker_asks_whether_its_data_version_is_known(scene: Scene) -> None:
    broker = Broker(scene)

    def ask(counter: int) -> Frame:
        body = b'{"counter":%d,"stateVersion":0,"timestamp":7}' % counter
        return broker.ask(requests.QUERY_DATA_VERSION, body)

    unknown = ask(4)
    assert (unknown.code, unknown.fields["changed"], unknown.body) == (0, "true", b"")
    assert broker.register({scene.name("T"): 1, scene.name("T"): 1}, counter=4) == 0
    for counter, changed in ((4, "false"), (5, "true")):
        answer = ask(counter)
        assert (answer.code, answer.fields["changed"]) == (0, changed)
        # A version below 5 knows no state version.
        assert {"stateVersion": 0} | answer.json() == {
            "counter": 4,
            "stateVersion": 0,
            "timestamp": 7,
        }


@case("NAMESRV-025", party="nameserver", after=REGISTERED)
def test_a_topic_is_deleted_in_one_cluster_or_in_all(scene: Scene) -> None:
    one, two, topic, other = Broker(scene), Broker(scene), scene.name("T"), scene.name("T")
    for broker in (one, two):
        assert broker.register({topic: 1, other: 1}) == 0

    def delete(**fields: object) -> int:
        return scene.nameserver.call(
            Request(requests.DELETE_TOPIC_IN_NAMESRV).having(topic=topic, **fields)
        ).code

    assert delete(clusterName=scene.name("C")) == 0
    assert queues(scene, topic) == {one.name: 1, two.name: 1}
    assert delete(clusterName=one.cluster) == 0
    assert queues(scene, topic) == {two.name: 1}
    assert delete() == 0
    assert queues(scene, topic) == {}
    assert queues(scene, other) == {one.name: 1, two.name: 1}
    assert delete() == 0


@case("NAMESRV-026", "NAMESRV-033", party="nameserver", after=REGISTERED)
def test_a_replica_is_told_of_its_master(scene: Scene) -> None:
    master, topic, other = Broker(scene, 20), scene.name("T"), scene.name("T")
    replica = Broker(scene, 21, twin=master, broker_id=1)
    assert master.register({topic: 1, other: 1}, haServerAddr="127.0.0.1:22") == 0
    answer = replica.connection.call(replica.request({topic: 1, other: 1}))
    assert answer.code == 0
    assert answer.fields["masterAddr"] == master.address
    assert answer.fields["haServerAddr"] == "127.0.0.1:22"
    both = {"0": master.address, "1": replica.address}
    assert addresses(scene, topic) == [both]
    group = master.ask(requests.GET_BROKER_MEMBER_GROUP).json()["brokerMemberGroup"]
    assert (group["cluster"], group["brokerName"]) == (master.cluster, master.name)
    assert group["brokerAddrs"] == both
    unknown = Broker(scene).ask(requests.GET_BROKER_MEMBER_GROUP)
    assert unknown.json()["brokerMemberGroup"]["brokerAddrs"] == {}


@case("NAMESRV-027", "NAMESRV-035", party="nameserver", after=REGISTERED)
@pytest.mark.parametrize(("acting", "perm"), [(None, 6), (False, 6), (True, 4)])
def test_queues_stay_while_a_replica_does(scene: Scene, acting: bool | None, perm: int) -> None:
    topic, other, late = (scene.name("T") for _ in range(3))
    master = Broker(scene, 20)
    replica = Broker(scene, 21, twin=master, broker_id=1)
    assert master.register({topic: 1, other: 1}, enableActingMaster=acting) == 0
    assert replica.register({topic: 1, other: 1}, enableActingMaster=acting) == 0
    assert master.ask(requests.UNREGISTER_BROKER).code == 0
    assert eventually(lambda: addresses(scene, topic) == [{"1": replica.address}])
    assert perms(scene, topic) == {master.name: perm}
    assert replica.register({late: 2, other: 1}, counter=2, enableActingMaster=acting) == 0
    assert queues(scene, late) == ({} if acting is None else {master.name: 2})
    if acting is not None:
        assert perms(scene, late) == {master.name: perm}
    assert replica.ask(requests.UNREGISTER_BROKER).code == 0
    assert eventually(lambda: queues(scene, topic) == {})


@case("NAMESRV-028", party="nameserver", after=REGISTERED)
def test_an_address_has_one_id(scene: Scene) -> None:
    broker, topic, other = Broker(scene, 20), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}) == 0
    assert broker.register({topic: 1, other: 1}, brokerId=1) == 0
    assert addresses(scene, topic) == [{"1": broker.address}]


@case("NAMESRV-005", "NAMESRV-028", party="nameserver", after=REGISTERED)
def test_a_registration_that_is_refused_takes_the_former_id(scene: Scene) -> None:
    broker, topic, other = Broker(scene, 21), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}) == 0
    assert broker.register({}, brokerId=1) == 0
    assert broker.register({topic: 1}) == 1
    assert addresses(scene, topic) == [{}]


def options(scene: Scene) -> dict[str, str]:
    """The options of the nameserver."""
    return config_of(scene.nameserver, requests.GET_NAMESRV_CONFIG)


@case("NAMESRV-029", party="nameserver")
def test_the_options_of_a_nameserver(scene: Scene) -> None:
    unused = "waitSecondsForService", "productEnvName"  # versions below 5 have the latter alone
    name = next(name for name in unused if name in options(scene))
    before = options(scene)[name]
    assert scene.set_nameserver_option(name, "46").code == 0
    assert options(scene)[name] == "46"
    escaped = f"{name[:-1]}\\u{ord(name[-1]):04x}"
    assert scene.set_nameserver_option(name, before, escaped).code == 0
    assert options(scene)[name] == before
    torn = scene.set_nameserver_option("noSuchOption", "\\u12")
    assert torn.code == 1
    scene.worded(torn, "string2Properties error")
    assert scene.set_nameserver_option("noSuchOption", "1").code == 0
    assert "noSuchOption" not in options(scene)
    for name in ("kvConfigPath", "configStorePath"):
        refused = scene.set_nameserver_option(name, "elsewhere")
        assert refused.code == 16
        scene.worded(refused, "Can not update config in black list.")


@case("NAMESRV-030", party="nameserver", after="test_the_options_of_a_nameserver")
def test_a_route_may_carry_the_order_of_its_topic(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}) == 0
    put_order(scene, topic, "broker-a:4")
    assert "orderTopicConf" not in scene.nameserver.call(requests.route(topic)).json()
    assert scene.set_nameserver_option("orderMessageEnable", "true").code == 0
    try:
        route = scene.nameserver.call(requests.route(topic)).json()
        assert route["orderTopicConf"] == "broker-a:4"
        assert "orderTopicConf" not in scene.nameserver.call(requests.route(other)).json()
    finally:
        scene.set_nameserver_option("orderMessageEnable", "false")


@case("NAMESRV-031", party="nameserver", after=REGISTERED)
def test_a_topic_may_be_registered_without_its_broker(scene: Scene) -> None:
    broker, topic = Broker(scene), scene.name("T")
    assert broker.register({}) == 0

    def register(name: str) -> int:
        data = {"brokerName": name, "readQueueNums": 5, "writeQueueNums": 5, "perm": 6}
        body = json.dumps({"brokerDatas": [], "queueDatas": [data]}).encode()
        request = Request(requests.REGISTER_TOPIC_IN_NAMESRV, {"topic": topic}, body)
        return scene.nameserver.call(request).code

    assert register(scene.name("B")) == 0
    assert queues(scene, topic) == {}
    assert register(broker.name) == 0
    assert queues(scene, topic) == {broker.name: 5}


@case("NAMESRV-032", party="nameserver", after=REGISTERED)
def test_the_topics_of_a_cluster(scene: Scene) -> None:
    broker, topic, other = Broker(scene), scene.name("T"), scene.name("T")
    assert broker.register({topic: 1, other: 1}) == 0

    def topics(cluster: str) -> set[str]:
        request = Request(requests.GET_TOPICS_BY_CLUSTER, {"cluster": cluster})
        return set(done(scene.nameserver.call(request)).json()["topicList"])

    assert topics(broker.cluster) == {topic, other}
    assert topics(scene.name("C")) == set()
    system = scene.nameserver.call(Request(requests.GET_SYSTEM_TOPIC_LIST_FROM_NS)).json()
    assert {broker.cluster, broker.name} <= set(system["topicList"])


@case(
    "NAMESRV-034", party="nameserver", after="test_a_broker_whose_connection_closes_is_in_no_route"
)
def test_all_brokers_of_a_connection_go_with_it(scene: Scene) -> None:
    topic, other = scene.name("T"), scene.name("T")
    one = Broker(scene, 30)
    two = Broker(scene, 31, connection=one.connection)
    for broker in (one, two):
        assert broker.register({topic: 1, other: 1}) == 0
    assert queues(scene, topic) == {one.name: 1, two.name: 1}
    one.connection.close()
    assert eventually(lambda: len(queues(scene, topic)) < 2, within=3)
    assert eventually(lambda: queues(scene, topic) == {}, within=3), "one of the two is left"


def sized(item: bytes) -> bytes:
    return struct.pack(">i", len(item)) + item


def count(items: list[bytes]) -> bytes:
    return struct.pack(">i", len(items))
