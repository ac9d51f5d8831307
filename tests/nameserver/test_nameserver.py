"""The nameserver over the wire: brokers of any kind register, clients ask."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from struct import Struct

import pytest

from mqrules import UserError
from mqspec.core.metadata import DataVersion, TopicConfig
from mqspec.nameserver import NameServer, NamesrvController
from mqspec.nameserver.config import NamesrvConfig
from mqspec.options import parse_properties, to_properties, updated
from mqspec.transport import Connection, connect
from mqspec.wire.bodies import loads
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.registration import body_crc, encode_registration

TOPICS = [TopicConfig("T", 4, 4), TopicConfig("U", 8, 8)]
BODY = encode_registration(TOPICS, DataVersion(1))
BROKER = {
    "brokerName": "broker-a",
    "brokerAddr": "127.0.0.1:1",
    "clusterName": "C",
    "haServerAddr": "127.0.0.1:2",
    "brokerId": "0",
}


@asynccontextmanager
async def nameserver(
    config: NamesrvConfig | None = None, kv_config_path: Path | None = None
) -> AsyncIterator[tuple[NameServer, Connection]]:
    """A nameserver, and a connection to it."""
    server = NamesrvController(config=config, kv_config_path=kv_config_path)
    await server.start()
    try:
        yield server, await connected(server)
    finally:
        await server.stop()


async def connected(server: NameServer) -> Connection:
    host, _, port = server.address.rpartition(":")
    return await connect(host, int(port))


async def ask(
    connection: Connection,
    code: int,
    fields: dict[str, str] | None = None,
    body: bytes = b"",
    version: int = 479,
) -> RemotingCommand:
    request = RemotingCommand(code, fields or {}, body, version=version)
    return await connection.request(request, 5_000)


async def register(
    connection: Connection, body: bytes = BODY, version: int = 479, **fields: str
) -> RemotingCommand:
    return await ask(
        connection, RequestCode.REGISTER_BROKER, BROKER | fields, body, version=version
    )


async def route(connection: Connection, topic: str, **fields: str) -> RemotingCommand:
    return await ask(connection, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **fields})


def test_a_route() -> None:
    async def scenario() -> None:
        async with nameserver() as (_, connection):
            assert (await register(connection)).code == 0
            assert json.loads((await route(connection, "T")).body) == {
                "brokerDatas": [
                    {
                        "brokerAddrs": {"0": "127.0.0.1:1"},
                        "brokerName": "broker-a",
                        "cluster": "C",
                        "enableActingMaster": False,
                    }
                ],
                "filterServerTable": {},
                "queueDatas": [
                    {
                        "brokerName": "broker-a",
                        "perm": 6,
                        "readQueueNums": 4,
                        "topicSysFlag": 0,
                        "writeQueueNums": 4,
                    }
                ],
            }

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("version", "fields", "quoted"),
    [
        (479, {}, True),
        (401, {}, True),
        (400, {}, False),
        (0, {}, False),
        (0, {"acceptStandardJsonOnly": "true"}, True),
    ],
)
def test_who_gets_standard_json(version: int, fields: dict[str, str], quoted: bool) -> None:
    async def scenario() -> None:
        async with nameserver() as (_, connection):
            await register(connection)
            answer = await ask(
                connection,
                RequestCode.GET_ROUTEINFO_BY_TOPIC,
                {"topic": "T", **fields},
                version=version,
            )
            key = b'{"0":' if quoted else b"{0:"
            assert key + b'"127.0.0.1:1"}' in answer.body
            assert loads(answer.body)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:1"}

    asyncio.run(scenario())


@pytest.mark.parametrize("fields", [{"topic": "nosuch"}, {"topic": ""}, {}])
def test_no_route(fields: dict[str, str]) -> None:
    async def scenario() -> None:
        async with nameserver() as (_, connection):
            await register(connection)
            answer = await ask(connection, RequestCode.GET_ROUTEINFO_BY_TOPIC, fields)
            remark = "No topic route info in name server for the topic: "
            assert answer.code == 17
            assert answer.remark is not None
            assert answer.remark.startswith(f"{remark}{fields.get('topic', 'null')}\n")

    asyncio.run(scenario())


def test_everybody() -> None:
    async def scenario() -> None:
        async with nameserver() as (_, connection):
            await register(connection)
            await register(connection, brokerName="broker-b", brokerAddr="127.0.0.1:3")
            answer = await ask(connection, RequestCode.GET_BROKER_CLUSTER_INFO)
            assert b'{0:"127.0.0.1:1"}' in answer.body
            info = loads(answer.body)
            assert info["clusterAddrTable"] == {"C": ["broker-a", "broker-b"]}
            assert info["brokerAddrTable"].keys() == {"broker-a", "broker-b"}
            answer = await ask(connection, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            assert json.loads(answer.body) == {"topicList": ["T", "U"]}
            for cluster, topics in (("C", ["T", "U"]), ("nosuch", [])):
                answer = await ask(
                    connection, RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": cluster}
                )
                assert json.loads(answer.body) == {"topicList": topics}

    asyncio.run(scenario())


def test_a_broker_is_gone_with_its_connection() -> None:
    async def scenario() -> None:
        async with nameserver() as (server, client):
            broker = await connected(server)
            await register(broker)
            assert (await route(client, "T")).code == 0
            broker.close()
            async with asyncio.timeout(5):
                while (await route(client, "T")).code == 0:
                    pass

    asyncio.run(scenario())


def test_a_broker_says_that_it_leaves() -> None:
    async def scenario() -> None:
        async with nameserver() as (_, connection):
            await register(connection)
            for left_out in ("brokerName", "brokerAddr", "clusterName", "brokerId"):
                some = {name: value for name, value in BROKER.items() if name != left_out}
                await ask(connection, RequestCode.UNREGISTER_BROKER, some)
                assert (await route(connection, "T")).code == 0, left_out
            assert (await ask(connection, RequestCode.UNREGISTER_BROKER, BROKER)).code == 0
            assert (await route(connection, "T")).code == 17

    asyncio.run(scenario())


def test_a_silent_broker_expires() -> None:
    async def scenario() -> None:
        config = NamesrvConfig(scan_not_active_broker_interval=10)
        async with nameserver(config) as (server, client):
            broker = await connected(server)
            await register(broker, heartbeatTimeoutMillis="20")
            async with asyncio.timeout(5):
                await broker.wait_closed()
                while (await route(client, "T")).code == 0:
                    pass

    asyncio.run(scenario())


def compressed(topics: list[TopicConfig]) -> bytes:
    """A body as a real broker compresses it: items after their lengths."""
    length = Struct(">i")

    def item(data: bytes) -> bytes:
        return length.pack(len(data)) + data

    lines = [
        f"{t.topic_name} {t.read_queue_nums} {t.write_queue_nums} {t.perm} SINGLE_TAG {{}}"
        for t in topics
    ]
    return zlib.compress(
        item(b'{"counter":1,"stateVersion":0,"timestamp":1}')
        + length.pack(len(lines))
        + b"".join(item(line.encode()) for line in lines)
        + item(b"[]")
        + length.pack(0)
    )


BARE = b'{"topicConfigTable":{"T":{"topicName":"T","readQueueNums":4,"writeQueueNums":4,"perm":6}}'
BARE_OF_TWO = BARE[:-1] + b',"U":{"topicName":"U"}},"dataVersion":{"counter":1}}'


@pytest.mark.parametrize(
    ("body", "version", "fields", "code", "is_routed"),
    [
        (BODY, 37, {}, 0, True),
        (BODY, 36, {}, 0, False),
        (BARE_OF_TWO, 36, {}, 0, True),
        (BARE_OF_TWO, 0, {}, 0, True),
        (BARE_OF_TWO, 37, {}, 0, False),
        (b"", 479, {}, 0, False),
        (encode_registration([], DataVersion()), 479, {}, 0, False),
        (encode_registration(TOPICS[:1], DataVersion(1)), 479, {}, 1, False),
        (BODY, 479, {"bodyCrc32": str(body_crc(BODY))}, 0, True),
        (BODY, 479, {"bodyCrc32": "5"}, 1, False),
        (compressed(TOPICS), 479, {"compressed": "true"}, 0, True),
        (BODY, 479, {"compressed": "true"}, 1, False),
        (compressed(TOPICS)[:-9], 479, {"compressed": "true"}, 1, False),
        (zlib.compress(b"\0\0\0\7{}"), 479, {"compressed": "true"}, 1, False),
        (b"{", 479, {}, 1, False),
        (BODY, 479, {"brokerId": "first"}, 1, False),
    ],
)
def test_bodies(
    body: bytes, version: int, fields: dict[str, str], code: int, is_routed: bool
) -> None:
    async def scenario() -> None:
        async with nameserver() as (_, connection):
            assert (await register(connection, body, version, **fields)).code == code
            assert (await route(connection, "T")).code == (0 if is_routed else 17)

    asyncio.run(scenario())


@pytest.mark.parametrize(("name", "code"), [(name, int(name == "brokerId")) for name in BROKER])
def test_only_the_id_of_a_broker_is_missed(name: str, code: int) -> None:
    async def scenario() -> None:
        async with nameserver() as (_, connection):
            fields = {key: value for key, value in BROKER.items() if key != name}
            answer = await ask(connection, RequestCode.REGISTER_BROKER, fields, BODY)
            assert answer.code == code

    asyncio.run(scenario())


def test_a_replica_hears_of_its_master() -> None:
    async def scenario() -> None:
        async with nameserver() as (_, connection):
            await register(connection)
            answer = await register(connection, brokerId="1", brokerAddr="127.0.0.1:3")
            assert answer.ext_fields == {
                "haServerAddr": "127.0.0.1:2",
                "masterAddr": "127.0.0.1:1",
            }

    asyncio.run(scenario())


def test_the_kv_config_survives_the_nameserver(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    item = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"}

    async def scenario() -> None:
        async with nameserver(kv_config_path=path) as (_, connection):
            assert (await ask(connection, RequestCode.PUT_KV_CONFIG, item)).code == 0
        config = NamesrvConfig(order_message_enable=True)
        async with nameserver(config, path) as (_, connection):
            answer = await register(connection)
            assert json.loads(answer.body) == {"table": {"T": "broker-a:4"}}
            assert json.loads((await route(connection, "T")).body)["orderTopicConf"] == "broker-a:4"

    asyncio.run(scenario())
    path.write_text('{"configTable":[]}', encoding="utf-8")
    with pytest.raises(UserError, match="no KV config"):
        asyncio.run(scenario())


def test_who_has_to_wait_and_what_may_be_switched_off() -> None:
    async def scenario() -> None:
        config = NamesrvConfig(
            enable_all_topic_list=False,
            enable_topic_list=False,
            need_wait_for_service=True,
            return_order_topic_config_to_broker=False,
        )
        async with nameserver(config) as (server, connection):
            server.kv.config_table["ORDER_TOPIC_CONFIG"] = {"T": "broker-a:4"}
            assert (await register(connection)).body == b""
            early = await route(connection, "T")
            assert (early.code, early.remark) == (1, "name server not ready")
            server.started_ms -= 45_000
            assert (await route(connection, "T")).code == 0
            for code in (
                RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
                RequestCode.GET_TOPICS_BY_CLUSTER,
                RequestCode.GET_UNIT_TOPIC_LIST,
            ):
                answer = await ask(connection, code, {"cluster": "C"})
                assert (answer.code, answer.remark) == (1, "disable")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "topics"),
    [
        (RequestCode.GET_UNIT_TOPIC_LIST, ["b", "d"]),
        (RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, ["c", "d"]),
        (RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, ["c"]),
    ],
)
def test_topics_of_units(code: int, topics: list[str]) -> None:
    async def scenario() -> None:
        async with nameserver() as (_, connection):
            known = [TopicConfig(name, topic_sys_flag=i) for i, name in enumerate("abcd")]
            await register(connection, encode_registration(known, DataVersion(1)))
            assert json.loads((await ask(connection, code)).body) == {"topicList": topics}

    asyncio.run(scenario())


def test_options_as_text() -> None:
    changed = {"orderMessageEnable": "TRUE", "waitSecondsForService": "7", "no": "1"}
    config = updated(NamesrvConfig(), changed)
    assert config == NamesrvConfig(order_message_enable=True, wait_seconds_for_service=7)
    assert updated(config, {"waitSecondsForService": "soon"}) == config
    assert updated(NamesrvConfig(), parse_properties(to_properties(config).encode())) == config
    assert parse_properties(b"# a=1\n\n b = 2=3 \n! c\n") == {"b": "2=3"}
