"""The producer: one message or a batch, to whose turn it is, to one queue, one-way, or at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Any, Self

from mqrules import EventKind, Outcome
from mqspec.client.credentials import SessionCredentials
from mqspec.client.instance import (
    NOT_ANSWERED,
    POLL_NAME_SERVER_INTERVAL_MS,
    ClientError,
    ClientInstance,
    check_group,
)
from mqspec.client.message import Message
from mqspec.client.presence import Presence
from mqspec.client.publish import Outgoing, PublishConfig, Publisher, SendResult
from mqspec.client.recorder import Recorder, nowhere
from mqspec.client.tasks import Tasks
from mqspec.core.group import HEARTBEAT_INTERVAL_MS
from mqspec.core.producer import (
    BACK_PRESSURE_FOR_ASYNC_SEND_NUM,
    BACK_PRESSURE_FOR_ASYNC_SEND_SIZE,
)
from mqspec.core.types import ClientId, Group, MessageQueue, Topic
from mqspec.transport import Connection, refuse
from mqspec.wire.bodies import HeartbeatData, ProducerData
from mqspec.wire.codec import RemotingCommand

log = logging.getLogger(__name__)

MessageQueueSelector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses the queue of a message. Messages of one queue keep their order."""


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """How a producer behaves; the defaults are those of DefaultMQProducer, 5.3.3."""

    publish: PublishConfig = field(default_factory=PublishConfig)
    heartbeat_broker_interval_ms: int = HEARTBEAT_INTERVAL_MS
    poll_name_server_interval_ms: int = POLL_NAME_SERVER_INTERVAL_MS
    back_pressure_for_async_send_num: int = BACK_PRESSURE_FOR_ASYNC_SEND_NUM
    back_pressure_for_async_send_size: int = BACK_PRESSURE_FOR_ASYNC_SEND_SIZE
    ssl: SSLContext | None = None  # mqspec.tls.client_context
    credentials: SessionCredentials | None = None


class Producer:
    """A member of a producer group; an async context manager.

    Raises UserError on entry where the nameserver does not answer. On leaving the context it
    waits for what `send_async` began, and leaves the group; `kill` does neither.
    """

    def __init__(
        self,
        nameserver: str,
        group: Group = "PG_mqspec",
        recorder: Recorder | None = None,
        config: ProducerConfig | None = None,
        client_id: ClientId | None = None,
    ) -> None:
        check_group(group)
        self.group = group
        self.config = config or ProducerConfig()
        self._instance = ClientInstance(
            nameserver,
            self._serve,
            client_id,
            ssl=self.config.ssl,
            credentials=self.config.credentials,
            on_connect=lambda connection: self._presence.connected(connection),
        )
        self._publisher = Publisher(self._instance, group, self.config.publish)
        self._record = recorder or nowhere()
        self._tasks = Tasks()
        self._presence = Presence(
            self._instance,
            self._tasks,
            self._heartbeat,
            lambda: self._instance.routes,
            replicas=False,
        )
        self._in_flight: set[asyncio.Task[SendResult]] = set()
        self._room = _Room(
            self.config.back_pressure_for_async_send_num,
            self.config.back_pressure_for_async_send_size,
        )

    @property
    def client_id(self) -> ClientId:
        """The producer's id, once it is started."""
        return self._instance.client_id

    async def __aenter__(self) -> Self:
        await self._instance.start()
        # As long as it knows no other topic, the template's brokers learn of the producer.
        await self._instance.update_routes([self.config.publish.create_topic_key])
        await self._presence.announce()
        self._tasks.every(self.config.poll_name_server_interval_ms, self._update_routes)
        self._tasks.every(self.config.heartbeat_broker_interval_ms, self._presence.announce)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def shutdown(self) -> None:
        """Wait for what is being sent, and leave the group. Does nothing the second time."""
        if not self._tasks:
            return
        await asyncio.gather(*self._in_flight, return_exceptions=True)
        await self._tasks.cancel()
        await self._presence.leave(producerGroup=self.group)
        await self._instance.close()

    async def kill(self) -> None:
        """End as a process does that is killed."""
        self._instance.abort()
        for task in self._in_flight:
            task.cancel()
        await asyncio.gather(*self._in_flight, return_exceptions=True)
        await self._tasks.cancel()

    async def publish_message_queues(self, topic: Topic) -> list[MessageQueue]:
        """Where messages of the topic may go. Raises UnreachableError where nowhere."""
        return await self._publisher.queues(topic)

    async def send(
        self,
        message: Message,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
    ) -> SendResult:
        """Send one message: to `queue` once, or on up to three queues, in `timeout_ms` together.

        Raises MessageError where the message is none to send, BrokerError where a broker
        refuses it, UnreachableError where none was reached, and any other of NOT_ANSWERED where
        it may be stored or not.
        """
        return await self._send([message], self._publisher.message(message), queue, timeout_ms)

    async def send_orderly(
        self, message: Message, selector: MessageQueueSelector, timeout_ms: int | None = None
    ) -> SendResult:
        """Send one message to the queue that `selector` chooses, and to no other."""
        queues = await self.publish_message_queues(message.topic)
        return await self.send(message, timeout_ms, selector(queues, message))

    async def send_batch(
        self,
        messages: Sequence[Message],
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
    ) -> SendResult:
        """Send messages of one topic, none of them delayed, to be stored one after the other.

        Raises what `send` raises; 4 MiB are the most, and what is too large is not split.
        """
        return await self._send(messages, self._publisher.batch(messages), queue, timeout_ms)

    async def send_async(
        self,
        message: Message,
        timeout_ms: int | None = None,
        queue: MessageQueue | None = None,
    ) -> asyncio.Task[SendResult]:
        """Begin to send one message, as soon as so few are in flight that there is room.

        The task ends as `send` does.
        """
        outgoing = self._publisher.message(message)
        await self._room.enter(len(message.body))
        sending = self._send([message], outgoing, queue, timeout_ms, is_async=True)
        task = asyncio.create_task(sending)
        self._in_flight.add(task)

        def ended(_: asyncio.Task[SendResult]) -> None:
            self._in_flight.discard(task)
            self._room.leave(len(message.body))

        task.add_done_callback(ended)
        return task

    async def send_oneway(self, message: Message, queue: MessageQueue | None = None) -> None:
        """Send one message and hear nothing of it: it may be lost.

        Raises MessageError and UnreachableError.
        """
        outgoing = self._publisher.message(message)
        chosen = await self._publisher.oneway(outgoing, queue)
        about = {**self._about(message), "message_id": outgoing.message_id}
        self._record(
            EventKind.SEND,
            Outcome.UNKNOWN,
            broker=chosen.broker_name,
            queue_id=chosen.queue_id,
            **about,
        )

    def _serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        return refuse(connection, request)

    async def _send(
        self,
        messages: Sequence[Message],
        outgoing: Outgoing,
        queue: MessageQueue | None,
        timeout_ms: int | None,
        *,
        is_async: bool = False,
    ) -> SendResult:
        rows = [self._about(message) for message in messages]

        def invoke() -> list[str]:
            return [self._record(EventKind.SEND, Outcome.INVOKED, **row) for row in rows]

        invoked = invoke()
        try:
            result = await self._publisher.send(
                outgoing, queue, timeout_ms, is_async=is_async, trying_again=invoke
            )
        except NOT_ANSWERED as error:
            outcome = Outcome.FAILED if isinstance(error, ClientError) else Outcome.UNKNOWN
            for row, cause in zip(rows, invoked, strict=True):
                self._record(EventKind.SEND, outcome, cause=cause, **row)
            raise
        ids = result.message_id.split(",")
        for i, (row, cause) in enumerate(zip(rows, invoked, strict=True)):
            self._record(
                EventKind.SEND,
                cause=cause,
                broker=result.queue.broker_name,
                queue_id=result.queue.queue_id,
                queue_offset=result.queue_offset + i,
                message_id=ids[i],
                **row,
            )
        return result

    def _about(self, message: Message) -> dict[str, Any]:
        return {
            "topic": message.topic,
            "message_key": message.keys,
            "tag": message.tags,
            "client_id": self.client_id,
        }

    async def _update_routes(self) -> None:
        topics = dict.fromkeys((*self._instance.routes, *self._publisher.topics))
        await self._instance.update_routes(topics)

    def _heartbeat(self) -> HeartbeatData:
        return HeartbeatData(self.client_id, producer_data_set=(ProducerData(self.group),))


class _Room:
    """Of so many messages, and so many bytes of them, at once."""

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self._messages_left, self._bytes_left = messages_max, bytes_max
        self._bytes_max = bytes_max
        self._freed = asyncio.Event()

    async def enter(self, size: int) -> None:
        """Wait until there is room; a message larger than all of it waits for all of it."""
        size = min(size, self._bytes_max)
        while not self._messages_left or self._bytes_left < size:
            self._freed.clear()
            await self._freed.wait()
        self._messages_left -= 1
        self._bytes_left -= size

    def leave(self, size: int) -> None:
        """A message is answered."""
        self._messages_left += 1
        self._bytes_left += min(size, self._bytes_max)
        self._freed.set()
