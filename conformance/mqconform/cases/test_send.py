"""Sending: what is stored, where, and what is refused."""

from __future__ import annotations

import re
import struct
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pytest

from mqconform import requests
from mqconform.case import at_edges, case
from mqconform.connection import eventually
from mqconform.requests import Request
from mqconform.scene import Scene, done

STORED = "test_a_message_is_stored_as_it_was_sent"


@case("SEND-001", party="broker")
def test_a_message_is_stored_as_it_was_sent(scene: Scene) -> None:
    topic, group = scene.topic(queues=2), scene.group()
    properties = {"KEYS": "k1", "TAGS": "A", "colour": "dark \u00e9"}
    request = requests.send(topic, b"\x00body\xff", 1, properties).having(h=3, g=1_700_000_000_000)
    answer = scene.broker.call(request)
    assert answer.code == 0
    assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("1", "0")
    assert eventually(lambda: scene.max_offset(topic, 1) == 1)
    (record,) = scene.read_all(topic, group, 1)
    assert record.body == b"\x00body\xff"
    assert record.flag == 3
    assert record.born_timestamp == 1_700_000_000_000
    assert record.topic == topic
    assert record.queue_offset == 0
    assert properties.items() <= record.properties.items()


@case("SEND-001", party="broker", after=STORED)
@pytest.mark.parametrize("flag", [-(2**31), -1, 0, 255, 256, 65_535, 65_536, 2**31 - 1])
def test_any_flag_comes_as_it_was_sent(scene: Scene, flag: int) -> None:
    topic, group = scene.topic(), scene.group()
    done(scene.broker.call(requests.send(topic).having(h=flag)))
    scene.send(topic)
    assert [record.flag for record in scene.read_all(topic, group)] == [flag, 0]


@case("SEND-002", party="broker", after=STORED)
def test_queue_offsets_are_dense_in_each_queue(scene: Scene) -> None:
    topic, group = scene.topic(queues=3), scene.group()
    for queue_id in (0, 2, 0, 1, 0, 2, 2):
        scene.send(topic, queue_id=queue_id)
    offsets = [[r.queue_offset for r in scene.read_all(topic, group, q)] for q in range(3)]
    assert offsets == [[0, 1, 2], [0], [0, 1, 2]]


@case("SEND-002", party="broker", after=STORED)
def test_senders_side_by_side_share_a_queue(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    bodies = [[f"{sender}-{n}".encode() for n in range(25)] for sender in range(4)]
    answers: list[dict[bytes, int]] = [{} for _ in bodies]

    def work(sender: int) -> None:
        broker = scene.connect()
        for body in bodies[sender]:
            answer = broker.call(requests.send(topic, body))
            answers[sender][body] = answer.number("queueOffset")

    threads = [threading.Thread(target=work, args=(sender,)) for sender in range(len(bodies))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert eventually(lambda: scene.max_offset(topic) == 100)
    stored = {record.body: record.queue_offset for record in scene.read_all(topic, group)}
    assert stored == {body: offset for answer in answers for body, offset in answer.items()}
    assert sorted(stored.values()) == list(range(100))


@case("SEND-003", party="broker")
def test_both_forms_of_a_send_are_served(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    request = requests.send(topic, b"v1", properties={"KEYS": "k"})
    assert scene.broker.call(requests.send_v1(request)).fields["queueOffset"] == "0"
    assert scene.broker.call(request).fields["queueOffset"] == "1"
    assert eventually(lambda: scene.max_offset(topic) == 2)
    first, second = scene.read_all(topic, group)
    assert (first.body, first.key) == (second.body, second.key) == (b"v1", "k")


@case("SEND-004", party="broker", after=STORED)
def test_a_message_id_says_where_the_message_lies(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    message_id = scene.send(topic).fields["msgId"]
    (record,) = scene.read_all(topic, group)
    assert message_id == record.message_id


@case("SEND-005", party="broker")
def test_an_answer_to_a_send_names_the_region(scene: Scene) -> None:
    topic = scene.topic()
    stored, refused = requests.send(topic), requests.send(topic, queue_id=9)
    answers = [scene.broker.call(request) for request in (stored, refused)]
    assert [bool(answer.code) for answer in answers] == [False, True]
    for answer in answers:
        assert {"MSG_REGION", "TRACE_ON"} <= set(answer.fields)


@case("SEND-035", party="broker")
def test_an_answer_to_a_send_that_failed_names_no_region(scene: Scene) -> None:
    topic = scene.topic()
    no_number = {"DELAY": "abc"}
    batch = requests.send_batch(topic, [b"a"]).having(i=requests.property_string(no_number))
    send = requests.send(topic, properties=no_number)
    reply = replace(send, code=requests.SEND_REPLY_MESSAGE_V2)
    for failing in (send, batch, reply):
        answer = scene.broker.call(failing)
        assert (answer.code, answer.fields) == (1, {})


@case("SEND-006", party="broker")
def test_a_send_to_an_unknown_topic_is_refused(scene: Scene) -> None:
    request = requests.send(scene.name("T")).having(c=scene.name("D"))
    answer = scene.broker.call(request)
    assert answer.code == 17
    with scene.identical("the wording of the remark"):
        said = answer.remark or ""
        assert re.match(r"topic\[.*\] not exist, apply first please!", said)


@case("SEND-006", party="broker")
@pytest.mark.parametrize("topic", ["new", "%RETRY%new"])
@pytest.mark.parametrize("missing", ["c", "d"])
def test_only_a_topic_that_is_there_needs_no_template(
    scene: Scene, missing: str, topic: str
) -> None:
    known, new = scene.topic(), topic.replace("new", scene.name("T"))
    answers = [scene.broker.call(requests.send(t).without(missing)) for t in (known, new)]
    with scene.apaches():  # every client sends both; it throws where it reads the field first
        assert [answer.code for answer in answers] == [0, 1]


@case("SEND-007", party="broker", claims="topics-by-use")
@pytest.mark.parametrize("asked", [2, 16])
def test_a_send_creates_its_topic_from_the_default_topic(scene: Scene, asked: int) -> None:
    topic = scene.name("T")
    default = scene.topic_config(requests.DEFAULT_TOPIC)
    assert scene.broker.call(requests.send(topic).having(d=asked)).code == 0
    config = scene.topic_config(topic)
    assert default
    assert config
    queues = min(asked, default["writeQueueNums"])
    assert (config["readQueueNums"], config["writeQueueNums"]) == (queues, queues)
    assert config["perm"] == default["perm"] & ~1


@case("SEND-008", party="broker")
@pytest.mark.parametrize("topic", ["", "bad topic!", "t.t"])
def test_a_topic_name_that_is_not_allowed_is_refused(scene: Scene, topic: str) -> None:
    assert scene.broker.call(requests.send(topic)).code == 29
    assert scene.broker.call(requests.send_batch(topic, [b"one", b"two"])).code == 29


@case("SEND-042", party="broker", claims="groups-by-use")
@at_edges("SEND-042", "characters of the topic")
def test_how_long_the_name_of_a_retry_topic_may_be(scene: Scene, value: int, fits: bool) -> None:
    topic = f"%RETRY%{scene.name('G')}".ljust(value, "g")
    assert scene.broker.call(requests.send(topic)).code == (0 if fits else 29)


@case("SEND-008", party="broker", claims="topics-by-use")
@at_edges("SEND-008", "characters of the topic")
def test_how_long_the_name_of_a_topic_may_be(scene: Scene, value: int, fits: bool) -> None:
    topic = scene.name("T").ljust(value, "x")
    assert scene.broker.call(requests.send(topic)).code == (0 if fits else 29)


@case("SEND-009", party="broker")
@pytest.mark.parametrize("topic", ["SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_a_topic_of_the_system_takes_no_messages(scene: Scene, topic: str) -> None:
    assert scene.broker.call(requests.send(topic)).code == 16


@case("SEND-010", party="broker")
@pytest.mark.parametrize(
    ("read", "write", "queue_id", "code"),
    [(4, 4, 3, 0), (4, 4, 4, 29), (8, 2, 5, 0), (8, 2, 8, 29), (2, 8, 7, 0), (2, 8, 8, 29)],
)
def test_a_queue_id_is_checked_against_the_greater_number_of_queues(
    scene: Scene, read: int, write: int, queue_id: int, code: int
) -> None:
    topic = scene.topic(read, write=write)
    assert scene.broker.call(requests.send(topic, queue_id=queue_id)).code == code


@case("SEND-010", party="broker")
def test_a_negative_queue_id_lets_the_broker_choose(scene: Scene) -> None:
    topic = scene.topic(8, write=2)
    answers = [scene.broker.call(requests.send(topic, queue_id=-1)) for _ in range(20)]
    assert {answer.number("queueId") for answer in answers} <= {0, 1}


@case("SEND-011", party="broker")
@pytest.mark.parametrize("perm", [4, 0])
def test_the_permission_to_write_is_not_checked(scene: Scene, perm: int) -> None:
    assert scene.broker.call(requests.send(scene.topic(perm=perm))).code == 0


@case("SEND-012", party="broker")
@pytest.mark.parametrize("properties", [32_767, 40_000])
def test_properties_that_are_too_long_are_refused(scene: Scene, properties: int) -> None:
    topic = scene.topic()
    request = requests.send(topic, properties={"k": "v" * properties})
    assert scene.broker.call(request).code == 13
    scene.send(topic)
    assert scene.max_offset(topic) == 1


@case("SEND-012", party="broker")
@at_edges("SEND-012", "bytes of the body")
def test_how_large_a_message_may_be(scene: Scene, value: int, fits: bool) -> None:
    topic = scene.topic()
    for _ in range(2):  # what comes again may be served another way
        request = requests.send(topic, b"x" * value)
        assert scene.broker.call(request).code == (0 if fits else 13)
    scene.send(topic)
    assert scene.max_offset(topic) == (3 if fits else 1)


@case("SEND-012", party="broker")
def test_properties_may_be_long(scene: Scene) -> None:
    request = requests.send(scene.topic(), properties={"k": "v" * 32_000})
    assert scene.broker.call(request).code == 0


@case("SEND-013", party="broker", after=STORED)
def test_a_batch_is_stored_as_its_messages(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    scene.send(topic, b"before")
    answer = scene.broker.call(requests.send_batch(topic, [b"one", b"two", b"three"]))
    assert (answer.code, answer.fields["queueOffset"]) == (0, "1")
    assert eventually(lambda: scene.max_offset(topic) == 4)
    records = scene.read_all(topic, group)
    assert [r.body for r in records] == [b"before", b"one", b"two", b"three"]
    assert answer.fields["msgId"] == ",".join(r.message_id for r in records[1:])


@case("SEND-013", party="broker", after="test_a_batch_is_stored_as_its_messages")
@pytest.mark.parametrize("count", [1, 2, 32, 100, 101, 256, 1000])
def test_a_batch_of_any_number_is_stored_whole(scene: Scene, count: int) -> None:
    topic, group = scene.topic(), scene.group()
    sent = [b"%d" % number for number in range(count)]
    answer = scene.broker.call(requests.send_batch(topic, sent))
    assert (answer.code, answer.fields["queueOffset"]) == (0, "0")
    assert eventually(lambda: scene.max_offset(topic) == count)
    records = scene.read_all(topic, group)
    assert [record.body for record in records] == sent
    assert answer.fields["msgId"] == ",".join(record.message_id for record in records)


@case("SEND-001", "SEND-013", party="broker", after="test_a_batch_is_stored_as_its_messages")
@pytest.mark.parametrize(
    "flags",
    [[7, 8], [0, 7, 0], [-1, 0, 255, 256, 65_536, 2**31 - 1, -(2**31)], [*range(33)]],
    ids=len,
)
def test_each_message_of_a_batch_has_its_own_flag_and_properties(
    scene: Scene, flags: list[int]
) -> None:
    topic = scene.topic()
    sent = [(flag, {"KEYS": f"k{n}", "TAGS": f"t{n % 3}"}) for n, flag in enumerate(flags)]
    own = [properties for _, properties in sent]
    done(scene.broker.call(requests.send_batch(topic, [b"x"] * len(flags), 0, own, flags=flags)))
    assert eventually(lambda: scene.max_offset(topic) == len(flags))
    records = scene.read_all(topic, scene.group())
    found = [(each.flag, {name: each.properties.get(name) for name in own[0]}) for each in records]
    assert found == sent


@case("SEND-036", party="broker", after=STORED)
@pytest.mark.parametrize(("filter_type", "flag"), [("SINGLE_TAG", 0), ("MULTI_TAG", 2)])
def test_a_message_says_that_its_topic_is_of_several_tags(
    scene: Scene, filter_type: str, flag: int
) -> None:
    topic = scene.name("T")
    created = requests.create_topic(topic, 1, 1).having(topicFilterType=filter_type)
    assert scene.broker.call(created).code == 0
    assert scene.broker.call(requests.send_batch(topic, [b"one", b"two"])).code == 0
    scene.send(topic)
    records = scene.read_all(topic, scene.group())
    assert [record.sys_flag for record in records] == [flag] * 3


@case("SEND-037", party="broker", after=STORED)
def test_a_compacted_topic_wants_keys(scene: Scene) -> None:
    topic = scene.name("T")
    compacted = requests.create_topic(topic, 1, 1).having(attributes="+cleanup.policy=COMPACTION")
    assert scene.broker.call(compacted).code == 0
    for properties in ({}, {"KEYS": " "}):
        answer = scene.broker.call(requests.send(topic, properties=properties))
        assert answer.code == 13
        scene.worded(answer, "Required message key is missing")
    assert scene.broker.call(requests.send(topic, properties={"KEYS": "k"})).code == 0
    assert scene.broker.call(requests.send_batch(topic, [b"one", b"two"])).code == 0


def batch_of(topic: str, own: Sequence[bytes], lengths: Sequence[int]) -> Request:
    """A batch of messages with body x that say to have these lengths; `own`: their properties."""
    inner = b"".join(
        struct.pack(">iiiii", length, 0, 0, 0, 1) + b"x" + struct.pack(">h", len(each)) + each
        for length, each in zip(lengths, own, strict=True)
    )
    return replace(requests.send_batch(topic, []), body=inner)


@case("SEND-038", party="broker", after=STORED)
def test_what_a_message_of_a_batch_says_of_its_length_does_not_count(scene: Scene) -> None:
    topic = scene.topic()
    done(scene.broker.call(batch_of(topic, [b""] * 3, (0, -5, 1000))))
    assert eventually(lambda: scene.max_offset(topic) == 3)
    assert [record.body for record in scene.read_all(topic, scene.group())] == [b"x"] * 3


@case("SEND-040", party="broker", after=STORED)
def test_how_the_messages_of_a_batch_are_put_together(scene: Scene) -> None:
    topic = scene.topic()
    own = (b"", b"A\x01b", b"A\x01b\x02")
    lengths = [4 * 5 + 1 + 2 + len(each) for each in own]
    done(scene.broker.call(batch_of(topic, own, lengths)))
    assert eventually(lambda: scene.max_offset(topic) == len(own))
    first, second, third = (record.size for record in scene.read_all(topic, scene.group()))
    assert (second - first, third - second) == (len(own[2]), 0)


@case("SEND-014", party="broker", after=STORED)
@pytest.mark.parametrize(("code", "batch", "stored"), [(310, True, 2), (320, False, 1)])
def test_the_field_and_not_the_code_makes_a_batch(
    scene: Scene, code: int, batch: bool, stored: int
) -> None:
    topic = scene.topic()
    request = requests.send_batch(topic, [b"one", b"two"]).having(m=batch)
    answer = scene.broker.call(Request(code, request.fields, request.body))
    assert answer.code == 0
    assert eventually(lambda: scene.max_offset(topic) == stored)
    scene.send(topic)
    assert scene.max_offset(topic) == stored + 1


@case("SEND-015", party="broker")
@pytest.mark.parametrize(
    ("left_out", "code"),
    [("b", 1), ("e", 1), ("f", 1), ("g", 1), ("h", 1), ("a", 0), ("c", 0), ("i", 0), ("j", 0)],
)
def test_a_send_without_a_field(scene: Scene, left_out: str, code: int) -> None:
    request = requests.send(scene.topic()).without(left_out)
    assert scene.broker.call(request).code == code


@case("SEND-015", party="broker")
def test_a_send_with_a_number_that_is_none_or_without_a_body(scene: Scene) -> None:
    topic = scene.topic()
    assert scene.broker.call(requests.send(topic).having(e="abc")).code == 1
    assert scene.broker.call(requests.send(topic, b"")).code == 1


@case("SEND-016", party="broker", claims="groups-by-use")
def test_a_send_to_a_retry_topic_creates_it(scene: Scene) -> None:
    topic = f"%RETRY%{scene.name('G')}"
    assert scene.broker.call(requests.send(topic).having(c=scene.name("D"))).code == 0
    config = scene.topic_config(topic)
    assert config
    assert (config["readQueueNums"], config["writeQueueNums"]) == (1, 1)


@case("SEND-017", party="broker", after=STORED)
def test_a_batch_takes_plain_messages_only(scene: Scene) -> None:
    topic = scene.topic()
    batch = requests.send_batch(topic, [b"one", b"two"])
    refused = [
        batch.having(i=requests.property_string({"DELAY": "3"})),
        batch.having(f=4),
        batch.having(f=12),
    ]
    assert [scene.broker.call(request).code for request in refused] == [13] * len(refused)
    scene.send(topic)
    assert scene.max_offset(topic) == 1


@case("SEND-041", party="broker", after=STORED)
def test_a_batch_to_a_retry_topic_is_refused(scene: Scene) -> None:
    topic = f"%RETRY%{scene.group()}"
    assert scene.broker.call(requests.send_batch(topic, [b"one", b"two"])).code == 13
    scene.send(topic)
    assert scene.max_offset(topic) == 1


@case("SEND-018", party="broker", after=STORED)
@pytest.mark.parametrize(
    ("inner", "beside"),
    [
        ({"DELAY": "3"}, {}),
        ({"TIMER_DELAY_SEC": "60"}, {}),
        ({"REAL_TOPIC": "elsewhere"}, {}),
        ({"TRAN_MSG": "true", "PGROUP": "p"}, {}),
        ({}, {"TRAN_MSG": "true", "PGROUP": "p"}),
    ],
    ids=["delay", "timer", "real_topic", "half", "half_beside"],
)
def test_what_is_in_a_batch_does_not_wait(
    scene: Scene, inner: dict[str, str], beside: dict[str, str]
) -> None:
    topic = scene.topic()
    request = requests.send_batch(topic, [b"one", b"two"], properties=inner)
    request = request.having(i=requests.property_string(beside))
    assert scene.broker.call(request).code == 0
    assert eventually(lambda: scene.max_offset(topic) == 2)


@case("SEND-019", party="broker", after=STORED)
@pytest.mark.parametrize(
    "body",
    [b"\x00\x00\x00\x10garbage", b"\xff" * 40, b"\x00" * 3],
    ids=["short", "negative", "torn"],
)
def test_a_batch_that_cannot_be_read_is_refused(scene: Scene, body: bytes) -> None:
    topic = scene.topic()
    request = requests.send_batch(topic, [b"one"])
    with scene.apaches():  # no client sends it
        assert scene.broker.call(replace(request, body=body)).code == 1
        assert scene.broker.call(replace(request, body=request.body + body)).code == 1
    scene.send(topic)
    assert scene.max_offset(topic) == 1


@case("SEND-020", party="broker", after=STORED)
@at_edges("SEND-020", "bytes of the batch")
def test_a_batch_has_the_size_of_a_message_at_most(scene: Scene, value: int, fits: bool) -> None:
    topic = scene.topic()
    beside = len(requests.send_batch(topic, [b"", b""]).body)
    request = requests.send_batch(topic, [b"x" * 1000, b"x" * (value - beside - 1000)])
    assert len(request.body) == value
    assert (scene.broker.call(request).code == 0) is fits
    scene.send(topic)
    assert scene.max_offset(topic) == (3 if fits else 1)


@case("SEND-043", party="broker")
def test_how_a_batch_is_refused_that_is_too_long(scene: Scene) -> None:
    bodies = [b"x" * 1_048_576] * 5
    assert scene.broker.call(requests.send_batch(scene.topic(), bodies)).code == 1


@case("SEND-021", party="broker", after=STORED)
def test_a_one_way_send_is_stored_and_not_answered(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    opaques = []

    def stored_behind(offset: int) -> bool:
        return scene.max_offset(topic) > offset

    for n in range(5):
        # A busy broker drops one without a word: then it is sent again.
        while not stored_behind(n):
            opaques.append(scene.broker.ask(requests.send(topic, b"%d" % n), one_way=True))
            eventually(partial(stored_behind, n), within=2)
            assert len(opaques) <= 10
    refused = scene.broker.ask(requests.send(topic, queue_id=9), one_way=True)
    assert {r.body for r in scene.read_all(topic, group)} == {b"%d" % n for n in range(5)}
    for opaque in (*opaques, refused):
        assert scene.broker.is_quiet(opaque, within=0.05)


@case("SEND-033", party="broker")
@pytest.mark.parametrize(
    ("sys_flag", "properties"), [(128, {}), (128, {"INNER_NUM": "1"}), (0, {"INNER_NUM": "1"})]
)
def test_an_inner_batch_is_refused(scene: Scene, sys_flag: int, properties: dict[str, str]) -> None:
    topic = scene.topic()
    request = requests.send(topic, properties=properties).having(f=sys_flag)
    assert scene.broker.call(request).code == 13
    if properties:
        beside = requests.send_batch(topic, [b"x"]).having(i=request.fields["i"], f=sys_flag)
        assert scene.broker.call(beside).code == 13
    scene.send(topic)
    assert scene.max_offset(topic) == 1


# Properties, and entries without a name, without a value and without a sign between them.
WITH_WHAT_IS_NONE = "A\x02B\x01\x02\x01C\x02\x02KEYS\x011\x02KEYS\x012\x013"


@case("SEND-034", party="broker")
def test_what_is_no_property_is_not_stored(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    done(scene.broker.call(requests.send(topic).having(i=WITH_WHAT_IS_NONE)))
    scene.send(topic)
    record, _ = scene.read_all(topic, group)
    assert not {"", "A", "B"} & record.properties.keys()
    assert record.properties["KEYS"] == "2\x013"


@case("SEND-040", party="broker")
def test_what_is_no_property_is_not_stored_with_a_batch(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    done(scene.broker.call(requests.send_batch(topic, [b"x"]).having(i=WITH_WHAT_IS_NONE)))
    scene.send(topic)
    record, _ = scene.read_all(topic, group)
    assert not {"", "A", "B"} & record.properties.keys()
    assert record.properties["KEYS"] == "2\x013"
