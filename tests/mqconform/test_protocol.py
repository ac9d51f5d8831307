"""The suite's own few lines for the protocol, against bytes of the real system (5.3.3)."""

from __future__ import annotations

import pytest

from mqconform import requests
from mqconform.fastjson import loads
from mqconform.frame import (
    BINARY,
    RESPONSE,
    FrameError,
    binary_header,
    frame,
    json_header,
    parse_frame,
)
from mqconform.records import parse_records

# GET_ROUTEINFO_BY_TOPIC of an unknown topic with a binary header, as it was sent to 5.3.3.
BINARY_REQUEST = bytes.fromhex(
    "000000280100002400690001df0000000500000000000000000000000f0005746f706963000000044e4f5045"
)
# observed on 5.3.3, experiment M: the answer to GET_MAX_OFFSET.
MAX_OFFSET_ANSWER = bytes.fromhex(
    "0000007f0000007b7b22636f6465223a302c226578744669656c6473223a7b226f6666736574223a2231227d2c22"
    "666c6167223a312c226c616e6775616765223a224a415641222c226f7061717565223a31312c2273657269616c697a"
    "655479706543757272656e74525043223a224a534f4e222c2276657273696f6e223a3437397d"
)


def test_a_binary_request_has_the_real_bytes() -> None:
    assert frame(binary_header(105, {"topic": "NOPE"}, opaque=5), b"", BINARY) == BINARY_REQUEST


def test_a_binary_frame_is_read_back() -> None:
    found = parse_frame(BINARY_REQUEST)
    assert (found.code, found.opaque, found.version) == (105, 5, 479)
    assert found.fields == {"topic": "NOPE"}


def test_a_real_answer_is_read() -> None:
    found = parse_frame(MAX_OFFSET_ANSWER)
    assert (found.code, found.opaque, found.flag & RESPONSE, found.remark) == (0, 11, 1, None)
    assert found.number("offset") == 1


@pytest.mark.parametrize(
    "raw",
    [b"", b"\0\0\0\4", frame(b"[]"), frame(b"{}"), frame(b"{"), frame(json_header(1))[:-1]],
)
def test_what_is_no_frame_is_refused(raw: bytes) -> None:
    with pytest.raises(FrameError):
        parse_frame(raw)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{0:"a",1:{}}', {"0": "a", "1": {}}),
        ('{"t":{{"queueId":0}:10}}', {"t": {'{"queueId":0}': 10}}),
        ('[1, null ,"x"]', [1, None, "x"]),
        (' {"a" : [ ] } ', {"a": []}),
    ],
)
def test_fastjson_is_read(text: str, value: object) -> None:
    assert loads(text) == value


@pytest.mark.parametrize("text", ["", "{", '{"a"}', "[1", '{"a":1}x', "{,}"])
def test_what_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        loads(text)


@pytest.mark.parametrize("data", [b"\0" * 40, b"\0" * 91, b"\0\0\0\x5b" + b"\x01" * 100])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="record"):
        parse_records(data)


@pytest.mark.parametrize(
    ("tag", "code"), [("", 0), ("Aa", 2112), ("BB", 2112), ("polygenelubricants", -(2**31))]
)
def test_tags_are_hashed_as_java_does(tag: str, code: int) -> None:
    assert requests.java_hash(tag) == code
