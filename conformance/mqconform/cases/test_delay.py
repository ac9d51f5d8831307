"""Delay levels: where a delayed message waits, when it comes, and in which order."""

from __future__ import annotations

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import eventually
from mqconform.fastjson import loads
from mqconform.records import Record, parse_records
from mqconform.scene import Scene, done
from mqconform.stage import Restart

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DELIVERED = "test_a_delayed_message_comes_after_its_delay"
PERSISTED_S = 25.0  # delayOffset.json is written every 10 s


def send_delayed(scene: Scene, topic: str, level: object, body: bytes = b"late") -> int:
    """Send one with a level; the queue offset of the answer."""
    request = requests.send(topic, body, properties={"DELAY": str(level), "KEYS": "k"})
    answer = scene.broker.call(request.having(h=7, g=1_700_000_000_000))
    assert (answer.code, answer.fields["queueId"]) == (0, "0")
    return answer.number("queueOffset")


def waiting(scene: Scene, level: int, offset: int, topic: str) -> Record:
    """The message at an offset of a level's queue, which waits for `topic`."""
    group, queue_id = scene.group(), level - 1
    assert eventually(lambda: scene.max_offset(SCHEDULE_TOPIC, queue_id) > offset)
    request = requests.pull(SCHEDULE_TOPIC, group, offset, queue_id)
    (record, *_) = scene.pull(request)
    assert record.properties["REAL_TOPIC"] == topic
    return record


@case("DELAY-001", party="broker")
@pytest.mark.parametrize(("asked", "level"), [(3, 3), (18, 18), (19, 18), (1000, 18)])
def test_a_delayed_message_waits_in_the_queue_of_its_level(
    scene: Scene, asked: int, level: int
) -> None:
    topic = scene.topic()
    record = waiting(scene, level, send_delayed(scene, topic, asked), topic)
    assert (record.topic, record.queue_id, record.body) == (SCHEDULE_TOPIC, level - 1, b"late")
    assert record.properties["REAL_QID"] == "0"
    assert record.properties["DELAY"] == str(level)
    assert scene.max_offset(topic) == 0


@case("DELAY-002", "DELAY-003", "DELAY-006", party="broker")
def test_a_delayed_message_comes_after_its_delay(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    waits = waiting(scene, 1, send_delayed(scene, topic, 1), topic)
    assert eventually(lambda: scene.max_offset(topic) == 1)
    (record,) = scene.read_all(topic, group)
    assert record.store_timestamp >= waits.store_timestamp + 1000
    assert (record.body, record.flag, record.born_timestamp) == (b"late", 7, 1_700_000_000_000)
    assert record.properties == waits.properties
    assert record.properties.items() >= {"DELAY": "1", "REAL_TOPIC": topic, "KEYS": "k"}.items()


@case("DELAY-004", party="broker", after=DELIVERED)
def test_messages_of_a_level_come_in_their_order(scene: Scene) -> None:
    topics, group = [scene.topic(), scene.topic()], scene.group()
    for n in range(20):
        send_delayed(scene, topics[n % 2], 1, b"%d" % n)
    assert eventually(lambda: [scene.max_offset(topic) for topic in topics] == [10, 10])
    records = [record for topic in topics for record in scene.read_all(topic, group)]
    records.sort(key=lambda record: record.physical_offset)
    assert [int(record.body) for record in records] == list(range(20))


@case("DELAY-005", party="broker")
@pytest.mark.parametrize("level", [0, -1])
def test_a_level_that_is_none_delays_nothing(scene: Scene, level: int) -> None:
    topic = scene.topic()
    assert send_delayed(scene, topic, level) == 0
    assert eventually(lambda: scene.max_offset(topic) == 1)


@case("DELAY-005", party="broker")
@pytest.mark.parametrize("level", ["abc", " 1", "2147483648"])
def test_a_level_that_is_no_number_is_refused(scene: Scene, level: str) -> None:
    topic = scene.topic()
    assert scene.broker.call(requests.send(topic, properties={"DELAY": level})).code == 1
    scene.send(topic)
    assert scene.max_offset(topic) == 1


@case("DELAY-003", party="broker", claims="restart", after=DELIVERED)
def test_delayed_messages_survive_a_kill(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    for n in range(3):
        send_delayed(scene, topic, 2, b"%d" % n)
    scene.restart(Restart.KILL)
    assert eventually(lambda: scene.max_offset(topic) >= 3)
    assert {record.body for record in scene.read_all(topic, group)} == {b"0", b"1", b"2"}


@case("DELAY-007", party="broker", claims="restart store", after=DELIVERED)
def test_how_far_delivery_came_is_written(scene: Scene) -> None:
    topic = scene.topic()
    offset = send_delayed(scene, topic, 1)
    file = scene.store / "config" / "delayOffset.json"

    def written() -> bool:
        try:
            return bool(loads(file.read_bytes())["offsetTable"].get("1", 0) > offset)
        except (OSError, ValueError):
            return False

    assert eventually(written, PERSISTED_S)
    assert scene.max_offset(topic) == 1
    scene.restart(Restart.KILL)
    assert scene.max_offset(topic) == 1


@case("DELAY-009", party="broker")
@pytest.mark.parametrize("sys_flag", [4, 12])
@pytest.mark.parametrize("properties", [{"DELAY": "18"}, {"TIMER_DELAY_SEC": "3600"}])
def test_what_nobody_sees_does_not_wait(
    scene: Scene, sys_flag: int, properties: dict[str, str]
) -> None:
    topic = scene.topic()
    send = requests.send(topic, properties=properties).having(f=sys_flag)
    position = int(done(scene.broker.call(send)).fields["msgId"][-16:], 16)
    (record,) = parse_records(done(scene.broker.call(requests.view_message(position))).body)
    assert (record.topic, record.sys_flag) == (topic, sys_flag)
