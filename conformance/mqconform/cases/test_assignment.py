"""Assignment by the broker: which queues a member is told to consume, and how."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import Connection, eventually
from mqconform.requests import Request, Subscription
from mqconform.scene import Scene, done
from mqconform.stage import Restart

ASSIGNED = "test_the_queues_are_shared_as_the_strategy_says[AVG-0 1 2-3 4-5 6]"
POPS = "test_a_group_pops_when_it_is_told_to"
PULL, POP = "PULL", "POP"


def query(scene: Scene, topic: str, group: str, client_id: str, strategy: str = "AVG") -> Request:
    data = {
        "topic": topic,
        "consumerGroup": group,
        "clientId": scene.client(client_id),
        "strategyName": strategy,
        "messageModel": "CLUSTERING",
    }
    return Request(requests.QUERY_ASSIGNMENT, body=json.dumps(data).encode())


def changed(request: Request, **fields: object) -> Request:
    """The same with other values in its body; None leaves one out."""
    data = {**json.loads(request.body), **fields}
    kept = {name: value for name, value in data.items() if value is not None}
    return Request(request.code, body=json.dumps(kept).encode())


def assigned(scene: Scene, request: Request) -> tuple[set[str], list[int]] | None:
    """The modes and the queue ids that a member is told; None where it is told nothing."""
    told = done(scene.broker.call(request)).json().get("messageQueueAssignments")
    if told is None:
        return None
    return {it["mode"] for it in told}, sorted(it["messageQueue"]["queueId"] for it in told)


def group_of(scene: Scene, topic: str, *client_ids: str) -> str:
    """A group with members, each on a connection of its own, and a topic that is routed."""
    group = scene.new_group()
    for client_id in client_ids:
        heartbeat = requests.heartbeat(scene.client(client_id), group, [Subscription(topic)])
        done(scene.connect().call(heartbeat))
    assert eventually(lambda: scene.nameserver.call(requests.route(topic)).code == 0)
    return group


@case("ASSIGN-001", party="broker")
@pytest.mark.parametrize(
    ("strategy", "a", "b", "c"),
    [("AVG", "0 1 2", "3 4", "5 6"), ("AVG_BY_CIRCLE", "0 3 6", "1 4", "2 5")],
)
def test_the_queues_are_shared_as_the_strategy_says(
    scene: Scene, strategy: str, a: str, b: str, c: str
) -> None:
    topic = scene.topic(7)
    group = group_of(scene, topic, "c", "a", "b")
    for client_id, share in (("a", a), ("b", b), ("c", c)):
        told = assigned(scene, query(scene, topic, group, client_id, strategy))
        assert told == ({PULL}, [int(queue_id) for queue_id in share.split()])
    assert assigned(scene, query(scene, topic, group, "stranger", strategy)) == (set(), [])


@case("ASSIGN-001", party="broker", claims="brokers", after=ASSIGNED)
def test_the_queues_of_all_brokers_are_shared(scene: Scene) -> None:
    topic = scene.topic(2, everywhere=True)
    group = group_of(scene, topic, "a")
    brokers = len(scene.broker_names)

    def is_all() -> bool:
        return assigned(scene, query(scene, topic, group, "a")) == (
            {PULL},
            sorted([0, 1] * brokers),
        )

    def is_routed() -> bool:
        route = scene.nameserver.call(requests.route(topic)).json()
        return len(route["queueDatas"]) == brokers

    assert eventually(is_routed)
    assert is_all()


@case("ASSIGN-002", party="broker")
def test_in_broadcasting_each_member_has_all_queues(scene: Scene) -> None:
    topic = scene.topic(3)
    group = group_of(scene, topic)
    request = changed(query(scene, topic, group, "a"), messageModel="BROADCASTING")
    assert assigned(scene, request) == ({PULL}, [0, 1, 2])


@case("ASSIGN-003", party="broker", after=ASSIGNED)
def test_what_cannot_be_computed_is_not_told(scene: Scene) -> None:
    topic = scene.topic()
    group = group_of(scene, topic, "a")
    known = query(scene, topic, group, "a")
    assert assigned(scene, known) == ({PULL}, [0])
    for other in (
        {"topic": scene.name("T")},
        {"consumerGroup": scene.new_group()},
        {"strategyName": "CONSISTENT_HASH"},
        {"strategyName": None},
        {"clientId": None},
    ):
        assert assigned(scene, changed(known, **other)) is None
    assert scene.broker.call(changed(known, messageModel=None)).code == 1
    for code in (requests.QUERY_ASSIGNMENT, requests.SET_MESSAGE_REQUEST_MODE):
        assert scene.broker.call(Request(code)).code == 1


@case("ASSIGN-004", party="broker", after=ASSIGNED)
def test_a_group_pops_when_it_is_told_to(scene: Scene) -> None:
    topic, other = scene.topic(2), scene.topic(2)
    group = group_of(scene, topic, "a", "b")
    assert eventually(lambda: scene.nameserver.call(requests.route(other)).code == 0)
    done(scene.broker.call(requests.set_request_mode(topic, group)))
    assert assigned(scene, query(scene, topic, group, "b")) == ({POP}, [-1])
    assert assigned(scene, query(scene, other, group, "b")) == ({PULL}, [1])
    done(scene.broker.call(requests.set_request_mode(topic, group, PULL)))
    assert assigned(scene, query(scene, topic, group, "b")) == ({PULL}, [1])


def shares(scene: Scene, queues: int, share: int) -> Iterator[list[int]]:
    """What each of four members that pop is assigned."""
    topic, members = scene.topic(queues), ("a", "b", "c", "d")
    group = group_of(scene, topic, *members)
    done(scene.broker.call(requests.set_request_mode(topic, group, POP, share)))
    for client_id in members:
        told = assigned(scene, query(scene, topic, group, client_id))
        assert told is not None
        yield told[1]


@case("ASSIGN-005", party="broker", after=POPS)
@pytest.mark.parametrize(
    ("queues", "share", "expected"),
    [
        (4, 1, [[0, 1], [1, 2], [2, 3], [0, 3]]),
        (6, 2, [[0, 1, 2, 3, 4], [2, 3, 4, 5], [0, 1, 4, 5], [0, 1, 2, 3, 5]]),
        (2, 1, [[0], [1], [0], [1]]),
        (4, 3, [[-1]] * 4),
        (4, -1, [[-1]] * 4),
    ],
)
def test_members_that_pop_share_queues(
    scene: Scene, queues: int, share: int, expected: list[list[int]]
) -> None:
    assert list(shares(scene, queues, share)) == expected


@case("ASSIGN-006", party="broker")
def test_how_a_group_asks_is_not_set_for_any_topic(scene: Scene) -> None:
    group, unknown = scene.group(), scene.new_group()
    assert scene.broker.call(requests.set_request_mode(f"%RETRY%{group}", group)).code == 16
    assert scene.broker.call(requests.set_request_mode(scene.name("T"), group)).code == 17
    assert scene.broker.call(requests.set_request_mode(scene.topic(), unknown)).code == 0
    commit = requests.commit_offset(unknown, scene.topic(), 0)
    assert scene.broker.call(commit).code == 0  # it is no unknown group any more


@case("ASSIGN-008", party="broker")
def test_how_all_groups_ask_is_shown(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    done(scene.broker.call(requests.set_request_mode(topic, group, share=3)))
    told = done(scene.broker.call(Request(requests.GET_ALL_MESSAGE_REQUEST_MODE))).json()
    mode = told["messageRequestModeMap"][topic][group]
    assert mode == {
        "topic": topic,
        "consumerGroup": group,
        "mode": POP,
        "popShareQueueNum": 3,
    }


@case("ASSIGN-007", party="broker", claims="restart", after=POPS)
@pytest.mark.parametrize("kind", [Restart.CLEAN, Restart.KILL], ids=lambda kind: kind.value)
def test_how_a_group_asks_survives(scene: Scene, kind: Restart) -> None:
    topic = scene.topic(2)
    group = group_of(scene, topic, "a")
    done(scene.broker.call(requests.set_request_mode(topic, group)))
    scene.restart(kind)
    member: Connection = scene.connect()
    done(member.call(requests.heartbeat(scene.client("a"), group, [Subscription(topic)])))
    assert eventually(lambda: assigned(scene, query(scene, topic, group, "a")) == ({POP}, [-1]))
