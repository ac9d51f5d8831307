"""How a message gets to a broker (DefaultMQProducerImpl.java, 5.3.3).

A consumer has a publisher as well: it sends what no broker takes back to its retry topic.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqspec.client.instance import (
    NOT_ANSWERED,
    BrokerError,
    ClientError,
    ClientInstance,
    UnreachableError,
    int_field,
)
from mqspec.client.message import (
    MAX_RECONSUME_TIMES,
    RECONSUME_TIME,
    RETRY_TOPIC_PREFIX,
    TRAN_MSG,
    UNIQ_KEY,
    WAIT,
    Message,
    create_unique_id,
)
from mqspec.core.metadata import AUTO_CREATE_TOPIC
from mqspec.core.producer import (
    COMPRESS_MSG_BODY_OVER_HOWMUCH,
    DEFAULT_TOPIC_QUEUE_NUMS,
    MAX_MESSAGE_SIZE,
    RETRY_TIMES_WHEN_SEND_FAILED,
    SEND_MSG_TIMEOUT_MS,
    STORED,
    ProducerState,
    check_batch,
    check_message,
    is_tried_again,
    publish_queues,
    select_one_message_queue,
    update_fault_item,
)
from mqspec.core.record import BatchMessage, SysFlag, encode_properties
from mqspec.core.route import TopicRouteData
from mqspec.core.step import apply
from mqspec.core.types import BrokerName, Group, MessageQueue, Topic
from mqspec.wire.bodies import encode_batch
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

ZLIB_LEVEL: Final = 5
CLIENT_INNER_PRODUCER: Final = "CLIENT_INNER_PRODUCER"  # the producer group of a consumer


class MessageError(ClientError):
    """The message cannot be sent as it is: nothing was."""


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """How a producer sends; the defaults are those of DefaultMQProducer, 5.3.3."""

    send_msg_timeout_ms: int = SEND_MSG_TIMEOUT_MS
    send_msg_max_timeout_per_request_ms: int | None = None  # of a try that another may follow
    retry_times_when_send_failed: int = RETRY_TIMES_WHEN_SEND_FAILED
    retry_another_broker_when_not_store_ok: bool = False
    send_latency_fault_enable: bool = False
    compress_msg_body_over_howmuch: int = COMPRESS_MSG_BODY_OVER_HOWMUCH
    max_message_size: int = MAX_MESSAGE_SIZE
    create_topic_key: Topic = AUTO_CREATE_TOPIC
    default_topic_queue_nums: int = DEFAULT_TOPIC_QUEUE_NUMS


@dataclass(frozen=True, slots=True)
class SendResult:
    """A message, or a batch of them, is stored."""

    status: int  # 0, or 10, 11, 12: stored, but not flushed or not replicated in time
    queue: MessageQueue
    queue_offset: int  # of a batch: of the first; of a half message: in the half topic's queue
    message_id: str  # UNIQ_KEY, the producer's own; of a batch: of each, with commas
    offset_message_id: str  # the same of where it is stored
    transaction_id: str | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message or batch as it goes to a broker."""

    topic: Topic
    body: bytes
    properties: Mapping[str, str]
    flag: int = 0
    sys_flag: int = 0
    message_id: str = ""
    code: RequestCode = RequestCode.SEND_MESSAGE_V2
    fields: Mapping[str, str] = field(default_factory=dict)  # of the header, beside the usual


class Publisher:
    """Sends over the connections of one client."""

    def __init__(
        self, instance: ClientInstance, group: Group, config: PublishConfig | None = None
    ) -> None:
        self.group = group
        self.config = config or PublishConfig()
        self.state = ProducerState()
        self._instance = instance
        # TopicPublishInfo, by topic, and what it was made from.
        self._publish_info: dict[Topic, tuple[TopicRouteData, list[MessageQueue]]] = {}

    def message(self, message: Message) -> Outgoing:
        """One message, ready to be sent. Raises MessageError."""
        self._refuse(check_message(message.topic, message.body, self.config.max_message_size))
        properties = {UNIQ_KEY: create_unique_id(), **message.all_properties()}
        message_id = properties[UNIQ_KEY]
        body, sys_flag = message.body, 0
        if len(body) >= self.config.compress_msg_body_over_howmuch:
            body = zlib.compress(body, ZLIB_LEVEL)
            sys_flag |= SysFlag.COMPRESSED | SysFlag.ZLIB
        if properties.get(TRAN_MSG) == "true":
            sys_flag |= SysFlag.PREPARED
        fields: dict[str, str] = {}
        if message.topic.startswith(RETRY_TOPIC_PREFIX):  # a consumer sends a message back
            fields["j"] = properties.pop(RECONSUME_TIME, "0")
            if MAX_RECONSUME_TIMES in properties:
                fields["l"] = properties.pop(MAX_RECONSUME_TIMES)
        return Outgoing(
            message.topic, body, properties, message.flag, sys_flag, message_id, fields=fields
        )

    def batch(self, messages: Sequence[Message]) -> Outgoing:
        """Messages of one topic, to be stored one after the other. Raises MessageError.

        To split what is too large is up to the caller.
        """
        properties = [{UNIQ_KEY: create_unique_id(), **m.all_properties()} for m in messages]
        self._refuse(check_batch([(m.topic, p) for m, p in zip(messages, properties, strict=True)]))
        body = encode_batch(
            BatchMessage(m.body, encode_properties(p).encode(), m.flag)
            for m, p in zip(messages, properties, strict=True)
        )
        topic = messages[0].topic
        for message in messages:
            self._refuse(check_message(topic, message.body, self.config.max_message_size))
        self._refuse(check_message(topic, body, self.config.max_message_size))
        message_id = ",".join(each[UNIQ_KEY] for each in properties)
        return Outgoing(
            topic,
            body,
            {WAIT: properties[0][WAIT]},
            message_id=message_id,
            code=RequestCode.SEND_BATCH_MESSAGE,
            fields={"m": "true"},
        )

    async def send(
        self,
        outgoing: Outgoing,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
        *,
        is_async: bool = False,
        trying_again: Callable[[], object] = lambda: None,
    ) -> SendResult:
        """Send it, to `queue` only, or to whose turn it is and after a failure to another one.

        `trying_again` is called before each try but the first.

        Raises BrokerError where a broker refuses it, UnreachableError where none was reached,
        and any other of NOT_ANSWERED where it may be stored or not.
        """
        config = self.config
        limit_ms = config.send_msg_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        if queue:
            await self._find_broker(queue)
        queues = [queue] if queue else await self.queues(outgoing.topic)
        last_broker: BrokerName | None = None
        failures: list[Exception] = []
        result: SendResult | None = None
        tries = 1 if queue else 1 + config.retry_times_when_send_failed
        for number in range(tries):
            left_ms = int((deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                break
            if number < tries - 1 and config.send_msg_max_timeout_per_request_ms is not None:
                left_ms = min(left_ms, config.send_msg_max_timeout_per_request_ms)
            if number:
                trying_again()
            chosen = queue or self._select(queues, last_broker)
            last_broker = chosen.broker_name
            start_ms = _now_ms()
            code: int | None = None
            try:
                result = await self._try(outgoing, chosen, left_ms, is_async=is_async)
                code = result.status
            except NOT_ANSWERED as error:
                failures.append(error)
                code = error.code if isinstance(error, BrokerError) else None
            if queue is None:
                self._update_fault_item(chosen.broker_name, start_ms, code)
            again = config.retry_another_broker_when_not_store_ok
            if not is_tried_again(code, retries_not_store_ok=again):
                break
        if result is not None:
            return result
        # One try without an answer leaves it open whether the message is stored.
        raise max(
            failures,
            key=lambda error: not isinstance(error, ClientError),
            default=UnreachableError("the time was over before the first try"),
        )

    async def oneway(self, outgoing: Outgoing, queue: MessageQueue | None = None) -> MessageQueue:
        """Send it once, and hear nothing of it. Raises UnreachableError."""
        if queue:
            await self._find_broker(queue)
        chosen = queue or self._select(await self.queues(outgoing.topic), None)
        await self._instance.oneway(chosen.broker_name, self._request(outgoing, chosen))
        return chosen

    async def queues(self, topic: Topic) -> list[MessageQueue]:
        """Where messages of the topic may go. Raises UnreachableError where nowhere.

        Of a topic that does not exist it is where its template is, until the route is asked for
        again: so it is created on all those brokers.
        """
        queues = self._known_queues(topic)
        if not queues and await self._instance.update_route(topic) is not None:
            queues = self._known_queues(topic)
        if not queues and topic not in self._instance.routes:
            template = await self._instance.update_route(self.config.create_topic_key)
            if template is not None:
                queues = publish_queues(topic, template, self.config.default_topic_queue_nums)
                self._publish_info[topic] = template, queues
        if not queues:
            raise UnreachableError(f"no route to the topic {topic}")
        return queues

    @property
    def topics(self) -> Collection[Topic]:
        """The topics that messages were sent to."""
        return self._publish_info

    def _known_queues(self, topic: Topic) -> list[MessageQueue]:
        known, queues = self._publish_info.get(topic, (None, []))
        route = self._instance.routes.get(topic)
        if route is not None and route is not known:
            queues = publish_queues(topic, route)
            self._publish_info[topic] = route, queues
        return queues

    async def _find_broker(self, queue: MessageQueue) -> None:
        """See that a route names the queue's broker, if any does."""
        if queue.broker_name not in self._instance.brokers(self._instance.routes):
            await self._instance.update_route(queue.topic)

    def _select(
        self, queues: Sequence[MessageQueue], last_broker: BrokerName | None
    ) -> MessageQueue:
        # Many producers that send little are not all to begin with the first queue.
        turns = self.state.send_which_queue
        turns.setdefault(queues[0].topic, random.randrange(len(queues)))
        now_ms = _now_ms() if self.config.send_latency_fault_enable else None
        step = select_one_message_queue(self.state, queues, last_broker, now_ms)
        apply(self.state, step.changes)
        chosen: MessageQueue = step.result
        return chosen

    def _update_fault_item(self, broker: BrokerName, start_ms: int, code: int | None) -> None:
        if not self.config.send_latency_fault_enable:
            return
        end_ms = _now_ms()
        isolation, reachable = code not in STORED, code is None or code in STORED
        step = update_fault_item(
            self.state,
            broker,
            end_ms - start_ms,
            end_ms,
            isolation=isolation,
            reachable=reachable,
        )
        apply(self.state, step.changes)

    async def _try(
        self, outgoing: Outgoing, queue: MessageQueue, timeout_ms: int, *, is_async: bool
    ) -> SendResult:
        request = self._request(outgoing, queue)
        response = await self._instance.invoke(
            queue.broker_name, request, timeout_ms, is_async=is_async
        )
        if response.code not in STORED:
            raise BrokerError(response)
        stored_in = int_field(response, "queueId")
        return SendResult(
            response.code,
            MessageQueue(queue.topic, queue.broker_name, stored_in),
            int_field(response, "queueOffset"),
            outgoing.message_id,
            response.ext_fields.get("msgId", ""),
            response.ext_fields.get("transactionId"),
        )

    def _request(self, outgoing: Outgoing, queue: MessageQueue) -> RemotingCommand:
        fields = {
            "a": self.group,
            "b": outgoing.topic,
            "c": self.config.create_topic_key,
            "d": str(self.config.default_topic_queue_nums),
            "e": str(queue.queue_id),
            "f": str(outgoing.sys_flag),
            "g": str(time.time_ns() // 1_000_000),
            "h": str(outgoing.flag),
            "i": encode_properties(outgoing.properties),
            "j": "0",
            "k": "false",
            "m": "false",
            "n": queue.broker_name,
            **outgoing.fields,
        }
        return RemotingCommand(outgoing.code, fields, outgoing.body)

    def _refuse(self, why: str | None) -> None:
        if why is not None:
            raise MessageError(why)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
