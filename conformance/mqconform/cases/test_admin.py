"""Administration: what is changed and shown of topics, groups, connections and the broker."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.cluster import cluster_info
from mqconform.connection import Connection, eventually
from mqconform.frame import Frame, frame, json_header
from mqconform.records import parse_records
from mqconform.requests import Request, Subscription
from mqconform.scene import Scene, config_of, done, shows, without_nulls
from mqconform.stage import Restart

MESSAGE_TYPE = "message.type"
NOTHING = 210  # a pop's answer where nothing is left
RETRY = "%RETRY%"  # and a group: its retry topic
BUSY = 2
AT_ONCE = 20  # topics
V3_1_8 = 62  # V3_1_8_SNAPSHOT, of a client (MQVersion.java)
POLICIES = {  # ms, of how a group is retried (GroupRetryPolicy.java, 5.3.3)
    "EXPONENTIAL": {"initial": 5_000, "max": 7_200_000, "multiplier": 2},
    "CUSTOMIZED": {
        "next": [
            *(seconds * 1_000 for seconds in (1, 5, 10, 30)),
            *(minutes * 60_000 for minutes in (*range(1, 11), 20, 30, 60, 120)),
        ]
    },
}
DEFAULTS = {  # of a group (SubscriptionGroupConfig.java, 5.3.3)
    "consumeEnable": True, "consumeFromMinEnable": True, "consumeBroadcastEnable": True,
    "consumeMessageOrderly": False, "retryQueueNums": 1, "retryMaxTimes": 16, "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1, "notifyConsumerIdsChangedEnable": True,
    "groupSysFlag": 0, "consumeTimeoutMinute": 15,
}  # fmt: skip
SPANS = "consumeTimeSpanSet"
ANSWERED_S = 10.0  # by when a member is to answer what it is asked


def by_queue(answer: Frame) -> dict[int, dict[str, int]]:
    """The offsetTable of an answer, by queue id."""
    table: dict[str, dict[str, int]] = done(answer).json()["offsetTable"]
    return {json.loads(queue)["queueId"]: entry for queue, entry in table.items()}


def attributes(scene: Scene, topic: str) -> dict[str, str]:
    found: dict[str, str] = done(scene.broker.call(requests.topic_config(topic))).json()[
        "attributes"
    ]
    return found


def runtime(scene: Scene) -> dict[str, str]:
    request = Request(requests.GET_BROKER_RUNTIME_INFO)
    table: dict[str, str] = done(scene.broker.call(request)).json()["table"]
    return table


# Topics


@case("ADMIN-001", party="broker")
def test_a_topic_is_shown_as_it_was_made(scene: Scene) -> None:
    topic = scene.name("T")
    for read, write, perm in ((3, 2, 6), (5, 4, 4)):
        done(scene.broker.call(requests.create_topic(topic, read, write, perm)))
        one = done(scene.broker.call(requests.topic_config(topic))).json()
        every = done(scene.broker.call(Request(requests.GET_ALL_TOPIC_CONFIG))).json()
        listed = every["topicConfigTable"][topic]
        for each in (one, listed):
            shown = each["readQueueNums"], each["writeQueueNums"], each["perm"]
            assert (*shown, each.get("attributes") or {}) == (read, write, perm, {})
        with scene.identical("the keys of a topic, nulls too"):
            assert listed == one
            assert one["attributes"] == {}


@case("ADMIN-028", party="broker", claims="groups-by-use")
@pytest.mark.parametrize(
    "makes",
    [
        lambda topic, _: requests.create_topic(topic, 1, 1),
        lambda topic, _: requests.send(topic, b"first"),
        lambda topic, client: requests.heartbeat(client("one"), topic.removeprefix(RETRY)),
    ],
    ids=["created", "sent to", "of a member"],
)
def test_who_is_answered_that_a_topic_is_made_finds_its_route(
    scene: Scene, makes: Callable[[str, Callable[[str], str]], Request]
) -> None:
    topics = [f"{RETRY}{scene.name('G')}" for _ in range(AT_ONCE)]
    asked = {scene.broker.ask(makes(topic, scene.client)): topic for topic in topics}
    again = AT_ONCE**2
    while asked:
        answer = scene.broker.any_answer()
        topic = asked.pop(answer.opaque)
        if answer.code == BUSY and again:  # with the topics before it
            again -= 1
            asked[scene.broker.ask(makes(topic, scene.client))] = topic
            continue
        done(answer)
        route = done(scene.nameserver.call(requests.route(topic))).json()
        assert [each["brokerName"] for each in route["queueDatas"]] == [scene.broker_names[0]]


@case("ADMIN-030", party="broker", claims="topics-by-use")
def test_a_route_has_the_permission_of_its_topic(scene: Scene) -> None:
    name = scene.broker_names[0]

    def permission(topic: str) -> int:
        route = done(scene.nameserver.call(requests.route(topic))).json()
        found = {queues["brokerName"]: queues["perm"] for queues in route["queueDatas"]}
        return int(found[name])

    def has(perm: int) -> bool:
        return permission(topic) == perm

    topic = scene.name("T")
    for perm in (7, 15, 1, 6):
        assert scene.is_routed(requests.create_topic(topic, 1, 1, perm), partial(has, perm))
    assert permission(requests.DEFAULT_TOPIC) == 7


@case("ADMIN-031", party="broker", claims="topics-by-use groups-by-use")
def test_topics_of_clients_in_unit_mode(scene: Scene) -> None:
    topic, group, other = scene.name("T"), scene.new_group(), scene.new_group()

    def flag(name: str) -> int:
        shown = scene.topic_config(name)
        assert shown
        return int(shown["topicSysFlag"])

    sent = done(scene.broker.call(requests.send(topic).having(k=True)))
    assert flag(topic) == 1
    done(scene.broker.call(requests.send(f"{RETRY}{scene.name('G')}")))
    done(scene.broker.call(requests.send(f"{RETRY}{group}").having(k=True)))
    assert flag(f"{RETRY}{group}") == 2
    position = int(sent.fields["msgId"][-16:], 16)
    back = requests.send_back(other, topic, position, 1).having(unitMode=True)
    done(scene.broker.call(back))
    assert flag(f"{RETRY}{other}") == 2
    for unit_mode, expected in ((True, 2), (False, 0)):
        group = scene.new_group()
        heartbeat = requests.heartbeat(scene.client("one"), group)
        (consumer,) = (body := json.loads(heartbeat.body))["consumerDataSet"]
        consumer["unitMode"] = unit_mode
        done(scene.broker.call(replace(heartbeat, body=json.dumps(body).encode())))
        assert flag(f"{RETRY}{group}") == expected


@case("ADMIN-043", party="broker")
def test_the_retry_topic_of_who_subscribes_an_ordered_topic(scene: Scene) -> None:
    plain, ordered, group = scene.topic(), scene.name("T"), scene.new_group()
    done(scene.broker.call(requests.create_topic(ordered, 1, 1).having(order=True)))
    for topics, expected in (([plain, ordered], True), ([plain], False), ([ordered], True)):
        done(
            scene.broker.call(
                requests.heartbeat(scene.client("one"), group, map(Subscription, topics))
            )
        )
        shown = scene.topic_config(f"{RETRY}{group}")
        assert shown
        assert shown["order"] is expected


@case("ADMIN-002", party="broker")
def test_attributes_are_altered(scene: Scene) -> None:
    topic = scene.name("T")
    made = requests.create_topic(topic, 1, 1)
    done(scene.broker.call(made.having(attributes="+message.type=FIFO,+cleanup.policy=DELETE")))
    assert attributes(scene, topic) == {MESSAGE_TYPE: "FIFO", "cleanup.policy": "DELETE"}
    done(scene.broker.call(made.having(attributes="+message.type=NORMAL")))
    assert attributes(scene, topic)[MESSAGE_TYPE] == "NORMAL"
    done(scene.broker.call(made.having(attributes="-message.type")))
    assert attributes(scene, topic) == {"cleanup.policy": "DELETE"}
    for wrong in (
        *("+no.such=1", "+message.type=BLUE", "message.type=FIFO", "-message.type"),
        "+cleanup.policy=COMPACTION",
    ):
        assert scene.broker.call(made.having(attributes=wrong)).code == 1, wrong
    mixed = scene.broker.call(made.having(attributes="+message.type=MIXED"))
    assert mixed.code == 29
    scene.worded(mixed, "MIXED message type is not supported.")
    assert attributes(scene, topic) == {"cleanup.policy": "DELETE"}


@case("ADMIN-002", party="broker", after="test_attributes_are_altered")
@pytest.mark.parametrize(
    "changed",
    [
        lambda topic: requests.create_topic(topic, 2, 2),
        lambda topic: requests.create_topic(topic, 2, 2).without("attributes", "force"),
        lambda topic: requests.create_topics((topic, 2)),
    ],
    ids=["empty", "by 4.9.7", "in a list"],
)
def test_a_change_that_says_nothing_of_attributes_leaves_them(
    scene: Scene, changed: Callable[[str], Request]
) -> None:
    topic = scene.name("T")
    made = requests.create_topic(topic, 1, 1)
    done(scene.broker.call(made.having(attributes="+message.type=FIFO,+cleanup.policy=DELETE")))
    done(scene.broker.call(changed(topic)))
    shown = scene.topic_config(topic)
    assert shown
    assert (shown["readQueueNums"], shown["writeQueueNums"]) == (2, 2)
    assert shown["attributes"] == {MESSAGE_TYPE: "FIFO", "cleanup.policy": "DELETE"}


@case("ADMIN-002", party="broker")
def test_nothing_is_taken_from_a_topic_that_is_being_created(scene: Scene) -> None:
    topic = scene.name("T")
    wrong = requests.create_topic(topic, 1, 1).having(attributes="-message.type")
    assert scene.broker.call(wrong).code == 1
    assert scene.broker.call(requests.topic_config(topic)).code == 17


@case("ADMIN-003", party="broker")
def test_a_deleted_topic_is_gone(scene: Scene) -> None:
    topic = scene.topic(2)
    for queue_id in (0, 1, 1):
        scene.send(topic, b"old", queue_id)
    done(scene.broker.call(requests.delete_topic(topic)))
    assert scene.broker.call(requests.topic_config(topic)).code == 17
    assert [scene.max_offset(topic, queue_id) for queue_id in (0, 1)] == [0, 0]
    done(scene.broker.call(requests.create_topic(topic, 2, 2)))
    scene.recorder.store_damaged()  # from now on queue offsets are used again
    scene.send(topic, b"new", 1)
    read = scene.read_all(topic, scene.group(), 1)
    assert [(record.queue_offset, record.body) for record in read] == [(0, b"new")]
    assert scene.max_offset(topic) == 0


@case("ADMIN-017", party="store", claims="restart")
@pytest.mark.parametrize("kind", [Restart.CLEAN, Restart.KILL], ids=lambda kind: kind.value)
def test_messages_of_a_deleted_topic_stay_away(scene: Scene, kind: Restart) -> None:
    topic = scene.topic()
    for _ in range(3):
        scene.send(topic, b"old")
    done(scene.broker.call(requests.delete_topic(topic)))
    done(scene.broker.call(requests.create_topic(topic, 1, 1)))
    scene.recorder.store_damaged()  # from now on queue offsets are used again
    scene.send(topic, b"new")
    scene.restart(kind)
    read = scene.read_all(topic, scene.group())
    assert [(record.queue_offset, record.body) for record in read] == [(0, b"new")]


@case("ADMIN-036", party="broker")
def test_topics_of_a_list_are_made(scene: Scene) -> None:
    first, second, third = (scene.name("T") for _ in range(3))

    def read_queues(topic: str) -> int:
        answer = scene.broker.call(requests.topic_config(topic))
        return int(done(answer, 0, 17).json()["readQueueNums"]) if answer.code == 0 else 0

    done(scene.broker.call(requests.create_topics((first, 2), (second, 3))))
    assert [read_queues(topic) for topic in (first, second, third)] == [2, 3, 0]
    wrong = scene.broker.call(requests.create_topics((third, 1), ("a b", 1)))
    assert (wrong.code, read_queues(third)) == (29, 0)
    done(scene.broker.call(requests.create_topics((third, 1), (first, 2), (second, 4))))
    assert [read_queues(topic) for topic in (second, third)] == [3, 0]  # as one is as it was
    done(scene.broker.call(requests.create_topics((third, 1), (first, 5))))
    assert [read_queues(topic) for topic in (first, third)] == [5, 1]


@case("ADMIN-037", party="broker")
def test_groups_of_a_list_are_made(scene: Scene) -> None:
    groups = [scene.new_group() for _ in range(2)]
    done(scene.broker.call(requests.create_groups(*groups, retryQueueNums=3)))
    every = done(scene.broker.call(Request(requests.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))).json()
    table = every["subscriptionGroupTable"]
    assert [table[group]["retryQueueNums"] for group in groups] == [3, 3]
    done(scene.broker.call(requests.create_groups()))


@case("ADMIN-004", party="broker")
def test_offsets_go_with_their_topic(scene: Scene) -> None:
    topic, other, group = scene.topic(), scene.topic(), scene.group()
    for each in (topic, other):
        done(scene.broker.call(requests.commit_offset(group, each, 7)))
    done(scene.broker.call(requests.delete_topic(topic)))
    assert scene.committed(group, topic) is None
    assert scene.committed(group, other) == 7


@case("ADMIN-032", party="broker", claims="groups-by-use")
def test_pop_retry_topics_go_with_their_topic(scene: Scene) -> None:
    topic, popped, never = scene.topic(), scene.group(), scene.group()
    gone, stays = (f"{RETRY}{group}_{topic}" for group in (popped, never))
    for retry_topic in (gone, stays):
        done(scene.broker.call(requests.create_topic(retry_topic, 1, 1)))
        scene.send(retry_topic)
    done(scene.broker.call(requests.commit_offset(popped, topic, 0)))
    done(scene.broker.call(requests.commit_offset(popped, gone, 1)))
    done(scene.broker.call(requests.delete_topic(topic)))
    assert scene.broker.call(requests.topic_config(gone)).code == 17
    assert (scene.max_offset(gone), scene.committed(popped, gone)) == (0, None)
    done(scene.broker.call(requests.topic_config(stays)))
    assert scene.max_offset(stays) == 1


@case("ADMIN-005", party="broker")
def test_topics_of_the_system_stay(scene: Scene) -> None:
    info = cluster_info(scene.nameserver).json()
    broker = scene.broker_names[0]
    cluster = info["brokerAddrTable"][broker]["cluster"]
    for topic in ("SCHEDULE_TOPIC_XXXX", cluster, broker, f"{cluster}_REPLY_TOPIC"):
        shown = done(scene.broker.call(requests.topic_config(topic))).json()
        numbers = shown["readQueueNums"], shown["writeQueueNums"], shown["perm"]
        # Who takes the first, which changes nothing, is not asked for the second.
        for request in (requests.create_topic(topic, *numbers), requests.delete_topic(topic)):
            assert scene.broker.call(request).code == 29
    other = requests.delete_topic(scene.name("T"))
    assert scene.broker.call(other.without("topic")).code == 29
    for name in (scene.name("T"), f"{scene.name('T')} . 1", "x" * 300):
        assert scene.broker.call(other.having(topic=name)).code == 0


@case("ADMIN-020", party="broker")
def test_a_topic_has_a_filter_type(scene: Scene) -> None:
    request = requests.create_topic(scene.name("T"), 1, 1)
    for wrong in (request.without("topicFilterType"), request.having(topicFilterType="single_tag")):
        assert scene.broker.call(wrong).code == 1
        assert scene.topic_config(request.fields["topic"]) is None
    done(scene.broker.call(request.having(topicFilterType="MULTI_TAG")))
    shown = scene.topic_config(request.fields["topic"])
    assert shown
    assert shown["topicFilterType"] == "MULTI_TAG"


def group_table(scene: Scene) -> dict[str, dict[str, object]]:
    """The groups that the broker has, and how each is configured."""
    answer = done(scene.broker.call(Request(requests.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)))
    found: dict[str, dict[str, object]] = answer.json()["subscriptionGroupTable"]
    return found


@case("ADMIN-021", party="broker")
def test_a_broker_has_the_groups_of_the_system(scene: Scene) -> None:
    assert group_table(scene).keys() >= {
        *("TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_ONS-HTTP-PROXY"),
        *("CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER", "CID_RMQ_SYS_TRANS"),
    }


def system_topics(scene: Scene) -> set[str]:
    broker = scene.broker_names[0]
    info = done(cluster_info(scene.nameserver)).json()
    (cluster,) = (name for name, has in info["clusterAddrTable"].items() if broker in has)
    return {
        *("SELF_TEST_TOPIC", "BenchmarkTest", "OFFSET_MOVED_EVENT", "SCHEDULE_TOPIC_XXXX"),
        *("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer"),
        *(cluster, broker, f"{cluster}_REPLY_TOPIC", f"rmq_sys_REVIVE_LOG_{cluster}"),
        f"rmq_sys_SYNC_BROKER_MEMBER_{broker}",
    }


@case("ADMIN-025", party="broker")
def test_a_broker_has_the_topics_of_the_system(scene: Scene) -> None:
    answer = done(scene.broker.call(Request(requests.GET_ALL_TOPIC_CONFIG)))
    table = answer.json()["topicConfigTable"]
    assert table.keys() >= system_topics(scene)
    nobodys = [name for name in system_topics(scene) if not table[name]["perm"] & 6]
    assert nobodys == [f"rmq_sys_SYNC_BROKER_MEMBER_{scene.broker_names[0]}"]


@case("ADMIN-026", party="broker")
def test_the_names_of_the_topics_of_the_system(scene: Scene) -> None:
    answer = done(scene.broker.call(Request(requests.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)))
    assert set(answer.json()["topicList"]) >= system_topics(scene) | {
        *("TBW102", "TRANS_CHECK_MAX_TIME_TOPIC", "RMQ_SYS_TRACE_TOPIC", "CHECKPOINT_TOPIC"),
    }


@case("ADMIN-010", party="broker")
def test_how_far_a_topic_reaches(scene: Scene) -> None:
    topic = scene.topic(2)
    for body in (b"one", b"two"):
        scene.send(topic, body)
    (_, last) = scene.read_all(topic, scene.group())
    request = Request(requests.GET_TOPIC_STATS_INFO, {"topic": topic})
    assert by_queue(scene.broker.call(request)) == {
        0: {"minOffset": 0, "maxOffset": 2, "lastUpdateTimestamp": last.store_timestamp},
        1: {"minOffset": 0, "maxOffset": 0, "lastUpdateTimestamp": 0},
    }
    assert scene.broker.call(request.having(topic=scene.name("T"))).code == 17


# Groups


@case("ADMIN-016", party="broker")
def test_a_group_is_shown_as_it_was_made(scene: Scene) -> None:
    group = scene.new_group()
    done(scene.broker.call(requests.create_group(group, retryMaxTimes=3)))
    one = done(scene.broker.call(requests.group_config(group))).json()
    assert (one["retryMaxTimes"], one["retryQueueNums"], one["consumeEnable"]) == (3, 1, True)
    every = done(scene.broker.call(Request(requests.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))).json()
    listed = every["subscriptionGroupTable"][group]
    assert without_nulls(listed) == without_nulls(one)
    with scene.identical("the keys of a group, nulls too"):
        assert listed == one


@case("ADMIN-016", party="broker", after="test_a_group_is_shown_as_it_was_made")
def test_what_a_group_is_not_told_has_its_default(scene: Scene) -> None:
    group = scene.new_group()
    body = json.dumps({"groupName": group}).encode()
    done(scene.broker.call(Request(requests.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)))
    shown = done(scene.broker.call(requests.group_config(group))).json()
    assert {name: shown.get(name) for name in DEFAULTS} == DEFAULTS


@case("ADMIN-016", party="broker", after="test_a_group_is_shown_as_it_was_made")
@pytest.mark.parametrize(("kind", "defaults"), list(POLICIES.items()))
def test_what_a_retry_policy_is_not_told_has_its_default(
    scene: Scene, kind: str, defaults: Mapping[str, object]
) -> None:
    group, name = scene.new_group(), f"{kind.lower()}RetryPolicy"
    policy = {"type": kind, name: {}}
    done(scene.broker.call(requests.create_group(group, groupRetryPolicy=policy)))
    shown = done(scene.broker.call(requests.group_config(group))).json()
    assert shown["groupRetryPolicy"][name] == defaults


@case("ADMIN-016", party="broker")
@pytest.mark.parametrize(
    "kept",
    [
        {"groupRetryPolicy": {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1, 2]}}},
        {
            "groupRetryPolicy": {
                "type": "EXPONENTIAL",
                "exponentialRetryPolicy": {"initial": 1, "max": 9, "multiplier": 3},
            }
        },
        {
            "subscriptionDataSet": [
                {"topic": "T", "expressionType": "TAG", "expression": "*", "version": 7}
            ]
        },
    ],
    ids=["customized", "exponential", "subscriptions"],
)
def test_what_a_broker_keeps_of_a_group_for_others(
    scene: Scene, kept: Mapping[str, object]
) -> None:
    group = scene.new_group()
    done(scene.broker.call(requests.create_group(group, **kept)))
    shown = without_nulls(done(scene.broker.call(requests.group_config(group))).json())
    assert {name: shown.get(name) for name in kept} == kept


@case("ADMIN-033", party="broker")
def test_an_administrator_may_name_a_group_as_it_likes(scene: Scene) -> None:
    group = f"{scene.name('G')} not by use!"
    assert group not in group_table(scene)
    done(scene.broker.call(requests.create_group(group)))
    assert group_table(scene)[group]["groupName"] == group


@case("ADMIN-009", party="broker")
def test_a_deleted_group_keeps_members_and_offsets(scene: Scene) -> None:
    group, topic, member = scene.new_group(), scene.topic(), scene.connect()
    done(member.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic)])))
    done(scene.broker.call(requests.commit_offset(group, topic, 7)))
    done(scene.broker.call(requests.delete_group(group)))
    assert group not in group_table(scene)
    assert scene.members(group) == ["one"]
    assert scene.committed(group, topic) == 7
    done(scene.broker.call(requests.delete_group(group, clean_offset=True)))
    assert scene.committed(group, topic) is None


@case("ADMIN-006", "ADMIN-013", "ADMIN-015", party="broker")
def test_how_far_a_group_has_come(scene: Scene) -> None:
    topic, group = scene.topic(2), scene.group()
    for body in (b"one", b"two", b"three"):
        scene.send(topic, body)
    (_, second, _) = scene.read_all(topic, group)
    done(scene.broker.call(requests.commit_offset(group, topic, 2)))
    for about in ({}, {"topic": topic}):
        request = Request(requests.GET_CONSUME_STATS, {"consumerGroup": group, **about})
        table = by_queue(scene.broker.call(request))
        names = ("brokerOffset", "consumerOffset", "lastTimestamp")
        assert {queue: [entry[name] for name in names] for queue, entry in table.items()} == {
            0: [3, 2, second.store_timestamp],
            1: [0, 0, 0],
        }
    every = done(scene.broker.call(Request(requests.GET_ALL_CONSUMER_OFFSET))).json()
    assert every["offsetTable"][f"{topic}@{group}"] == {"0": 2}
    who = scene.broker.call(Request(requests.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}))
    assert group in done(who).json()["groupList"]
    what = scene.broker.call(Request(requests.QUERY_TOPICS_BY_CONSUMER, {"group": group}))
    assert done(what).json()["topicList"] == [topic]


@case("ADMIN-023", party="broker")
def test_how_far_a_group_is_said_to_have_come(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    for _ in range(3):
        scene.send(topic)

    def offsets() -> list[int]:
        request = Request(requests.GET_CONSUME_STATS, {"consumerGroup": group, "topic": topic})
        entry = by_queue(scene.broker.call(request))[0]
        return [entry[name] for name in ("consumerOffset", "pullOffset")]

    assert offsets() == [0, 0]
    done(scene.broker.call(requests.pull(topic, group, count=2)))
    assert offsets() == [0, 2]
    done(scene.broker.call(requests.commit_offset(group, topic, 3)))
    assert offsets() == [3, 3]
    done(scene.broker.call(requests.commit_offset(group, topic, 1)))
    assert offsets() == [1, 2]


@case("ADMIN-027", party="broker", claims="groups-by-use")
@pytest.mark.parametrize(("brings", "retries"), [(requests.pull, False), (requests.pop, True)])
def test_a_group_is_shown_on_what_it_subscribes_or_asks_for(
    scene: Scene, brings: Callable[[str, str], Request], retries: bool
) -> None:
    subscribed, asked, group = scene.topic(), scene.topic(), scene.group()
    retry = f"%RETRY%{group}_{asked}"
    done(scene.broker.call(requests.create_topic(retry, 1, 1)))
    for topic in (subscribed, asked, retry):
        scene.send(topic)
        done(scene.broker.call(requests.commit_offset(group, topic, 1)))

    def shown() -> set[str]:
        request = Request(requests.GET_CONSUME_STATS, {"consumerGroup": group})
        table = done(scene.broker.call(request)).json()["offsetTable"]
        return {json.loads(queue)["topic"] for queue in table}

    assert shown() == {subscribed, asked, retry}
    done(
        scene.broker.call(
            requests.heartbeat(scene.client("one"), group, [Subscription(subscribed)])
        )
    )
    assert shown() == {subscribed}
    done(scene.broker.call(brings(asked, group)), 0, NOTHING)
    assert shown() == {subscribed, asked} | ({retry} if retries else set())


@case("ADMIN-034", party="broker")
def test_a_group_is_shown_on_the_topics_of_a_list(scene: Scene) -> None:
    subscribed, listed, third, group = scene.topic(), scene.topic(2), scene.topic(), scene.group()
    for topic in (subscribed, listed, third):
        done(scene.broker.call(requests.commit_offset(group, topic, 1)))
    done(
        scene.broker.call(
            requests.heartbeat(scene.client("one"), group, [Subscription(subscribed)])
        )
    )
    fields = {"consumerGroup": group, "topic": subscribed, "topicList": f"{listed};{third}"}
    table = done(scene.broker.call(Request(requests.GET_CONSUME_STATS, fields))).json()
    queues = [json.loads(queue) for queue in table["offsetTable"]]
    shown = sorted((queue["topic"], queue["queueId"]) for queue in queues)
    assert shown == sorted([(listed, 0), (listed, 1), (third, 0)])


@case("ADMIN-035", party="broker")
@pytest.mark.parametrize(("read", "write"), [(1, 3), (3, 1)])
def test_which_queues_are_counted(scene: Scene, read: int, write: int) -> None:
    topic, group = scene.topic(read, write=write), scene.group()
    for _ in range(3):
        scene.send(topic)
    done(scene.broker.call(requests.pull(topic, group, count=2)))
    done(scene.broker.call(requests.commit_offset(group, topic, 1)))
    reach = scene.broker.call(Request(requests.GET_TOPIC_STATS_INFO, {"topic": topic}))
    assert sorted(by_queue(reach)) == [0, 1, 2]
    fields = {"consumerGroup": group, "topic": topic}
    come = by_queue(scene.broker.call(Request(requests.GET_CONSUME_STATS, fields)))
    assert sorted(come) == list(range(read))
    every = Request(requests.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    groups = done(scene.broker.call(every)).json()["consumeStatsList"]
    (of_group,) = (each[group] for each in groups if group in each)
    (table,) = (each["offsetTable"] for each in of_group)
    offsets = {json.loads(queue)["queueId"]: entry for queue, entry in table.items()}
    assert sorted(offsets) == list(range(write))
    names = "brokerOffset", "consumerOffset", "pullOffset"
    assert [come[0][name] for name in names] == [3, 1, 2]
    assert [offsets[0][name] for name in names] == [3, 1, 0]


@case("ADMIN-024", party="broker")
def test_who_subscribes_a_topic(scene: Scene) -> None:
    topic, group, member = scene.topic(), scene.group(), scene.connect()
    done(member.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic)])))
    who = scene.broker.call(Request(requests.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic}))
    assert done(who).json()["groupList"] == [group]


def readable(scene: Scene, group: str, topic: str, told: bool | None = None) -> bool:
    answer = done(scene.broker.call(requests.group_forbidden(group, topic, told))).json()
    assert (answer["group"], answer["topic"]) == (group, topic)
    return bool(answer["readable"])


@case("ADMIN-038", party="broker")
def test_a_group_is_kept_from_reading_a_topic(scene: Scene) -> None:
    topic, other, group = scene.topic(), scene.topic(), scene.new_group()
    for each in (topic, other):
        scene.send(each)
    done(
        scene.broker.call(
            requests.heartbeat(scene.client("one"), group, map(Subscription, (topic, other)))
        )
    )
    assert readable(scene, group, topic)
    assert not readable(scene, group, topic, told=False)
    assert not readable(scene, group, topic)
    refused = scene.broker.call(requests.pull(topic, group, subscription=None))
    assert (refused.code, refused.number("forbiddenType")) == (16, 5)
    assert scene.broker.call(requests.pull(other, group, subscription=None)).code == 0
    assert scene.broker.call(requests.pull(topic, group)).code == 0  # it says what it wants
    assert scene.broker.call(requests.pop(topic, group)).code == 0
    assert readable(scene, group, topic, told=True)
    assert scene.broker.call(requests.pull(topic, group, subscription=None)).code == 0


@case("ADMIN-039", party="broker", after="test_a_group_is_kept_from_reading_a_topic")
def test_groups_are_kept_from_as_many_topics_as_are_said(scene: Scene) -> None:
    topics, groups = [scene.topic() for _ in range(4)], [scene.group() for _ in range(2)]
    kept = [(groups[0], topic) for topic in topics[:3]] + [(groups[1], topics[3])]
    for group, topic in kept:
        assert not readable(scene, group, topic, told=False)
    for group in groups:
        read = {topic for topic in topics if readable(scene, group, topic)}
        wrong = read ^ {topic for topic in topics if (group, topic) not in kept}
        assert not wrong, f"of {len(topics)} topics it is told wrongly of {len(wrong)}"


@case("ADMIN-039", party="broker", after="test_a_group_is_kept_from_reading_a_topic")
def test_to_let_a_group_read_one_topic_lets_it_read_no_other(scene: Scene) -> None:
    topic, other, group = scene.topic(), scene.topic(), scene.group()
    for each in (topic, other):
        assert not readable(scene, group, each, told=False)
    assert readable(scene, group, topic, told=True)
    assert not readable(scene, group, other), "the other one was allowed, too"


@case(
    "ADMIN-039",
    party="broker",
    claims="restart",
    after="test_a_group_is_kept_from_reading_a_topic",
)
def test_what_a_group_may_read_survives(scene: Scene) -> None:
    group = scene.group()
    kept, allowed = scene.topic(), scene.topic()
    mine = scene.group()
    assert not readable(scene, group, kept, told=False)
    assert not readable(scene, mine, allowed, told=False)
    assert readable(scene, mine, allowed, told=True)
    scene.group()  # 5.3.3 writes down that a group may read again with the next change of groups
    scene.restart(Restart.KILL)
    assert not readable(scene, group, kept)
    assert readable(scene, mine, allowed), "it is forbidden again"


@case("ADMIN-022", party="broker")
def test_a_group_comes_to_be_when_somebody_leaves_it(scene: Scene) -> None:
    group = scene.new_group()
    done(scene.broker.call(requests.unregister(scene.client("one"), group)))
    every = done(scene.broker.call(Request(requests.GET_ALL_SUBSCRIPTIONGROUP_CONFIG))).json()
    assert group in every["subscriptionGroupTable"]


@case("ADMIN-029", party="broker")
def test_how_long_a_group_is_behind(scene: Scene) -> None:
    topic, group = scene.topic(2), scene.group()
    for _ in range(3):
        scene.send(topic)
    first, second, third = (each.store_timestamp for each in scene.read_all(topic, scene.group()))
    request = Request(requests.QUERY_CONSUME_TIME_SPAN, {"topic": topic, "group": group})
    names = ("minTimeStamp", "maxTimeStamp", "consumeTimeStamp")

    def spans() -> list[tuple[list[int], int]]:
        """Of each queue its times, and for how long the next message has waited for the group."""
        answer = done(scene.broker.call(request))
        found = {each["messageQueue"]["queueId"]: each for each in answer.json()[SPANS]}
        queues = found[0], found[1]
        return [([span[name] for name in names], span["delayTime"]) for span in queues]

    long_ago = third // 2  # a delay since 1970, where it is not known since when
    (busy, delay), (empty, empty_delay) = spans()
    assert (busy, empty) == ([first, third, first], [-1, -1, -1])
    assert min(delay, empty_delay) > long_ago
    for committed, consumed, following in (
        (0, first, first),
        (1, first, second),
        (2, second, third),
    ):
        done(scene.broker.call(requests.commit_offset(group, topic, committed)))
        ((busy, delay), _) = spans()
        assert busy == [first, third, consumed]
        assert third - following <= delay < long_ago
    for committed, consumed in ((3, third), (4, -1)):
        done(scene.broker.call(requests.commit_offset(group, topic, committed)))
        assert spans()[0] == ([first, third, consumed], 0)
    assert scene.broker.call(request.having(topic=scene.name("T"))).code == 17


@case("ADMIN-006", party="broker")
def test_a_group_that_never_was(scene: Scene) -> None:
    request = Request(requests.GET_CONSUME_STATS, {"consumerGroup": scene.new_group()})
    assert by_queue(scene.broker.call(request)) == {}


# Connections


def connections(answer: Frame) -> list[tuple[str, str, int]]:
    found: list[dict[str, Any]] = done(answer).json()["connectionSet"]
    assert all(connection["clientAddr"].count(":") == 1 for connection in found)
    return [(each["clientId"], each["language"], each["version"]) for each in found]


@case("ADMIN-007", party="broker")
def test_who_consumes(scene: Scene) -> None:
    topic, group, member = scene.topic(), scene.new_group(), scene.connect()
    request = Request(requests.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    assert scene.broker.call(request).code == 206
    done(
        member.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic, "a || b")]))
    )
    answer = scene.broker.call(request)
    assert connections(answer) == [(scene.client("one"), "JAVA", 479)]
    body = answer.json()
    shown = body["subscriptionTable"][topic]
    assert (shown["subString"], sorted(shown["tagsSet"])) == ("a || b", ["a", "b"])
    kinds = [body[name] for name in ("consumeType", "messageModel", "consumeFromWhere")]
    assert kinds == ["CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET"]
    member.close()
    assert eventually(lambda: scene.broker.call(request).code == 206)


@case("ADMIN-007", party="broker", after="test_who_consumes")
@pytest.mark.parametrize("count", [3, 16, 64])
def test_a_group_subscribes_as_many_topics_as_it_likes(scene: Scene, count: int) -> None:
    group, member = scene.new_group(), scene.connect()
    wanted = {scene.name("T"): f"tag{n}" for n in range(count)}
    subscriptions = [Subscription(topic, tag) for topic, tag in wanted.items()]
    done(member.call(requests.heartbeat(scene.client("one"), group, subscriptions)))
    request = Request(requests.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group})
    shown = done(scene.broker.call(request)).json()["subscriptionTable"]
    own = {topic: each["subString"] for topic, each in shown.items() if topic in wanted}
    assert own == wanted


@case("ADMIN-008", party="broker")
def test_who_produces(scene: Scene) -> None:
    group, producer = scene.name("P"), scene.connect()
    request = Request(requests.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group})
    assert scene.broker.call(request).code == 1
    done(producer.call(requests.producer_heartbeat(scene.client("one"), group)))
    assert connections(scene.broker.call(request)) == [(scene.client("one"), "JAVA", 479)]


def asked_through_the_broker(scene: Scene, request: Request, member: Connection) -> Frame:
    """What of the request reaches the member. Its answer, of a code of its own, comes back."""
    opaque = scene.broker.ask(request)
    asked = member.notice()
    assert (asked.code, asked.flag) == (request.code, 0)
    member.write(frame(json_header(7, {}, asked.opaque, flag=1), b'{"said":"this"}'))
    answer = scene.broker.answer(opaque)
    assert (answer.code, answer.json()) == (7, {"said": "this"})
    return asked


@case("ADMIN-040", party="broker")
def test_what_a_group_wants_of_a_topic(scene: Scene) -> None:
    topic, group, member = scene.topic(), scene.new_group(), scene.connect()
    asked = requests.query_subscription(group, topic)
    nobody = without_nulls(done(scene.broker.call(asked)).json())
    assert nobody == {"group": group, "topic": topic}
    done(
        member.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic, "a || b")]))
    )
    told = done(scene.broker.call(asked)).json()
    wanted = told["subscriptionData"]
    assert (told["group"], told["topic"], wanted["topic"]) == (group, topic, topic)
    assert (wanted["subString"], sorted(wanted["tagsSet"])) == ("a || b", ["a", "b"])


@case("ADMIN-040", party="broker")
@pytest.mark.parametrize(("by", "expression"), [("TAG", "a || b"), ("SQL92", "a > 1")])
def test_what_a_group_pulled_of_a_topic_is_what_it_wants(
    scene: Scene, by: str, expression: str
) -> None:
    topic, group = scene.topic(), scene.new_group()
    asked = requests.query_subscription(group, topic)
    # Whether it filters by SQL92 or not, the broker notes what it was told.
    brings = requests.pull(topic, group, subscription=expression, sub_version=7)
    scene.broker.call(brings.having(expressionType=by))
    wanted = done(scene.broker.call(asked)).json()["subscriptionData"]
    told = [wanted[name] for name in ("topic", "subString", "expressionType")]
    assert told == [topic, expression, by]
    assert wanted["subVersion"] > 7
    done(scene.broker.call(requests.pop(topic, group)), 0, NOTHING)
    assert done(scene.broker.call(asked)).json()["subscriptionData"]["subString"] == "*"
    member = scene.connect()
    done(member.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic, "c")])))
    assert done(scene.broker.call(asked)).json()["subscriptionData"]["subString"] == "c"


@case("ADMIN-041", party="broker")
def test_members_are_asked_how_far_they_are(scene: Scene) -> None:
    topic, group = scene.topic(), scene.new_group()
    assert scene.broker.call(requests.consumer_status(group, topic)).code == 1
    one, two = scene.client("one"), scene.client("two")
    members = {client_id: scene.connect() for client_id in (one, two)}
    for client_id, member in members.items():
        done(member.call(requests.heartbeat(client_id, group)))
        member.notice()
    members[one].notice()  # that the other came
    progress = b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"t"}:7}}'

    def answer(member: Connection) -> None:
        asked = member.notice()
        assert asked.code == requests.GET_CONSUMER_STATUS_FROM_CLIENT
        assert (asked.fields["group"], asked.fields["topic"]) == (group, topic)
        member.write(frame(json_header(0, {}, asked.opaque, flag=1), progress))

    def told(client_id: str) -> dict[str, Any]:
        opaque = scene.broker.ask(requests.consumer_status(group, topic, client_id))
        asked = [member for name, member in members.items() if client_id in ("", name)]
        with ThreadPoolExecutor() as pool:  # one after the other, in any order
            list(pool.map(answer, asked))
        table: dict[str, Any] = done(scene.broker.answer(opaque)).json()["consumerTable"]
        return table

    every = told("")
    assert every.keys() == {one, two}
    assert [list(each.values()) for each in every.values()] == [[7], [7]]
    assert told(two) == {two: every[two]}
    assert told("no") == {}


@case("ADMIN-018", party="broker")
def test_a_member_is_asked_what_it_does(scene: Scene) -> None:
    group, member = scene.new_group(), scene.connect()
    about = {"consumerGroup": group, "clientId": scene.client("one")}
    request = Request(requests.GET_CONSUMER_RUNNING_INFO, about)
    assert scene.broker.call(request).code == 1
    done(member.call(requests.heartbeat(scene.client("one"), group)))
    member.notice()  # of its own joining
    asked = asked_through_the_broker(scene, request, member)
    shows(asked.fields, about)


@case("ADMIN-018", party="broker", after="test_a_member_is_asked_what_it_does")
@pytest.mark.parametrize(("version", "asks"), [(0, False), (V3_1_8 - 1, False), (V3_1_8, True)])
def test_a_member_is_asked_whose_version_knows_the_question(
    scene: Scene, version: int, asks: bool
) -> None:
    group, member = scene.new_group(), scene.connect()
    about = {"consumerGroup": group, "clientId": scene.client("one")}
    request = Request(requests.GET_CONSUMER_RUNNING_INFO, about)
    done(member.call(requests.heartbeat(scene.client("one"), group), version=version))
    member.notice()
    if asks:
        shows(asked_through_the_broker(scene, request, member).fields, about)
    else:
        with scene.apaches():  # no client is as old
            assert scene.broker.call(request).code == 1


@case("ADMIN-044", party="broker")
def test_a_member_that_is_asked_keeps_silent(scene: Scene) -> None:
    group, member = scene.new_group(), scene.connect()
    done(member.call(requests.heartbeat(scene.client("one"), group)))
    member.notice()
    about = {"consumerGroup": group, "clientId": scene.client("one")}
    opaque = scene.broker.ask(Request(requests.GET_CONSUMER_RUNNING_INFO, about))
    asked = member.notice()
    began = time.monotonic()
    assert scene.broker.answer(opaque).code == 207
    assert time.monotonic() - began > ANSWERED_S - 1
    # What it says then nobody waits for.
    member.write(frame(json_header(0, {}, asked.opaque, flag=1), b"{}"))
    assert scene.members(group) == ["one"]


@case("ADMIN-019", party="broker")
def test_a_member_is_asked_to_consume_a_message(scene: Scene) -> None:
    topic, group, member = scene.topic(), scene.new_group(), scene.connect()
    message_id = scene.send(topic).fields["msgId"]
    about = {"consumerGroup": group, "clientId": scene.client("one"), "msgId": message_id}
    request = Request(requests.CONSUME_MESSAGE_DIRECTLY, about)
    assert scene.broker.call(request).code == 1
    done(member.call(requests.heartbeat(scene.client("one"), group)))
    member.notice()
    asked = asked_through_the_broker(scene, request, member)
    shows(asked.fields, {**about, "brokerName": scene.broker_names[0]})
    (record,) = parse_records(asked.body)
    assert (record.topic, record.body) == (topic, b"hello")
    assert record.physical_offset == int(message_id[-16:], 16)


# The broker itself


@case("ADMIN-011", party="broker")
def test_options_are_set_and_shown(scene: Scene) -> None:
    name = "transactionCheckMax"
    before = config_of(scene.broker)[name]
    scene.set_options(scene.broker, **{name: 16, "noSuchOption": 1})
    assert config_of(scene.broker)[name] == "16"
    assert "noSuchOption" not in config_of(scene.broker)
    scene.set_options(scene.broker, **{name: before})
    assert config_of(scene.broker)[name] == before


@case("ADMIN-012", party="broker")
def test_what_is_counted_of_a_topic(scene: Scene) -> None:
    topic = scene.topic()
    fields = {"statsName": "TOPIC_PUT_NUMS", "statsKey": topic}
    request = Request(requests.VIEW_BROKER_STATS_DATA, fields)
    answer = scene.broker.call(request)
    assert answer.code == 1
    scene.worded(answer, f"The stats <TOPIC_PUT_NUMS> <{topic}> not exist")
    scene.send(topic)
    counted = done(scene.broker.call(request)).json()
    assert counted.keys() == {"statsMinute", "statsHour", "statsDay"}
    assert all(window.keys() == {"sum", "tps", "avgpt"} for window in counted.values())
    assert scene.broker.call(request.having(statsName="NO_SUCH_STATS")).code == 1


@case("ADMIN-042", party="broker", after="test_what_is_counted_of_a_topic")
def test_what_is_counted_in_a_second(scene: Scene) -> None:
    topic = scene.topic()
    for _ in range(3):
        done(scene.broker.call(requests.send(topic)))
    fields = {"statsName": "TOPIC_PUT_NUMS", "statsKey": topic}
    request = Request(requests.VIEW_BROKER_STATS_DATA, fields)
    minute: dict[str, float] = {}

    def is_sampled() -> bool:
        minute.update(done(scene.broker.call(request)).json()["statsMinute"])
        return minute["sum"] == 3

    assert eventually(is_sampled)
    assert minute["avgpt"] == 1
    assert 9 <= minute["sum"] / minute["tps"] <= 22  # s: one sample, or two by now


@case("ADMIN-012", party="broker")
def test_a_delayed_message_is_counted_when_it_is_delivered(scene: Scene) -> None:
    topic = scene.topic()
    fields = {"statsName": "TOPIC_PUT_NUMS", "statsKey": topic}
    request = Request(requests.VIEW_BROKER_STATS_DATA, fields)
    done(scene.broker.call(requests.send(topic, properties={"DELAY": "3"})))  # 10 s
    assert scene.broker.call(request.having(statsKey="SCHEDULE_TOPIC_XXXX")).code == 0
    assert scene.broker.call(request).code == 1
    done(scene.broker.call(requests.send(topic, properties={"DELAY": "1"})))  # 1 s
    assert eventually(lambda: scene.broker.call(request).code == 0)
    assert eventually(lambda: scene.max_offset(topic) == 1)


@case("ADMIN-014", party="broker")
def test_what_a_broker_is_doing(scene: Scene) -> None:
    topic = scene.topic()
    before = runtime(scene)
    scene.send(topic)
    (record,) = scene.read_all(topic, scene.group())
    # Other cases store messages meanwhile.
    after = runtime(scene)
    assert int(after["msgPutTotalTodayNow"]) >= int(before["msgPutTotalTodayNow"]) + 1
    first, end = int(before["commitLogMaxOffset"]), int(after["commitLogMaxOffset"])
    assert first <= record.physical_offset
    assert record.physical_offset + record.size <= end
    assert after["brokerVersionDesc"].startswith("V")
    assert 0 < int(after["earliestMessageTimeStamp"]) <= record.store_timestamp
    for size in (after["remainHowManyDataToFlush"], after["commitLogDirCapacity"].rstrip(".")):
        assert re.search(r"\d (|[KMGTPE]i)B$", size)
