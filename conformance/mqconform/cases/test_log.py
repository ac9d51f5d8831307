"""The log, as producers and consumers see it, and as a crash leaves it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from mqconform import requests
from mqconform.case import case
from mqconform.connection import eventually
from mqconform.records import Record, parse_records
from mqconform.scene import Scene, done
from mqconform.stage import Restart

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


@case("RECOV-008", party="store", claims="restart store", after=STORED)
def test_a_record_that_was_cut_off_stays_away(scene: Scene) -> None:
    # By the second restart of this kind no other case has a message behind these.
    scene.restart(Restart.DAMAGE)
    topic, group = scene.topic(), scene.group()
    # The room has some to spare: a broker may write a record of its own there first.
    for body in (b"kept", b"lost", b"lost" * 5000, b"cut off"):
        scene.send(topic, body)
    kept, *lost, cut_off = scene.read_all(topic, group)
    scene.restart(Restart.DAMAGE, lambda: blot_out(scene.store, *lost))
    assert scene.read_all(topic, group) == [kept]

    # New messages take the room of the lost ones, to the byte where the old record lies.
    scene.send(topic, b"new")
    _, new = scene.read_all(topic, group)
    room = cut_off.physical_offset - (new.physical_offset + new.size)
    scene.send(topic, b"." * (room - new.size + len(new.body)))
    _, _, filler = records = scene.read_all(topic, group)
    assert filler.physical_offset + filler.size == cut_off.physical_offset
    scene.restart(Restart.KILL)
    assert scene.max_offset(topic) == 3
    assert scene.read_all(topic, group) == records


def blot_out(store: Path, *records: Record) -> None:
    """Leave zeros for records, as when their pages did not reach the disk."""
    segments = sorted((store / "commitlog").iterdir(), key=lambda path: int(path.name))
    for record in records:
        segment = [path for path in segments if int(path.name) <= record.physical_offset][-1]
        with segment.open("r+b") as file:
            file.seek(record.physical_offset - int(segment.name))
            file.write(bytes(record.size))


@case("LOG-032", party="store", after=STORED)
def test_the_units_of_a_queue_are_shown(scene: Scene) -> None:
    topic, group = scene.topic(), scene.group()
    tagged: list[dict[str, str]] = [{}, {"TAGS": "A"}, {"TAGS": "B"}]
    for tags in tagged:
        done(scene.broker.call(requests.send(topic, b"x" * (1 + len(tags)), properties=tags)))
    assert eventually(lambda: scene.max_offset(topic) == len(tagged))
    expected = [
        (record.physical_offset, record.size, ord(record.properties.get("TAGS", "\0")))
        for record in scene.read_all(topic, group)
    ]
    for index, count in ((0, 2), (1, 9), (2, 1), (0, 0)):
        shown = scene.broker.call(requests.query_consume_queue(topic, index, count)).json()
        assert (shown["minQueueIndex"], shown["maxQueueIndex"]) == (0, 3)
        names = "physicOffset", "physicSize", "tagsCode"
        units = [tuple(unit[name] for name in names) for unit in shown["queueData"]]
        assert units == expected[index : index + count]


@case("LOG-032", party="store", after="test_the_units_of_a_queue_are_shown")
def test_units_that_are_not_there_are_not_shown(scene: Scene) -> None:
    topic = scene.topic()
    assert scene.broker.call(requests.query_consume_queue(topic, 0, 1)).code == 1
    scene.send(topic)
    assert scene.max_offset(topic) == 1
    for index in (-1, 1, 1 << 40):
        answer = scene.broker.call(requests.query_consume_queue(topic, index, 1))
        assert (answer.code, answer.body) == (0, b"")
