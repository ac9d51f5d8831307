"""Send-backs: where a message goes whose consumer failed on it, and when it comes again."""

from __future__ import annotations

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import eventually
from mqconform.records import Record, parse_records
from mqconform.requests import Request
from mqconform.scene import Scene, done, shows

STORED = "test_a_message_is_stored_as_it_was_sent"
AGAIN = "test_a_message_that_was_sent_back_comes_again"

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
ONE_SECOND, TEN_SECONDS = 1, 3  # levels of delay
WAITED_S = 15.0  # for what comes after a second
COMPRESSED = (1, 0x101, 0x201, 0x301)  # of a sysFlag: by an old client, LZ4, ZSTD, zlib
GROUP_MAXIMUM = 16  # retryMaxTimes of a group that says nothing of it


def failed(scene: Scene, group: str) -> Record:
    """A message that a consumer of the group pulled, and failed on."""
    topic = scene.topic()
    request = requests.send(topic, b"hard", properties={"KEYS": "k", "TAGS": "A"})
    done(scene.broker.call(request.having(h=7)))
    assert eventually(lambda: scene.max_offset(topic) == 1)
    (record,) = scene.read_all(topic, group)
    return record


def request_of(group: str, record: Record, level: int, maximum: int | None = None) -> Request:
    """The send-back of a message, which names the topic that it was first in."""
    topic = record.properties.get("RETRY_TOPIC", record.topic)
    return requests.send_back(group, topic, record.physical_offset, level, maximum)


def send_back(scene: Scene, group: str, record: Record, level: int = ONE_SECOND) -> None:
    done(scene.broker.call(request_of(group, record, level)))


def come_again(scene: Scene, group: str, count: int = 1) -> Record:
    """The last message of a group's retry topic, once so many have come there."""
    topic = f"%RETRY%{group}"
    assert eventually(lambda: scene.max_offset(topic) >= count)
    return scene.read_all(topic, group)[count - 1]


def is_dead(scene: Scene, group: str, count: int = 1) -> bool:
    """Whether so many messages lie in a group's dead-letter topic, and none waits elsewhere."""
    return scene.max_offset(f"%DLQ%{group}") == count and scene.max_offset(f"%RETRY%{group}") == 0


def waits(scene: Scene, group: str, level: int, begin: int) -> bool:
    """Whether a message waits for the group's retry topic, from an offset of a level's queue on."""
    request = requests.pull(SCHEDULE_TOPIC, group, begin, level - 1)
    found = parse_records(scene.broker.call(request).body)
    return any(record.properties["REAL_TOPIC"] == f"%RETRY%{group}" for record in found)


def send_to_retry(group: str, tries: int, maximum: int | None = None) -> Request:
    """What a consumer sends by itself where a send-back failed."""
    request = requests.send(f"%RETRY%{group}", b"again").having(j=tries)
    return request if maximum is None else request.having(l=maximum)


@case("RETRY-001", "RETRY-002", party="broker", after=STORED)
def test_a_message_that_was_sent_back_comes_again(scene: Scene) -> None:
    group = scene.group()
    before = failed(scene, group)
    send_back(scene, group, before)
    again = come_again(scene, group)
    assert again.store_timestamp >= before.store_timestamp + 1000
    assert (again.body, again.flag, again.born_timestamp) == (b"hard", 7, before.born_timestamp)
    assert again.reconsume_times == before.reconsume_times + 1 == 1
    kept = {name: before.properties[name] for name in ("KEYS", "TAGS", "UNIQ_KEY")}
    assert kept.items() <= again.properties.items()
    assert again.properties["RETRY_TOPIC"] == before.topic


@case("RETRY-001", party="broker", after=AGAIN)
@pytest.mark.parametrize("size", [64, 120])  # of 127 for a topic's name, which is %RETRY%GROUP
def test_a_group_with_a_long_name_gets_its_own_again(scene: Scene, size: int) -> None:
    """Two of them, whose names differ in the last character."""
    stem = scene.name("G").ljust(size - 1, "g")
    one, other = f"{stem}a", f"{stem}b"
    for group in (one, other):
        done(scene.broker.call(requests.create_group(group)))
    send_back(scene, one, failed(scene, one))
    assert come_again(scene, one).body == b"hard"
    assert scene.max_offset(f"%RETRY%{other}") == 0


@case("RETRY-002", party="broker", after=AGAIN)
def test_a_message_remembers_where_it_was_first(scene: Scene) -> None:
    group = scene.group()
    record = failed(scene, group)
    topic, first_id = record.topic, f"{record.store_host.hex()}{record.physical_offset:016x}"
    for tries in (1, 2):
        send_back(scene, group, record)
        record = come_again(scene, group, tries)
        assert record.reconsume_times == tries
        assert record.properties["RETRY_TOPIC"] == topic
        assert record.properties["ORIGIN_MESSAGE_ID"] == first_id.upper()


@case("RETRY-003", party="broker", after=AGAIN)
@pytest.mark.parametrize("tries", [0, 2])
def test_the_broker_delays_by_the_number_of_tries(scene: Scene, tries: int) -> None:
    group = scene.group()
    record = failed(scene, group)
    for again in range(tries):
        send_back(scene, group, record)
        record = come_again(scene, group, again + 1)
    level = TEN_SECONDS + tries
    begin = scene.max_offset(SCHEDULE_TOPIC, level - 1)
    send_back(scene, group, record, 0)
    assert eventually(lambda: waits(scene, group, level, begin))


@case("RETRY-003", party="broker", after=AGAIN)
@pytest.mark.parametrize("properties", [{"DELAY": "1"}, {"TIMER_DELAY_SEC": "1"}])
def test_a_message_that_waited_before_is_delayed_by_its_tries(
    scene: Scene, properties: dict[str, str]
) -> None:
    """Its producer asked for a delay, which has nothing to do with that of a retry."""
    topic, group = scene.topic(), scene.group()
    done(scene.broker.call(requests.send(topic, b"hard", properties=properties)))
    assert eventually(lambda: scene.max_offset(topic) == 1, WAITED_S)
    (record,) = scene.read_all(topic, group)
    begin = scene.max_offset(SCHEDULE_TOPIC, TEN_SECONDS - 1)
    send_back(scene, group, record, 0)
    assert eventually(lambda: waits(scene, group, TEN_SECONDS, begin))


@case("RETRY-003", party="broker", after=AGAIN)
@pytest.mark.parametrize("tries", [1, 5, 6, 13, 14, 15])
def test_each_try_has_its_level_up_to_the_last(scene: Scene, tries: int) -> None:
    """A message that says of itself how often it was tried, as a direct retry does."""
    topic, group = scene.topic(), scene.group()
    done(scene.broker.call(requests.send(topic, b"hard").having(j=tries)))
    assert eventually(lambda: scene.max_offset(topic) == 1)
    (record,) = scene.read_all(topic, group)
    assert record.reconsume_times == tries
    level = TEN_SECONDS + tries
    begin = scene.max_offset(SCHEDULE_TOPIC, level - 1)
    send_back(scene, group, record, 0)
    assert eventually(lambda: waits(scene, group, level, begin))


@case("RETRY-004", "RETRY-005", party="broker", after=STORED)
@pytest.mark.parametrize(("level", "maximum"), [(ONE_SECOND, 0), (-1, 3), (-1, None)])
def test_a_message_that_is_given_up_is_in_the_dead_letter_topic(
    scene: Scene, level: int, maximum: int | None
) -> None:
    group = scene.group()
    record = failed(scene, group)
    request = request_of(group, record, level, maximum)
    done(scene.broker.call(request))
    assert eventually(lambda: is_dead(scene, group))
    (dead,) = scene.read_all(f"%DLQ%{group}", group)
    assert (dead.body, dead.flag, dead.born_timestamp) == (b"hard", 7, record.born_timestamp)
    assert dead.reconsume_times == 1
    kept = {name: record.properties[name] for name in ("KEYS", "TAGS", "UNIQ_KEY")}
    shows(dead.properties, {**kept, "RETRY_TOPIC": record.topic})


@case("RETRY-001", "RETRY-005", party="broker", after=AGAIN)
@pytest.mark.parametrize("sys_flag", COMPRESSED, ids=hex)
@pytest.mark.parametrize(
    ("level", "to"), [(ONE_SECOND, "%RETRY%"), (-1, "%DLQ%")], ids=["again", "dead"]
)
def test_a_compressed_message_that_is_sent_back_is_still_one(
    scene: Scene, level: int, to: str, sys_flag: int
) -> None:
    """By its flag a consumer knows that it must be decompressed, and how; no broker does that."""
    topic, group = scene.topic(), scene.group()
    done(scene.broker.call(requests.send(topic, b"packed").having(f=sys_flag)))
    assert eventually(lambda: scene.max_offset(topic) == 1)
    (record,) = scene.read_all(topic, group)
    assert record.sys_flag == sys_flag
    done(scene.broker.call(request_of(group, record, level, GROUP_MAXIMUM)))
    assert eventually(lambda: scene.max_offset(f"{to}{group}") == 1)
    (kept,) = scene.read_all(f"{to}{group}", group)
    assert (kept.sys_flag, kept.body) == (sys_flag, b"packed")


@case("RETRY-004", party="broker", after=AGAIN)
def test_an_old_client_has_no_maximum_of_its_own(scene: Scene) -> None:
    group = scene.group()
    record = failed(scene, group)
    request = request_of(group, record, ONE_SECOND, 0)
    done(scene.broker.call(request, version=120))
    assert come_again(scene, group).reconsume_times == 1
    done(scene.broker.call(request, version=121))
    assert eventually(lambda: scene.max_offset(f"%DLQ%{group}") == 1)


@case("RETRY-004", party="broker", after=AGAIN)
def test_a_group_has_a_maximum_of_its_own(scene: Scene) -> None:
    group = scene.new_group()
    done(scene.broker.call(requests.create_group(group, retryMaxTimes=1)))
    record = failed(scene, group)
    send_back(scene, group, record)
    send_back(scene, group, come_again(scene, group))
    assert eventually(lambda: scene.max_offset(f"%DLQ%{group}") == 1)
    assert scene.max_offset(f"%RETRY%{group}") == 1


@case("RETRY-006", party="broker", after=STORED)
def test_a_group_without_retry_queues_loses_what_it_sends_back(scene: Scene) -> None:
    group = scene.new_group()
    done(scene.broker.call(requests.create_group(group, retryQueueNums=0)))
    record, topic = failed(scene, group), scene.topic()
    levels = (ONE_SECOND, TEN_SECONDS)
    begins = {level: scene.max_offset(SCHEDULE_TOPIC, level - 1) for level in levels}
    for level in (-1, 0, ONE_SECOND):
        send_back(scene, group, record, level)
    # What is sent now lies behind what was sent back.
    delayed = {level: requests.send(topic, properties={"DELAY": str(level)}) for level in levels}
    ends = {
        level: done(scene.broker.call(request)).number("queueOffset")
        for level, request in delayed.items()
    }
    assert eventually(
        lambda: all(scene.max_offset(SCHEDULE_TOPIC, level - 1) > ends[level] for level in levels)
    )
    assert not any(waits(scene, group, level, begins[level]) for level in levels)
    for name in (f"%DLQ%{group}", f"%RETRY%{group}"):
        assert scene.topic_config(name) is None
        assert scene.max_offset(name) == 0


@case("RETRY-007", party="broker", after=STORED)
@pytest.mark.parametrize("left_out", ["offset", "group", "delayLevel"])
def test_a_send_back_without_a_field(scene: Scene, left_out: str) -> None:
    group = scene.group()
    request = request_of(group, failed(scene, group), -1)
    assert scene.broker.call(request.without(left_out)).code == 1


@case("RETRY-007", party="broker", after=STORED)
def test_a_send_back_of_nothing(scene: Scene) -> None:
    group = scene.group()
    record = failed(scene, group)
    for offset in (1 << 40, -1, record.physical_offset + 3):
        request = requests.send_back(group, record.topic, offset, -1)
        assert scene.broker.call(request).code == 1


@case("RETRY-008", party="broker", after=STORED)
@pytest.mark.parametrize(
    ("tries", "maximum", "dead"),
    [(1, 3, 0), (3, 3, 0), (4, 3, 1), (GROUP_MAXIMUM, None, 0), (GROUP_MAXIMUM + 1, None, 1)],
)
def test_a_direct_retry_dies_beyond_the_maximum(
    scene: Scene, tries: int, maximum: int | None, dead: int
) -> None:
    group = scene.group()
    answer = done(scene.broker.call(send_to_retry(group, tries, maximum)))
    topic = f"%DLQ%{group}" if dead else f"%RETRY%{group}"
    position = int(answer.fields["msgId"][-16:], 16)
    (record,) = parse_records(done(scene.broker.call(requests.view_message(position))).body)
    assert record.topic == topic, "it waits elsewhere"
    with scene.apaches():  # how a dead message says that it does not wait
        assert record.properties.get("DELAY") == ("-1" if dead else None)
    assert eventually(lambda: scene.max_offset(topic) == 1)
    assert scene.max_offset(f"%DLQ%{group}") == dead


@case("RETRY-009", party="broker", after="test_a_lock_is_granted_to_one_member_at_a_time")
def test_a_direct_retry_dies_while_a_member_holds_a_lock(scene: Scene) -> None:
    group = scene.group()
    queue = (scene.topic(), scene.broker_names[0], 0)
    done(scene.broker.call(requests.lock(group, "one", queue)))
    done(scene.broker.call(send_to_retry(group, 1, 3)))
    assert eventually(lambda: is_dead(scene, group))
    done(scene.broker.call(requests.unlock(group, "one", queue)))
    done(scene.broker.call(send_to_retry(group, 1, 3)))
    assert come_again(scene, group).body == b"again"


@case("RETRY-010", party="broker", after=STORED)
def test_the_topics_of_a_group(scene: Scene) -> None:
    """A group that nobody used before, and one that was made with three retry queues: their
    topics come to be when they are needed."""
    record = failed(scene, scene.group())
    young, made = scene.new_group(), scene.new_group()
    done(scene.broker.call(requests.create_group(made, retryQueueNums=3)))
    for group, retry_queues in ((young, 1), (made, 3)):
        send_back(scene, group, record, -1)
        for topic, queues in ((f"%RETRY%{group}", retry_queues), (f"%DLQ%{group}", 1)):
            config = scene.topic_config(topic)
            assert config
            found = [config[name] for name in ("readQueueNums", "writeQueueNums", "perm")]
            assert found == [queues, queues, 6]
