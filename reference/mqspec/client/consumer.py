"""The push consumer: clustering, concurrent.

It carries events between brokers, clocks, the listener and the core: core.rebalance decides
which queues it holds, core.offset_commit what it reports of them.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

from mqrules import EventKind, Outcome, UserError
from mqspec.client.instance import (
    NOT_ANSWERED,
    POLL_NAME_SERVER_INTERVAL_MS,
    BrokerError,
    ClientInstance,
    int_field,
    succeeded,
)
from mqspec.client.message import MessageExt
from mqspec.client.recorder import Recorder, nowhere
from mqspec.client.tasks import Tasks, sleep_ms
from mqspec.core.allocation import AVG, Strategy
from mqspec.core.group import HEARTBEAT_INTERVAL_MS, ConsumeFromWhere, SubscriptionData
from mqspec.core.offset_commit import (
    FLOW_CONTROL_DELAY_MS,
    NOT_FOUND,
    PERSIST_FIRST_DELAY_MS,
    PERSIST_INTERVAL_MS,
    Consumed,
    ConsumerState,
    ProcessQueue,
    Pulled,
    UpdateConsumerOffset,
    add_message_queue,
    correct_tags_offset,
    held,
    must_wait,
    offset_illegal,
    persist_all,
    process_consume_result,
    pull_commit_offset,
    pull_message,
)
from mqspec.core.pull import PullSysFlag
from mqspec.core.push_consumer import (
    BROKER_SUSPEND_MAX_TIME_MS,
    CONSUME_AGAIN_DELAY_MS,
    CONSUMER_TIMEOUT_MS_WHEN_SUSPEND,
    PULL_AGAIN_DELAY_MS,
    PULL_BATCH_SIZE,
    PullStatus,
    is_wanted,
    pull_status,
    subscribe_queues,
)
from mqspec.core.rebalance import (
    FIRST_PULL_DELAY_MS,
    RETRY_TOPIC_PREFIX,
    Member,
    PullFrom,
    Rebalanced,
    RebalanceState,
    View,
    compute_pull_from_where,
    do_rebalance,
    next_rebalance_ms,
    notify_consumer_ids_changed,
    rebalance_by_topic,
    rebalanced,
)
from mqspec.core.step import Step, apply
from mqspec.core.subscription import SubscriptionError, build_subscription_data
from mqspec.core.types import ClientId, Group, MessageQueue, Topic
from mqspec.transport import Connection, refuse
from mqspec.wire import bodies
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode, ResponseCode

log = logging.getLogger(__name__)


class ConsumeStatus(Enum):
    """What a listener made of its messages (ConsumeConcurrentlyStatus)."""

    CONSUME_SUCCESS = "consumed"
    RECONSUME_LATER = "to be delivered again"


Listener = Callable[[Sequence[MessageExt]], Awaitable[ConsumeStatus]]
"""Consumes messages of one queue. An exception means RECONSUME_LATER."""


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """How a consumer behaves; the defaults are those of DefaultMQPushConsumer, 5.3.3."""

    strategy: Strategy = AVG
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_timestamp_ms: int | None = None  # None: half an hour before the start
    pull_batch_size: int = PULL_BATCH_SIZE
    consume_message_batch_max_size: int = 1
    consume_threads: int = 20  # listener calls at once
    heartbeat_broker_interval_ms: int = HEARTBEAT_INTERVAL_MS
    poll_name_server_interval_ms: int = POLL_NAME_SERVER_INTERVAL_MS
    persist_consumer_offset_interval_ms: int = PERSIST_INTERVAL_MS
    persist_first_delay_ms: int = PERSIST_FIRST_DELAY_MS
    consume_again_delay_ms: int = CONSUME_AGAIN_DELAY_MS


@dataclass(frozen=True, slots=True)
class _ConsumeRequest:
    """Messages of one process queue, on their way to the listener."""

    mq: MessageQueue
    generation: int
    messages: tuple[MessageExt, ...]
    failures: int = 0  # times that the listener failed on them here


class PushConsumer:
    """A member of a consumer group; an async context manager.

    `subscriptions` maps a topic to the tags wanted of it: `*`, or `A || B`. On leaving the
    context it reports its progress and leaves the group; `kill` does neither.

    Raises UserError where the nameserver does not answer or a subscription is not one.
    """

    def __init__(
        self,
        nameserver: str,
        group: Group,
        subscriptions: Mapping[Topic, str],
        listener: Listener,
        config: ConsumerConfig | None = None,
        recorder: Recorder | None = None,
        client_id: ClientId | None = None,
    ) -> None:
        self.group = group
        self.config = config or ConsumerConfig()
        self.state = ConsumerState()
        self._subscriptions = _build_subscriptions(group, subscriptions)
        self._listener = listener
        self._record = recorder or nowhere()
        self._instance = ClientInstance(nameserver, self._serve, client_id)
        self._rebalance = RebalanceState()
        self._wake = asyncio.Event()
        self._requests: asyncio.Queue[_ConsumeRequest] = asyncio.Queue()
        self._tasks = Tasks()

    @property
    def client_id(self) -> ClientId:
        """The member's id, once it is started."""
        return self._instance.client_id

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that it holds now, that of the retry topic included."""
        return frozenset(self.state.process_queue_table)

    async def __aenter__(self) -> Self:
        await self._instance.start()
        self._member = Member(self.group, self.client_id, self.config.strategy)
        self._who: dict[str, Any] = {"group": self.group, "client_id": self.client_id}
        self._version_ms = _wall_ms()
        await self._update_routes()
        self._record(EventKind.JOIN, **self._who)
        for topic, subscription in self._subscriptions.items():
            self._record(EventKind.SUBSCRIBE, topic=topic, tag=subscription.sub_string, **self._who)
        await self._heartbeat()
        config = self.config
        self._tasks.every(config.poll_name_server_interval_ms, self._update_routes)
        self._tasks.every(config.heartbeat_broker_interval_ms, self._heartbeat)
        self._tasks.every(
            config.persist_consumer_offset_interval_ms, self._persist, config.persist_first_delay_ms
        )
        self._tasks.spawn(self._rebalance_service())
        for _ in range(config.consume_threads):
            self._tasks.spawn(self._consume_service())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def shutdown(self) -> None:
        """Stop, report progress, leave the group. Listener calls in work are cancelled.

        Does nothing where it has been stopped before.
        """
        if not self._tasks:
            return
        await self._tasks.cancel()
        await self._persist()
        for mq in self.queues:
            self._record(EventKind.REVOKE, **self._at(mq))
        fields = {"clientID": self.client_id, "consumerGroup": self.group}
        leave = RemotingCommand(RequestCode.UNREGISTER_CLIENT, fields)
        self._record(EventKind.LEAVE, **self._who)
        await self._to_all_brokers(leave)
        await self._instance.close()

    async def kill(self) -> None:
        """End as a process does that is killed: nothing is reported, connections break."""
        self._instance.abort()
        self._record(EventKind.CRASH, **self._who)
        await self._tasks.cancel()

    # Membership

    def _serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if request.code != RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            return refuse(connection, request)
        self._rebalance_immediately()
        return None

    async def _heartbeat(self) -> None:
        await self._announce(self._version_ms)

    async def _announce(self, version_ms: int) -> None:
        subscriptions = tuple(
            bodies.SubscriptionData(
                topic=data.topic,
                sub_string=data.sub_string,
                tags_set=tuple(sorted(data.tags_set)),
                code_set=tuple(sorted(data.code_set)),
                sub_version=version_ms,
            )
            for data in self._subscriptions.values()
        )
        consumer = bodies.ConsumerData(
            self.group,
            consume_from_where=self.config.consume_from_where.value,
            subscription_data_set=subscriptions,
        )
        heartbeat = bodies.HeartbeatData(self.client_id, (consumer,))
        await self._to_all_brokers(
            RemotingCommand(RequestCode.HEART_BEAT, body=bodies.to_body(heartbeat))
        )

    async def _update_routes(self) -> None:
        await self._instance.update_routes(self._subscriptions)

    async def _to_all_brokers(self, request: RemotingCommand) -> None:
        await self._instance.to_all_brokers(request, self._subscriptions)

    # Rebalance

    def _rebalance_immediately(self) -> None:
        apply(self._rebalance, notify_consumer_ids_changed(self._rebalance).changes)
        self._wake.set()

    async def _rebalance_service(self) -> None:
        while True:
            while (wait_ms := next_rebalance_ms(self._rebalance) - _now_ms()) > 0:
                self._wake.clear()
                await _first(self._wake.wait(), wait_ms)
            apply(self._rebalance, do_rebalance(self._rebalance).changes)
            balanced = True
            for topic in self._subscriptions:
                balanced &= await self._rebalance_by_topic(topic)
            apply(self._rebalance, rebalanced(self._rebalance, balanced, _now_ms()).changes)

    async def _rebalance_by_topic(self, topic: Topic) -> bool:
        view = View(topic, self._queues_of(topic), await self._member_ids(topic))
        step = rebalance_by_topic(self.state, self._member, view, _now_ms())
        outcome: Rebalanced = step.result
        await self._carry_out(step)
        for mq in outcome.removed:
            self._record(EventKind.REVOKE, **self._at(mq))
        started = [await self._start_on(mq) for mq in outcome.added]
        if outcome.removed or any(started):
            # Pulls take the new version after brokers know it: before, they are answered 25.
            version_ms = _wall_ms()
            await self._announce(version_ms)
            self._version_ms = version_ms
        return outcome.balanced and all(started)

    def _queues_of(self, topic: Topic) -> tuple[MessageQueue, ...] | None:
        route = self._instance.routes.get(topic)
        return None if route is None else subscribe_queues(topic, route)

    async def _member_ids(self, topic: Topic) -> tuple[ClientId, ...] | None:
        brokers = self._instance.brokers([topic])
        if not brokers:
            return None
        request = RemotingCommand(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self.group}
        )
        try:
            response = succeeded(await self._instance.invoke(random.choice(brokers), request))
            return bodies.from_body(bodies.ConsumerList, response.body).ids
        except NOT_ANSWERED as error:
            log.warning("%s: the list of members is not known: %s", self.group, error)
            return None

    async def _start_on(self, mq: MessageQueue) -> bool:
        try:
            stored = await self._ask_offset(
                RequestCode.QUERY_CONSUMER_OFFSET, mq, {"consumerGroup": self.group}
            )
            offset = await self._pull_from_where(mq, stored)
        except NOT_ANSWERED as error:
            log.warning("%s: %s is not started on: %s", self.group, mq, error)
            return False
        step = add_message_queue(self.state, mq, offset, stored, _now_ms())
        queue: ProcessQueue | None = step.result
        if queue is None:
            return True
        self._record(EventKind.QUERY_OFFSET, value=offset, **self._at(mq))
        self._record(EventKind.ASSIGN, **self._at(mq))
        await self._carry_out(step)
        self._tasks.spawn(self._pull_service(mq, queue.generation))
        return True

    async def _pull_from_where(self, mq: MessageQueue, stored: int) -> int:
        match compute_pull_from_where(self.config.consume_from_where, mq.topic, stored):
            case PullFrom.STORED:
                return stored
            case PullFrom.ZERO:
                return 0
            case PullFrom.MAX_OFFSET:
                return await self._ask_offset(RequestCode.GET_MAX_OFFSET, mq, {})
            case PullFrom.TIMESTAMP:
                time_ms = self.config.consume_timestamp_ms or _wall_ms() - 30 * 60 * 1000
                return await self._ask_offset(
                    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, mq, {"timestamp": str(time_ms)}
                )

    async def _ask_offset(
        self, code: RequestCode, mq: MessageQueue, fields: Mapping[str, str]
    ) -> int:
        where = {"topic": mq.topic, "queueId": str(mq.queue_id)}
        request = RemotingCommand(code, {**fields, **where})
        response = await self._instance.invoke(mq.broker_name, request)
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return NOT_FOUND
        return int_field(succeeded(response), "offset")

    # Pull

    async def _pull_service(self, mq: MessageQueue, generation: int) -> None:
        await sleep_ms(FIRST_PULL_DELAY_MS)
        while (queue := held(self.state, mq, generation)) is not None:
            # Trying counts: a queue held back, or whose broker is away, is not lost (REBAL-008).
            tried = Pulled(mq, generation, queue.next_offset, _now_ms())
            await self._carry_out(pull_message(self.state, tried))
            if must_wait(queue):
                await sleep_ms(FLOW_CONTROL_DELAY_MS)
                continue
            try:
                response = await self._instance.invoke(
                    mq.broker_name,
                    self._pull_request(mq, queue.next_offset),
                    CONSUMER_TIMEOUT_MS_WHEN_SUSPEND,
                )
                status = pull_status(response.code)
                if status is PullStatus.FAILED:
                    raise BrokerError(response)
                await self._pulled(mq, generation, status, response)
            except NOT_ANSWERED as error:
                log.warning("%s: %s: %s", self.group, mq, error)
                status = PullStatus.FAILED
            await sleep_ms(PULL_AGAIN_DELAY_MS.get(status, 0))

    def _pull_request(self, mq: MessageQueue, offset: int) -> RemotingCommand:
        commit_offset = pull_commit_offset(self.state, mq)
        flags = PullSysFlag.SUSPEND
        if commit_offset is not None:
            flags |= PullSysFlag.COMMIT_OFFSET
            self._record(EventKind.COMMIT, Outcome.UNKNOWN, value=commit_offset, **self._at(mq))
        fields = {
            "consumerGroup": self.group,
            "topic": mq.topic,
            "queueId": str(mq.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(self.config.pull_batch_size),
            "sysFlag": str(int(flags)),
            "commitOffset": str(commit_offset or 0),
            "suspendTimeoutMillis": str(BROKER_SUSPEND_MAX_TIME_MS),
            "subVersion": str(self._version_ms),
            "expressionType": self._subscriptions[mq.topic].expression_type,
            "bname": mq.broker_name,
        }
        return RemotingCommand(RequestCode.PULL_MESSAGE, fields)

    async def _pulled(
        self, mq: MessageQueue, generation: int, status: PullStatus, response: RemotingCommand
    ) -> None:
        if status is PullStatus.FLOW_CONTROL:
            return
        next_offset = int_field(response, "nextBeginOffset")
        if status is PullStatus.OFFSET_ILLEGAL:
            await self._start_anew(mq, generation, next_offset)
            return
        subscription = self._subscriptions[mq.topic]
        found = (MessageExt(record, mq) for record in bodies.decode_messages(response.body))
        messages = tuple(message for message in found if is_wanted(subscription, message.tags))
        event = Pulled(
            mq,
            generation,
            next_offset,
            _now_ms(),
            tuple(message.queue_offset for message in messages),
            sum(len(message.record.body) for message in messages),
        )
        step = pull_message(self.state, event)
        await self._carry_out(step)
        if not step.result:
            return
        if status is not PullStatus.FOUND:
            await self._carry_out(correct_tags_offset(self.state, event))
        size = self.config.consume_message_batch_max_size
        for at in range(0, len(messages), size):
            self._requests.put_nowait(_ConsumeRequest(mq, generation, messages[at : at + size]))

    async def _start_anew(self, mq: MessageQueue, generation: int, offset: int) -> None:
        if held(self.state, mq, generation) is None:
            return
        await self._carry_out(offset_illegal(self.state, mq, generation, offset, self.group))
        self._record(EventKind.REVOKE, **self._at(mq))
        self._rebalance_immediately()

    # Consume

    async def _consume_service(self) -> None:
        while True:
            request = await self._requests.get()
            if held(self.state, request.mq, request.generation) is not None:
                await self._consume(request)

    async def _consume(self, request: _ConsumeRequest) -> None:
        rows = [self._message_fields(message, request.failures) for message in request.messages]
        for row in rows:
            self._record(EventKind.RECEIVE, **row)
        try:
            status = await self._listener(request.messages)
        except Exception:
            log.exception("%s: the listener failed", self.group)
            status = ConsumeStatus.RECONSUME_LATER
        done = status is ConsumeStatus.CONSUME_SUCCESS
        for row in rows:
            self._record(EventKind.ACK, Outcome.OK if done else Outcome.FAILED, **row)
        if done:
            await self._carry_out(
                process_consume_result(
                    self.state,
                    Consumed(
                        request.mq,
                        request.generation,
                        tuple(message.queue_offset for message in request.messages),
                        sum(len(message.record.body) for message in request.messages),
                    ),
                )
            )
        else:
            self._tasks.spawn(self._consume_again(request))

    async def _consume_again(self, request: _ConsumeRequest) -> None:
        await sleep_ms(self.config.consume_again_delay_ms)
        again = _ConsumeRequest(
            request.mq, request.generation, request.messages, request.failures + 1
        )
        self._requests.put_nowait(again)

    # Progress

    async def _persist(self) -> None:
        await self._carry_out(persist_all(self.state, self.group))

    async def _carry_out(self, step: Step) -> None:
        apply(self.state, step.changes)
        for send in step.sends:
            await self._update_consumer_offset(send)

    async def _update_consumer_offset(self, send: UpdateConsumerOffset) -> None:
        fields = {
            "consumerGroup": send.group,
            "topic": send.mq.topic,
            "queueId": str(send.mq.queue_id),
            "commitOffset": str(send.commit_offset),
            "bname": send.mq.broker_name,
        }
        self._record(
            EventKind.COMMIT, Outcome.UNKNOWN, value=send.commit_offset, **self._at(send.mq)
        )
        request = RemotingCommand(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
        try:
            await self._instance.oneway(send.mq.broker_name, request)
        except NOT_ANSWERED as error:
            log.warning("%s: progress of %s is not reported: %s", self.group, send.mq, error)

    # Rows of the history

    def _at(self, mq: MessageQueue) -> dict[str, Any]:
        place = {"topic": mq.topic, "broker": mq.broker_name, "queue_id": mq.queue_id}
        return {**self._who, **place}

    def _message_fields(self, message: MessageExt, failures: int) -> dict[str, Any]:
        return {
            **self._at(message.queue),
            "queue_offset": message.queue_offset,
            "message_key": message.keys,
            "message_id": message.message_id,
            "tag": message.tags,
            "attempt": message.record.reconsume_times + failures,
        }


def _build_subscriptions(
    group: Group, subscriptions: Mapping[Topic, str]
) -> dict[Topic, SubscriptionData]:
    """By topic, that of the group's retry topic added, as every member has it."""
    wanted = {**subscriptions, RETRY_TOPIC_PREFIX + group: "*"}
    try:
        return {topic: build_subscription_data(topic, tags) for topic, tags in wanted.items()}
    except SubscriptionError as error:
        raise UserError(group, f"{str(error)!r} subscribes to nothing", "write A || B") from None


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


async def _first(event: Coroutine[Any, Any, object], timeout_ms: int) -> None:
    # Not wait_for: before Python 3.12 that one forgets a cancellation that comes with the event.
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_ms / 1000):
            await event
