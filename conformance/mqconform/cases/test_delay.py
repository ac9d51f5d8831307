"""Delay levels: where a delayed message waits, when it comes, and in which order."""

from __future__ import annotations

import struct

import pytest

from mqconform import requests
from mqconform.case import at_edges, case
from mqconform.cases import BUSY_S
from mqconform.connection import eventually
from mqconform.fastjson import loads
from mqconform.records import Record, parse_records
from mqconform.scene import Scene, done, shows
from mqconform.stage import Restart

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
DELIVERED = "test_a_delayed_message_comes_after_its_delay[1-1000]"
DELAY_S = 15.0  # for what comes after 5 s at most
PERSISTED_S = 10.0  # flushDelayOffsetInterval
SECOND_MS, MINUTE_MS, HOUR_MS = 1000, 60_000, 3_600_000
DELAYS_MS = (
    *(seconds * SECOND_MS for seconds in (1, 5, 10, 30)),
    *(minutes * MINUTE_MS for minutes in (*range(1, 11), 20, 30)),
    *(hours * HOUR_MS for hours in (1, 2)),
)
SIZES = (1, 255, 4_095, 4_096, 65_536, 1_048_577, 4_194_304)  # bytes; the last is the limit
SENT = {"KEYS": f"first {'k' * 5_000} last", "TAGS": "A"}
"""Properties: what waits is rewritten, whatever its size."""
_TAGS_CODE = struct.Struct(">12xq")  # of a ConsumeQueue unit


def send_delayed(
    scene: Scene, topic: str, level: object, body: bytes = b"late", queue_id: int = 0
) -> int:
    """Send one with a level; the queue offset of the answer."""
    request = requests.send(topic, body, queue_id, {**SENT, "DELAY": str(level)})
    answer = scene.broker.call(request.having(h=7, g=1_700_000_000_000))
    assert (answer.code, answer.fields["queueId"]) == (0, str(queue_id))
    return answer.number("queueOffset")


def ends(scene: Scene, topic: str) -> list[int]:
    """How many messages the two queues of a topic have."""
    return [scene.max_offset(topic, queue_id) for queue_id in range(2)]


def waiting(scene: Scene, level: int, offset: int, topic: str) -> Record:
    """The message at an offset of a level's queue, which waits for `topic`."""
    group, queue_id = scene.group(), level - 1
    assert eventually(lambda: scene.max_offset(SCHEDULE_TOPIC, queue_id) > offset)
    request = requests.pull(SCHEDULE_TOPIC, group, offset, queue_id)
    (record, *_) = scene.pull(request)
    assert record.properties["REAL_TOPIC"] == topic
    return record


@case("DELAY-001", party="broker")
@at_edges("DELAY-001", "level")
def test_a_delayed_message_waits_in_the_queue_of_its_level(
    scene: Scene, value: int, fits: bool
) -> None:
    topic, level = scene.topic(2), value if fits else 18
    record = waiting(scene, level, send_delayed(scene, topic, value, queue_id=1), topic)
    assert (record.topic, record.queue_id, record.body) == (SCHEDULE_TOPIC, level - 1, b"late")
    assert record.properties["REAL_QID"] == "1"
    assert record.properties["DELAY"] == str(level)
    assert ends(scene, topic) == [0, 0]


@case("DELAY-002", "DELAY-003", "DELAY-006", party="broker")
@pytest.mark.parametrize(("level", "delay_ms"), [(1, 1000), (2, 5000)])
def test_a_delayed_message_comes_after_its_delay(scene: Scene, level: int, delay_ms: int) -> None:
    topic, group = scene.topic(2), scene.group()
    waits = waiting(scene, level, send_delayed(scene, topic, level, queue_id=1), topic)
    assert eventually(lambda: ends(scene, topic) != [0, 0], DELAY_S)
    assert ends(scene, topic) == [0, 1]
    (record,) = scene.read_all(topic, group, 1)
    assert record.store_timestamp >= waits.store_timestamp + delay_ms
    assert (record.body, record.flag, record.born_timestamp) == (b"late", 7, 1_700_000_000_000)
    shows(record.properties, {**SENT, "UNIQ_KEY": waits.properties["UNIQ_KEY"]})
    with scene.apaches():  # what a broker needs to deliver it is its affair
        expected = {"DELAY": str(level), "REAL_TOPIC": topic, "REAL_QID": "1"}
        shows(record.properties, expected)
        assert record.properties == waits.properties


def due_ms(scene: Scene, level: int, offset: int) -> int:
    """When the message at an offset of a level's queue is due, as its ConsumeQueue unit says."""
    position = offset * _TAGS_CODE.size
    files = (scene.store / "consumequeue" / SCHEDULE_TOPIC / str(level - 1)).iterdir()
    first, file = max((int(it.name), it) for it in files if int(it.name) <= position)
    (tags_code,) = _TAGS_CODE.unpack_from(file.read_bytes(), position - first)
    return int(tags_code)


@case("DELAY-010", party="broker", claims="store", after=DELIVERED)
def test_how_long_each_level_waits(scene: Scene) -> None:
    topic = scene.topic()
    for level, delay_ms in enumerate(DELAYS_MS, 1):
        offset = send_delayed(scene, topic, level)
        stored_ms = waiting(scene, level, offset, topic).store_timestamp
        assert due_ms(scene, level, offset) - stored_ms == delay_ms, level


@case("DELAY-003", party="broker", after=DELIVERED)
def test_delayed_messages_of_any_size_come_whole(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    sent = {size: (b"%08d" % size) * (size // 8 + 1) for size in SIZES}
    for size, body in sent.items():
        send_delayed(scene, topic, 1, body[:size])
    assert eventually(lambda: scene.max_offset(topic) == len(sent))
    for record, (size, body) in zip(scene.read_all(topic, group), sent.items(), strict=True):
        assert len(record.body) == size, f"{len(record.body)} bytes come of {size}"
        assert record.body == body[:size], f"others come of {size} bytes"


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


@case("DELAY-011", party="broker")
@pytest.mark.parametrize("level", ["\uff11", "\u0661", "+1"])
def test_a_level_in_other_digits(scene: Scene, level: str) -> None:
    topic = scene.topic()
    waits = scene.broker.call(requests.send(topic, properties={"DELAY": level}))
    assert waits.code == 0
    assert eventually(lambda: scene.max_offset(topic) == 1, DELAY_S)


@case("DELAY-003", party="broker", claims="restart", after=DELIVERED)
def test_delayed_messages_survive_a_kill(scene: Scene) -> None:
    topic, group = scene.topic(2), scene.group()
    for n in range(3):
        send_delayed(scene, topic, 2, b"%d" % n, queue_id=1)
    scene.restart(Restart.KILL)
    assert eventually(lambda: scene.max_offset(topic, 1) >= 3)
    assert {record.body for record in scene.read_all(topic, group, 1)} == {b"0", b"1", b"2"}


def delivery_is_written(scene: Scene, topic: str) -> None:
    """Have one delivered; how far delivery came is on disk in time."""
    before = scene.max_offset(topic)
    offset = send_delayed(scene, topic, 1)
    file = scene.store / "config" / "delayOffset.json"

    def written() -> bool:
        try:
            return bool(loads(file.read_bytes())["offsetTable"].get("1", 0) > offset)
        except (OSError, ValueError):
            return False

    assert eventually(lambda: scene.max_offset(topic) == before + 1)
    assert eventually(written, PERSISTED_S + BUSY_S)


@case("DELAY-007", party="broker", claims="restart store", after=DELIVERED)
def test_how_far_delivery_came_is_written(scene: Scene) -> None:
    topic = scene.topic()
    delivery_is_written(scene, topic)
    delivery_is_written(scene, topic)  # soon after the file was: the next time is far
    scene.restart(Restart.KILL)
    assert scene.max_offset(topic) == 2


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
