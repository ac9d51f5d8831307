"""Membership: heartbeats, the member list, and the notices that make others rebalance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import Connection, eventually
from mqconform.frame import frame, json_header
from mqconform.requests import Request, Subscription
from mqconform.scene import Scene, done

JOINED = "test_a_heartbeat_makes_a_member"


def join(scene: Scene, client_id: str, group: str, *topics: str) -> Connection:
    """A new connection whose heartbeat was answered, and the notice of its own joining read."""
    connection = scene.connect()
    heartbeat = requests.heartbeat(scene.client(client_id), group, map(Subscription, topics))
    assert connection.call(heartbeat).code == 0
    assert noticed(connection, group)
    return connection


def noticed(connection: Connection, group: str) -> bool:
    """Whether the next notice is code 40, one-way, about the group."""
    notice = connection.notice()
    about = notice.fields.get("consumerGroup")
    return (notice.code, notice.flag, about) == (requests.NOTIFY_CONSUMER_IDS_CHANGED, 2, group)


@case("GROUP-001", "GROUP-050", party="broker")
def test_a_heartbeat_makes_a_member(scene: Scene) -> None:
    group = scene.new_group()
    answer = scene.broker.call(requests.heartbeat(scene.client("one"), group))
    assert answer.code == 0
    assert answer.fields["IS_SUPPORT_HEART_BEAT_V2"] == "true"
    assert "IS_SUB_CHANGE" in answer.fields
    assert scene.members(group) == ["one"]


@case("GROUP-001", "GROUP-003", party="broker", after=JOINED)
def test_a_newcomer_and_the_others_are_told(scene: Scene) -> None:
    group = scene.new_group()
    first = join(scene, "first", group)
    second = join(scene, "second", group)
    assert noticed(first, group)
    third = join(scene, "third", group)
    assert noticed(first, group)
    assert noticed(second, group)
    assert third.is_quiet()
    assert scene.members(group) == ["first", "second", "third"]


@case("GROUP-001", party="broker", after=JOINED)
@pytest.mark.parametrize("count", [2, 8, 9, 64])
def test_all_members_are_in_the_list(scene: Scene, count: int) -> None:
    group = scene.new_group()
    # Nobody is told of so many: of 64 that come and go, each of the others is, 4,000 notices that
    # Apache would send at once, and then it drops what other cases wait for (GROUP-003).
    scene.broker.call(requests.create_group(group, notifyConsumerIdsChangedEnable=False))
    ids = [f"member-{number:02}" for number in range(count)]
    for client_id in ids:
        assert scene.connect().call(requests.heartbeat(scene.client(client_id), group)).code == 0
    assert scene.members(group) == ids


@case("GROUP-005", party="broker", after=JOINED)
def test_a_connection_that_closes_leaves_all_its_groups(scene: Scene) -> None:
    groups = [scene.new_group() for _ in range(4)]
    leaving = scene.connect()
    for group in groups:
        assert scene.broker.call(requests.heartbeat(scene.client("stays"), group)).code == 0
        assert leaving.call(requests.heartbeat(scene.client("leaves"), group)).code == 0
    leaving.close()
    for group in groups:
        assert eventually(lambda group=group: scene.members(group) == ["stays"])  # type: ignore[misc]


@case("GROUP-002", party="broker", after=JOINED)
def test_two_connections_of_one_id_are_two_members(scene: Scene) -> None:
    group = scene.new_group()
    join(scene, "same", group)
    twin = join(scene, "same", group)
    assert scene.members(group) == ["same", "same"]
    twin.close()
    assert eventually(lambda: scene.members(group) == ["same"])


@case("GROUP-003", party="broker", after=JOINED)
def test_a_change_of_topics_is_told(scene: Scene) -> None:
    group, topic, other = scene.new_group(), scene.topic(), scene.topic()
    first = join(scene, "first", group, topic)
    second = join(scene, "second", group, topic)
    assert noticed(first, group)
    for topics in ((topic, other), (topic,)):
        second.call(requests.heartbeat(scene.client("second"), group, map(Subscription, topics)))
        assert noticed(first, group)
        assert noticed(second, group)


@case("GROUP-004", party="broker", after=JOINED)
def test_a_repeated_heartbeat_is_not_told(scene: Scene) -> None:
    group, topic = scene.new_group(), scene.topic()
    first = join(scene, "first", group, topic)
    second = join(scene, "second", group, topic)
    assert noticed(first, group)
    second.call(requests.heartbeat(scene.client("second"), group, [Subscription(topic)]))
    second.call(requests.heartbeat(scene.client("second"), group, [Subscription(topic, "A", 9)]))
    second.call(requests.heartbeat(scene.client("renamed"), group, [Subscription(topic, "A", 9)]))
    assert first.is_quiet()
    assert second.is_quiet()
    assert scene.members(group) == ["first", "renamed"]


@case("GROUP-005", party="broker", after=JOINED)
def test_a_member_that_unregisters_is_gone_and_the_rest_is_told(scene: Scene) -> None:
    group = scene.new_group()
    first = join(scene, "first", group)
    second = join(scene, "second", group)
    assert noticed(first, group)
    assert second.call(requests.unregister(scene.client("second"), group)).code == 0
    assert noticed(first, group)
    assert second.is_quiet()
    assert scene.members(group) == ["first"]


@case("GROUP-005", party="broker", after=JOINED)
def test_a_member_whose_connection_closes_is_gone_and_the_rest_is_told(scene: Scene) -> None:
    group = scene.new_group()
    first = join(scene, "first", group)
    second = join(scene, "second", group)
    assert noticed(first, group)
    second.close()
    assert noticed(first, group)
    assert scene.members(group) == ["first"]


@case("GROUP-062", party="broker", after=JOINED)
def test_a_group_without_notices_is_told_of_a_lost_connection(scene: Scene) -> None:
    group = scene.new_group()
    silent = requests.create_group(group, notifyConsumerIdsChangedEnable=False)
    assert scene.broker.call(silent).code == 0
    first, second, third = (scene.connect() for _ in range(3))
    for name, member in (("first", first), ("second", second), ("third", third)):
        assert member.call(requests.heartbeat(scene.client(name), group)).code == 0
    assert third.call(requests.unregister(scene.client("third"), group)).code == 0
    assert first.is_quiet()
    second.close()
    assert noticed(first, group)


@case("GROUP-061", party="broker")
def test_who_is_known_stays_who_it_was(scene: Scene) -> None:
    group, member = scene.new_group(), scene.connect()

    def heard(request: Request, version: int) -> None:
        header = json_header(request.code, request.fields, version, version=version)
        member.write(frame(header, request.body))
        assert member.answer(version).code == 0

    def shown(request: Request) -> list[tuple[str, int]]:
        connections = scene.broker.call(request).json()["connectionSet"]
        return [(each["clientId"], each["version"]) for each in connections]

    topic = scene.topic()
    for version, name in ((479, "one"), (400, "two")):
        heard(requests.heartbeat(scene.client("member"), group), version)
        heard(requests.producer_heartbeat(scene.client(name), group), version + 1000)
    consumers = Request(requests.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    assert shown(consumers) == [(scene.client("member"), 479)]
    fields = {"producerGroup": group, "topic": topic}
    assert shown(Request(requests.GET_PRODUCER_CONNECTION_LIST, fields)) == [
        (scene.client("one"), 1479)
    ]


@case("GROUP-007", party="broker", after=JOINED)
def test_unregistering_takes_the_connection_and_not_the_id(scene: Scene) -> None:
    group = scene.new_group()
    first = join(scene, "first", group)
    second = join(scene, "second", group)
    assert noticed(first, group)
    assert second.call(requests.unregister(scene.client("first"), group)).code == 0
    assert scene.members(group) == ["first"]


@case("GROUP-005", "ADMIN-008", party="broker", after=JOINED)
@pytest.mark.parametrize("leaves", ["producer", "consumer"])
def test_who_unregisters_takes_nobody_along_whose_group_has_the_same_name(
    scene: Scene, leaves: str
) -> None:
    group, name = scene.new_group(), scene.client("both")
    stays = join(scene, "stays", group)
    both = join(scene, "both", group)
    assert noticed(stays, group)
    done(both.call(requests.producer_heartbeat(name, group)))
    unregister = {"producer": requests.unregister_producer, "consumer": requests.unregister}
    done(both.call(unregister[leaves](name, group)))
    producing = Request(requests.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group})
    producers = scene.broker.call(producing)
    if leaves == "producer":
        assert scene.members(group) == ["both", "stays"]
        assert producers.code == 1
        assert stays.is_quiet()
    else:
        assert scene.members(group) == ["stays"]
        assert [each["clientId"] for each in done(producers).json()["connectionSet"]] == [name]
        assert noticed(stays, group)


@case("GROUP-008", party="broker")
def test_a_group_without_members_has_no_list(scene: Scene) -> None:
    group = scene.new_group()
    answer = scene.broker.call(requests.consumer_list(group))
    assert answer.code == 1
    scene.worded(answer, f"no consumer for this group, {group}")
    join(scene, "one", group).call(requests.unregister(scene.client("one"), group))
    assert scene.broker.call(requests.consumer_list(group)).code == 1


@case("GROUP-010", party="broker", after=JOINED)
def test_a_broadcasting_group_is_told_nothing(scene: Scene) -> None:
    group = scene.new_group()
    first, second = scene.connect(), scene.connect()
    for name, connection in (("first", first), ("second", second)):
        connection.call(requests.heartbeat(scene.client(name), group, model="BROADCASTING"))
    assert scene.members(group) == ["first", "second"]
    second.close()
    assert eventually(lambda: scene.members(group) == ["first"])
    assert first.is_quiet()


@case("GROUP-051", party="broker")
def test_a_group_whose_name_is_not_allowed_gets_no_members(scene: Scene) -> None:
    group = f"{scene.name('G')} not allowed!"
    assert scene.broker.call(requests.heartbeat(scene.client("one"), group)).code == 0
    assert scene.members(group) == []


@case("GROUP-052", party="broker")
def test_a_heartbeat_creates_the_retry_topic(scene: Scene) -> None:
    group = scene.new_group()
    retry = f"%RETRY%{group}"
    assert scene.topic_config(retry) is None
    scene.broker.call(requests.heartbeat(scene.client("one"), group))
    config = scene.topic_config(retry)
    assert config
    assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (1, 1, 6)


@case("GROUP-053", party="broker", after=JOINED)
def test_an_empty_heartbeat_takes_nobody_out(scene: Scene) -> None:
    group = scene.new_group()
    member = join(scene, "one", group)
    assert member.call(requests.heartbeat(scene.client("one"), None)).code == 0
    assert member.is_quiet()
    assert scene.members(group) == ["one"]


@case("GROUP-054", party="broker", after=JOINED)
def test_the_list_holds_the_change_when_the_notice_comes(scene: Scene) -> None:
    group = scene.new_group()
    first = join(scene, "first", group)
    for n in range(10):
        other = join(scene, f"other{n}", group)
        assert noticed(first, group)
        assert scene.members(group, first) == ["first", f"other{n}"]
        if n % 2:
            other.call(requests.unregister("", group))
        else:
            other.close()
        assert noticed(first, group)
        assert scene.members(group, first) == ["first"]


@case("GROUP-055", party="broker", claims="brokers", after=JOINED)
def test_each_broker_keeps_a_list_of_its_own(scene: Scene) -> None:
    group = scene.new_group()
    here, there = (scene.connect(name) for name in scene.broker_names[:2])
    here.call(requests.heartbeat(scene.client("one"), group))
    assert noticed(here, group)
    assert scene.members(group, here) == ["one"]
    assert scene.members(group, there) == []
    there.call(requests.heartbeat(scene.client("one"), group))
    assert noticed(there, group)
    assert here.is_quiet()
    here.close()
    assert eventually(lambda: scene.members(group) == [])
    assert scene.members(group, there) == ["one"]


@case("GROUP-056", party="broker")
@pytest.mark.parametrize("body", [b"", b"{", b"no JSON"], ids=["none", "torn", "text"])
def test_a_heartbeat_that_is_not_json_is_refused(scene: Scene, body: bytes) -> None:
    assert scene.broker.call(Request(requests.HEART_BEAT, body=body)).code == 1


# As rocketmq-client-cpp writes it, with names of our own.
CPP_HEARTBEAT = (
    '{"clientID":"24794-127.0.0.1@DEFAULT","consumerDataSet":[{"consumeFromWhere":4,'
    '"consumeType":1,"groupName":"%s","messageModel":1,"subscriptionDataSet":[{"subString":"*",'
    '"subVersion":"1795282537889","topic":"%s"}]}],"producerDataSet":[{"groupName":"PID_CPP"}]}\n'
)


@case("GROUP-058", party="broker")
def test_a_heartbeat_of_a_client_in_cpp(scene: Scene) -> None:
    group, topic = scene.new_group(), scene.topic()
    body = (CPP_HEARTBEAT % (group, topic)).encode()
    heartbeat = Request(requests.HEART_BEAT, body=body)
    assert scene.broker.call(heartbeat).code == 0
    about = scene.broker.call(
        Request(requests.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    ).json()
    said = (about["consumeType"], about["messageModel"], about["consumeFromWhere"])
    assert said == ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET")
    assert about["subscriptionTable"][topic]["subVersion"] == 1795282537889
    assert [one["clientId"] for one in about["connectionSet"]] == ["24794-127.0.0.1@DEFAULT"]


def altered(heartbeat: Request, consumer: Mapping[str, object], **data: object) -> Request:
    """A heartbeat of one consumer, with other values of that and of the whole."""
    body = json.loads(heartbeat.body) | data
    body["consumerDataSet"][0] |= consumer
    return replace(heartbeat, body=json.dumps(body).encode())


def connections(scene: Scene, group: str) -> Any:
    asked = Request(requests.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    return scene.broker.call(asked).json()


@case("GROUP-058", party="broker")
@pytest.mark.parametrize("name", ["consumeType", "messageModel", "consumeFromWhere"])
def test_a_name_that_the_broker_does_not_know_makes_a_member(scene: Scene, name: str) -> None:
    group = scene.new_group()
    heartbeat = requests.heartbeat(scene.client("one"), group)
    with scene.apaches():  # no client of today has other names
        assert scene.broker.call(altered(heartbeat, {name: "OF_LATER"})).code == 0
        assert scene.members(group) == ["one"]
        assert name not in connections(scene, group)
        assert scene.broker.call(heartbeat).code == 0
        assert name in connections(scene, group)


@case("GROUP-059", party="broker", after=JOINED)
def test_who_must_send_its_subscriptions_again(scene: Scene) -> None:
    group, topic = scene.new_group(), scene.topic()
    heartbeat = requests.heartbeat(scene.client("one"), group, [Subscription(topic)])

    def is_sub_change(fingerprint: int, *, without_sub: bool = False) -> str:
        subscriptions: dict[str, object] = {"subscriptionDataSet": []} if without_sub else {}
        asked = altered(
            heartbeat, subscriptions, heartbeatFingerprint=fingerprint, withoutSub=without_sub
        )
        answer = scene.broker.call(asked)
        assert answer.code == 0
        return answer.fields["IS_SUB_CHANGE"]

    told = [is_sub_change(7), is_sub_change(7, without_sub=True)]
    assert topic in connections(scene, group)["subscriptionTable"]
    told += [is_sub_change(8, without_sub=True), is_sub_change(8, without_sub=True)]
    assert topic in connections(scene, group)["subscriptionTable"]
    told += [is_sub_change(0), is_sub_change(0), is_sub_change(8)]
    told += [is_sub_change(0, without_sub=True)]
    assert connections(scene, group)["subscriptionTable"] == {}
    expected = ["false", "false", "true", "false", "true", "true", "true", "true"]
    missed = [n for n, word in enumerate(expected) if word == "true" != told[n]]
    assert not missed, f"a change is not told by the answers {missed} of {told}"
    with scene.apaches():  # who is told of a change that is none sends its subscriptions again
        assert told == expected


@case("GROUP-060", party="broker", after=JOINED)
def test_a_subscription_that_does_not_say_how_new_it_is(scene: Scene) -> None:
    group, topic = scene.new_group(), scene.topic()

    def takes(expression: str) -> bool:
        wanted = Subscription(topic, expression).data()
        del wanted["subVersion"]
        heartbeat = requests.heartbeat(scene.client("one"), group)
        heard = altered(heartbeat, {"subscriptionDataSet": [wanted]})
        assert scene.broker.call(heard).code == 0
        table = connections(scene, group)["subscriptionTable"]
        return bool(table[topic]["subString"] == expression)

    assert takes("A")
    assert eventually(lambda: takes("B"))  # one of the same millisecond is no newer
