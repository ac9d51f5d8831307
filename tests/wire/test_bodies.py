"""Bodies: fastjson's dialect, the shared dataclasses, messages and batches."""

from __future__ import annotations

import json

import pytest
from golden_frames import CAPTURED, REQUESTS, RESPONSES
from hypothesis import given
from hypothesis import strategies as st

from mqspec.core.group import MessageModel
from mqspec.core.record import BatchMessage, decode_properties
from mqspec.core.route import TopicRouteData
from mqspec.core.types import MessageQueue
from mqspec.wire.bodies import (
    BodyError,
    ConsumerData,
    HeartbeatData,
    decode_batch,
    decode_messages,
    dumps,
    encode_batch,
    from_body,
    loads,
    to_body,
)
from mqspec.wire.codec import Decoder, RemotingCommand

QUEUE = MessageQueue("T", "broker-a", 3)

plain = st.recursive(
    st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def command(frame: str) -> RemotingCommand:
    (found,) = Decoder().feed(bytes.fromhex(frame))
    return found


@given(plain)
def test_standard_json_is_read_and_written(value: object) -> None:
    assert loads(dumps(value)) == value
    assert json.loads(dumps(value)) == value


@given(st.dictionaries(st.integers(), plain, min_size=1, max_size=3))
def test_integer_keys_stand_without_quotes(value: dict[int, object]) -> None:
    assert loads(dumps(value)) == {str(key): item for key, item in value.items()}
    assert json.loads(dumps(value, standard=True)) == loads(dumps(value))


def test_the_dialect_as_the_real_broker_writes_it() -> None:
    assert dumps({"offsetTable": {0: 2, 77: 4}}) == b'{"offsetTable":{0:2,77:4}}'
    text = dumps({QUEUE: {"minOffset": 0}, "gone": None})
    assert text == b'{{"brokerName":"broker-a","queueId":3,"topic":"T"}:{"minOffset":0}}'
    assert loads(text) == {QUEUE: {"minOffset": 0}}


@given(st.binary(max_size=60) | st.text(st.sampled_from('{}[]:,"0a'), max_size=30))
def test_soup_is_a_body_error_or_data(soup: bytes | str) -> None:
    data = soup.encode() if isinstance(soup, str) else soup
    try:
        value = loads(data)
    except BodyError:
        return
    try:
        from_body(TopicRouteData, data)
        from_body(HeartbeatData, data)
    except BodyError:
        assert value is not None or data


@pytest.mark.parametrize(
    "body", [b"", b"{", b"{1:2}x", b"{1}", b"[1 2]", b"{{}:1}", b"[" * 9999, b"{0:" * 9999]
)
def test_bad_bodies(body: bytes) -> None:
    with pytest.raises(BodyError):
        loads(body)


@pytest.mark.parametrize("version", ["version 479", "version 0 (unquoted integer key)"])
def test_the_route_as_the_real_nameserver_writes_it(version: str) -> None:
    body = command(RESPONSES[f"GET_ROUTEINFO_BY_TOPIC 105, {version}"]).body
    route = from_body(TopicRouteData, body)
    (queues,), (broker,) = route.queue_datas, route.broker_datas
    assert (queues.broker_name, queues.read_queue_nums, queues.perm) == ("broker-a", 1, 6)
    assert broker.broker_addrs == {0: "127.0.0.1:30811"}
    assert to_body(route, standard="479" in version) == body


def test_the_heartbeat_as_the_real_client_writes_it() -> None:
    body = command(CAPTURED["HEART_BEAT 34 by a consumer"]).body
    heartbeat = from_body(HeartbeatData, body)
    assert heartbeat.client_id is not None
    (consumer,) = heartbeat.consumer_data_set
    topics = {data.topic for data in consumer.subscription_data_set}
    assert topics == {"FrameTopic", f"%RETRY%{consumer.group_name}"}
    assert to_body(heartbeat) == body


def test_a_heartbeat_without_a_client_id_is_read() -> None:
    assert from_body(HeartbeatData, b'{"x":1}') == HeartbeatData()


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"withoutSub":"false"}', HeartbeatData()),
        ('{"withoutSub":"TRUE"}', HeartbeatData(without_sub=True)),
        ('{"withoutSub":1}', HeartbeatData(without_sub=True)),
        ('{"withoutSub":"","heartbeatFingerprint":""}', HeartbeatData()),
        ('{"heartbeatFingerprint":"7"}', HeartbeatData(heartbeat_fingerprint=7)),
        ('{"clientID":true}', HeartbeatData("true")),
        (
            '{"consumerDataSet":[{"groupName":"G","consumeType":"OF_LATER","messageModel":1}]}',
            HeartbeatData(
                consumer_data_set=(ConsumerData("G", message_model=MessageModel.CLUSTERING),)
            ),
        ),
        ('{"clientID":""}', HeartbeatData("")),
        ('{"clientID":{"a":[1]}}', HeartbeatData('{"a":[1]}')),
    ],
)
def test_values_of_another_type_are_read_as_fastjson_reads_them(
    given: str, read: HeartbeatData
) -> None:
    assert from_body(HeartbeatData, given.encode()) == read


@pytest.mark.parametrize("value", ['"abc"', "[]", "{}"])
def test_what_is_no_boolean_is_refused(value: str) -> None:
    with pytest.raises(BodyError, match="a boolean is expected"):
        from_body(HeartbeatData, f'{{"withoutSub":{value}}}'.encode())


def test_a_message_as_the_real_broker_stores_it() -> None:
    (record,) = decode_messages(command(RESPONSES["PULL 11 FOUND"]).body)
    assert (record.topic, record.body, record.queue_offset) == ("G", b"hi", 0)
    assert decode_properties(record.properties)["KEYS"] == "k"
    assert record.message_id == "7F0000010000785B000000000027FFD9"
    sent = command(REQUESTS["SEND_MESSAGE_V2 310"])
    assert decode_properties(sent.ext_fields["i"]).items() <= (
        decode_properties(record.properties).items()
    )


def test_a_damaged_message_is_a_body_error() -> None:
    body = bytearray(command(RESPONSES["PULL 11 FOUND"]).body)
    body[body.index(b"hi")] ^= 1
    with pytest.raises(BodyError, match="CRC"):
        decode_messages(bytes(body))
    with pytest.raises(BodyError, match="message 0 at byte 0"):
        decode_messages(bytes(body[:-1]))


def test_a_batch_as_the_real_client_writes_it() -> None:
    body = command(CAPTURED["SEND_BATCH 320 by the client"]).body
    messages = decode_batch(body)
    assert len(messages) > 1
    assert encode_batch(messages) == body


@given(st.binary(max_size=80))
def test_batch_soup_is_a_body_error_or_messages(soup: bytes) -> None:
    try:
        messages = decode_batch(soup)
    except BodyError:
        return
    assert decode_batch(encode_batch(messages)) == messages


def test_a_batch_survives() -> None:
    messages = [BatchMessage(b"a"), BatchMessage(b"", b"TAGS\x01A\x02", 7)]
    assert decode_batch(encode_batch(messages)) == messages
