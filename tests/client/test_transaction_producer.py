"""The transactional producer, before a broker that says what it heard."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from brokers import scripted
from scene import TOPIC, until

from mqspec.client.message import Message, MessageExt
from mqspec.client.producer import ProducerConfig
from mqspec.client.publish import PublishConfig
from mqspec.client.transaction_producer import LocalTransactionState, TransactionProducer
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

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        self.executed.append(arg)
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
    assert properties["TRAN_MSG"] == "true"
    assert properties["PGROUP"] == "PG"
    assert "DELAY" not in properties
    assert int(half.ext_fields["f"]) == SysFlag.PREPARED
    assert end.is_oneway
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
    check = RemotingCommand(
        RequestCode.CHECK_TRANSACTION_STATE, fields, bytes(encode_record(record))
    )

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
