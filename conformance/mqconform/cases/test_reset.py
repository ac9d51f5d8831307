"""Resets: an administrator moves a group, and its members learn of it by their pulls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mqconform import requests
from mqconform.case import at_edges, case
from mqconform.connection import eventually
from mqconform.fastjson import loads
from mqconform.frame import Frame
from mqconform.records import parse_records
from mqconform.requests import Subscription
from mqconform.scene import Scene, done, fields

STORED = "test_a_message_is_stored_as_it_was_sent"
RESET = "test_a_reset_moves_a_group_to_an_offset[2]"
MESSAGES = 5
LONG, BATCH = 1_200, 200  # messages of a long queue, and of the batches that fill it
FAR = (2, 3, 33, LONG, 1 << 40)


def filled(scene: Scene, queues: int = 1) -> str:
    """A topic with some messages in its first queue."""
    topic = scene.topic(queues)
    for _ in range(MESSAGES - 1):
        done(scene.broker.call(requests.send(topic)))
    scene.send(topic)
    return topic


def filled_far(scene: Scene) -> str:
    """A topic whose queue is long."""
    topic = scene.topic()
    for _ in range(LONG // BATCH):
        done(scene.broker.call(requests.send_batch(topic, [b"x"] * BATCH)))
    assert eventually(lambda: scene.max_offset(topic) == LONG)
    return topic


def offsets(answer: Frame) -> Mapping[int, int]:
    """Where a group is moved to, by queue id, as the body of an answer or a notice says."""
    table: dict[str, int] = answer.json()["offsetTable"]
    queues: dict[str, Any] = {text: loads(text) for text in table}
    return {queues[text]["queueId"]: offset for text, offset in table.items()}


@case("OFFSET-017", party="broker", after=STORED)
@pytest.mark.parametrize("offset", [0, 2, MESSAGES, MESSAGES + 1])
def test_a_reset_moves_a_group_to_an_offset(scene: Scene, offset: int) -> None:
    topic, group = filled(scene), scene.group()
    request = requests.reset_offset(group, topic, queueId=0, offset=offset)
    assert offsets(done(scene.broker.call(request))) == {0: offset}
    assert scene.committed(group, topic) == offset


@case("OFFSET-017", party="broker", after=STORED)
@pytest.mark.parametrize("offset", [MESSAGES + 2, -5])
def test_a_reset_beyond_the_queue_is_refused(scene: Scene, offset: int) -> None:
    topic, group = filled(scene), scene.group()
    request = requests.reset_offset(group, topic, queueId=0, offset=offset)
    assert scene.broker.call(request).code == 1
    assert scene.committed(group, topic) is None


@case("OFFSET-017", party="broker", after=STORED)
@at_edges("OFFSET-017", "offset, in a queue of 1,200 messages")
def test_a_reset_in_a_long_queue(scene: Scene, value: int, *, fits: bool) -> None:
    topic, group = filled_far(scene), scene.group()
    answer = scene.broker.call(requests.reset_offset(group, topic, queueId=0, offset=value))
    assert answer.code == (0 if fits else 1)
    assert scene.committed(group, topic) == (value if fits else None)
    if fits:
        assert offsets(answer) == {0: value}
        assert fields(scene.broker.call(requests.pull(topic, group)), "nextBeginOffset") == (
            21, value,
        )  # fmt: skip


@case("OFFSET-017", party="broker", after=STORED)
def test_a_reset_moves_a_group_to_a_time(scene: Scene) -> None:
    topic, group = filled(scene, queues=2), scene.group()
    third = parse_records(scene.broker.call(requests.pull(topic, group, 2)).body)[0]
    for where, first in (
        ({"timestamp": -1}, MESSAGES),
        ({"timestamp": 0}, 0),
        ({"timestamp": third.store_timestamp + 3_600_000}, MESSAGES),
        ({"timestamp": -1, "offset": 2}, MESSAGES),
        ({"timestamp": 0, "queueId": -1, "offset": -1}, 0),
    ):
        request = requests.reset_offset(group, topic, **where)
        assert offsets(done(scene.broker.call(request))) == {0: first, 1: 0}
    request = requests.reset_offset(group, topic, timestamp=0, queueId=0, offset=-1)
    assert offsets(done(scene.broker.call(request))) == {0: 0}
    request = requests.reset_offset(group, topic, timestamp=third.store_timestamp)
    assert offsets(done(scene.broker.call(request)))[0] <= third.queue_offset


@case("OFFSET-017", party="broker", after=STORED)
@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        ("timestamp", {0: 0, 1: 0}),
        ("queueId", {0: MESSAGES, 1: 0}),
        ("offset", {1: 0}),
    ],
)
def test_a_reset_without_a_field(scene: Scene, left_out: str, expected: dict[int, int]) -> None:
    """Then it is to the first message, of all queues, and to a time."""
    topic, group = filled(scene, queues=2), scene.group()
    where = {"queueId": -1 if left_out == "timestamp" else 1, "offset": -1, "timestamp": -1}
    request = requests.reset_offset(group, topic, **where).without(left_out)
    assert offsets(done(scene.broker.call(request))) == expected


@case("OFFSET-017", party="broker", after=STORED)
def test_a_reset_moves_all_queues_however_many(scene: Scene) -> None:
    topic, group = filled(scene, queues=64), scene.group()
    request = requests.reset_offset(group, topic, timestamp=-1)
    expected = {0: MESSAGES} | dict.fromkeys(range(1, 64), 0)
    assert offsets(done(scene.broker.call(request))) == expected
    assert {q: scene.committed(group, topic, q) for q in expected} == expected


@case("OFFSET-017", party="broker")
def test_a_reset_of_nobody_or_nothing_is_refused(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    assert scene.broker.call(requests.reset_offset(group, scene.name("T"))).code == 17
    assert scene.broker.call(requests.reset_offset(scene.name("G"), topic)).code == 26


@case("OFFSET-018", "OFFSET-019", party="broker", after=RESET)
def test_one_pull_learns_of_a_reset(scene: Scene) -> None:
    topic, group = filled(scene), scene.group()
    done(scene.broker.call(requests.reset_offset(group, topic, queueId=0, offset=2)))
    for member in (scene.connect(), scene.connect()):
        done(member.call(requests.commit_offset(group, topic, 4)))
    assert scene.committed(group, topic) == 2
    pulled = scene.broker.call(requests.pull(topic, group, 4))
    assert fields(pulled, "nextBeginOffset", "minOffset", "maxOffset") == (21, 2, 0, MESSAGES)
    again = scene.broker.call(requests.pull(topic, group, 2))
    assert fields(again, "nextBeginOffset") == (0, MESSAGES)
    done(scene.broker.call(requests.commit_offset(group, topic, 4)))
    assert scene.committed(group, topic) == 4


@case("OFFSET-018", "OFFSET-019", party="broker", after=RESET)
@pytest.mark.parametrize("ahead", FAR)
def test_no_commit_undoes_a_reset_that_waits(scene: Scene, ahead: int) -> None:
    """However far the member is: it would go on there, and what was to come again never would."""
    topic, group = filled(scene), scene.group()
    done(scene.broker.call(requests.reset_offset(group, topic, queueId=0, offset=1)))
    done(scene.connect().call(requests.commit_offset(group, topic, 1 + ahead)))
    pulled = scene.broker.call(requests.pull(topic, group, 1 + ahead))
    assert fields(pulled, "nextBeginOffset") == (21, 1)
    assert scene.committed(group, topic) == 1


@case("OFFSET-019", party="broker", after=RESET)
@pytest.mark.parametrize("where", [MESSAGES, 0])
def test_a_pull_learns_of_a_reset_also_where_it_is_already(scene: Scene, where: int) -> None:
    """At the end, or in an empty queue: it would be held there."""
    topic, group = filled(scene, queues=2), scene.group()
    queue_id = 0 if where else 1
    done(scene.broker.call(requests.reset_offset(group, topic, queueId=queue_id, offset=where)))
    request = requests.pull(topic, group, where, queue_id, suspend_ms=60_000)
    assert fields(scene.broker.call(request), "nextBeginOffset") == (21, where)


@case("OFFSET-020", party="broker", after=RESET)
def test_a_commit_on_the_pull_that_learns_of_a_reset_undoes_it(scene: Scene) -> None:
    topic, group = filled(scene), scene.group()
    done(scene.broker.call(requests.reset_offset(group, topic, queueId=0, offset=2)))
    pulled = scene.broker.call(requests.pull(topic, group, 4, commit=3))
    assert fields(pulled, "nextBeginOffset") == (21, 2)
    assert scene.committed(group, topic) == 3


@case("OFFSET-057", party="broker", after=STORED)
def test_the_last_message_before_a_time(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    done(scene.broker.call(requests.send_batch(topic, [b"x"] * 3)))
    scene.send(topic, b"later")
    stored = [record.store_timestamp for record in scene.read_all(topic, group)]

    def found(time_ms: int, boundary: str) -> int:
        request = requests.search_offset(topic, time_ms).having(boundaryType=boundary)
        return done(scene.broker.call(request)).number("offset")

    for time_ms in (0, stored[0] - 1, stored[0], stored[3], stored[3] + 1, stored[3] + 100_000):
        before = [offset for offset, at in enumerate(stored) if at <= time_ms]
        since = [offset for offset, at in enumerate(stored) if at >= time_ms]
        for upper in ("upper", "UPPER"):
            assert found(time_ms, upper) == (before[-1] if before else 0)
        for lower in ("lower", "other"):
            assert found(time_ms, lower) == (since[0] if since else len(stored))


@case("OFFSET-061", party="broker", claims="brokers")
def test_members_are_not_told_to_reset_what_is_no_topic(scene: Scene) -> None:
    """On the last broker by name, which is told not to reset by itself."""
    broker, group, topic = scene.connect(scene.broker_names[-1]), scene.new_group(), scene.name("T")
    scene.set_options(broker, useServerSideResetOffset=False)
    done(broker.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic)])))
    assert broker.call(requests.reset_offset(group, topic, timestamp=-1)).code == 17


@case("OFFSET-021", party="broker", claims="brokers", after=STORED)
def test_members_are_told_to_reset_themselves(scene: Scene) -> None:
    """On the last broker by name, which is told not to reset by itself."""
    broker, member = (scene.connect(scene.broker_names[-1]) for _ in range(2))
    scene.set_options(broker, useServerSideResetOffset=False)
    topic, group = scene.name("T"), scene.new_group()
    done(broker.call(requests.create_topic(topic, 1, 1)))
    for _ in range(MESSAGES):
        done(broker.call(requests.send(topic)))
    assert eventually(lambda: scene.max_offset(topic, 0, broker) == MESSAGES)
    request = requests.reset_offset(group, topic, timestamp=-1)
    done(member.call(requests.heartbeat(scene.client("one"), group, [Subscription(topic)])))
    assert broker.call(request).code == 1
    done(broker.call(requests.commit_offset(group, topic, 2)))
    for is_force, told in ((False, 2), (True, MESSAGES)):
        answer = broker.call(request.having(isForce=is_force))
        assert offsets(done(answer)) == {0: told}
        while (notice := member.notice()).code == requests.NOTIFY_CONSUMER_IDS_CHANGED:
            pass
        assert notice.code == requests.RESET_CONSUMER_CLIENT_OFFSET
        assert (notice.fields["topic"], notice.fields["group"]) == (topic, group)
        assert offsets(notice) == {0: told}
    query = requests.query_offset(group, topic)
    assert fields(broker.call(query), "offset") == (0, 2)
    done(member.call(requests.unregister(scene.client("one"), group)))
    assert broker.call(request).code == 206
