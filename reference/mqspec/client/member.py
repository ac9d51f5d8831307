"""A member of a consumer group: what the push and the lite-pull consumer have in common.

It tells brokers of itself, reads who else is in the group, takes its share of the queues and
reports its progress. core.rebalance decides which queues it holds, core.offset_commit what it
reports of them; this carries events between them, brokers and clocks.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Iterable
from pathlib import Path
from typing import Any, ClassVar, Self

from mqrules import EventKind, Outcome, UserError
from mqspec.client.clock import now_ms, wall_ms
from mqspec.client.instance import NOT_ANSWERED, ClientInstance, check_group
from mqspec.client.member_config import MemberConfig
from mqspec.client.member_trace import MemberTrace
from mqspec.client.membership import check_in_broker
from mqspec.client.message import MessageExt
from mqspec.client.offset_store import (
    LocalFileOffsetStore,
    OffsetStore,
    RemoteBrokerOffsetStore,
)
from mqspec.client.presence import Presence
from mqspec.client.pull_from_where import CONSUME_TIMESTAMP_AGO_MS, pull_from_where
from mqspec.client.rebalance_service import RebalanceService
from mqspec.client.recorder import Recorder, nowhere
from mqspec.client.subscription import Subscriptions, build_subscriptions, subscription_body
from mqspec.client.tasks import Tasks
from mqspec.core.group import ConsumeType, MessageModel
from mqspec.core.offset_commit import ConsumerState, ProcessQueue, add_message_queue, persist_all
from mqspec.core.push_consumer import subscribe_queues
from mqspec.core.step import Step, apply
from mqspec.core.types import ClientId, Group, MessageQueue, Topic
from mqspec.transport import Connection, refuse
from mqspec.wire import bodies
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

log = logging.getLogger(__name__)


class GroupMember:
    """A member of a consumer group; an async context manager.

    On leaving the context it reports its progress and leaves the group; `kill` does neither.
    """

    CONSUME_TYPE: ClassVar[ConsumeType]

    def __init__(
        self,
        nameserver: str,
        group: Group,
        subscriptions: Subscriptions,
        config: MemberConfig,
        recorder: Recorder | None = None,
        client_id: ClientId | None = None,
    ) -> None:
        check_group(group)
        self.group = group
        self.state: ConsumerState = self.make_state()
        self.tasks = Tasks()
        self.record = recorder or nowhere()
        self.is_broadcasting = config.message_model is MessageModel.BROADCASTING
        self.subscriptions = build_subscriptions(group, subscriptions)
        # All members that broadcast on one host share an id, and so the file of their progress.
        name = "DEFAULT" if self.is_broadcasting else None
        self.instance = ClientInstance(
            nameserver,
            self._serve,
            client_id,
            instance_name=name,
            ssl=config.ssl,
            credentials=config.credentials,
            on_connect=lambda connection: self._presence.connected(connection),
        )
        self._presence = Presence(
            self.instance,
            self.tasks,
            lambda: self._heartbeat_data(self.version_ms),
            lambda: self.topics,
            greeted=self.rebalance_immediately,
        )
        self._common = config
        self.rebalance = RebalanceService(self, config)

    @property
    def client_id(self) -> ClientId:
        """The member's id, once it is started."""
        return self.instance.client_id

    @property
    def queues(self) -> frozenset[MessageQueue]:
        """The queues that it holds now, that of the retry topic included."""
        return frozenset(self.state.process_queue_table)

    async def __aenter__(self) -> Self:
        await self.instance.start()
        config = self._common
        self._who: dict[str, Any] = {"group": self.group, "client_id": self.client_id}
        self.trace = MemberTrace(config.trace, f"{self.group}/{self.client_id}")
        self.trace.told("strategy", None, config.strategy.name)
        self.started_ms = self.version_ms = wall_ms()
        try:
            self.offset_store = self._open_offset_store()
            await self.update_routes()
            await check_in_broker(self.instance, self.group, self.subscriptions, self.version_ms)
        except UserError:
            await self.instance.close()
            raise
        self.record(EventKind.JOIN, **self._who)
        for topic, subscription in self.subscriptions.items():
            self.record(EventKind.SUBSCRIBE, topic=topic, tag=subscription.sub_string, **self._who)
        await self.heartbeat()
        self.tasks.every(config.poll_name_server_interval_ms, self.update_routes)
        self.tasks.every(config.heartbeat_broker_interval_ms, self.heartbeat)
        self.tasks.every(
            config.persist_consumer_offset_interval_ms, self.persist, config.persist_first_delay_ms
        )
        self.tasks.spawn(self.rebalance.run())
        self._begin_work()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()

    async def shutdown(self) -> None:
        """Stop, report progress, leave the group. Listener calls in work are cancelled.

        Does nothing where it has been stopped before.
        """
        if not self.tasks:
            return
        await self.tasks.cancel()
        self._presence.hush()
        await self._end_work()
        await self.persist()
        self.trace.ended()
        for mq in self.queues:
            self.record(EventKind.REVOKE, **self.at(mq))
        self.record(EventKind.LEAVE, **self._who)
        await self._presence.leave(consumerGroup=self.group)
        await self.instance.close()

    async def kill(self) -> None:
        """End as a process does that is killed: nothing is reported, connections break."""
        self.instance.abort()
        self.trace.ended()
        self.record(EventKind.CRASH, **self._who)
        await self.tasks.cancel()

    # What the kinds of member do each in its way.

    def make_state(self) -> ConsumerState:
        """What the member holds: nothing yet."""
        return ConsumerState()

    @property
    def is_orderly(self) -> bool:
        """Whether the queues are locked."""
        return False

    @property
    def consuming(self) -> frozenset[MessageQueue]:
        """The queues on whose messages an orderly listener works."""
        return frozenset()

    def _begin_work(self) -> None:
        """The member has joined."""

    async def _end_work(self) -> None:
        """The member is about to report its progress and leave; nothing runs any more."""

    async def _may_start_on(self, mq: MessageQueue) -> bool:
        """Whether to start on a queue now, rather than after a later rebalance."""
        return True

    async def _started_on(self, mq: MessageQueue, queue: ProcessQueue) -> None:
        """The member holds the queue: it may be pulled."""

    async def _removed(self, mqs: Iterable[MessageQueue]) -> None:
        """The member does not hold these queues any more."""

    # Membership

    def _serve(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | Awaitable[RemotingCommand | None] | None:
        if request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
            self.trace.told("notices", None, self.client_id)
            self.rebalance_immediately()
            return None
        return refuse(connection, request)

    async def heartbeat(self) -> None:
        """Tell all brokers of the member."""
        await self._presence.announce()

    def _heartbeat_data(self, version_ms: int) -> bodies.HeartbeatData:
        config = self._common
        consumer = bodies.ConsumerData(
            self.group,
            consume_type=self.CONSUME_TYPE,
            message_model=config.message_model,
            consume_from_where=config.consume_from_where,
            subscription_data_set=tuple(
                subscription_body(data, version_ms) for data in self.subscriptions.values()
            ),
        )
        return bodies.HeartbeatData(self.client_id, (consumer,))

    @property
    def topics(self) -> Collection[Topic]:
        """The topics whose brokers it has to do with."""
        return self.subscriptions

    async def update_routes(self) -> None:
        """Ask again where the topics are."""
        await self.instance.update_routes(tuple(self.topics))

    # Rebalance

    def rebalance_immediately(self) -> None:
        """Rebalance as soon as the last one is a second ago."""
        self.rebalance.immediately()

    async def announce_change(self) -> None:
        """Tell brokers that it holds other queues than before. Pulls take the new version after
        brokers know it: before, they are answered 25."""
        version_ms = wall_ms()
        await self._presence.announce(self._heartbeat_data(version_ms))
        self.version_ms = version_ms

    async def forget(self, removed: Iterable[MessageQueue]) -> None:
        """Queues are not in the table any more."""
        removed = tuple(removed)
        for mq in removed:
            self.record(EventKind.REVOKE, **self.at(mq))
        await self._removed(removed)

    def subscribed_queues(self, topic: Topic) -> tuple[MessageQueue, ...] | None:
        """Where messages of the topic may be; None where no route is known."""
        route = self.instance.routes.get(topic)
        return None if route is None else subscribe_queues(topic, route)

    async def start_on(self, mq: MessageQueue) -> bool:
        """Begin to hold a queue; whether it is held now."""
        if not await self._may_start_on(mq):
            return False
        try:
            stored = await self.offset_store.read_offset(mq)
            offset = await self.pull_from_where(mq, stored)
        except NOT_ANSWERED as error:
            log.warning("%s: %s is not started on: %s", self.group, mq, error)
            return False
        step = add_message_queue(self.state, mq, offset, stored, now_ms())
        queue: ProcessQueue | None = step.result
        if queue is None:
            return True
        self.record(EventKind.QUERY_OFFSET, value=offset, **self.at(mq))
        self.record(EventKind.ASSIGN, **self.at(mq))
        await self.carry_out(step)
        await self._started_on(mq, queue)
        return True

    async def pull_from_where(self, mq: MessageQueue, stored: int) -> int:
        """Where to begin on a queue. Raises what a request raises, AnswerError where a broker
        tells no offset."""
        config = self._common
        timestamp_ms = config.consume_timestamp_ms
        if timestamp_ms is None:
            timestamp_ms = self.started_ms - CONSUME_TIMESTAMP_AGO_MS
        return await pull_from_where(
            self.instance, config.consume_from_where, mq, stored, timestamp_ms
        )

    # Progress

    async def persist(self) -> None:
        """Report the progress of all queues held."""
        await self.carry_out(persist_all(self.state, self.group))

    async def carry_out(self, step: Step) -> None:
        """Apply what changes, and report what is to be reported."""
        self.trace.step(step)
        apply(self.state, step.changes)
        for update in step.sends:
            self.record(
                EventKind.COMMIT, Outcome.UNKNOWN, value=update.commit_offset, **self.at(update.mq)
            )
        if step.sends:
            await self.offset_store.persist(step.sends)

    def _open_offset_store(self) -> OffsetStore:
        if not self.is_broadcasting:
            return RemoteBrokerOffsetStore(self.instance, self.group)
        directory = self._common.local_offset_store_dir or Path.home() / ".rocketmq_offsets"
        return LocalFileOffsetStore(directory / self.client_id / self.group / "offsets.json")

    # Rows of the history

    def at(self, mq: MessageQueue) -> dict[str, Any]:
        """The fields of an event on a queue."""
        place = {"topic": mq.topic, "broker": mq.broker_name, "queue_id": mq.queue_id}
        return {**self._who, **place}

    def message_fields(self, message: MessageExt) -> dict[str, Any]:
        """The fields of an event on a message."""
        return {
            **self.at(message.queue),
            "queue_offset": message.queue_offset,
            "message_key": message.keys,
            "message_id": message.message_id,
            "tag": message.tags,
            "attempt": message.reconsume_times,
        }
