"""Request-reply: what a consumer says to a message reaches the producer that waits for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import Connection, eventually
from mqconform.frame import Frame, frame, json_header
from mqconform.requests import Request
from mqconform.scene import Scene, done

PUSHED = "test_a_reply_is_pushed_to_the_requester[v2]"

SENT = {
    "CORRELATION_ID": "c",
    "MSG_TYPE": "reply",
    "TTL": "3000",
    "UNIQ_KEY": "7F000001000000000000000000000002",
    "WAIT": "true",
}


def reply(topic: str, client_id: str | None, *, v1: bool = False) -> Request:
    """SEND_REPLY_MESSAGE or SEND_REPLY_MESSAGE_V2."""
    properties = dict(SENT)
    if client_id is not None:
        properties["REPLY_TO_CLIENT"] = client_id
    sent = requests.send(topic, b"reply", properties=properties).having(h=7, g=1_700_000_000_000)
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
    assert properties(push).items() >= (SENT | {"REPLY_TO_CLIENT": client_id}).items()
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
    assert push.fields.items() >= expected.items()
    assert push.fields["storeTimestamp"].isdecimal()
    for name in ("bornHost", "storeHost"):
        assert push.fields[name].count(":") == 1
    done(scene.broker.answer(opaque))


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
