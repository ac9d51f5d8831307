"""Timer messages: where a message waits for a time of its own, and when it comes."""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import replace
from struct import Struct

import pytest

from mqconform import requests
from mqconform.case import at_edges, case
from mqconform.connection import eventually
from mqconform.frame import Frame
from mqconform.records import Record
from mqconform.requests import Request
from mqconform.scene import Scene, done, shows
from mqconform.stage import Restart

TIMER_TOPIC = "rmq_sys_wheel_timer"
FAR_MS = 3_600_000
_PROGRESS = Struct(">q16xq")
RECALLED = "test_a_message_is_recalled"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def send_timed(
    scene: Scene, topic: str, properties: Mapping[str, object], queue_id: int = 0
) -> Frame:
    texts = {name: str(value) for name, value in properties.items()}
    request = requests.send(topic, b"timed", queue_id, {"UNIQ_KEY": scene.name("K"), **texts})
    return scene.broker.call(request.having(h=7, g=1_700_000_000_000))


def ends(scene: Scene, topic: str) -> list[int]:
    """How many messages the two queues of a topic have."""
    return [scene.max_offset(topic, queue_id) for queue_id in range(2)]


def waiting(scene: Scene, answer: Frame) -> Record:
    """The message of an answer, as it waits."""
    offset = done(answer).number("queueOffset")
    assert eventually(lambda: scene.max_offset(TIMER_TOPIC) > offset)
    (record, *_) = scene.pull(requests.pull(TIMER_TOPIC, scene.group(), offset))
    return record


def has_handle(answer: Frame, *expected: str) -> None:
    """Expect a handle of a topic, a broker, a time and a key in an answer."""
    words = urlsafe_b64decode(answer.fields["recallHandle"]).decode().split(" ")
    names = "version", "topic", "broker", "time", "key"
    shows(dict(zip(names, words, strict=True)), dict(zip(names, ("v1", *expected), strict=True)))


@case("TIMER-001", "TIMER-007", party="broker")
@pytest.mark.parametrize("past_the_second", [0, 1, 999])
def test_a_timer_message_waits_in_the_timer_topic(scene: Scene, past_the_second: int) -> None:
    topic = scene.topic(2)
    second = (now_ms() + FAR_MS) // 1000 * 1000
    answer = send_timed(scene, topic, {"TIMER_DELIVER_MS": second + past_the_second}, queue_id=1)
    record = waiting(scene, answer)
    slot = second if past_the_second else second - 1000
    assert (record.topic, record.queue_id, record.body) == (TIMER_TOPIC, 0, b"timed")
    expected = {"REAL_TOPIC": topic, "REAL_QID": "1", "TIMER_OUT_MS": str(slot)}
    shows(record.properties, expected)
    assert answer.fields["queueId"] == "1"
    key = record.properties["UNIQ_KEY"]
    has_handle(answer, topic, scene.broker_names[0], str(slot + 1), key)
    assert ends(scene, topic) == [0, 0]


@case("TIMER-007", party="broker")
def test_a_handle_believes_what_a_message_says_of_itself(scene: Scene) -> None:
    topic, key = scene.topic(), scene.name("K")
    own = {"UNIQ_KEY": key, "TIMER_OUT_MS": "1000", "REAL_TOPIC": "R"}
    answer = done(scene.broker.call(requests.send(topic, properties=own)))
    has_handle(answer, "R", scene.broker_names[0], "1001", key)
    assert eventually(lambda: scene.max_offset(topic) == 1)


@case("TIMER-007", party="broker")
def test_request_320_gets_no_handle(scene: Scene) -> None:
    properties = {"UNIQ_KEY": scene.name("K"), "TIMER_DELIVER_MS": str(now_ms() + FAR_MS)}
    request = requests.send(scene.topic(), b"timed", properties=properties)
    answer = scene.broker.call(replace(request, code=requests.SEND_BATCH_MESSAGE))
    assert waiting(scene, answer).body == b"timed"
    assert "recallHandle" not in answer.fields


@case("TIMER-002", party="broker")
@pytest.mark.parametrize(
    "properties", [{"TIMER_DELAY_SEC": 2}, {"TIMER_DELAY_MS": 1500}], ids=["seconds", "ms"]
)
def test_a_timer_message_comes_after_its_time(scene: Scene, properties: Mapping[str, int]) -> None:
    topic, group = scene.topic(2), scene.group()
    ((unit, number),) = properties.items()
    waits = waiting(scene, send_timed(scene, topic, properties, queue_id=1))
    assert eventually(lambda: ends(scene, topic) != [0, 0])
    assert ends(scene, topic) == [0, 1]
    (record,) = scene.read_all(topic, group, 1)
    asked = number * 1000 if unit == "TIMER_DELAY_SEC" else number
    assert record.store_timestamp >= waits.store_timestamp + asked - 1  # clocks are read apart
    assert (record.body, record.flag, record.born_timestamp) == (b"timed", 7, 1_700_000_000_000)
    assert record.properties["UNIQ_KEY"] == waits.properties["UNIQ_KEY"]
    with scene.apaches():  # what a broker needs to deliver it is its affair
        shows(record.properties, waits.properties)


@case("TIMER-014", party="broker", claims="exclusive")
def test_a_batch_waits(scene: Scene) -> None:
    # Last of all that waits for a time: 5.5.0 takes the batch, and its timer stands still at it.
    scene.restart(Restart.SETTLED)
    topic, group = scene.topic(), scene.group()
    batch = requests.send_batch(topic, [b"one", b"two"])
    asked = batch.having(i=requests.property_string({"TIMER_DELAY_MS": "1500"}))
    waits = waiting(scene, scene.broker.call(asked))
    assert (waits.topic, waits.properties["REAL_TOPIC"]) == (TIMER_TOPIC, topic)
    assert eventually(lambda: scene.max_offset(topic) == 2)
    for record in scene.read_all(topic, group):
        assert record.store_timestamp >= waits.store_timestamp + 1499  # clocks are read apart
    wrong = batch.having(i=requests.property_string({"TIMER_DELAY_MS": "soon"}))
    assert scene.broker.call(wrong).code == 13
    scene.send(topic)
    assert scene.max_offset(topic) == 3


@case("TIMER-003", party="broker")
@pytest.mark.parametrize(
    ("properties", "hours"),
    [
        ({"TIMER_DELAY_SEC": 7200, "TIMER_DELAY_MS": 1, "TIMER_DELIVER_MS": 1}, 2),
        ({"TIMER_DELAY_MS": FAR_MS, "TIMER_DELIVER_MS": 1}, 1),
    ],
)
def test_which_time_counts(scene: Scene, properties: Mapping[str, int], hours: int) -> None:
    before = now_ms()
    record = waiting(scene, send_timed(scene, scene.topic(), properties))
    out_ms = int(record.properties["TIMER_OUT_MS"])
    assert abs(out_ms - before - hours * FAR_MS) < 60_000


@case("TIMER-003", party="broker")
def test_a_level_counts_more_than_a_time(scene: Scene) -> None:
    topic = scene.topic()
    done(send_timed(scene, topic, {"TIMER_DELAY_SEC": 3600, "DELAY": 1}))
    assert eventually(lambda: scene.max_offset(topic) == 1)
    (record,) = scene.read_all(topic, scene.group())
    assert not {"TIMER_DELAY_SEC", "TIMER_OUT_MS"} & set(record.properties)


@case("TIMER-004", party="broker")
@pytest.mark.parametrize("properties", [{"TIMER_DELIVER_MS": 1}, {"TIMER_DELAY_SEC": -5}])
def test_a_time_that_is_past_delays_nothing(scene: Scene, properties: Mapping[str, int]) -> None:
    topic = scene.topic()
    assert done(send_timed(scene, topic, properties)).fields["queueOffset"] == "0"
    assert eventually(lambda: scene.max_offset(topic) == 1)


@case("TIMER-005", party="broker")
@at_edges("TIMER-005", "seconds to wait")
def test_how_long_a_message_may_wait(scene: Scene, value: int, fits: bool) -> None:
    topic = scene.topic()
    answer = send_timed(scene, topic, {"TIMER_DELAY_SEC": value})
    assert answer.code == (0 if fits else 13)
    if not fits:
        scene.worded(
            answer,
            "timer message illegal, the delay time should not be bigger than the max delay "
            "259200000ms; or if set del msg, the delay time should be bigger than the current time",
        )
    scene.send(topic)
    assert scene.max_offset(topic) == 1


@case("TIMER-005", party="broker")
@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_MS": "abc"},
        {"TIMER_DELIVER_MS": "soon"},
        {"TIMER_DELIVER_MS": 1, "TIMER_DEL_UNIQKEY": "k"},
    ],
)
def test_a_time_that_cannot_be_is_refused(scene: Scene, properties: Mapping[str, object]) -> None:
    topic = scene.topic()
    assert send_timed(scene, topic, properties).code == 13
    texts = {name: str(value) for name, value in properties.items()}
    half = requests.send_half(topic, scene.name("P"), properties=texts)
    assert scene.broker.call(half).code == 13
    scene.send(topic)
    assert scene.max_offset(topic) == 1


@case("TIMER-006", party="broker")
def test_a_message_that_waits_can_be_deleted(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    second = (now_ms() + 8000) // 1000 * 1000
    gone, _ = (
        waiting(scene, send_timed(scene, topic, {"TIMER_DELIVER_MS": second + 500}))
        for _ in range(2)
    )
    name = f"{topic}+{gone.properties['UNIQ_KEY']}"
    delete = {"TIMER_DELIVER_MS": second + 1, "TIMER_DEL_UNIQKEY": name}
    done(send_timed(scene, topic, delete))
    done(send_timed(scene, topic, {"TIMER_DELIVER_MS": second + 2000}))
    assert eventually(lambda: scene.max_offset(topic) >= 2)
    keys = [record.properties["UNIQ_KEY"] for record in scene.read_all(topic, group)]
    assert len(keys) == 2
    assert gone.properties["UNIQ_KEY"] not in keys


@case("TIMER-008", party="broker", claims="restart")
def test_timer_messages_survive_a_kill(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    keys = {scene.name("K"): seconds for seconds in (1, 6)}
    for key, seconds in keys.items():
        done(send_timed(scene, topic, {"UNIQ_KEY": key, "TIMER_DELAY_SEC": seconds}))
    scene.restart(Restart.KILL)
    assert eventually(lambda: scene.max_offset(topic) >= 2)
    found = {record.properties["UNIQ_KEY"] for record in scene.read_all(topic, group)}
    assert found == keys.keys()


def progress(scene: Scene) -> tuple[int, int]:
    """Of timer messages: the time at byte 0, ms, and the offset at byte 24; zeros before there
    is any."""
    file = scene.store / "config" / "timercheck"
    time_ms, taken = _PROGRESS.unpack_from(file.read_bytes()) if file.exists() else (0, 0)
    return time_ms, taken


@case("TIMER-012", party="broker", claims="store")
def test_progress_of_timer_messages_is_on_disk(scene: Scene) -> None:
    topic = scene.topic()
    waits = waiting(scene, send_timed(scene, topic, {"TIMER_DELAY_SEC": 4}))
    out_ms = int(waits.properties["TIMER_OUT_MS"])
    looks = 0

    def is_delivered() -> bool:
        nonlocal looks
        time_ms, taken = progress(scene)
        if scene.max_offset(topic) > 0:
            return True
        assert time_ms <= out_ms or taken <= waits.queue_offset
        looks += 1
        return False

    assert eventually(is_delivered)
    assert looks > 0
    assert eventually(
        lambda: progress(scene)[0] > out_ms and progress(scene)[1] > waits.queue_offset
    )


@case("TIMER-013", party="broker", claims="restart store")
def test_what_was_delivered_is_not_delivered_again_after_a_kill(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    first = waiting(scene, send_timed(scene, topic, {"TIMER_DELAY_SEC": 2}))
    out_ms = int(first.properties["TIMER_OUT_MS"])
    assert eventually(lambda: scene.max_offset(topic) == 1)
    assert eventually(lambda: progress(scene)[0] > out_ms)
    scene.restart(Restart.KILL)
    done(send_timed(scene, topic, {"TIMER_DELAY_SEC": 2}))
    assert eventually(lambda: scene.max_offset(topic) >= 2)
    keys = [record.properties["UNIQ_KEY"] for record in scene.read_all(topic, group)]
    assert keys.count(first.properties["UNIQ_KEY"]) == 1
    assert len(keys) == 2


def recall(topic: str, handle: str) -> Request:
    fields = {"producerGroup": "P", "topic": topic, "recallHandle": handle}
    return Request(requests.RECALL_MESSAGE, fields)


def handle_of(*words: object) -> str:
    return urlsafe_b64encode(" ".join(map(str, words)).encode()).decode()


def recalls(scene: Scene, broker_name: str, are_done: bool) -> Frame:
    """Have a broker recall messages or refuse that; its answer to a recall of a message that is
    nowhere.

    A broker may have the option and not show it: it is set where that answer asks for it.
    """
    broker, topic = scene.connect(broker_name), scene.name("T")
    done(broker.call(requests.create_topic(topic, 1, 1)))
    request = recall(topic, handle_of("v1", topic, broker_name, now_ms() + FAR_MS, "nobody"))
    answer = broker.call(request)
    if (answer.code != 16) is not are_done:
        scene.set_options(broker, recallMessageEnable=are_done)
        answer = broker.call(request)
    return answer


@case("TIMER-011", party="broker", claims="brokers")
def test_no_message_is_recalled_where_that_is_off(scene: Scene) -> None:
    """On the last broker by name, which is told so."""
    assert recalls(scene, scene.broker_names[-1], False).code == 16


@case("TIMER-009", party="broker")
def test_a_message_is_recalled(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    recalls(scene, scene.broker_names[0], True)
    second = (now_ms() + 8000) // 1000 * 1000
    gone, stays, last = (
        done(send_timed(scene, topic, {"TIMER_DELIVER_MS": second + ms})) for ms in (500, 500, 2000)
    )
    request = recall(topic, gone.fields["recallHandle"])
    key = urlsafe_b64decode(gone.fields["recallHandle"]).decode().split(" ")[-1]
    assert done(scene.broker.call(request)).fields["msgId"] == key
    assert eventually(lambda: scene.max_offset(topic) >= 2)
    keys = [record.properties["UNIQ_KEY"] for record in scene.read_all(topic, group)]
    others = (urlsafe_b64decode(one.fields["recallHandle"]).decode() for one in (stays, last))
    assert keys == [other.split(" ")[-1] for other in others]


@case("TIMER-010", party="broker", after=RECALLED)
def test_a_recall_is_a_message_itself(scene: Scene) -> None:
    recalls(scene, scene.broker_names[0], True)
    topic, second = scene.topic(), (now_ms() + FAR_MS) // 1000 * 1000
    before = scene.max_offset(TIMER_TOPIC)
    handle = handle_of("v1", topic, scene.broker_names[0], second + 1, "nobody")
    answer = done(scene.broker.call(recall(topic, handle)))
    assert answer.fields["msgId"] == "nobody"
    scene.worded(answer, "not set any response code")

    def found() -> list[Record]:
        group, end = scene.group(), scene.max_offset(TIMER_TOPIC)
        records = [
            record
            for offset in range(before, end)
            for record in scene.pull(requests.pull(TIMER_TOPIC, group, offset))[:1]
        ]
        return [record for record in records if record.properties["REAL_TOPIC"] == topic]

    assert eventually(lambda: bool(found()))
    (record,) = found()
    assert record.body == b"0"
    expected = {
        "TAGS": "_RECALL_TAG_",
        "UNIQ_KEY": "nobody",
        "TIMER_DEL_UNIQKEY": f"{topic}+nobody",
        "TIMER_DELIVER_MS": str(second + 1),
        "TIMER_OUT_MS": str(second),
        "PGROUP": "P",
    }
    shows(record.properties, expected)


@case("TIMER-011", party="broker", after=RECALLED)
def test_a_recall_that_cannot_be_is_refused(scene: Scene) -> None:
    recalls(scene, scene.broker_names[0], True)
    topic, broker, soon = scene.topic(), scene.broker_names[0], now_ms() + FAR_MS
    nowhere = scene.name("T")
    good = handle_of("v1", nowhere, broker, soon, "k")
    assert scene.broker.call(recall(nowhere, good)).code == 17
    for handle in (
        *("", "?", "bm8="),
        handle_of("v2", topic, broker, soon, "k"),
        handle_of("v1", topic, broker, soon),
        handle_of("v1", nowhere, broker, soon, "k"),
        handle_of("v1", topic, "another", soon, "k"),
        handle_of("v1", topic, broker, now_ms() - 1000, "k"),
        handle_of("v1", topic, broker, now_ms() + 345_600_000, "k"),
        handle_of("v1", topic, broker, "soon", "k"),
    ):
        assert scene.broker.call(recall(topic, handle)).code == 604, handle
