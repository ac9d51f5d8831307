"""The record's layout, against bytes that the real broker wrote, and against damage."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from mqspec.core.record import (
    Bad,
    Batch,
    BatchMessage,
    Blank,
    Host,
    Record,
    decode_outline,
    decode_properties,
    decode_record,
    encode_blank,
    encode_properties,
    encode_record,
    find_property,
    find_values,
    layout_of,
    string_hash,
    tags_code,
)

RECORD = Record(
    topic="T",
    body=b"hello",
    properties=b"TAGS\x01A\x02KEYS\x01k1",
    queue_id=3,
    born_timestamp=1_000,
    born_host=Host.parse("127.0.0.1", 5),
    store_host=Host.parse("127.0.0.1", 10911),
)

i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
hosts = st.builds(
    Host, st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), i32
)
records = st.builds(
    Record,
    topic=st.text(st.characters(codec="ascii"), max_size=300),
    body=st.binary(max_size=200),
    properties=st.binary(max_size=200),
    queue_id=i32,
    flag=i32,
    queue_offset=i64,
    physical_offset=i64,
    born_timestamp=i64,
    born_host=hosts,
    store_timestamp=i64,
    store_host=hosts,
    reconsume_times=i32,
    prepared_transaction_offset=i64,
)


@given(records)
def test_a_record_survives(record: Record) -> None:
    encoded = encode_record(record)
    decoded = decode_record(encoded)
    assert isinstance(decoded, Record)
    assert structs.replace(decoded, sys_flag=0, size=0) == record
    assert decoded.size == len(encoded)


@given(records, st.lists(records, min_size=1, max_size=4), records, st.binary(max_size=20))
def test_a_batch_lies_as_its_messages_would_alone(
    shared: Record, own: list[Record], place: Record, beside: bytes
) -> None:
    messages = [BatchMessage(one.body, one.properties, one.flag) for one in own]
    batch, layout = Batch(shared, messages, beside), layout_of(shared)
    position, queue_offset = place.physical_offset >> 1, place.queue_offset >> 1  # with room
    pieces: list[bytes] = []
    positions, sizes = layout.encode(
        pieces, batch, position, itertools.count(queue_offset), place.store_timestamp
    )
    expected = [
        structs.replace(
            shared,
            body=one.body,
            properties=one.properties + beside,
            flag=one.flag,
            physical_offset=at,
            queue_offset=queue_offset + number,
            store_timestamp=place.store_timestamp,
        )
        for number, (one, at) in enumerate(zip(own, positions, strict=True))
    ]
    encoded = list(map(encode_record, expected))
    assert b"".join(pieces) == b"".join(encoded)
    assert sizes == list(map(len, encoded))
    assert positions == list(itertools.accumulate(sizes, initial=position))[:-1]
    own_bytes = sum(len(one.body) + len(one.properties) for one in own)
    assert layout.size(batch, own_bytes) == sum(sizes)


def test_the_overhead_is_that_of_the_real_one() -> None:
    overhead = len(encode_record(RECORD)) - len("T") - len(RECORD.body) - len(RECORD.properties)
    assert overhead == 91


def test_a_long_topic_takes_version_2() -> None:
    encoded = encode_record(structs.replace(RECORD, topic="T" * 128))
    assert encoded[4:8] == bytes.fromhex("daa320ab")
    assert encode_record(RECORD)[4:8] == bytes.fromhex("daa320a7")


def test_a_topic_is_as_long_as_its_two_bytes_can_say() -> None:
    longest = structs.replace(RECORD, topic="T" * 32_767)
    decoded = decode_record(encode_record(longest))
    assert isinstance(decoded, Record)
    assert decoded.topic == longest.topic
    with pytest.raises(ValueError, match="a topic of 32768 bytes, at most 32767"):
        encode_record(structs.replace(RECORD, topic="T" * 32_768))


@given(st.data())
def test_any_damaged_byte_of_the_body_is_seen(data: st.DataObject) -> None:
    encoded = bytearray(encode_record(RECORD))
    at = encoded.index(RECORD.body) + data.draw(st.integers(0, len(RECORD.body) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    assert decode_record(encoded) == Bad("the body's CRC does not match")
    assert isinstance(decode_record(encoded, check_crc=False), Record)


@given(st.integers(0, len(encode_record(RECORD)) - 1))
@example(len(encode_record(RECORD)) - 1)  # its lengths agree, and reach beyond the segment
def test_a_torn_record_is_bad(length: int) -> None:
    torn = encode_record(RECORD)[:length]
    assert isinstance(decode_record(torn), Bad)
    assert decode_outline(memoryview(torn)) is None


@given(st.binary(max_size=300), st.sampled_from(["daa320a7", "daa320ab"]))
def test_garbage_is_bad_and_never_raises(rest: bytes, magic: str) -> None:
    size = (len(rest) + 8).to_bytes(4, "big")
    assert isinstance(decode_record(size + bytes.fromhex(magic) + rest), Bad | Record)
    assert isinstance(decode_record(rest), Bad | Blank)


@given(records, st.integers(0, 99), st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255))))
def test_an_outline_is_of_a_record_and_of_nothing_else(
    record: Record, before: int, damage: list[tuple[int, int]]
) -> None:
    buffer = bytearray(before) + encode_record(record)
    for at, byte in damage:
        buffer[at % len(buffer)] = byte
    decoded = decode_record(buffer, before)
    outline = decode_outline(memoryview(buffer), before)
    assert (outline is not None) == isinstance(decoded, Record)
    if isinstance(decoded, Record) and outline:
        assert outline == tuple(getattr(decoded, name) for name in outline._fields)


def test_a_blank_fills_the_segment() -> None:
    assert decode_record(encode_blank(100) + bytes(92)) == Blank(100)


def test_what_the_format_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="topic of 32768 bytes"):
        encode_record(structs.replace(RECORD, topic="T" * 32768))
    with pytest.raises(ValueError, match="properties of 32768 bytes"):
        encode_record(structs.replace(RECORD, properties=bytes(32768)))


def test_properties() -> None:
    assert decode_properties("TAGS\x01A\x02KEYS\x01k\x02") == {"TAGS": "A", "KEYS": "k"}
    assert decode_properties(encode_properties({"a": "b=c", "d": "e"})) == {"a": "b=c", "d": "e"}
    assert decode_properties("a\x01\x02\x01b\x02junk\x02") == {}


@pytest.mark.parametrize(
    ("text", "code"),
    [("TagA", 2598919), ("", 0), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_string_hash(text: str, code: int) -> None:
    assert string_hash(text) == code


def test_no_tags_have_code_0() -> None:
    assert tags_code(None) == tags_code("") == 0
    assert tags_code("TagA") == 2598919


def test_the_message_id_names_store_and_offset() -> None:
    record = structs.replace(RECORD, physical_offset=255)
    assert record.message_id == "7F000001" + "00002A9F" + "00000000000000FF"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A\x011",
        "A\x011\x02",
        "XA\x010\x02A\x011\x02B\x012",
        "B\x01A\x012\x02A\x011",
        "A\x01\x02",
        "A\x011\x02A\x01\x02B\x01",
        "A\x01vA\x01w\x02",
    ],
)
def test_one_property_is_found_as_all_are_read(text: str) -> None:
    for name in ("A", "B", "XA", "C"):
        assert find_property(text, name) == decode_properties(text).get(name, "")


PROPERTIES = st.lists(st.sampled_from(["A", "XA", "A\x01", "\x01", "\x02", "v"])).map("".join)


@given(st.lists(PROPERTIES), st.just("") | PROPERTIES.map("\x02".__add__))
def test_one_property_of_several_messages_is_found_as_all_are_read(
    own: list[str], beside: str
) -> None:
    found = find_values([each.encode() for each in own], beside.encode(), b"A\x01")
    read = [decode_properties(each + beside).get("A", "") for each in own]
    assert [value.decode() for value in found] == read


def test_of_a_property_that_is_there_twice_the_last_one_counts() -> None:
    assert find_property("A\x011\x02A\x012\x02A\x01", "A") == "2"
    assert decode_properties("A\x011\x02A\x012\x02A\x01") == {"A": "2"}
