"""Messages of the revive log, in the form of 5.3.3."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from mqspec.core.record import Host, Record, decode_properties
from mqspec.core.revive_log import (
    AckMsg,
    CheckPointKey,
    PopCheckPoint,
    ReviveMessage,
    decode,
    encode,
)

KEY = CheckPointKey("T", "G", 1, 4, 1_000, "broker-a")
HOST = Host.parse("127.0.0.1", 1)


def stored(message: ReviveMessage) -> Record:
    return encode(message, "rmq_sys_REVIVE_LOG_c", 3, HOST, 1_000)


def test_a_checkpoint() -> None:
    record = stored(PopCheckPoint(KEY, 60_000, (4, 6)))
    fields = json.loads(record.body)
    assert fields == {
        "bm": 0,
        "bn": "broker-a",
        "c": "G",
        "d": [0, 2],
        "it": 60_000,
        "n": 2,
        "pt": 1_000,
        "q": 1,
        "ro": 0,
        "so": 4,
        "t": "T",
    }
    properties = decode_properties(record.properties)
    assert properties == {
        "TIMER_DELIVER_MS": "60000",  # a second before it is due
        "UNIQ_KEY": "T@1@4@G@1000@broker-a@ck",
        "TAGS": "ck",
    }
    assert (record.queue_id, record.topic) == (3, "rmq_sys_REVIVE_LOG_c")


@pytest.mark.parametrize(
    "message",
    [
        PopCheckPoint(KEY, 60_000, (4, 6)),
        PopCheckPoint(KEY, 60_000, (4,), re_put_times=2),
        AckMsg(KEY, 0, (6,)),
        AckMsg(KEY, 0, (4, 6), batch=True),
    ],
)
def test_what_is_written_is_read_again(message: ReviveMessage) -> None:
    assert decode(stored(message)) == message


def test_an_acknowledgement_is_due_when_its_message_is() -> None:
    record = stored(AckMsg(KEY, 60_000, (6,)))
    assert decode_properties(record.properties)["TIMER_DELIVER_MS"] == "61000"
    assert json.loads(record.body)["ao"] == 6
    batch = stored(AckMsg(KEY, 60_000, (4, 6), batch=True))
    assert json.loads(batch.body)["aol"] == [4, 6]
    assert decode_properties(batch.properties)["TAGS"] == "bAck"


def test_a_checkpoint_of_an_older_version_numbers_its_messages() -> None:
    record = stored(PopCheckPoint(KEY, 60_000, (4, 5, 6)))
    fields = json.loads(record.body)
    del fields["d"]
    found = decode(structs.replace(record, body=json.dumps(fields).encode()))
    assert isinstance(found, PopCheckPoint)
    assert found.offsets == (4, 5, 6)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"t":"T"}', b"\xff"])
def test_what_no_broker_writes_is_nothing(body: bytes) -> None:
    assert decode(structs.replace(stored(PopCheckPoint(KEY, 1, (4,))), body=body)) is None
    assert decode(structs.replace(stored(PopCheckPoint(KEY, 1, (4,))), properties=b"")) is None
