"""A trace of the reference over TCP: messages with a delay level, and transactions, on a broker
that is killed while they wait and starts again; and who registers at its nameserver meanwhile.

`python tests/mqcheck/recorded_broker.py FILE` records one.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from recorded import DEADLINE_S, Served, changes, persisted, until, when_served

from mqspec.client import (
    LocalTransactionState,
    Message,
    MessageExt,
    Producer,
    TransactionProducer,
)
from mqspec.core.delay import HALF_TOPIC
from mqspec.core.metadata import DataVersion, TopicConfig
from mqspec.core.transaction import CHECK_MAX_TIME_TOPIC
from mqspec.transport import Connection, connect
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode
from mqspec.wire.registration import encode_registration

TOPIC = "T"
DELAYS = ("--message-delay-level", "1s 2s", "--flush-delay-offset-interval", "400")
TRANSACTIONS = ("--transaction-time-out", "300", "--transaction-check-interval", "300")
CHECKS = ("--transaction-check-max", "2", "--transaction-op-batch-interval", "700")


class Listener:
    """Local transactions that come to what their messages say, at once or when asked."""

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return _ENDS.get(message.body, LocalTransactionState.UNKNOW)

    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return _ENDS.get(message.body.removeprefix(b"late "), LocalTransactionState.UNKNOW)


_ENDS = {
    b"commit": LocalTransactionState.COMMIT_MESSAGE,
    b"rollback": LocalTransactionState.ROLLBACK_MESSAGE,
}


class Registrant:
    """A process of a broker that does nothing but register."""

    def __init__(self, connection: Connection, name: str, address: str) -> None:
        self._connection = connection
        self._fields = {"clusterName": "C", "brokerName": name, "brokerAddr": address}

    async def registers(self, broker_id: int, *topics: str) -> None:
        body = encode_registration([TopicConfig(topic, 4, 4) for topic in topics], DataVersion(1))
        fields = {"brokerId": str(broker_id)}
        await self._ask(RequestCode.REGISTER_BROKER, fields, body)

    async def unregisters(self) -> None:
        await self._ask(RequestCode.UNREGISTER_BROKER, {"brokerId": "0"})

    async def asks_for(self, topic: str) -> None:
        await self._ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})

    async def deletes(self, topic: str) -> None:
        await self._ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": topic})

    async def _ask(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        request = RemotingCommand(code, self._fields | fields, body)
        await self._connection.request(request, DEADLINE_S * 1000)


async def register(port: int) -> None:
    """A master and its replica come, change places, and go."""
    master_at, replica_at = await connect("127.0.0.1", port), await connect("127.0.0.1", port)
    master = Registrant(master_at, "broker-z", "127.0.0.1:1")
    replica = Registrant(replica_at, "broker-z", "127.0.0.1:2")
    await master.registers(0, "Z")  # one topic alone
    await master.asks_for("Z")
    await master.registers(0, "Y", "Z")
    await replica.registers(1, "Y", "Z")
    await master.registers(0, "X")  # a new one
    await replica.asks_for("X")
    await master.unregisters()
    await replica.asks_for("Y")
    await replica.registers(0, "Y", "Z")
    await master.registers(0, "X", "Y", "Z")
    await replica.registers(1, "Y", "Z")
    await master.deletes("Y")
    await master.asks_for("Y")
    master_at.close()
    await replica.asks_for("Z")
    await replica.unregisters()
    await replica.asks_for("Z")
    replica_at.close()


async def record(file: Path, store: Path) -> None:
    """Record a trace in `file`, of which there is none yet."""
    served = Served(store, file, *DELAYS, *TRANSACTIONS, *CHECKS)
    nameserver = f"127.0.0.1:{served.nameserver_port}"

    async def delayed(level: int, count: int) -> None:
        async with Producer(nameserver, "P") as producer:
            for _ in range(count):
                await producer.send(Message(TOPIC, b"x", delay_level=level))

    async def transact(producer: TransactionProducer, *bodies: bytes) -> None:
        for body in bodies:
            await producer.send_in_transaction(Message(TOPIC, body))

    await served.start()
    try:
        async with TransactionProducer(nameserver, "PG", Listener()) as producer:
            await transact(producer, b"commit", b"late commit", b"rollback", b"never")
            await register(served.nameserver_port)
            await delayed(1, 6)
            await until(lambda: _delivered(file, level=1) >= 6)
            await until(lambda: _parked(file) == 1 and _is_persisted(file))
            await delayed(2, 6)
            await delayed(1, 4)
            await until(lambda: _delivered(file, level=1) >= 10)
            await transact(producer, b"late rollback", b"commit", b"rollback", b"never")
            served.end(signal.SIGKILL)
        await served.start()
        await register(served.nameserver_port)
        async with TransactionProducer(nameserver, "PG", Listener()) as producer:
            await when_served(lambda: delayed(1, 2))
            await transact(producer, b"late commit")
            await until(lambda: _delivered(file, level=1) >= 12 and _delivered(file, level=2) >= 6)
            await until(lambda: _parked(file) == 2)
    finally:
        served.end(signal.SIGTERM)


def _parked(file: Path) -> int:
    """How many halves were parked."""
    parked = ("topic_queue_table", [CHECK_MAX_TIME_TOPIC, 0])
    return sum((variable, key) == parked for variable, key, *_ in changes(file, "Log"))


def _is_persisted(file: Path) -> bool:
    """Whether the broker wrote how far it looked at halves."""
    return any(key["topic"] == HALF_TOPIC for key, _ in persisted(file))


def _delivered(file: Path, level: int) -> int:
    """How far the deliveries of a level have come."""
    return max(
        (
            change[2]
            for change in changes(file, "Delay")
            if change[0] == "offset_table" and change[1] == level
        ),
        default=0,
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(record(Path(sys.argv[1]), Path(folder)))
