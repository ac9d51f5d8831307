"""Messages over the wire: sent, held for, pulled, and what is refused."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from msgspec import structs
from peer import DEADLINE_S, Peer, broker_peer, pull_fields, send_fields

from mqspec.broker.processor.pulling import PullHeader
from mqspec.core.record import BatchMessage, decode_properties
from mqspec.wire import headers
from mqspec.wire.bodies import decode_messages, encode_batch
from mqspec.wire.codec import Decoder, RemotingCommand, encode
from mqspec.wire.codes import RequestCode

ONEWAY: Final = 2  # the bit of a request's flag
Raw: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def test_what_is_sent_is_pulled(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            sent = await peer.send(
                "T", b"hi", i="TAGS\x01A\x02UNIQ_KEY\x01U1\x02", g=1_700_000_000_000, h=7, j=2
            )
            assert sent.code == 0
            fields = sent.ext_fields
            assert (fields["queueId"], fields["queueOffset"]) == ("0", "0")
            assert fields["transactionId"] == "U1"
            assert (fields["MSG_REGION"], fields["TRACE_ON"]) == ("DefaultRegion", "true")

            pulled = await peer.pull("T")
            assert (pulled.code, pulled.remark) == (0, "FOUND")
            assert pulled.ext_fields["nextBeginOffset"] == "1"
            (record,) = decode_messages(pulled.body)
            assert (record.body, record.flag, record.reconsume_times) == (b"hi", 7, 2)
            assert record.born_timestamp == 1_700_000_000_000
            assert record.message_id == fields["msgId"]
            properties = decode_properties(record.properties)
            assert (properties["TAGS"], properties["UNIQ_KEY"]) == ("A", "U1")
            assert properties["CLUSTER"] == "DefaultCluster"

    asyncio.run(scenario())


def test_what_is_acknowledged_can_be_read_back(tmp_path: Path) -> None:
    """Apache 5.3.3 cannot, where its producer claims an address of version 6 (Unreadable)."""

    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            for number, sys_flag in enumerate((0, 0x10, 0x20, 0x30, 0)):
                sent = await peer.send("T", b"%d" % number, f=sys_flag)
                assert (sent.code, sent.ext_fields["queueOffset"]) == (0, str(number))
            shutil.copytree(tmp_path / "store", tmp_path / "killed")
        for store in ("store", "killed"):
            async with broker_peer(tmp_path / store) as peer:
                pulled = await peer.pull("T")
                found = [record.body for record in decode_messages(pulled.body)]
                assert found == [b"0", b"1", b"2", b"3", b"4"], store

    asyncio.run(scenario())


def test_the_names_of_version_1_mean_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            sent = await peer.ask(
                RequestCode.SEND_MESSAGE,
                b"one",
                topic="T",
                defaultTopic="TBW102",
                defaultTopicQueueNums=2,
                queueId=1,
                sysFlag=0,
                bornTimestamp=1,
                flag=0,
            )
            assert (sent.code, sent.ext_fields["queueId"]) == (0, "1")
            pulled = await peer.pull("T", queueId=1)
            assert [record.body for record in decode_messages(pulled.body)] == [b"one"]

    asyncio.run(scenario())


def test_who_does_not_say_how_many_queues_a_topic_gets_sends_to_one_that_is_there(
    tmp_path: Path,
) -> None:
    """To a new one it is refused, of 5.3.3 with code 1."""
    says_nothing = {name: value for name, value in send_fields("T").items() if name != "d"}

    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            sent = await peer.ask(RequestCode.SEND_MESSAGE_V2, b"x", **says_nothing)
            assert sent.code != 0
            assert (await peer.send("There")).code == 0
            sent = await peer.ask(
                RequestCode.SEND_MESSAGE_V2, b"x", **says_nothing | {"b": "There"}
            )
            assert sent.code == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_a_batch_is_so_many_messages(tmp_path: Path, code: int) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            body = encode_batch(
                [BatchMessage(b"a", b"TAGS\x01A\x02"), BatchMessage(b"b", b"", flag=9)]
            )
            sent = await peer.ask(code, body, b="T", c="TBW102", d=1, e=0, f=0, g=1, h=0, m="true")
            assert (sent.code, sent.ext_fields["queueOffset"]) == (0, "0")
            records = decode_messages((await peer.pull("T")).body)
            assert ",".join(r.message_id for r in records) == sent.ext_fields["msgId"]
            assert [(r.body, r.flag, r.queue_offset) for r in records] == [
                (b"a", 0, 0),
                (b"b", 9, 1),
            ]
            assert decode_properties(records[0].properties)["TAGS"] == "A"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"b": None}, 1),
        ({"e": None}, 1),
        ({"e": "abc"}, 1),
        ({"f": None}, 1),
        ({"g": None}, 1),
        ({"h": None}, 1),
        ({"body": b""}, 1),
        ({"m": "true", "body": b"\x00\x00\x00\x10garbage"}, 1),
        ({"a": None}, 0),
        ({"i": None, "j": None, "k": None, "m": None}, 0),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, 16),
        ({"c": "nosuch"}, 17),
        ({"e": 4}, 29),
        ({"body": b"z" * (4 * 1024 * 1024 + 1)}, 13),
        ({"i": "k\x01" + "v" * 32_700 + "\x02"}, 13),
    ],
)
def test_fields_that_are_missing_or_wrong(
    tmp_path: Path, fields: dict[str, object], code: int
) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            body = fields.pop("body", b"x")
            assert isinstance(body, bytes)
            assert (await peer.send("T", body, **fields)).code == code
            assert (await peer.send("T")).ext_fields["queueOffset"] == str(int(code == 0)), (
                "what is refused takes no offset"
            )

    asyncio.run(scenario())


def test_a_handled_refusal_has_the_fields_that_java_clients_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            refused = await peer.send("T", c="nosuch")
            assert refused.ext_fields == {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}

    asyncio.run(scenario())


async def raw(peer: Peer) -> Raw:
    """One more connection to a peer's broker, whose every frame is seen."""
    host, _, port = peer.connection.peer.rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def answered(connection: Raw, request: RemotingCommand) -> list[int]:
    """The opaques of what comes up to the answer of a request, which others came before."""
    reader, writer = connection
    writer.write(encode(request))
    decoder, opaques = Decoder(), list[int]()
    async with asyncio.timeout(DEADLINE_S):
        while request.opaque not in opaques:
            opaques += [frame.opaque for frame in decoder.feed(await reader.read(1 << 16))]
    return opaques


def test_a_oneway_send_is_stored_and_not_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            connection = await raw(peer)
            fields = {name: str(value) for name, value in send_fields("T").items()}
            send = RemotingCommand(RequestCode.SEND_MESSAGE_V2, fields, b"x", opaque=1)
            connection[1].write(encode(structs.replace(send, flag=ONEWAY)))
            for opaque in (2, 3):  # what is read together may be answered in another order
                assert await answered(connection, structs.replace(send, opaque=opaque)) == [opaque]
            assert (await peer.send("T")).ext_fields["queueOffset"] == "3"

    asyncio.run(scenario())


def test_a_oneway_pull_that_was_held_is_not_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            connection = await raw(peer)
            held = pull_fields("T", 1) | {"sysFlag": 6, "suspendTimeoutMillis": 60_000}
            fields = {name: str(value) for name, value in held.items()}
            pull = RemotingCommand(RequestCode.PULL_MESSAGE, fields, opaque=1)
            connection[1].write(encode(structs.replace(pull, flag=ONEWAY)))
            at_once = {**fields, "queueOffset": "0", "sysFlag": "4"}
            ask = structs.replace(pull, ext_fields=at_once, opaque=2)
            assert await answered(connection, ask) == [2]  # and the other is held by now

            await peer.send("T")
            assert await answered(connection, structs.replace(ask, opaque=3)) == [3]

    asyncio.run(scenario())


def test_a_held_pull_is_woken_by_a_message_that_it_wants(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            held = [await peer.held_pull("T", 1, subscription="A") for _ in range(2)]
            await peer.send("T", b"unwanted", i="TAGS\x01B\x02")
            assert not any(pull.done() for pull in held)
            await peer.send("T", b"wanted", i="TAGS\x01A\x02")
            for pull in await asyncio.gather(*held):
                assert (pull.code, pull.ext_fields["nextBeginOffset"]) == (0, "3")
                assert [record.body for record in decode_messages(pull.body)] == [b"wanted"]

    asyncio.run(scenario())


def test_a_held_pull_gets_a_whole_batch(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            held = await peer.held_pull("T", 1)
            await peer.send("T", encode_batch([BatchMessage(b"a"), BatchMessage(b"b")]), m="true")
            assert len(decode_messages((await held).body)) == 2

    asyncio.run(scenario())


def test_a_held_pull_is_answered_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The check that ends it comes every 5 s; here it comes sooner.
    monkeypatch.setattr("mqspec.core.long_polling.CHECK_INTERVAL_MS", 20)

    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            answer = await peer.pull("T", 1, sysFlag=6, suspendTimeoutMillis=50)
            assert (answer.code, answer.remark) == (19, "OFFSET_OVERFLOW_ONE")
            held = await peer.held_pull("T", 1, suspendTimeoutMillis=500, subscription="A")
            await peer.send("T", i="TAGS\x01B\x02")
            answer = await held
            assert (answer.code, answer.ext_fields["nextBeginOffset"]) == (20, "2")

    asyncio.run(scenario())


def test_a_pull_that_commits_and_does_not_say_how_far_commits_0(tmp_path: Path) -> None:
    """5.3.3 does not answer one."""

    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            assert (await peer.pull("T", 0, sysFlag=5, commitOffset=None)).code == 0
            where = {"consumerGroup": "CG", "topic": "T", "queueId": 0}
            stored = await peer.ask(14, **where, setZeroIfNotFound="false")
            assert (stored.code, stored.ext_fields["offset"]) == (0, "0")

    asyncio.run(scenario())


def test_a_pull_commits_once_and_not_again_when_it_wakes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            where = {"consumerGroup": "CG", "topic": "T", "queueId": 0}
            held = await peer.held_pull("T", 1, sysFlag=7, commitOffset=3)
            assert (await peer.ask(14, **where)).ext_fields["offset"] == "3"
            assert (await peer.ask(15, **where, commitOffset=1)).code == 0
            await peer.send("T")
            assert (await held).code == 0
            assert (await peer.ask(14, **where)).ext_fields["offset"] == "1"

    asyncio.run(scenario())


def test_a_refused_pull_commits_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            refused = await peer.pull("T", sysFlag=5, commitOffset=1, queueId=99)
            assert refused.code == 29
            assert (await peer.ask(14, consumerGroup="CG", topic="T", queueId=99)).code == 22

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("offset", "code", "remark", "next_offset"),
    [
        (-1, 21, "OFFSET_TOO_SMALL", "0"),
        (0, 0, "FOUND", "1"),
        (1, 19, "OFFSET_OVERFLOW_ONE", "1"),
        (2, 21, "OFFSET_OVERFLOW_BADLY", "1"),
    ],
)
def test_where_a_pull_goes_on(
    tmp_path: Path, offset: int, code: int, remark: str, next_offset: str
) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            answer = await peer.pull("T", offset)
            assert (answer.code, answer.remark) == (code, remark)
            assert answer.ext_fields["nextBeginOffset"] == next_offset
            answer = await peer.pull("T", offset, queueId=1)
            assert answer.code == (19 if offset == 0 else 21)
            assert answer.remark == "NO_MESSAGE_IN_QUEUE"

    asyncio.run(scenario())


def test_offsets_of_a_queue(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            await peer.send("T")
            first, *_ = decode_messages((await peer.pull("T")).body)
            at = {"topic": "T", "queueId": 0}
            assert (await peer.ask(30, **at)).ext_fields["offset"] == "2"
            minimum = await peer.ask(31, **at)
            assert (minimum.remark, minimum.ext_fields["offset"]) == ("", "0")
            earliest = (await peer.ask(32, **at)).ext_fields["timestamp"]
            assert earliest == str(first.store_timestamp)
            assert (await peer.ask(29, **at, timestamp=0)).ext_fields["offset"] == "0"
            late = first.store_timestamp + 100_000
            assert (await peer.ask(29, **at, timestamp=late)).ext_fields["offset"] == "2"
            upper = await peer.ask(29, **at, timestamp=late, boundaryType="UPPER")
            assert upper.ext_fields["offset"] == "1"
            unknown = {"topic": "nosuch", "queueId": 0}
            assert (await peer.ask(30, **unknown)).ext_fields["offset"] == "0"
            assert (await peer.ask(32, **unknown)).ext_fields["timestamp"] == "-1"

    asyncio.run(scenario())


def test_a_usual_pull_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Field by field takes four times as long; of a client from before 5.0 no less."""
    monkeypatch.setattr(headers, "_read_one_by_one", None)
    fields = {name: str(value) for name, value in pull_fields("T", 7).items()}
    header = headers.read(RemotingCommand(RequestCode.PULL_MESSAGE, fields), PullHeader)
    assert (header.topic, header.queue_offset) == ("T", 7)


def test_the_size_that_a_pull_asks_for_is_a_number(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with broker_peer(tmp_path / "store") as peer:
            await peer.send("T")
            for size, code in (("2147483647", 0), ("-1", 0), ("2147483648", 1), ("x", 1)):
                assert (await peer.pull("T", 0, maxMsgBytes=size)).code == code

    asyncio.run(scenario())
