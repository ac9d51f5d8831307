"""Frames: those of the real peers, any of ours, and hostile ones."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from golden_frames import CAPTURED, REQUESTS, RESPONSES
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqspec.wire import codec
from mqspec.wire.codec import (
    FRAME_BYTES_MAX,
    Decoder,
    Flag,
    FrameError,
    Language,
    RemotingCommand,
    Serializer,
    encode,
    encode_into,
)

i16 = st.integers(-(2**15), 2**15 - 1)
i32 = st.integers(-(2**31), 2**31 - 1)
names = st.text(min_size=1, max_size=20)
commands = st.builds(
    RemotingCommand,
    code=i16,
    ext_fields=st.dictionaries(names, names, max_size=5),
    body=st.binary(max_size=100),
    flag=i32,
    opaque=i32,
    language=st.sampled_from(Language),
    version=i16,
    remark=st.none() | names,
    serializer=st.sampled_from(Serializer),
)


def decode(data: bytes) -> list[RemotingCommand]:
    return list(Decoder().feed(data))


def json_frame(header: str, body: bytes = b"") -> bytes:
    data = header.encode()
    return (
        (4 + len(data) + len(body)).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data + body
    )


@given(st.lists(commands, max_size=4), st.data())
def test_commands_survive_however_their_bytes_arrive(
    sent: list[RemotingCommand], data: st.DataObject
) -> None:
    stream = b"".join(map(encode, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    decoder = Decoder()
    received = [
        command
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for command in decoder.feed(stream[start:end])
    ]
    assert received == sent
    assert not decoder.torn


@given(st.binary(max_size=200))
def test_byte_soup_is_a_frame_error_or_commands(soup: bytes) -> None:
    with suppress(FrameError):
        decode(soup)


@given(st.sampled_from([0, 1]), st.binary(min_size=1, max_size=100), st.binary(max_size=20))
def test_soup_in_a_good_envelope_is_a_frame_error_or_a_command(
    kind: int, header: bytes, body: bytes
) -> None:
    length = (4 + len(header) + len(body)).to_bytes(4, "big")
    try:
        (command,) = decode(length + (kind << 24 | len(header)).to_bytes(4, "big") + header + body)
    except FrameError:
        return
    assert command.body == body


@given(commands, st.data())
def test_one_damaged_byte_is_a_frame_error_or_commands(
    command: RemotingCommand, data: st.DataObject
) -> None:
    frame = bytearray(encode(command))
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(FrameError):
        decode(bytes(frame))


@pytest.mark.parametrize("frame", [*REQUESTS.values(), *RESPONSES.values(), *CAPTURED.values()])
def test_golden_frames_keep_their_meaning(frame: str) -> None:
    (command,) = decode(bytes.fromhex(frame))
    assert decode(encode(command)) == [command]


@pytest.mark.parametrize("name", RESPONSES)
def test_golden_responses_are_written_byte_for_byte(name: str) -> None:
    frame = bytes.fromhex(RESPONSES[name])
    (command,) = decode(frame)
    # Whether a header without fields says so makes no difference to any reader.
    header_end = 8 + int.from_bytes(frame[5:8], "big")
    expected = frame[8:header_end].replace(b'"extFields":{},', b"")
    again = encode(command)
    assert again[8 : 8 + len(expected)] == expected
    assert again[8 + len(expected) :] == frame[header_end:]


@pytest.mark.parametrize("name", [name for name in CAPTURED if "binary" in name])
def test_binary_frames_are_written_byte_for_byte(name: str) -> None:
    frame = bytes.fromhex(CAPTURED[name])
    (command,) = decode(frame)
    assert command.serializer is Serializer.ROCKETMQ
    assert encode(command) == frame


def test_what_a_golden_request_says() -> None:
    (command,) = decode(bytes.fromhex(REQUESTS["SEND_MESSAGE_V2 310"]))
    assert (command.code, command.flag, command.opaque, command.version) == (310, 0, 3, 479)
    assert command.language is Language.JAVA
    assert command.ext_fields["i"] == "TAGS\x01A\x02KEYS\x01k\x02UNIQ_KEY\x01U1\x02"
    assert command.body == b"hi"


def test_a_notice_is_oneway() -> None:
    name = "NOTIFY_CONSUMER_IDS_CHANGED 40 (server-initiated, one-way)"
    (command,) = decode(bytes.fromhex(RESPONSES[name]))
    assert command.is_oneway
    assert not command.is_response


# What the real one tolerates in a JSON header (semantics seen on 5.3.3).


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("{}", {"code": 0, "flag": 0, "version": 0, "language": Language.JAVA}),
        ('{"code":"105","flag":"2"}', {"code": 105, "flag": 2}),
        ('{"language":"KLINGON"}', {"language": None}),
        ('{"language":9}', {"language": Language.GO}),
        ('{"language":99}', {"language": None}),
        ('{"extFields":{"a":5,"b":null,"c":true}}', {"ext_fields": {"a": "5", "c": "true"}}),
        ('{"extFields":null,"remark":7}', {"ext_fields": {}, "remark": "7"}),
        ('{"serializeTypeCurrentRPC":"ROCKETMQ","more":1}', {"serializer": Serializer.JSON}),
        ('{"opaque":-5}', {"opaque": -5}),
    ],
)
def test_tolerated_headers(header: str, expected: dict[str, object]) -> None:
    (command,) = decode(json_frame(header))
    assert {name: getattr(command, name) for name in expected} == expected


def test_a_missing_opaque_is_a_fresh_one() -> None:
    first, second = decode(json_frame("{}") * 2)
    assert first.opaque != second.opaque


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        ("00000000", "a frame length of 0"),
        ("00000003", "a frame length of 3"),
        ("ffffffff", "a frame length of -1"),
        ("00fffffd", "a frame length of 16777213"),
        ("0000000400000000", "a header of 0 bytes in a frame of 4"),
        ("0000000600000003 7b7d", "a header of 3 bytes in a frame of 6"),
        ("0000000607000002 7b7d", "serializer 7"),
        ("0000000600000002 5b5d", "a JSON header that is not an object: list"),
        ("0000000800000004 6e756c6c", "a JSON header that is not an object: NoneType"),
        ("0000000800000004 6f6f7073", "a header that is not JSON"),
        ("0000000601000002 0069", "a binary header that ends at byte 2"),
    ],
)
def test_hostile_frames(frame: str, why: str) -> None:
    with pytest.raises(FrameError, match=why):
        decode(bytes.fromhex(frame))


@pytest.mark.parametrize(
    "header",
    [
        '{"code":"x"}',
        '{"code":4294967296}',
        '{"opaque":1e999}',
        '{"flag":NaN}',
        '{"flag":[1]}',
        '{"extFields":[]}',
        '{"a":' * 5000 + "1" + "}" * 5000,
        '{"code":' + "9" * 5000 + "}",
    ],
)
def test_hostile_headers(header: str) -> None:
    with pytest.raises(FrameError):
        decode(json_frame(header))


def test_the_longest_frame_is_awaited_and_a_longer_one_is_refused_at_once() -> None:
    assert decode((FRAME_BYTES_MAX - 4).to_bytes(4, "big")) == []
    with pytest.raises(FrameError):
        decode((FRAME_BYTES_MAX - 3).to_bytes(4, "big"))
    with pytest.raises(FrameError, match="at most 16777216"):
        encode(RemotingCommand(10, body=bytes(FRAME_BYTES_MAX)))


@pytest.mark.parametrize("serializer", Serializer)
def test_a_frame_that_cannot_be_written_leaves_those_before_it(serializer: Serializer) -> None:
    frames = bytearray()
    for name in ("a", "\ud800"):
        encode_into(RemotingCommand(1, {name: "1"}, serializer=serializer), frames)
    before = bytes(frames)
    with pytest.raises(FrameError, match="at most 16777216"):
        encode_into(RemotingCommand(10, body=bytes(FRAME_BYTES_MAX), serializer=serializer), frames)
    assert frames == before
    assert [list(command.ext_fields) for command in decode(before)] == [["a"], ["?"]]


def test_good_frames_before_a_bad_one_are_given() -> None:
    received = Decoder().feed(encode(RemotingCommand(7)) + b"\xff\xff\xff\xff")
    assert next(received).code == 7
    with pytest.raises(FrameError):
        next(received)


def test_a_binary_header_truncates_the_pop_codes() -> None:
    (command,) = decode(encode(RemotingCommand(200050, serializer=Serializer.ROCKETMQ)))
    assert command.code == 3442


def test_a_text_that_utf8_cannot_hold_is_replaced() -> None:
    for serializer in Serializer:
        command = RemotingCommand(1, {"a": "\ud800"}, serializer=serializer)
        assert decode(encode(command))[0].ext_fields == {"a": "?"}


def test_a_response_answers_its_request_in_json() -> None:
    request = RemotingCommand(11, opaque=-5, serializer=Serializer.ROCKETMQ)
    response = request.response(19, "no", {"a": "1"})
    assert (response.opaque, response.flag, response.serializer) == (
        -5,
        Flag.RESPONSE,
        Serializer.JSON,
    )


odd = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(max_size=5)


@given(
    st.dictionaries(
        st.sampled_from(["code", "flag", "opaque", "language", "version", "remark", "other"]),
        i32 | st.sampled_from([*Language.__members__, "1", "", "x"]) | odd,
    ),
    st.none() | st.dictionaries(names, st.text(max_size=5) | odd, max_size=3),
)
def test_the_usual_and_the_tolerant_way_read_the_same(
    header: dict[str, object], ext_fields: dict[str, object] | None
) -> None:
    data = json.dumps({"opaque": 7, **header, "extFields": ext_fields}).encode()
    readings: list[RemotingCommand | None] = []
    for read in (codec._decode_json, codec._decode_json_tolerantly):
        try:
            readings.append(read(data, b"body"))
        except FrameError:
            readings.append(None)
    if header.get("opaque", 7) in (None, ""):  # each takes an opaque of its own
        readings = [reading and replace(reading, opaque=0) for reading in readings]
    assert readings[0] == readings[1]
