"""Messages of all queues go to many listener calls at once, in no order.

Facts: client/impl/consumer/{ConsumeMessageConcurrentlyService,ProcessQueue}.java, 5.3.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mqrules import EventKind, Outcome
from mqspec.client.clock import now_ms
from mqspec.client.listener import ConsumeStatus, consume
from mqspec.client.message import MessageExt
from mqspec.client.push_work import PushWork
from mqspec.client.tasks import sleep_ms
from mqspec.core.offset_commit import Consumed, held, process_consume_result
from mqspec.core.push_consumer import (
    CLEAN_EXPIRED_MSG_DELAY_LEVEL,
    CLEAN_EXPIRED_MSG_MAX,
    acknowledged,
    first_expired,
)
from mqspec.core.types import MessageQueue

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ConsumeRequest:
    """Messages of one process queue, on their way to the listener."""

    mq: MessageQueue
    generation: int
    messages: tuple[MessageExt, ...]


class ConsumeMessageConcurrentlyService:
    """As many workers as `consume_threads`, and a look now and then for what is stuck."""

    def __init__(self, consumer: PushWork) -> None:
        self._consumer = consumer
        self._requests: asyncio.Queue[ConsumeRequest] = asyncio.Queue()

    def begin(self) -> None:
        """The consumer has joined its group."""
        consumer, config = self._consumer, self._consumer.config
        for _ in range(config.consume_threads):
            consumer.tasks.spawn(self._work())
        if not consumer.is_broadcasting:
            consumer.tasks.every(config.consume_timeout_ms, self._clean_expired_messages)

    async def end(self) -> None:
        """The consumer leaves its group."""

    def begin_queue(self, mq: MessageQueue, generation: int) -> None:
        """The consumer holds one queue more."""

    def end_queue(self, mq: MessageQueue) -> None:
        """The consumer does not hold the queue any more."""

    def submit(self, mq: MessageQueue, generation: int, messages: Sequence[MessageExt]) -> None:
        """Messages are pulled."""
        size = self._consumer.config.consume_message_batch_max_size
        for at in range(0, len(messages), size):
            batch = tuple(messages[at : at + size])
            self._requests.put_nowait(ConsumeRequest(mq, generation, batch))

    async def _work(self) -> None:
        while True:
            request = await self._requests.get()
            if held(self._consumer.state, request.mq, request.generation) is not None:
                await self._consume(request)

    async def _consume(self, request: ConsumeRequest) -> None:
        consumer = self._consumer
        messages = request.messages
        consumer.messages.start(request.mq, messages, now_ms())
        for message in messages:
            consumer.record(EventKind.RECEIVE, **consumer.message_fields(message))
        result = await consume(consumer.listener, messages)
        success = result.status is ConsumeStatus.CONSUME_SUCCESS
        count = acknowledged(len(messages), success=success, ack_index=result.ack_index)
        for i, message in enumerate(messages):
            outcome = Outcome.OK if i < count else Outcome.FAILED
            consumer.record(EventKind.ACK, outcome, **consumer.message_fields(message))
        failed = messages[count:]
        if held(consumer.state, request.mq, request.generation) is None:
            return  # whoever has the queue now gets them again
        again: list[MessageExt] = []
        if failed and consumer.is_broadcasting:
            log.warning("%s: %d messages are given up", consumer.group, len(failed))
        elif failed:
            again = await self._send_back(request, failed, result.delay_level_when_next_consume)
        stay = {message.queue_offset for message in again}
        await self._finish(request, [m for m in messages if m.queue_offset not in stay])
        if again:
            consumer.tasks.spawn(self._consume_again(replace(request, messages=tuple(again))))

    async def _send_back(
        self, request: ConsumeRequest, failed: Sequence[MessageExt], delay_level: int
    ) -> list[MessageExt]:
        """Send messages back; those that nobody takes are to be consumed here again."""
        consumer = self._consumer
        again: list[MessageExt] = []
        for message in failed:
            if not consumer.messages.get(request.mq, [message.queue_offset]):
                continue  # it took too long, and was sent back already
            if not await consumer.send_back.send_message_back(message, delay_level):
                again.append(message.after_failure())
        return again

    async def _finish(self, request: ConsumeRequest, done: Sequence[MessageExt]) -> None:
        """Messages leave the process queue, unless it was dropped meanwhile."""
        consumer = self._consumer
        if held(consumer.state, request.mq, request.generation) is None:
            return
        offsets = tuple(message.queue_offset for message in done)
        size_bytes = consumer.messages.remove(request.mq, offsets)
        event = Consumed(request.mq, request.generation, offsets, size_bytes)
        await consumer.carry_out(process_consume_result(consumer.state, event))

    async def _consume_again(self, request: ConsumeRequest) -> None:
        await sleep_ms(self._consumer.config.consume_again_delay_ms)
        if held(self._consumer.state, request.mq, request.generation) is not None:
            self._consumer.messages.put(request.mq, request.messages)
            self._requests.put_nowait(request)

    async def _clean_expired_messages(self) -> None:
        for mq, queue in tuple(self._consumer.state.process_queue_table.items()):
            for _ in range(CLEAN_EXPIRED_MSG_MAX):
                if not await self._clean_one(mq, queue.generation):
                    break

    async def _clean_one(self, mq: MessageQueue, generation: int) -> bool:
        """Send the queue's first message back where the listener has it for too long; whether it
        had. One that could not be sent stays, and is the next to be looked at, as in 5.3.3.

        The listener may be done with it while it is on its way: then it comes again all the
        same (scenario G).
        """
        consumer = self._consumer
        queue = held(consumer.state, mq, generation)
        if queue is None:
            return False
        offset = first_expired(
            queue.msg_tree_map,
            consumer.messages.consume_start_ms(mq),
            consumer.config.consume_timeout_ms,
            now_ms(),
        )
        if offset is None:
            return False
        (message,) = consumer.messages.get(mq, [offset])
        if await consumer.send_back.send_message_back(message, CLEAN_EXPIRED_MSG_DELAY_LEVEL):
            consumer.record(EventKind.ACK, Outcome.FAILED, **consumer.message_fields(message))
            await self._finish(ConsumeRequest(mq, generation, (message,)), [message])
        return True
