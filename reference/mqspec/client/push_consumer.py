"""The push consumer: it pulls all the time, and hands messages to a listener.

Clustering or broadcasting, concurrently or orderly. What it shares with the lite-pull consumer
is in member, what calls the listener in consume_concurrently and consume_orderly.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace

from mqrules import EventKind, Outcome, UserError
from mqspec.client import running_info
from mqspec.client.clock import now_ms
from mqspec.client.consume_concurrently import ConsumeMessageConcurrentlyService
from mqspec.client.consume_orderly import ConsumeMessageOrderlyService
from mqspec.client.instance import NOT_ANSWERED
from mqspec.client.listener import Listener
from mqspec.client.member import GroupMember
from mqspec.client.message import RETRY_TOPIC_PREFIX
from mqspec.client.process_queue import ProcessQueueMessages
from mqspec.client.publish import CLIENT_INNER_PRODUCER, Publisher
from mqspec.client.pull import PullRequest, PullResult, pull, pull_from
from mqspec.client.push_work import ConsumerConfig
from mqspec.client.recorder import Recorder
from mqspec.client.send_back import SendBack
from mqspec.client.subscription import Subscriptions
from mqspec.client.tasks import sleep_ms
from mqspec.core import consume_orderly
from mqspec.core.group import ConsumeType, MessageModel
from mqspec.core.offset_commit import (
    FLOW_CONTROL_DELAY_MS,
    NOT_FOUND,
    ProcessQueue,
    Pulled,
    UpdateConsumerOffset,
    correct_tags_offset,
    drop,
    held,
    must_wait,
    offset_illegal,
    pull_commit_offset,
    pull_message,
    reset_offset,
    update_offset,
)
from mqspec.core.pull import PullSysFlag
from mqspec.core.push_consumer import (
    CONFIG_RANGES,
    MAX_RECONSUME_TIMES,
    PAUSED_DELAY_MS,
    PULL_AGAIN_DELAY_MS,
    PullStatus,
)
from mqspec.core.route import MASTER_ID
from mqspec.core.step import Step
from mqspec.core.types import ClientId, Group, MessageQueue
from mqspec.transport import Connection
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

log = logging.getLogger(__name__)


class PushConsumer(GroupMember):
    """A member of a consumer group; an async context manager.

    `subscriptions` says what it wants of which topic. On leaving the context it reports its
    progress and leaves the group; `kill` does neither.

    Raises UserError where the nameserver does not answer, or a subscription or setting is not one.
    """

    CONSUME_TYPE = ConsumeType.CONSUME_PASSIVELY

    def __init__(
        self,
        nameserver: str,
        group: Group,
        subscriptions: Subscriptions,
        listener: Listener,
        config: ConsumerConfig | None = None,
        recorder: Recorder | None = None,
        client_id: ClientId | None = None,
    ) -> None:
        self.config = config or ConsumerConfig()
        _check(self.config)
        if self.config.message_model is MessageModel.CLUSTERING:
            subscriptions = {**subscriptions, RETRY_TOPIC_PREFIX + group: "*"}
        super().__init__(nameserver, group, subscriptions, self.config, recorder, client_id)
        self.listener = listener
        self.messages = ProcessQueueMessages()
        self.max_reconsume_times = _max_reconsume_times(self.config)
        self.send_back = SendBack(
            self.instance,
            Publisher(self.instance, CLIENT_INNER_PRODUCER),
            group,
            self.max_reconsume_times,
        )
        orderly = ConsumeMessageOrderlyService(self) if self.config.orderly else None
        self._orderly = orderly
        self._service = orderly or ConsumeMessageConcurrentlyService(self)
        limits = self.config.flow_control
        self._flow_control = (
            replace(limits, consume_concurrently_max_span=None) if orderly else limits
        )

    @property
    def is_orderly(self) -> bool:
        return self._orderly is not None

    @property
    def consuming(self) -> frozenset[MessageQueue]:
        return frozenset(self._orderly.consuming) if self._orderly else frozenset()

    def _begin_work(self) -> None:
        self._service.begin()

    async def _end_work(self) -> None:
        await self._service.end()

    async def _may_start_on(self, mq: MessageQueue) -> bool:
        return self._orderly is None or await self._orderly.may_start_on(mq)

    async def _started_on(self, mq: MessageQueue, queue: ProcessQueue) -> None:
        if self._orderly:  # _may_start_on locked it
            await self.carry_out(consume_orderly.lock(self.state, [mq], now_ms()))
        self.messages.begin(mq)
        self._service.begin_queue(mq, queue.generation)
        self.tasks.spawn(self._pull_service(mq, queue.generation))

    async def _removed(self, mqs: Iterable[MessageQueue]) -> None:
        for mq in mqs:
            self.messages.end(mq)
            self._service.end_queue(mq)
        if self._orderly and not self.is_broadcasting:
            await self._orderly.unlock(mqs, oneway=True)

    # What brokers ask

    def _serve(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand | None] | None:
        match request.code:
            case RequestCode.RESET_CONSUMER_CLIENT_OFFSET:
                self.tasks.spawn(self.reset(running_info.offsets_to_reset(request)))
                return None
            case RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
                return running_info.consumer_status(self, request)
            case RequestCode.GET_CONSUMER_RUNNING_INFO:
                return running_info.consumer_running_info(self, request)
            case RequestCode.CONSUME_MESSAGE_DIRECTLY:
                return running_info.consume_message_directly(self, request)
            case _:
                return super()._serve(connection, request)

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on elsewhere in some queues. Listeners at work have a while to end."""
        self.rebalance.is_paused = True
        try:
            for mq in offsets:
                await self.carry_out(drop(self.state, mq))
            await sleep_ms(self.config.reset_offset_wait_ms)
            step = reset_offset(self.state, offsets, self.group)
            await self.carry_out(step)
            await self.forget(step.result)
        finally:
            self.rebalance.is_paused = False
        self.rebalance_immediately()

    # Pull

    async def _pull_service(self, mq: MessageQueue, generation: int) -> None:
        await sleep_ms(self.config.first_pull_delay_ms)
        may_pull = self._orderly is None or self.is_broadcasting
        while (queue := held(self.state, mq, generation)) is not None:
            # Trying counts, as in 5.3.3: a queue held back, or whose broker is away, is not lost.
            tried = Pulled(mq, generation, queue.next_offset, now_ms())
            await self.carry_out(pull_message(self.state, tried))
            try:
                if self.rebalance.is_paused:
                    await sleep_ms(PAUSED_DELAY_MS)
                elif must_wait(queue, self._flow_control):
                    await sleep_ms(FLOW_CONTROL_DELAY_MS)
                elif not may_pull:
                    may_pull = await self._begin_locked(mq, generation)
                else:
                    status = await self._pull(mq, generation, queue.next_offset)
                    await sleep_ms(PULL_AGAIN_DELAY_MS.get(status, 0))
            except NOT_ANSWERED as error:
                log.warning("%s: %s: %s", self.group, mq, error)
                await sleep_ms(PULL_AGAIN_DELAY_MS[PullStatus.FAILED])

    async def _begin_locked(self, mq: MessageQueue, generation: int) -> bool:
        """Whether the queue is locked. If so, where to begin is asked again: who had the lock
        before may have reported more progress since, and what was told first is not reported
        over it."""
        queue = held(self.state, mq, generation)
        if queue is None or not queue.locked:
            await sleep_ms(PULL_AGAIN_DELAY_MS[PullStatus.FAILED])
            return False
        stored = await self.offset_store.read_offset(mq)
        offset = await self.pull_from_where(mq, stored)
        step = pull_message(self.state, Pulled(mq, generation, offset, now_ms()))
        await self.carry_out(step)
        if step.result and stored != NOT_FOUND:
            await self.carry_out(update_offset(self.state, mq, stored, increase_only=False))
        return True

    async def _pull(self, mq: MessageQueue, generation: int, offset: int) -> PullStatus:
        flags, commit_offset = PullSysFlag.SUSPEND, None
        if not self.is_broadcasting and pull_from(self.instance, mq) == MASTER_ID:
            commit_offset = pull_commit_offset(self.state, mq)
        if commit_offset is not None:
            flags |= PullSysFlag.COMMIT_OFFSET
            self.trace.step(Step(sends=(UpdateConsumerOffset(self.group, mq, commit_offset),)))
            self.record(EventKind.COMMIT, Outcome.UNKNOWN, value=commit_offset, **self.at(mq))
        request = PullRequest(
            self.group,
            mq,
            self.subscriptions[mq.topic],
            offset,
            self.config.pull_batch_size,
            flags,
            self.version_ms,
            commit_offset or 0,
            max_msg_bytes=self.config.pull_batch_size_in_bytes,
        )
        result = await pull(self.instance, request)
        await self._pulled(mq, generation, result)
        return result.status

    async def _pulled(self, mq: MessageQueue, generation: int, result: PullResult) -> None:
        if result.status is PullStatus.FLOW_CONTROL or held(self.state, mq, generation) is None:
            return
        if result.status is PullStatus.OFFSET_ILLEGAL:
            await self._start_anew(mq, generation, result.next_begin_offset)
            return
        event = Pulled(
            mq,
            generation,
            result.next_begin_offset,
            now_ms(),
            tuple(message.queue_offset for message in result.messages),
            sum(len(message.record.body) for message in result.messages),
        )
        await self.carry_out(pull_message(self.state, event))
        if result.status is not PullStatus.FOUND:
            await self.carry_out(correct_tags_offset(self.state, event))
        if result.messages:
            self.messages.put(mq, result.messages)
            self._service.submit(mq, generation, result.messages)
            await sleep_ms(self.config.pull_interval_ms)

    async def _start_anew(self, mq: MessageQueue, generation: int, offset: int) -> None:
        await self.carry_out(offset_illegal(self.state, mq, generation, offset, self.group))
        await self.forget([mq])
        self.rebalance_immediately()


def _check(config: ConsumerConfig) -> None:
    for name, (least, most) in CONFIG_RANGES.items():
        value = getattr(config, name)
        if not least <= value <= most:
            raise UserError(f"{name} = {value}", "out of range", f"take {least} to {most}")


def _max_reconsume_times(config: ConsumerConfig) -> int:
    if config.max_reconsume_times is not None:
        return config.max_reconsume_times
    orderly = config.orderly
    return consume_orderly.MAX_RECONSUME_TIMES if orderly else MAX_RECONSUME_TIMES
