"""The transactional producer, before a broker that says what it heard."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from brokers import scripted
from scene import GROUP, QUICK, TOPIC, create_topic, keys_of, run, taking, until

from mqspec.client.message import Message, MessageExt
from mqspec.client.producer import ProducerConfig
from mqspec.client.publish import PublishConfig
from mqspec.client.push_consumer import PushConsumer
from mqspec.client.transaction_producer import LocalTransactionState, TransactionProducer
from mqspec.cluster import Cluster
from mqspec.core.metadata import BrokerConfig
from mqspec.core.record import Record, SysFlag, decode_properties, encode_properties, encode_record
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

COMMIT, ROLLBACK, UNKNOW = (
    LocalTransactionState.COMMIT_MESSAGE,
    LocalTransactionState.ROLLBACK_MESSAGE,
    LocalTransactionState.UNKNOW,
)


class Bank:
    """A listener whose local transactions end as they are told to."""

    def __init__(self, state: LocalTransactionState | None) -> None:
        self._state = state
        self.executed: list[Any] = []
        self.checked: list[MessageExt] = []
        self.ids: list[str] = []

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        self.executed.append(arg)
        self.ids.append(message.properties["UNIQ_KEY"])
        return self._end()

    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        self.checked.append(message)
        return self._end()

    def _end(self) -> LocalTransactionState:
        if self._state is None:
            raise ValueError("on purpose")
        return self._state


class Halves:
    """A broker that stores every half message at one place."""

    def __init__(self, code: int = ResponseCode.SUCCESS) -> None:
        self._code = code
        self.sent: list[RemotingCommand] = []
        self.ended: list[RemotingCommand] = []
        self.connections: set[Connection] = set()

    def __call__(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.connections.add(connection)
        if request.code == RequestCode.END_TRANSACTION:
            self.ended.append(request)
            return None
        self.sent.append(request)
        fields = {"queueId": "0", "queueOffset": "7", "msgId": "7F0000010000785B" + f"{99:016X}"}
        return request.response(self._code, ext_fields={**fields, "transactionId": "tx"})


@pytest.mark.parametrize(
    ("ends", "told"), [(COMMIT, "8"), (ROLLBACK, "12"), (UNKNOW, "0"), (None, "0")]
)
def test_the_broker_is_told_how_the_local_transaction_ended(
    ends: LocalTransactionState | None, told: str
) -> None:
    halves, bank = Halves(), Bank(ends)

    async def scene() -> None:
        async with (
            scripted(halves) as server,
            TransactionProducer(f"127.0.0.1:{server.port}", "PG", bank) as producer,
        ):
            message = Message(TOPIC, b"x", delay_level=3, properties={"DELAY": "3"})
            result = await producer.send_in_transaction(message, "arg")
            assert str(result.local_transaction_state.value) == told
            await until(lambda: bool(halves.ended))

    asyncio.run(scene())
    assert bank.executed == ["arg"]
    (half,), (end,) = halves.sent, halves.ended
    properties = decode_properties(half.ext_fields["i"])
    assert bank.ids == [properties["UNIQ_KEY"]]
    assert properties["TRAN_MSG"] == "true"
    assert properties["PGROUP"] == "PG"
    assert "DELAY" not in properties
    assert int(half.ext_fields["f"]) == SysFlag.PREPARED
    assert end.is_oneway
    failed = "executeLocalTransactionBranch exception: ValueError('on purpose')"
    assert end.remark == (None if ends is not None else failed)
    assert end.ext_fields == {
        "topic": TOPIC,
        "producerGroup": "PG",
        "tranStateTableOffset": "7",
        "commitLogOffset": "99",
        "commitOrRollback": told,
        "fromTransactionCheck": "false",
        "msgId": properties["UNIQ_KEY"],
        "transactionId": "tx",
        "bname": "b",
    }


def test_a_half_that_is_not_safe_on_disk_is_rolled_back() -> None:
    halves, bank = Halves(ResponseCode.FLUSH_DISK_TIMEOUT), Bank(COMMIT)

    async def scene() -> None:
        async with (
            scripted(halves) as server,
            TransactionProducer(f"127.0.0.1:{server.port}", "PG", bank) as producer,
        ):
            await producer.send_in_transaction(Message(TOPIC, b"x"))
            await until(lambda: bool(halves.ended))

    asyncio.run(scene())
    assert not bank.executed
    assert halves.ended[0].ext_fields["commitOrRollback"] == "12"


@pytest.mark.parametrize(("ends", "told"), [(COMMIT, "8"), (None, "0")])
def test_any_member_of_the_group_answers_a_check_back(
    ends: LocalTransactionState | None, told: str
) -> None:
    halves, bank = Halves(), Bank(ends)
    properties = {"UNIQ_KEY": "U", "PGROUP": "PG", "TRAN_MSG": "true"}
    record = Record(TOPIC, b"body", encode_properties(properties).encode(), physical_offset=4711)
    fields = {
        "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
        "tranStateTableOffset": "3",
        "commitLogOffset": "4711",
        "msgId": "U",
        "transactionId": "U",
        "bname": "b",
    }
    check = RemotingCommand(RequestCode.CHECK_TRANSACTION_STATE, fields, encode_record(record))

    async def scene() -> None:
        config = ProducerConfig(PublishConfig(create_topic_key=TOPIC))
        async with (
            scripted(halves) as server,
            TransactionProducer(f"127.0.0.1:{server.port}", "PG", bank, config=config),
        ):
            await until(lambda: bool(server.connections))
            for connection in server.connections:
                connection.oneway(check)
            await until(lambda: bool(halves.ended))

    asyncio.run(scene())
    assert [message.body for message in bank.checked] == [b"body"]
    failed = "checkLocalTransactionState Exception: ValueError('on purpose')"
    assert halves.ended[0].remark == (None if ends is not None else failed)
    assert halves.ended[0].ext_fields == {
        "topic": "RMQ_SYS_TRANS_HALF_TOPIC",
        "producerGroup": "PG",
        "tranStateTableOffset": "3",
        "commitLogOffset": "4711",
        "commitOrRollback": told,
        "fromTransactionCheck": "true",
        "msgId": "U",
        "transactionId": "U",
        "bname": "b",
    }


def test_what_is_undecided_is_decided_by_another_member_of_the_group(tmp_path: Path) -> None:
    undecided, knowing = Bank(UNKNOW), Bank(COMMIT)
    config = BrokerConfig(transaction_time_out=1, transaction_check_interval=100)

    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        address = cluster.nameserver.address
        async with TransactionProducer(address, "PG", undecided) as first:
            await first.send_in_transaction(Message(TOPIC, b"x", keys="committed later"))
        async with TransactionProducer(address, "PG", knowing) as second:
            assert second.client_id != first.client_id
            await until(lambda: bool(knowing.checked))
            got: list[MessageExt] = []
            topics = {TOPIC: "*"}
            async with PushConsumer(address, GROUP, topics, taking(got), QUICK):
                await until(lambda: keys_of(got) == ["committed later"])

    run(tmp_path, scene, config=config)
    assert len(undecided.executed) == 1


def test_only_what_is_committed_is_visible(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        await create_topic(cluster, 1)
        address = cluster.nameserver.address
        for bank, key in ((Bank(ROLLBACK), "rolled back"), (Bank(COMMIT), "committed")):
            async with TransactionProducer(address, "PG", bank) as producer:
                await producer.send_in_transaction(Message(TOPIC, b"x", keys=key))
        got: list[MessageExt] = []
        async with PushConsumer(address, GROUP, {TOPIC: "*"}, taking(got), QUICK) as consumer:
            await until(lambda: 1 in consumer.state.offset_store.values())
        assert keys_of(got) == ["committed"]

    run(tmp_path, scene)
