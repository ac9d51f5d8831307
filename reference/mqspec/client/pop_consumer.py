"""The POP consumer: it asks for messages, and answers for each of them.

It holds no queue and needs no rebalance: any number of them share each queue. Every message is
the consumer's for a while, its invisible time; what is not acknowledged by then goes to whoever
pops next. It is a member of its group all the same, as the real client is that pops: those that
manage a group see it, and whoever is in the group and allocates queues by itself counts it.

Facts: client/impl/MQClientAPIImpl.java (popMessageAsync, ackMessageAsync,
changeInvisibleTimeAsync), client/impl/consumer/DefaultMQPushConsumerImpl.java (start,
copySubscription), 5.3.3.
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from types import TracebackType
from typing import Final, Self

from msgspec import structs

from mqrules import UserError
from mqspec.client.clock import wall_ms
from mqspec.client.credentials import SessionCredentials
from mqspec.client.instance import (
    NOT_ANSWERED,
    POLL_NAME_SERVER_INTERVAL_MS,
    AnswerError,
    ClientInstance,
    UnreachableError,
    check_group,
    int_field,
    succeeded,
)
from mqspec.client.message import RETRY_TOPIC_PREFIX, MessageExt
from mqspec.client.presence import Presence
from mqspec.client.subscription import build_subscriptions, subscription_body
from mqspec.client.tasks import Tasks
from mqspec.core.extra_info import (
    NORMAL_TOPIC,
    HandleError,
    ReceiptHandle,
    parse_handle,
    parse_order_count_info,
    parse_start_offset_info,
    real_topic,
)
from mqspec.core.group import (
    HEARTBEAT_INTERVAL_MS,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
)
from mqspec.core.pop import INIT_MIN, MAX_MSG_NUMS, POP_CK
from mqspec.core.push_consumer import MAX_RECONSUME_TIMES, is_wanted
from mqspec.core.record import Record
from mqspec.core.response import ResponseCode
from mqspec.core.subscription import ALL
from mqspec.core.types import BrokerName, ClientId, Group, MessageQueue, Topic
from mqspec.wire.bodies import ConsumerData, HeartbeatData, decode_messages
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

log = logging.getLogger(__name__)

_NOTHING: Final = (ResponseCode.POLLING_TIMEOUT, ResponseCode.POLLING_FULL)
_ANSWER_MS: Final = 10_000  # how long an answer may take beside the time that it is held


@dataclass(frozen=True, slots=True)
class PopConfig:
    """How a POP consumer behaves."""

    invisible_time_ms: int = 60_000
    poll_time_ms: int = 15_000  # how long a pop waits for messages
    max_msg_nums: int = MAX_MSG_NUMS
    order: bool = False  # a queue gives nothing more while a message of it is out
    init_mode: int = INIT_MIN  # of a group that has no progress; 1: it begins at the end
    heartbeat_broker_interval_ms: int = HEARTBEAT_INTERVAL_MS
    poll_name_server_interval_ms: int = POLL_NAME_SERVER_INTERVAL_MS
    max_reconsume_times: int = MAX_RECONSUME_TIMES  # what came again more often is given up
    ssl: SSLContext | None = None  # mqspec.tls.client_context
    credentials: SessionCredentials | None = None


@dataclass(frozen=True)
class PopMessage(MessageExt):
    """A message that was popped, with what is shown for it."""

    handle: ReceiptHandle


class PopConsumer:
    """A consumer of one topic; an async context manager.

    `async with PopConsumer(nameserver, "G", "T") as consumer: await consumer.pop()`. On leaving
    the context it leaves the group; `kill` does not.

    Raises UserError where the nameserver does not answer, knows no such topic, or the expression
    subscribes to nothing.
    """

    def __init__(
        self,
        nameserver: str,
        group: Group,
        topic: Topic,
        expression: str = ALL,
        config: PopConfig | None = None,
        client_id: ClientId | None = None,
    ) -> None:
        check_group(group)
        self.group, self.topic, self.config = group, topic, config or PopConfig()
        subscriptions = {topic: expression, RETRY_TOPIC_PREFIX + group: ALL}
        self._subscriptions = build_subscriptions(group, subscriptions)
        self._wanted = self._subscriptions[topic]
        self._instance = ClientInstance(
            nameserver,
            client_id=client_id,
            ssl=self.config.ssl,
            credentials=self.config.credentials,
            on_connect=lambda connection: self._presence.connected(connection),
        )
        self._tasks = Tasks()
        self._presence = Presence(
            self._instance, self._tasks, self._heartbeat, lambda: (self.topic,)
        )
        self._turns = itertools.count()
        # Of pops that were not answered: asked again by the same id, they give the same batch.
        self._attempt_ids: dict[BrokerName, str] = {}

    @property
    def client_id(self) -> ClientId:
        """The consumer's id, once it is started."""
        return self._instance.client_id

    async def __aenter__(self) -> Self:
        await self._instance.start()
        self._version_ms = wall_ms()
        if await self._instance.update_route(self.topic) is None:
            await self._instance.close()
            raise UserError(self.topic, "the nameserver knows no such topic", "create it")
        await self._presence.announce()
        self._tasks.every(self.config.poll_name_server_interval_ms, self._update_route)
        self._tasks.every(self.config.heartbeat_broker_interval_ms, self._presence.announce)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """What is out stays out until its time is up."""
        await self._tasks.cancel()
        await self._presence.leave(consumerGroup=self.group)
        await self._instance.close()

    async def kill(self) -> None:
        """End as a process does that is killed."""
        self._instance.abort()
        await self._tasks.cancel()

    async def _update_route(self) -> None:
        await self._instance.update_routes([self.topic])

    def _heartbeat(self) -> HeartbeatData:
        from_where = (
            ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
            if self.config.init_mode == INIT_MIN
            else ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
        )
        consumer = ConsumerData(
            self.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=from_where,
            subscription_data_set=tuple(
                subscription_body(data, self._version_ms) for data in self._subscriptions.values()
            ),
        )
        return HeartbeatData(self.client_id, (consumer,))

    async def pop(self) -> Sequence[PopMessage]:
        """Messages of one broker, each of the topic's in its turn; none where none came in time.

        What nobody wants, or came again too often, is acknowledged here and not given: no broker
        parks what is popped (DefaultMQPushConsumerImpl.processPopResult). Raises BrokerError where
        the broker refuses, and what a request raises.
        """
        brokers = self._instance.brokers([self.topic])
        if not brokers:
            raise UnreachableError(f"{self.topic}: no broker has it")
        broker = brokers[next(self._turns) % len(brokers)]
        attempt_id = self._attempt_ids.pop(broker, None) or uuid.uuid4().hex
        config = self.config
        fields = {
            "consumerGroup": self.group,
            "topic": self.topic,
            "queueId": "-1",
            "maxMsgNums": str(config.max_msg_nums),
            "invisibleTime": str(config.invisible_time_ms),
            "pollTime": str(config.poll_time_ms),
            "bornTime": str(wall_ms()),
            "initMode": str(config.init_mode),
            "expType": self._wanted.expression_type,
            "exp": self._wanted.sub_string,
            "order": str(config.order).lower(),
            "attemptId": attempt_id,
            "bname": broker,
        }
        request = RemotingCommand(RequestCode.POP_MESSAGE, fields)
        try:
            timeout_ms = config.poll_time_ms + _ANSWER_MS
            response = await self._instance.invoke(broker, request, timeout_ms, is_async=True)
        except BaseException:
            self._attempt_ids[broker] = attempt_id
            raise
        if response.code in _NOTHING:
            return ()
        messages = self._messages(broker, succeeded(response))
        for message in itertools.filterfalse(self._is_given, messages):
            await self._ack_unseen(message)
        return tuple(filter(self._is_given, messages))

    def _is_given(self, message: PopMessage) -> bool:
        # Its tag may merely have the hash of one that is wanted.
        is_in_time = message.reconsume_times <= self.config.max_reconsume_times
        return is_in_time and is_wanted(self._wanted, message.tags)

    async def _ack_unseen(self, message: PopMessage) -> None:
        try:
            await self.ack(message)
        except NOT_ANSWERED as error:  # it comes again
            log.warning("%s: %s is not acknowledged: %s", self.group, message.message_id, error)

    async def ack(self, message: PopMessage) -> None:
        """The message is consumed. Also where its time is up, which the broker does not tell.

        Raises BrokerError where there is no such message, and what a request raises.
        """
        await self._show(message, RequestCode.ACK_MESSAGE, {})

    async def change_invisible_time(
        self, message: PopMessage, invisible_time_ms: int
    ) -> PopMessage:
        """Have the message for so long from now on. Result: the message with its new handle;
        the old one is of no use any more. Raises as `ack`."""
        fields = {"invisibleTime": str(invisible_time_ms)}
        response = await self._show(message, RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)
        handle = message.handle
        if not self.config.order:  # whose messages stay in the batch that they were popped in
            handle = handle._replace(ck_queue_offset=handle.queue_offset)
        handle = handle._replace(
            pop_time=int_field(response, "popTime"),
            invisible_time=int_field(response, "invisibleTime"),
            revive_qid=int_field(response, "reviveQid"),
        )
        return PopMessage(message.record, message.queue, handle)

    async def _show(
        self, message: PopMessage, code: RequestCode, more: Mapping[str, str]
    ) -> RemotingCommand:
        handle = message.handle
        fields = {
            "consumerGroup": self.group,
            "topic": real_topic(self.topic, self.group, handle.topic_flag),
            "queueId": str(handle.queue_id),
            "offset": str(handle.queue_offset),
            "extraInfo": str(handle),
            "bname": handle.broker_name,
        }
        request = RemotingCommand(code, {**fields, **more})
        return succeeded(await self._instance.invoke(handle.broker_name, request, is_async=True))

    def _messages(self, broker: BrokerName, response: RemotingCommand) -> list[PopMessage]:
        try:
            starts = parse_start_offset_info(response.ext_fields.get("startOffsetInfo", ""))
            counts = parse_order_count_info(response.ext_fields.get("orderCountInfo", ""))
            return [
                self._message(broker, record, response, starts, counts)
                for record in decode_messages(response.body)
            ]
        except (HandleError, KeyError, ValueError) as error:
            raise AnswerError(f"what was popped has no receipt handle: {error!r:.80}") from None

    def _message(
        self,
        broker: BrokerName,
        record: Record,
        response: RemotingCommand,
        starts: Mapping[tuple[str, int], int],
        counts: Mapping[tuple[str, str], int],
    ) -> PopMessage:
        found = MessageExt(record, MessageQueue(self.topic, broker, record.queue_id))
        if text := found.properties.get(POP_CK):  # of a message that comes again
            return PopMessage(record, found.queue, parse_handle(text))
        of_queue = counts.get((NORMAL_TOPIC, str(record.queue_id)), 0)
        place = f"qo{record.queue_id}%{record.queue_offset}"
        if count := counts.get((NORMAL_TOPIC, place), of_queue):
            record = structs.replace(record, reconsume_times=count)
        handle = ReceiptHandle(
            starts[NORMAL_TOPIC, record.queue_id],
            int_field(response, "popTime"),
            int_field(response, "invisibleTime"),
            int_field(response, "reviveQid"),
            NORMAL_TOPIC,
            broker,
            record.queue_id,
            record.queue_offset,
        )
        return PopMessage(record, found.queue, handle)
