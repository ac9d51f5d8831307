"""The log, as producers and consumers see it."""

from __future__ import annotations

import struct
import zlib

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.records import parse_records
from mqconform.scene import Scene

STORED = "test_a_message_is_stored_as_it_was_sent"
CRC_AT = 8  # of a record, bytes


@case("LOG-002", "LOG-005", "LOG-006", party="store", after=STORED)
def test_a_put_that_fails_takes_no_queue_offset(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    scene.send(topic, b"before")
    refused = scene.broker.call(requests.send(topic, properties={"k": "v" * 40_000}))
    assert refused.code == 13
    scene.send(topic, b"after")
    records = scene.read_all(topic, group)
    assert [(record.queue_offset, record.body) for record in records] == [
        (0, b"before"),
        (1, b"after"),
    ]
    assert scene.max_offset(topic) == 2


@case("LOG-009", "LOG-010", party="store", after=STORED)
@pytest.mark.parametrize("offset", [-1, 0, 2, 3, 4])
def test_a_read_leads_into_the_queue(scene: Scene, offset: int) -> None:
    topic, group = scene.topic(), scene.group()
    for _ in range(3):
        scene.send(topic)
    answer = scene.broker.call(requests.pull(topic, group, offset))
    least, greatest = answer.number("minOffset"), answer.number("maxOffset")
    assert (least, greatest) == (0, 3)
    assert least <= answer.number("nextBeginOffset") <= greatest


@case("LOG-011", party="store", after=STORED)
@pytest.mark.parametrize("body", [b"a", bytes(range(256)) * 40], ids=["short", "long"])
def test_a_record_names_the_crc_of_its_body(scene: Scene, body: bytes) -> None:
    topic, group = scene.topic(), scene.group()
    scene.send(topic, body)
    answer = scene.broker.call(requests.pull(topic, group, 0))
    (record,) = parse_records(answer.body)
    (crc,) = struct.unpack_from(">i", answer.body, CRC_AT)
    assert record.body == body
    assert crc == zlib.crc32(body) & 0x7FFFFFFF
