"""Messages of one queue go to the listener one call after the other, while it is locked.

core.consume_orderly decides; this asks for locks and calls the listener.

Facts: client/impl/consumer/{ConsumeMessageOrderlyService,RebalanceImpl}.java, 5.3.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mqrules import EventKind, Outcome
from mqspec.client.clock import now_ms
from mqspec.client.instance import NOT_ANSWERED, succeeded
from mqspec.client.listener import ConsumeStatus, consume
from mqspec.client.message import MessageExt
from mqspec.client.push_work import PushWork
from mqspec.client.tasks import sleep_ms
from mqspec.core.consume_orderly import (
    LOCK_AGAIN_DELAY_MS,
    MAX_TIME_CONSUME_CONTINUOUSLY_MS,
    REBALANCE_LATER_MS,
    commit,
    is_locked,
    lock,
    make_message_to_consume_again,
    refuse_lock,
    suspend_ms,
    take_messages,
)
from mqspec.core.offset_commit import ProcessQueue, held
from mqspec.core.types import BrokerName, MessageQueue
from mqspec.wire import bodies
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

LOCK_TIMEOUT_MS: Final = 1_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _LockBatchAnswer:
    """The answer to request 41: what of it is locked (LockBatchResponseBody.java)."""

    lock_ok_mq_set: tuple[MessageQueue, ...] = field(default=(), metadata={"key": "lockOKMQSet"})


class ConsumeMessageOrderlyService:
    """A task a queue, of which `consume_threads` work at once; and the locks' renewal."""

    def __init__(self, consumer: PushWork) -> None:
        self._consumer = consumer
        self._threads = asyncio.Semaphore(consumer.config.consume_threads)
        self._arrived: dict[MessageQueue, asyncio.Event] = {}
        self.consuming: set[MessageQueue] = set()  # a listener works on their messages

    def begin(self) -> None:
        """The consumer has joined its group."""
        if not self._consumer.is_broadcasting:
            self._consumer.tasks.every(
                self._consumer.config.lock_interval_ms,
                self._lock_all,
                self._consumer.config.lock_first_delay_ms,
            )

    async def end(self) -> None:
        """The consumer leaves its group. Locks are given up before progress is reported, as the
        real client does: who gets the queue may begin before what was consumed."""
        if not self._consumer.is_broadcasting:
            await self.unlock(self._consumer.queues)

    def begin_queue(self, mq: MessageQueue, generation: int) -> None:
        """The consumer holds one queue more."""
        self._arrived[mq] = asyncio.Event()
        self._consumer.tasks.spawn(self._work(mq, generation, self._arrived[mq]))

    def end_queue(self, mq: MessageQueue) -> None:
        """The consumer does not hold the queue any more."""
        if arrived := self._arrived.pop(mq, None):
            arrived.set()  # nothing will arrive: who waits for it may end

    def submit(self, mq: MessageQueue, generation: int, messages: Sequence[MessageExt]) -> None:
        """Messages are pulled."""
        self._arrived[mq].set()

    # Locks

    async def may_start_on(self, mq: MessageQueue) -> bool:
        """Whether the broker locks the queue; if not, a rebalance tries again soon."""
        if self._consumer.is_broadcasting:
            return True
        try:
            if mq in await self._ask_lock(mq.broker_name, [mq]):
                return True
        except NOT_ANSWERED as error:
            log.warning("%s is not locked: %s", mq, error)
        self._consumer.tasks.spawn(self._rebalance_later())
        return False

    def is_locked(self, queue: ProcessQueue) -> bool:
        """Whether the queue's messages may be worked on."""
        return self._consumer.is_broadcasting or is_locked(queue, now_ms())

    async def unlock(self, mqs: Iterable[MessageQueue], *, oneway: bool = False) -> None:
        """Give locks up. What does not arrive expires at the broker."""
        for broker, of_broker in _by_broker(mqs).items():
            request = self._request(RequestCode.UNLOCK_BATCH_MQ, of_broker)
            for mq in of_broker:
                self._consumer.record(EventKind.UNLOCK, **self._consumer.at(mq))
            try:
                if oneway:
                    await self._consumer.instance.oneway(broker, request)
                else:
                    await self._consumer.instance.invoke(broker, request, LOCK_TIMEOUT_MS)
            except NOT_ANSWERED as error:
                log.warning("%s is not unlocked: %s", broker, error)

    async def _rebalance_later(self) -> None:
        await sleep_ms(REBALANCE_LATER_MS)
        self._consumer.rebalance_immediately()

    async def _lock_all(self) -> None:
        # Not of a queue that was taken away while a listener works on it: its lock is to expire.
        table = self._consumer.state.process_queue_table
        await self._lock([mq for mq, queue in table.items() if not queue.dropped])

    async def _lock(self, mqs: Iterable[MessageQueue]) -> None:
        state = self._consumer.state
        for broker, of_broker in _by_broker(mqs).items():
            try:
                locked = await self._ask_lock(broker, of_broker)
            except NOT_ANSWERED as error:  # then only time ends what it believes
                log.warning("the locks at %s are not renewed: %s", broker, error)
                continue
            await self._consumer.carry_out(lock(state, locked, now_ms()))
            await self._consumer.carry_out(refuse_lock(state, set(of_broker) - locked))

    async def _ask_lock(
        self, broker: BrokerName, mqs: Sequence[MessageQueue]
    ) -> frozenset[MessageQueue]:
        request = self._request(RequestCode.LOCK_BATCH_MQ, mqs)
        response = await self._consumer.instance.invoke(broker, request, LOCK_TIMEOUT_MS)
        answer = bodies.from_body(_LockBatchAnswer, succeeded(response).body)
        locked = frozenset(mqs).intersection(answer.lock_ok_mq_set)
        for mq in sorted(locked):
            self._consumer.record(EventKind.LOCK, **self._consumer.at(mq))
        return locked

    def _request(self, code: RequestCode, mqs: Sequence[MessageQueue]) -> RemotingCommand:
        consumer = self._consumer
        body = bodies.LockBatchBody(consumer.group, consumer.client_id, tuple(mqs))
        return RemotingCommand(code, body=bodies.to_body(body))

    # Consume

    async def _work(self, mq: MessageQueue, generation: int, arrived: asyncio.Event) -> None:
        consumer = self._consumer
        while (queue := held(consumer.state, mq, generation)) is not None:
            if not queue.msg_tree_map:
                arrived.clear()
                await arrived.wait()
            elif self.is_locked(queue):
                async with self._threads:
                    pause_ms = await self._consume_continuously(mq, generation)
                await sleep_ms(pause_ms)
            else:
                await self._lock([mq])
                queue = held(consumer.state, mq, generation)
                if queue is not None and not self.is_locked(queue):
                    await sleep_ms(LOCK_AGAIN_DELAY_MS)

    async def _consume_continuously(self, mq: MessageQueue, generation: int) -> int:
        """Consume until nothing is left, for a minute at most. For how many ms to pause."""
        consumer = self._consumer
        end_ms = now_ms() + MAX_TIME_CONSUME_CONTINUOUSLY_MS
        while (queue := held(consumer.state, mq, generation)) is not None:
            if not queue.msg_tree_map or not self.is_locked(queue) or now_ms() > end_ms:
                break
            step = take_messages(
                consumer.state, mq, generation, consumer.config.consume_message_batch_max_size
            )
            await consumer.carry_out(step)
            self.consuming.add(mq)
            try:
                pause_ms = await self._consume(mq, generation, step.result)
            finally:
                self.consuming.discard(mq)
            if pause_ms:
                return pause_ms
        return 0

    async def _consume(self, mq: MessageQueue, generation: int, offsets: Sequence[int]) -> int:
        consumer = self._consumer
        messages = consumer.messages.get(mq, offsets)
        for message in messages:
            consumer.record(EventKind.RECEIVE, **consumer.message_fields(message))
        result = await consume(consumer.listener, messages)
        done = result.status is ConsumeStatus.CONSUME_SUCCESS
        outcome = Outcome.OK if done else Outcome.FAILED
        for message in messages:
            consumer.record(EventKind.ACK, outcome, **consumer.message_fields(message))
        if not done and await self._must_suspend(mq, messages):
            step = make_message_to_consume_again(consumer.state, mq, generation)
            await consumer.carry_out(step)
            return suspend_ms(result.suspend_current_queue_time_ms)
        if held(consumer.state, mq, generation) is not None:
            size_bytes = consumer.messages.remove(mq, offsets)
            await consumer.carry_out(commit(consumer.state, mq, generation, size_bytes))
        return 0

    async def _must_suspend(self, mq: MessageQueue, messages: Sequence[MessageExt]) -> bool:
        """Whether messages that failed are to be consumed again: all of them, unless each failed
        too often and is parked now. How often is not known any more after a restart."""
        consumer = self._consumer
        suspend = False
        for message in messages:
            if message.reconsume_times < consumer.max_reconsume_times:
                parked = False
            else:
                parked = await consumer.send_back.send_as_normal_message(message)
            if not parked:
                suspend = True
                if consumer.messages.get(mq, [message.queue_offset]):
                    consumer.messages.put(mq, [message.after_failure()])
        return suspend


def _by_broker(mqs: Iterable[MessageQueue]) -> dict[BrokerName, list[MessageQueue]]:
    found: defaultdict[BrokerName, list[MessageQueue]] = defaultdict(list)
    for mq in sorted(mqs):
        found[mq.broker_name].append(mq)
    return found
