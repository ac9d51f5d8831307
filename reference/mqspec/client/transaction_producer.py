"""The transactional producer: half message, local transaction, decision, check-back.

Facts: client/impl/producer/DefaultMQProducerImpl.java, client/impl/
ClientRemotingProcessor.java, client/producer/TransactionMQProducer.java, 5.3.3.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Protocol

from mqspec.client.instance import NOT_ANSWERED
from mqspec.client.message import (
    DELAY,
    PGROUP,
    TRAN_MSG,
    UNIQ_KEY,
    Message,
    MessageExt,
    create_unique_id,
)
from mqspec.client.producer import Producer, ProducerConfig
from mqspec.client.publish import SendResult
from mqspec.client.recorder import Recorder
from mqspec.core.record import SysFlag
from mqspec.core.response import ResponseCode
from mqspec.core.types import ClientId, Group, MessageQueue
from mqspec.transport import Connection
from mqspec.wire import headers
from mqspec.wire.bodies import decode_messages
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

log = logging.getLogger(__name__)


class LocalTransactionState(IntEnum):
    """What became of a local transaction, as request 37 says it."""

    UNKNOW = 0  # the broker asks later
    COMMIT_MESSAGE = SysFlag.COMMIT
    ROLLBACK_MESSAGE = SysFlag.ROLLBACK


class TransactionListener(Protocol):
    """The user's side of transactions. An exception means UNKNOW."""

    async def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        """Do it, now that the half message is stored."""

    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        """Say what became of it, here or in another process of the producer group."""


@dataclass(frozen=True, slots=True)
class TransactionSendResult:
    """A half message is stored, and the broker was told one-way what became of it."""

    send_result: SendResult
    local_transaction_state: LocalTransactionState


class TransactionProducer(Producer):
    """A producer whose messages become visible when its local transaction commits."""

    def __init__(
        self,
        nameserver: str,
        group: Group,
        listener: TransactionListener,
        recorder: Recorder | None = None,
        config: ProducerConfig | None = None,
        client_id: ClientId | None = None,
    ) -> None:
        super().__init__(nameserver, group, recorder, config, client_id)
        self._listener = listener

    async def send_in_transaction(
        self, message: Message, arg: object = None
    ) -> TransactionSendResult:
        """Send a half message, run the local transaction, and tell the broker how it ended.

        The local transaction gets the message as it was sent: its UNIQ_KEY, the transaction's id,
        is the `message_id` of what is checked later.

        The message's delay is left out, as the real client leaves out its level. A half that
        is stored less safely than asked is rolled back. Raises what `send` raises; then the
        local transaction did not run.
        """
        named = {TRAN_MSG: "true", PGROUP: self.group}
        named[UNIQ_KEY] = message.properties.get(UNIQ_KEY) or create_unique_id()
        kept = {name: value for name, value in message.properties.items() if name != DELAY}
        half = replace(message, properties={**kept, **named}, delay_level=None)
        result = await self.send(half)
        state, remark = LocalTransactionState.ROLLBACK_MESSAGE, None
        if result.status == ResponseCode.SUCCESS:
            state = LocalTransactionState.UNKNOW
            try:
                state = await self._listener.execute_local_transaction(half, arg) or state
            except Exception as error:
                log.exception("%s: the local transaction failed", self.group)
                remark = f"executeLocalTransactionBranch exception: {error!r}"
        try:
            await self._instance.oneway(
                result.queue.broker_name, self._end_transaction(result, state, remark)
            )
        except NOT_ANSWERED as error:  # the broker will ask
            log.warning("%s: the decision is not told: %s", self.group, error)
        return TransactionSendResult(result, state)

    def _serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code != RequestCode.CHECK_TRANSACTION_STATE:
            return super()._serve(connection, request)
        self._tasks.spawn(self._check(connection, request))
        return None

    async def _check(self, connection: Connection, request: RemotingCommand) -> None:
        (record,) = decode_messages(request.body)
        broker = request.ext_fields.get("bname", "")
        message = MessageExt(record, MessageQueue(record.topic, broker, record.queue_id))
        state, remark = LocalTransactionState.UNKNOW, None
        try:
            state = await self._listener.check_local_transaction(message) or state
        except Exception as error:
            log.exception("%s: the check of %s failed", self.group, message.message_id)
            remark = f"checkLocalTransactionState Exception: {error!r}"
        fields = {
            "topic": headers.text(request, "topic"),
            "producerGroup": message.properties.get(PGROUP, self.group),
            "tranStateTableOffset": headers.text(request, "tranStateTableOffset"),
            "commitLogOffset": headers.text(request, "commitLogOffset"),
            "commitOrRollback": str(state.value),
            "fromTransactionCheck": "true",
            "msgId": message.properties.get(UNIQ_KEY, message.message_id),
            "transactionId": request.ext_fields.get("transactionId", ""),
            "bname": broker,
        }
        connection.oneway(RemotingCommand(RequestCode.END_TRANSACTION, fields, remark=remark))

    def _end_transaction(
        self, result: SendResult, state: LocalTransactionState, remark: str | None
    ) -> RemotingCommand:
        fields: Mapping[str, str] = {
            "topic": result.queue.topic,
            "producerGroup": self.group,
            "tranStateTableOffset": str(result.queue_offset),
            "commitLogOffset": str(int(result.offset_message_id[-16:], 16)),
            "commitOrRollback": str(state.value),
            "fromTransactionCheck": "false",
            "msgId": result.message_id,
            "transactionId": result.transaction_id or result.message_id,
            "bname": result.queue.broker_name,
        }
        return RemotingCommand(RequestCode.END_TRANSACTION, fields, remark=remark)
