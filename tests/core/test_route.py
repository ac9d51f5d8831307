"""Registrations, and the routes that follow from them."""

from __future__ import annotations

from dataclasses import replace

from mqspec.core.metadata import DataVersion, Perm, TopicConfig
from mqspec.core.route import (
    BROKER_EXPIRED_MS,
    BrokerAddr,
    BrokerMemberGroup,
    QueueData,
    RegisterBroker,
    Registered,
    RouteState,
    broker_heartbeat,
    broker_member_group,
    brokers_of_channel,
    cluster_info,
    expired_brokers,
    pick_topic_route,
    register_broker,
    register_topic,
    system_topics,
    topics_of_cluster,
    topics_of_unit,
    unregister_broker,
)
from mqspec.core.step import Step, apply

NOW_MS = 1_700_000_000_000
T, U = TopicConfig("T", 4, 4), TopicConfig("U", 8, 8)
A = RegisterBroker("C", "broker-a", "127.0.0.1:1", 0, "channel-a", (T, U), DataVersion(1))
B = replace(A, broker_name="broker-b", address="127.0.0.1:2", channel="channel-b")


def carry(state: RouteState, step: Step) -> Step:
    apply(state, step.changes)
    return step


def registered(*events: RegisterBroker) -> RouteState:
    state = RouteState()
    for event in events:
        carry(state, register_broker(state, event, NOW_MS))
    return state


def queues(state: RouteState, topic: str) -> dict[str, int]:
    route = pick_topic_route(state, topic)
    return {data.broker_name: data.write_queue_nums for data in route.queue_datas} if route else {}


def test_a_topic_lies_on_several_brokers() -> None:
    route = pick_topic_route(registered(A, B), "T")
    assert route is not None
    assert route.queue_datas == (QueueData("broker-a", 4, 4, 6), QueueData("broker-b", 4, 4, 6))
    assert [broker.broker_addrs for broker in route.broker_datas] == [
        {0: "127.0.0.1:1"},
        {0: "127.0.0.1:2"},
    ]


def perm_once_the_master_is_gone(*, acting: bool) -> int:
    """Of T's queues, which a slave goes on to serve."""
    master = replace(A, enable_acting_master=acting)
    slave = replace(master, broker_id=1, address="127.0.0.1:3")
    state = registered(master, slave)
    carry(state, unregister_broker(state, BrokerAddr("C", A.address), "broker-a"))
    route = pick_topic_route(state, "T")
    assert route
    return route.queue_datas[0].perm


def test_where_a_slave_may_act_as_master_its_queues_are_only_read() -> None:
    assert perm_once_the_master_is_gone(acting=True) == Perm.READ
    assert perm_once_the_master_is_gone(acting=False) == Perm.READ | Perm.WRITE


def test_no_route() -> None:
    assert pick_topic_route(registered(A), "nosuch") is None


def test_a_first_registration_of_one_topic_is_refused_however_often() -> None:
    state = RouteState()
    for _ in range(2):
        step = carry(state, register_broker(state, replace(A, topics=(T,)), NOW_MS))
        assert step.result is None
    assert queues(state, "T") == {}
    assert cluster_info(state).broker_addr_table["broker-a"].broker_addrs == {}, "a ghost"


def test_one_topic_may_be_added_later_and_none_is_forgotten() -> None:
    state = registered(A, replace(A, topics=(TopicConfig("V", 1, 1),), data_version=DataVersion(2)))
    assert [queues(state, topic) for topic in "TUV"] == [
        {"broker-a": 4},
        {"broker-a": 8},
        {"broker-a": 1},
    ]


def test_a_topic_is_replaced_only_by_a_new_version() -> None:
    changed = replace(A, topics=(replace(T, write_queue_nums=2), U))
    assert queues(registered(A, changed), "T") == {"broker-a": 4}
    changed = replace(changed, data_version=DataVersion(2))
    assert queues(registered(A, changed), "T") == {"broker-a": 2}


def test_an_older_state_from_elsewhere_is_answered_and_not_taken() -> None:
    newer = replace(A, data_version=DataVersion(1, state_version=5))
    older = replace(A, address="127.0.0.1:9", data_version=DataVersion(1, state_version=3))
    state = registered(newer)
    assert carry(state, register_broker(state, older, NOW_MS)).result == Registered(None)
    assert state.broker_addr_table["broker-a"].broker_addrs == {0: "127.0.0.1:1"}
    carry(state, register_broker(state, replace(older, data_version=DataVersion(1, 7)), NOW_MS))
    assert state.broker_addr_table["broker-a"].broker_addrs == {0: "127.0.0.1:9"}


def test_a_process_has_one_id() -> None:
    state = registered(A, replace(A, broker_id=1))
    assert state.broker_addr_table["broker-a"].broker_addrs == {1: "127.0.0.1:1"}


def test_a_replica_hears_where_its_master_is_and_adds_no_queues() -> None:
    state = registered(A)
    replica = replace(A, broker_id=1, address="127.0.0.1:5", topics=(T, TopicConfig("V", 9, 9)))
    assert carry(state, register_broker(state, replica, NOW_MS)).result.master_address == A.address
    assert queues(state, "V") == {}


def test_a_broker_leaves() -> None:
    state = registered(A, B)
    carry(state, unregister_broker(state, BrokerAddr("C", A.address), "broker-a"))
    assert queues(state, "T") == {"broker-b": 4}
    assert cluster_info(state).cluster_addr_table == {"C": ("broker-b",)}
    carry(state, unregister_broker(state, BrokerAddr("C", B.address), "broker-b"))
    assert state == RouteState()


def test_the_queues_stay_while_a_replica_does() -> None:
    state = registered(A, replace(A, broker_id=1, address="127.0.0.1:5"))
    carry(state, unregister_broker(state, BrokerAddr("C", A.address), "broker-a"))
    assert queues(state, "T") == {"broker-a": 4}
    assert state.broker_addr_table["broker-a"].broker_addrs == {1: "127.0.0.1:5"}


def test_a_stranger_leaves() -> None:
    state = registered(A)
    carry(state, unregister_broker(state, BrokerAddr("C", "127.0.0.1:9"), "broker-a"))
    carry(state, unregister_broker(state, BrokerAddr("C", "127.0.0.1:9"), "nosuch"))
    assert queues(state, "T") == {"broker-a": 4}


def test_a_connection_stands_for_its_brokers() -> None:
    state = registered(A, B)
    gone = list(brokers_of_channel(state, "channel-a"))
    assert gone == [(BrokerAddr("C", A.address), "broker-a")]


def test_a_silent_broker_expires() -> None:
    state = registered(A, replace(B, timeout_ms=2 * BROKER_EXPIRED_MS))
    assert list(expired_brokers(state, NOW_MS + BROKER_EXPIRED_MS)) == []
    expired = [(BrokerAddr("C", A.address), "broker-a", "channel-a")]
    assert list(expired_brokers(state, NOW_MS + BROKER_EXPIRED_MS + 1)) == expired
    carry(state, broker_heartbeat(state, BrokerAddr("C", A.address), NOW_MS + 1))
    assert list(expired_brokers(state, NOW_MS + BROKER_EXPIRED_MS + 1)) == []


def test_an_address_that_lost_its_id_is_forgotten_and_the_new_holder_stays() -> None:
    successor = replace(A, address="127.0.0.1:9", channel="channel-b")
    state = registered(A, successor)
    (gone,) = brokers_of_channel(state, "channel-a")
    carry(state, unregister_broker(state, *gone))
    assert state.broker_addr_table["broker-a"].broker_addrs == {0: "127.0.0.1:9"}
    assert state.broker_live_table.keys() == {BrokerAddr("C", "127.0.0.1:9")}


def test_topics_that_are_no_longer_reported_go_where_that_is_chosen() -> None:
    state = registered(A, B)
    fewer = replace(A, topics=(U, TopicConfig("V")), data_version=DataVersion(2))
    carry(state, register_broker(state, fewer, NOW_MS, deletes_topics=True))
    assert queues(state, "T") == {"broker-b": 4}
    assert queues(state, "U").keys() == {"broker-a", "broker-b"}


def test_topics_of_units() -> None:
    topics = tuple(TopicConfig(name, topic_sys_flag=i) for i, name in enumerate("abcd"))
    state = registered(replace(A, topics=topics))
    assert topics_of_unit(state, lambda flag: flag == 2) == ["c"]


def test_topics_of_a_cluster() -> None:
    state = registered(A, replace(B, cluster="D", topics=(U, TopicConfig("V"))))
    assert topics_of_cluster(state, "C") == ["T", "U"]
    assert topics_of_cluster(state, "D") == ["U", "V"]
    assert topics_of_cluster(state, "nosuch") == []


def test_a_broker_of_two_clusters_is_named_once() -> None:
    state = registered(A, replace(A, cluster="D"))
    assert system_topics(state) == (["C", "broker-a", "D"], A.address)


def test_queues_without_numbers_are_registered() -> None:
    state = registered(A)
    carry(state, register_topic(state, "W", (QueueData("broker-a"),)))
    assert queues(state, "W") == {"broker-a": 0}
    assert register_topic(state, "X", (QueueData(),)) == Step()


def test_who_names_no_broker_hears_of_none() -> None:
    assert broker_member_group(registered(A), None, None) == BrokerMemberGroup(None, None, {})
