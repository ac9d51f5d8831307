"""A producer: round robin over the queues of a topic, and again elsewhere after a failure."""

from __future__ import annotations

import itertools
import random
import time
import uuid
from dataclasses import dataclass
from typing import Any, Self

from mqrules import EventKind, Outcome
from mqspec.client.instance import (
    NOT_ANSWERED,
    POLL_NAME_SERVER_INTERVAL_MS,
    BrokerError,
    ClientError,
    ClientInstance,
    UnreachableError,
    int_field,
)
from mqspec.client.message import UNIQ_KEY, Message
from mqspec.client.recorder import Recorder, nowhere
from mqspec.client.tasks import Tasks
from mqspec.core.group import HEARTBEAT_INTERVAL_MS
from mqspec.core.metadata import AUTO_CREATE_TOPIC
from mqspec.core.producer import (
    DEFAULT_TOPIC_QUEUE_NUMS,
    RETRY_RESPONSE_CODES,
    SEND_TIMEOUT_MS,
    STORED,
    TIMES_MAX,
    publish_queues,
    select_one_message_queue,
)
from mqspec.core.record import encode_properties
from mqspec.core.route import TopicRouteData
from mqspec.core.types import BrokerName, Group, MessageQueue, Topic
from mqspec.wire.bodies import HeartbeatData, ProducerData, to_body
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode


@dataclass(frozen=True, slots=True)
class SendResult:
    """A message is stored."""

    status: int  # 0, or 10, 11, 12: stored, but not flushed or not replicated in time
    queue: MessageQueue
    queue_offset: int
    message_id: str  # UNIQ_KEY, the producer's own
    offset_message_id: str


class Producer:
    """Sends messages; an async context manager.

    Raises UserError on entry where the nameserver does not answer.
    """

    def __init__(
        self, nameserver: str, group: Group = "PG_mqspec", recorder: Recorder | None = None
    ) -> None:
        self.group = group
        self._instance = ClientInstance(nameserver)
        self._record = recorder or nowhere()
        self._tasks = Tasks()
        self._turn = itertools.count(random.randrange(1 << 16))

    async def __aenter__(self) -> Self:
        await self._instance.start()
        self._tasks.every(POLL_NAME_SERVER_INTERVAL_MS, self._update_routes)
        self._tasks.every(HEARTBEAT_INTERVAL_MS, self._heartbeat)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.cancel()
        await self._instance.close()

    async def send(self, message: Message, timeout_ms: int = SEND_TIMEOUT_MS) -> SendResult:
        """Send one message, on up to three queues, in `timeout_ms` together.

        Raises BrokerError where a broker refuses it, UnreachableError where none was reached,
        and any other of NOT_ANSWERED where it may be stored or not.
        """
        about: dict[str, Any] = {
            "topic": message.topic,
            "message_key": message.keys,
            "tag": message.tags,
            "client_id": self._instance.client_id,
        }
        invoked = self._record(EventKind.SEND, Outcome.INVOKED, **about)
        try:
            result = await self._send(message, time.monotonic() + timeout_ms / 1000)
        except NOT_ANSWERED as error:
            outcome = Outcome.FAILED if isinstance(error, ClientError) else Outcome.UNKNOWN
            self._record(EventKind.SEND, outcome, cause=invoked, **about)
            raise
        self._record(
            EventKind.SEND,
            cause=invoked,
            broker=result.queue.broker_name,
            queue_id=result.queue.queue_id,
            queue_offset=result.queue_offset,
            message_id=result.message_id,
            **about,
        )
        return result

    async def _send(self, message: Message, deadline: float) -> SendResult:
        queues = await self._queues(message.topic)
        properties = {UNIQ_KEY: uuid.uuid4().hex.upper(), **message.all_properties()}
        last_broker: BrokerName | None = None
        failures: list[Exception] = []
        for turn in itertools.islice(self._turn, TIMES_MAX):
            left_ms = int((deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                break
            queue = select_one_message_queue(queues, turn, last_broker)
            last_broker = queue.broker_name
            request = self._request(message, properties, queue)
            try:
                response = await self._instance.invoke(queue.broker_name, request, left_ms)
            except NOT_ANSWERED as error:
                failures.append(error)
                continue
            if response.code in STORED:
                return SendResult(
                    response.code,
                    queue,
                    int_field(response, "queueOffset"),
                    properties[UNIQ_KEY],
                    response.ext_fields.get("msgId", ""),
                )
            failures.append(BrokerError(response))
            if response.code not in RETRY_RESPONSE_CODES:
                break
        # One try without an answer leaves it open whether the message is stored.
        raise max(
            failures,
            key=lambda error: not isinstance(error, ClientError),
            default=UnreachableError("the time was over before the first try"),
        )

    async def _update_routes(self) -> None:
        await self._instance.update_routes(tuple(self._instance.routes))

    async def _heartbeat(self) -> None:
        heartbeat = HeartbeatData(
            self._instance.client_id, producer_data_set=(ProducerData(self.group),)
        )
        request = RemotingCommand(RequestCode.HEART_BEAT, body=to_body(heartbeat))
        await self._instance.to_all_brokers(request, self._instance.routes)

    def _request(
        self, message: Message, properties: dict[str, str], queue: MessageQueue
    ) -> RemotingCommand:
        fields = {
            "a": self.group,
            "b": message.topic,
            "c": AUTO_CREATE_TOPIC,
            "d": str(DEFAULT_TOPIC_QUEUE_NUMS),
            "e": str(queue.queue_id),
            "f": "0",
            "g": str(time.time_ns() // 1_000_000),
            "h": "0",
            "i": encode_properties(properties),
            "j": "0",
            "k": "false",
            "m": "false",
            "n": queue.broker_name,
        }
        return RemotingCommand(RequestCode.SEND_MESSAGE_V2, fields, message.body)

    async def _queues(self, topic: Topic) -> list[MessageQueue]:
        route = self._instance.routes.get(topic) or await self._instance.update_route(topic)
        if route is not None:
            queues = publish_queues(topic, route)
        else:
            template = await self._instance.update_route(AUTO_CREATE_TOPIC) or TopicRouteData()
            queues = publish_queues(topic, template, DEFAULT_TOPIC_QUEUE_NUMS)
        if not queues:
            raise UnreachableError(f"no route to the topic {topic}")
        return queues
