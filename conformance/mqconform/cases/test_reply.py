"""Request-reply: what a consumer says to a message reaches the producer that waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import Connection, eventually
from mqconform.frame import Frame, frame, json_header
from mqconform.requests import Request
from mqconform.scene import Scene, done, shows

PUSHED = "test_a_reply_is_pushed_to_the_requester[v2]"

REQUESTERS = 70
SIZES = (1, 255, 256, 65_535, 65_536, 65_537, 1_048_577, 4_194_304)  # bytes; the last is the limit

SENT = {
    "CORRELATION_ID": "c",
    "MSG_TYPE": "reply",
    "TTL": "3000",
    "UNIQ_KEY": "7F000001000000000000000000000002",
    "WAIT": "true",
}


def reply(
    topic: str,
    client_id: str | None,
    *,
    v1: bool = False,
    body: bytes = b"reply",
    queue_id: int = 0,
    more: Mapping[str, str] | None = None,
) -> Request:
    """SEND_REPLY_MESSAGE or SEND_REPLY_MESSAGE_V2, with `more` properties."""
    properties = {**SENT, **(more or {})}
    if client_id is not None:
        properties["REPLY_TO_CLIENT"] = client_id
    sent = requests.send(topic, body, queue_id, properties).having(h=7, g=1_700_000_000_000)
    if v1:
        return replace(requests.send_v1(sent), code=requests.SEND_REPLY_MESSAGE)
    return replace(sent, code=requests.SEND_REPLY_MESSAGE_V2)


def stamped(client_id: str) -> dict[str, str]:
    """The properties of a reply, with what a broker adds."""
    return {**SENT, "REPLY_TO_CLIENT": client_id, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


def requester(scene: Scene) -> tuple[Connection, str]:
    """A producer that is connected, and its client id."""
    connection, client_id = scene.connect(), scene.name("C")
    done(connection.call(requests.producer_heartbeat(client_id, scene.name("P"))))
    return connection, client_id


def take(connection: Connection, code: int = 0) -> Frame:
    """The push, which is answered with a code."""
    push = connection.notice()
    assert (push.code, push.flag) == (requests.PUSH_REPLY_MESSAGE_TO_CLIENT, 0)
    connection.write(frame(json_header(code, {}, push.opaque, flag=1)))
    return push


def properties(push: Frame) -> dict[str, str]:
    return dict(word.split("\x01") for word in push.fields["properties"].split("\x02") if word)


@case("REPLY-001", party="broker")
@pytest.mark.parametrize("v1", [False, True], ids=["v2", "v1"])
def test_a_reply_is_pushed_to_the_requester(scene: Scene, v1: bool) -> None:
    connection, client_id = requester(scene)
    opaque = scene.broker.ask(reply(scene.topic(), client_id, v1=v1))
    push = take(connection)
    assert push.body == b"reply"
    shows(properties(push), SENT | {"REPLY_TO_CLIENT": client_id})
    assert done(scene.broker.answer(opaque)).fields["queueId"] == "0"


@case("REPLY-002", party="broker", after=PUSHED)
@pytest.mark.parametrize("v1", [False, True], ids=["v2", "v1"])
def test_what_a_pushed_reply_has(scene: Scene, v1: bool) -> None:
    topic = scene.topic()
    connection, client_id = requester(scene)
    opaque = scene.broker.ask(reply(topic, client_id, v1=v1))
    push = take(connection)
    words = properties(push)
    assert words.pop("PUSH_REPLY_TIME").isdecimal()
    assert words == stamped(client_id)
    expected = {
        "topic": topic,
        "producerGroup": "conformance",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": "1700000000000",
        "flag": "7",
        "reconsumeTimes": "0",
        "unitMode": "false",
    }
    shows(push.fields, expected)
    assert push.fields["storeTimestamp"].isdecimal()
    for name in ("bornHost", "storeHost"):
        assert push.fields[name].count(":") == 1
    done(scene.broker.answer(opaque))


@case("REPLY-001", "REPLY-003", party="broker", after=PUSHED)
@pytest.mark.parametrize("size", SIZES)
def test_a_reply_of_any_size_is_pushed_and_stored_whole(scene: Scene, size: int) -> None:
    topic = scene.topic()
    connection, client_id = requester(scene)
    body = (b"%08d" * (size // 8 + 1) % tuple(range(size // 8 + 1)))[:size]
    opaque = scene.broker.ask(reply(topic, client_id, body=body))
    pushed = take(connection).body
    assert len(pushed) == size, f"{len(pushed)} bytes are pushed of a reply of {size}"
    assert pushed == body, f"a reply of {size} bytes is pushed with others"
    done(scene.broker.answer(opaque))
    assert eventually(lambda: scene.max_offset(topic) == 1)
    (record,) = scene.read_all(topic, scene.group())
    assert record.body == body, f"{len(record.body)} bytes are stored of a reply of {size}"


@case("REPLY-001", party="broker", after=PUSHED)
@pytest.mark.parametrize("size", [1, 255, 256, 4096, 15_000])
def test_a_property_of_any_size_is_pushed_whole(scene: Scene, size: int) -> None:
    connection, client_id = requester(scene)
    words = {"mine": "ä" * size, "last": "of all"}
    opaque = scene.broker.ask(reply(scene.topic(), client_id, more=words))
    pushed = properties(take(connection))
    assert {name: pushed.get(name) for name in words} == words
    done(scene.broker.answer(opaque))


@case("REPLY-001", "REPLY-002", party="broker", after=PUSHED)
def test_many_requesters_get_their_own_replies(scene: Scene) -> None:
    """All are asked for at once, two of each, of queues from the first to the last."""
    topic = scene.topic(REQUESTERS)
    waiting = [requester(scene) for _ in range(REQUESTERS)]
    asked = []
    for n, (_, client_id) in enumerate(waiting):
        replier = scene.connect()
        for body in (b"first of %d" % n, b"second of %d" % n):
            asked.append((replier, replier.ask(reply(topic, client_id, body=body, queue_id=n))))
    # A broker pushes to a few at a time, and waits for what each says: all take theirs at once.
    with ThreadPoolExecutor(REQUESTERS) as pool:
        taken = list(pool.map(lambda each: [take(each[0]) for _ in range(2)], waiting))
    for n, ((_, client_id), pushes) in enumerate(zip(waiting, taken, strict=True)):
        assert {push.body for push in pushes} == {b"first of %d" % n, b"second of %d" % n}
        assert [push.fields["queueId"] for push in pushes] == [str(n)] * 2
        assert [properties(push)["REPLY_TO_CLIENT"] for push in pushes] == [client_id] * 2
    for replier, opaque in asked:
        done(replier.answer(opaque))


@case("REPLY-003", party="broker", after=PUSHED)
def test_a_reply_is_stored_as_it_was_sent(scene: Scene) -> None:
    topic = scene.topic()
    connection, client_id = requester(scene)
    for offset in range(2):
        opaque = scene.broker.ask(reply(topic, client_id))
        take(connection)
        answer = done(scene.broker.answer(opaque))
        assert answer.number("queueOffset") == offset
    assert eventually(lambda: scene.max_offset(topic) == 2)
    *_, record = scene.read_all(topic, scene.group())
    assert int(answer.fields["msgId"][-16:], 16) == record.physical_offset
    assert (record.body, record.flag, record.born_timestamp) == (b"reply", 7, 1_700_000_000_000)
    assert record.properties == stamped(client_id)


@case("REPLY-004", party="broker", after=PUSHED)
def test_a_reply_that_nobody_takes_fails_and_is_stored(scene: Scene) -> None:
    topic = scene.topic()
    assert scene.broker.call(reply(topic, None)).code == 1
    assert scene.broker.call(reply(topic, scene.name("C"))).code == 1
    connection, client_id = requester(scene)
    opaque = scene.broker.ask(reply(topic, client_id))
    take(connection, code=1)
    assert scene.broker.answer(opaque).code == 1
    assert eventually(lambda: scene.max_offset(topic) == 3)


@case("REPLY-005", party="broker", after=PUSHED)
def test_a_reply_is_checked_as_a_send(scene: Scene) -> None:
    connection, client_id = requester(scene)
    for topic, fields in (
        (scene.name("T"), {"c": "NoDefault"}),
        ("not allowed!", {}),
        (scene.topic(), {"e": 8}),
    ):
        refused = scene.broker.call(requests.send(topic).having(**fields)).code
        assert refused != 0
        assert scene.broker.call(reply(topic, client_id).having(**fields)).code == refused
    assert connection.is_quiet()


@case("REPLY-001", party="broker", after=PUSHED)
def test_of_several_requesters_one_gets_the_reply(scene: Scene) -> None:
    """Others were heard of later, with ids before and behind its own."""
    topic, prefix, group = scene.topic(), scene.name("C"), scene.name("P")
    waiting = {f"{prefix}-{letter}": scene.connect() for letter in "bac"}
    for client_id, connection in waiting.items():
        done(connection.call(requests.producer_heartbeat(client_id, group)))
    for client_id, connection in waiting.items():
        opaque = scene.broker.ask(reply(topic, client_id))
        assert take(connection).body == b"reply"
        done(scene.broker.answer(opaque))
    assert all(connection.is_quiet(within=0) for connection in waiting.values())
