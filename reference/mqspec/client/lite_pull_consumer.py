"""The lite-pull consumer: its user polls for messages that were pulled ahead, and commits.

Facts: client/impl/consumer/DefaultLitePullConsumerImpl.java, client/consumer/
DefaultLitePullConsumer.java, 5.3.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from mqrules import EventKind, UserError
from mqspec.client.clock import now_ms
from mqspec.client.instance import NOT_ANSWERED
from mqspec.client.member import GroupMember
from mqspec.client.member_config import MemberConfig
from mqspec.client.message import MessageExt
from mqspec.client.offset_store import ask_offset
from mqspec.client.pull import PullRequest, pull
from mqspec.client.recorder import Recorder
from mqspec.client.subscription import Subscriptions
from mqspec.client.tasks import sleep_ms
from mqspec.core.group import ConsumeType
from mqspec.core.lite_pull_consumer import (
    AUTO_COMMIT_INTERVAL_MS,
    BROKER_SUSPEND_MAX_TIME_MS,
    POLL_TIMEOUT_MS,
    PULL_BATCH_SIZE,
    PULL_THRESHOLD_FOR_ALL,
    START_AGAIN_DELAY_MS,
    LitePullState,
    auto_commit,
    commit,
    commit_offset,
    must_wait_for_all,
    offset_illegal,
    poll,
    release,
    seek,
)
from mqspec.core.offset_commit import (
    FLOW_CONTROL_DELAY_MS,
    Consumed,
    FlowControl,
    ProcessQueue,
    Pulled,
    held,
    must_wait,
    pull_message,
    remove_unnecessary_message_queue,
)
from mqspec.core.pull import PullSysFlag
from mqspec.core.push_consumer import PAUSED_DELAY_MS, PULL_AGAIN_DELAY_MS, PullStatus
from mqspec.core.step import Change, Step
from mqspec.core.subscription import ALL, build_subscription_data
from mqspec.core.types import ClientId, Group, MessageQueue, Topic
from mqspec.wire.codes import RequestCode

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LitePullConfig(MemberConfig):
    """How a lite-pull consumer behaves; the defaults are those of 5.3.3."""

    pull_batch_size: int = PULL_BATCH_SIZE
    flow_control: FlowControl = field(default_factory=FlowControl)
    auto_commit: bool = True
    auto_commit_interval_ms: int = AUTO_COMMIT_INTERVAL_MS
    pull_threshold_for_all: int = PULL_THRESHOLD_FOR_ALL
    start_again_delay_ms: int = START_AGAIN_DELAY_MS


class LitePullConsumer(GroupMember):
    """A consumer that is asked for messages; an async context manager.

    With `subscriptions` it is a member of its group and holds its share of the queues; without
    any it holds what `assign` gives it, whoever else has that. On leaving the context it
    reports what was committed, and leaves the group; `kill` does neither.

    Raises UserError where the nameserver does not answer or a subscription is not one.
    """

    CONSUME_TYPE = ConsumeType.CONSUME_ACTIVELY
    state: LitePullState

    def __init__(
        self,
        nameserver: str,
        group: Group,
        subscriptions: Subscriptions | None = None,
        config: LitePullConfig | None = None,
        recorder: Recorder | None = None,
        client_id: ClientId | None = None,
    ) -> None:
        self.config = config or LitePullConfig()
        super().__init__(nameserver, group, subscriptions or {}, self.config, recorder, client_id)
        self._assigned: frozenset[MessageQueue] = frozenset()
        self._found: asyncio.Queue[tuple[MessageQueue, int, tuple[MessageExt, ...]]] = (
            asyncio.Queue()
        )

    def make_state(self) -> LitePullState:
        return LitePullState()

    @property
    def topics(self) -> Collection[Topic]:
        return {*self.subscriptions, *(mq.topic for mq in self._assigned)}

    async def fetch_message_queues(self, topic: Topic) -> tuple[MessageQueue, ...]:
        """The queues that may be assigned. Raises what a request raises."""
        await self.instance.update_route(topic)
        return self.subscribed_queues(topic) or ()

    async def assign(self, mqs: Iterable[MessageQueue]) -> None:
        """Hold these queues and no others. Where no broker tells where to begin on one, it is
        asked again until it does. Raises UserError where the consumer has subscriptions."""
        if self.subscriptions:
            raise UserError(self.group, "it subscribes, and takes its share", "do one of both")
        self._assigned = frozenset(mqs)
        await self.update_routes()
        await self.heartbeat()
        await self._give_up_unassigned()
        for mq in sorted(self._assigned - self.queues):
            if not await self.start_on(mq):
                self.tasks.spawn(self._start_later(mq))

    async def poll(self, timeout_ms: int = POLL_TIMEOUT_MS) -> Sequence[MessageExt]:
        """Messages of one queue, as soon as there are any; none when the time is over."""
        if self.config.auto_commit:
            interval_ms = self.config.auto_commit_interval_ms
            await self.carry_out(auto_commit(self.state, now_ms(), interval_ms))
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                while True:
                    mq, generation, messages = await self._found.get()
                    if held(self.state, mq, generation) is not None:
                        break
            return await self._give(mq, generation, messages)
        return ()

    async def commit(self, mqs: Collection[MessageQueue] | None = None) -> None:
        """Report how far was polled, of some queues or all."""
        await self.carry_out(commit(self.state, self.queues if mqs is None else mqs))
        await self.persist()

    async def commit_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Report other progress than how far was polled, of queues that are held: for who is done
        with messages in another order than that in which it polled them (LITE-003)."""
        await self.carry_out(commit_offset(self.state, offsets))
        await self.persist()

    async def committed(self, mq: MessageQueue) -> int:
        """The progress that is stored for the group; -1: none. Raises what a request raises."""
        return await self.offset_store.read_offset(mq)

    async def seek(self, mq: MessageQueue, offset: int) -> None:
        """Go on elsewhere in a queue that is held.

        Raises UserError where it is not held or has no such offset, and what a request raises.
        """
        if mq not in self.queues:
            raise UserError(str(mq), "the consumer does not hold it", "wait for it, or assign it")
        least = await ask_offset(self.instance, RequestCode.GET_MIN_OFFSET, mq, {})
        most = await ask_offset(self.instance, RequestCode.GET_MAX_OFFSET, mq, {})
        if not least <= offset <= most:
            raise UserError(str(mq), f"no offset {offset}", f"it has {least} to {most}")
        step = seek(self.state, mq, offset, now_ms())
        self._record_going_on(mq, offset)
        await self.carry_out(step)
        self.tasks.spawn(self._pull_service(mq, step.result.generation))

    async def offset_for_timestamp(self, mq: MessageQueue, timestamp_ms: int) -> int:
        """Where the messages stored at that time or later begin. Raises what a request raises."""
        fields = {"timestamp": str(timestamp_ms)}
        code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
        return await ask_offset(self.instance, code, mq, fields)

    async def pause(self, mqs: Iterable[MessageQueue]) -> None:
        """Pull these queues no more; what is pulled already may be polled."""
        await self.carry_out(Step(tuple(Change("paused", mq, True) for mq in mqs)))

    async def resume(self, mqs: Iterable[MessageQueue]) -> None:
        """Pull these queues again."""
        await self.carry_out(Step(tuple(Change("paused", mq, False) for mq in mqs)))

    async def _start_later(self, mq: MessageQueue) -> None:
        await sleep_ms(self.config.start_again_delay_ms)
        while mq in self._assigned and not await self.start_on(mq):
            await sleep_ms(self.config.start_again_delay_ms)
        await self._give_up_unassigned()  # it may have been taken back meanwhile

    async def _give_up_unassigned(self) -> None:
        gone = self.queues - self._assigned
        for mq in gone:
            await self.carry_out(remove_unnecessary_message_queue(self.state, mq, self.group))
        await self.forget(gone)

    async def _started_on(self, mq: MessageQueue, queue: ProcessQueue) -> None:
        self.tasks.spawn(self._pull_service(mq, queue.generation))

    async def _removed(self, mqs: Iterable[MessageQueue]) -> None:
        for mq in mqs:
            await self.carry_out(release(mq))

    async def _give(
        self, mq: MessageQueue, generation: int, messages: Sequence[MessageExt]
    ) -> Sequence[MessageExt]:
        offsets = tuple(message.queue_offset for message in messages)
        size_bytes = sum(len(message.record.body) for message in messages)
        await self.carry_out(poll(self.state, Consumed(mq, generation, offsets, size_bytes)))
        for message in messages:
            self.record(EventKind.RECEIVE, **self.message_fields(message))
        return messages

    def _record_going_on(self, mq: MessageQueue, offset: int) -> None:
        """It reads on elsewhere in a queue that it keeps: nobody else was asked where."""
        self.record(EventKind.QUERY_OFFSET, peer=self.client_id, value=offset, **self.at(mq))

    async def _pull_service(self, mq: MessageQueue, generation: int) -> None:
        while (queue := held(self.state, mq, generation)) is not None:
            tried = Pulled(mq, generation, queue.next_offset, now_ms())
            await self.carry_out(pull_message(self.state, tried))
            try:
                if self.state.paused.get(mq):
                    await sleep_ms(PAUSED_DELAY_MS)
                elif self._must_wait(queue):
                    await sleep_ms(FLOW_CONTROL_DELAY_MS)
                else:
                    status = await self._pull(mq, generation, queue.next_offset)
                    await sleep_ms(PULL_AGAIN_DELAY_MS.get(status, 0))
            except NOT_ANSWERED as error:
                log.warning("%s: %s: %s", self.group, mq, error)
                await sleep_ms(PULL_AGAIN_DELAY_MS[PullStatus.FAILED])

    def _must_wait(self, queue: ProcessQueue) -> bool:
        config = self.config
        return must_wait(queue, config.flow_control) or must_wait_for_all(
            self.state, config.pull_threshold_for_all
        )

    async def _pull(self, mq: MessageQueue, generation: int, offset: int) -> PullStatus:
        request = PullRequest(
            self.group,
            mq,
            self.subscriptions.get(mq.topic) or build_subscription_data(mq.topic, ALL),
            offset,
            self.config.pull_batch_size,
            PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL,
            self.version_ms,
            suspend_ms=BROKER_SUSPEND_MAX_TIME_MS,
        )
        result = await pull(self.instance, request)
        if result.status is PullStatus.OFFSET_ILLEGAL:
            await self._go_on(mq, generation, result.next_begin_offset)
            return result.status
        event = Pulled(
            mq,
            generation,
            result.next_begin_offset,
            now_ms(),
            tuple(message.queue_offset for message in result.messages),
            sum(len(message.record.body) for message in result.messages),
        )
        step = pull_message(self.state, event)
        await self.carry_out(step)
        if step.result and result.messages:
            self._found.put_nowait((mq, generation, tuple(result.messages)))
        return result.status

    async def _go_on(self, mq: MessageQueue, generation: int, offset: int) -> None:
        step = offset_illegal(self.state, mq, generation, offset, now_ms())
        if step.result:
            self._record_going_on(mq, step.result.next_offset)
        await self.carry_out(step)
        if step.result:
            self.tasks.spawn(self._pull_service(mq, step.result.generation))
