"""A member of a consumer group: what the push and the lite-pull consumer have in common.

It tells brokers of itself, reads who else is in the group, takes its share of the queues and
reports its progress. core.rebalance decides which queues it holds, core.offset_commit what it
reports of them; this carries events between them, brokers and clocks.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any, ClassVar, Final, Self

from mqrules import EventKind, Outcome, UserError
from mqspec.client.clock import now_ms, wall_ms
from mqspec.client.credentials import SessionCredentials
from mqspec.client.instance import (
    NOT_ANSWERED,
    POLL_NAME_SERVER_INTERVAL_MS,
    AnswerError,
    BrokerError,
    ClientInstance,
    check_group,
    succeeded,
)
from mqspec.client.message import RETRY_TOPIC_PREFIX, MessageExt
from mqspec.client.offset_store import (
    LocalFileOffsetStore,
    OffsetStore,
    RemoteBrokerOffsetStore,
    ask_offset,
)
from mqspec.client.presence import Presence
from mqspec.client.recorder import Recorder, nowhere
from mqspec.client.subscription import Subscriptions, build_subscriptions, subscription_body
from mqspec.client.tasks import Tasks, first
from mqspec.core.allocation import AVG, Strategy
from mqspec.core.group import (
    HEARTBEAT_INTERVAL_MS,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
)
from mqspec.core.offset_commit import (
    PERSIST_FIRST_DELAY_MS,
    PERSIST_INTERVAL_MS,
    ConsumerState,
    FlowControl,
    ProcessQueue,
    add_message_queue,
    persist_all,
)
from mqspec.core.push_consumer import PULL_BATCH_SIZE, subscribe_queues
from mqspec.core.rebalance import (
    MIN_INTERVAL_MS,
    WAIT_INTERVAL_MS,
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
from mqspec.core.step import Change, Step, apply
from mqspec.core.subscription import TAG
from mqspec.core.types import ClientId, Group, MessageQueue, Topic
from mqspec.trace import Trace
from mqspec.transport import Connection, refuse
from mqspec.wire import bodies
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

CONSUME_TIMESTAMP_AGO_MS: Final = 30 * 60 * 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """How a member behaves; the defaults are those of 5.3.3."""

    message_model: MessageModel = MessageModel.CLUSTERING
    strategy: Strategy = AVG
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    consume_timestamp_ms: int | None = None  # None: half an hour before the start
    pull_batch_size: int = PULL_BATCH_SIZE
    flow_control: FlowControl = field(default_factory=FlowControl)
    heartbeat_broker_interval_ms: int = HEARTBEAT_INTERVAL_MS
    poll_name_server_interval_ms: int = POLL_NAME_SERVER_INTERVAL_MS
    persist_consumer_offset_interval_ms: int = PERSIST_INTERVAL_MS
    persist_first_delay_ms: int = PERSIST_FIRST_DELAY_MS
    rebalance_wait_interval_ms: int = WAIT_INTERVAL_MS
    rebalance_min_interval_ms: int = MIN_INTERVAL_MS
    local_offset_store_dir: Path | None = None  # None: ~/.rocketmq_offsets; of broadcasting
    ssl: SSLContext | None = None  # mqspec.tls.client_context
    credentials: SessionCredentials | None = None
    trace: Trace | None = None  # where the member writes what it does


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
        self._rebalance = RebalanceState()
        self._wake = asyncio.Event()
        self._paused = False

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
        self._member = Member(
            self.group, self.client_id, config.strategy, config.message_model, self.is_orderly
        )
        self._who: dict[str, Any] = {"group": self.group, "client_id": self.client_id}
        self._note_told("strategy", None, config.strategy.name)
        self.started_ms = self.version_ms = wall_ms()
        try:
            self.offset_store = self._open_offset_store()
            await self.update_routes()
            await self._check_in_broker()
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
        self.tasks.spawn(self._rebalance_service())
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
        self._note_end()
        for mq in self.queues:
            self.record(EventKind.REVOKE, **self.at(mq))
        self.record(EventKind.LEAVE, **self._who)
        await self._presence.leave(consumerGroup=self.group)
        await self.instance.close()

    async def kill(self) -> None:
        """End as a process does that is killed: nothing is reported, connections break."""
        self.instance.abort()
        self._note_end()
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
            self._note_told("notices", None, self.client_id)
            self.rebalance_immediately()
            return None
        return refuse(connection, request)

    async def _check_in_broker(self) -> None:
        """Have a broker look at what is not subscribed to by tags. Raises UserError."""
        for topic, data in self.subscriptions.items():
            brokers = self.instance.brokers([topic])
            if data.expression_type == TAG or not brokers:
                continue
            body = {
                "clientId": self.client_id,
                "group": self.group,
                "subscriptionData": bodies.to_plain(subscription_body(data, self.version_ms)),
            }
            request = RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG, body=bodies.dumps(body))
            try:
                succeeded(await self.instance.invoke(random.choice(brokers), request))
            except BrokerError as error:
                raise UserError(
                    f"{self.group}: {data.sub_string!r}",
                    str(error),
                    "write an expression that the broker reads (enablePropertyFilter)",
                ) from None
            except NOT_ANSWERED as error:
                log.warning("%s: %s is not checked: %s", self.group, data.sub_string, error)

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
        self._carry_rebalance(notify_consumer_ids_changed(self._rebalance))
        self._wake.set()

    async def _rebalance_service(self) -> None:
        config = self._common
        intervals = config.rebalance_wait_interval_ms, config.rebalance_min_interval_ms
        while True:
            while (wait_ms := next_rebalance_ms(self._rebalance, *intervals) - now_ms()) > 0:
                self._wake.clear()
                await first(self._wake.wait(), wait_ms)
            self._carry_rebalance(do_rebalance(self._rebalance))
            balanced = not self._paused
            for topic in () if self._paused else self.subscriptions:
                balanced &= await self._try_rebalance(topic)
            self._carry_rebalance(rebalanced(self._rebalance, balanced, now_ms()))

    def _carry_rebalance(self, step: Step) -> None:
        self.note(step, "Rebalance")
        apply(self._rebalance, step.changes)

    async def _try_rebalance(self, topic: Topic) -> bool:
        """A topic that fails stops no other, and is tried again (RebalanceImpl.doRebalance)."""
        try:
            return await self._rebalance_by_topic(topic)
        except Exception:
            log.exception("%s: %s is not rebalanced", self.group, topic)
            return topic.startswith(RETRY_TOPIC_PREFIX)

    async def _rebalance_by_topic(self, topic: Topic) -> bool:
        member_ids = () if self.is_broadcasting else await self._member_ids(topic)
        view = View(topic, self.subscribed_queues(topic), member_ids, self.consuming)
        self._note_told("view", topic, view)
        step = rebalance_by_topic(self.state, self._member, view, now_ms())
        outcome: Rebalanced = step.result
        await self.carry_out(step)
        await self.forget(outcome.removed)
        started = [await self.start_on(mq) for mq in outcome.added]
        if outcome.removed or any(started):
            # Pulls take the new version after brokers know it: before, they are answered 25.
            version_ms = wall_ms()
            await self._presence.announce(self._heartbeat_data(version_ms))
            self.version_ms = version_ms
        return outcome.balanced and all(started)

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

    async def _member_ids(self, topic: Topic) -> tuple[ClientId, ...] | None:
        if not self.instance.brokers([topic]):
            # A retry topic is created after the first heartbeat.
            await self.instance.update_routes([topic])
        brokers = self.instance.brokers([topic])
        if not brokers:
            return None
        request = RemotingCommand(
            RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": self.group}
        )
        broker = random.choice(brokers)
        try:
            broker_id = self.instance.find_in_subscribe(broker)
            response = succeeded(await self.instance.invoke(broker, request, broker_id=broker_id))
            return bodies.from_body(bodies.ConsumerList, response.body).ids
        except NOT_ANSWERED as error:
            log.warning("%s: the list of members is not known: %s", self.group, error)
            return None

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
        offset = await self._begin_of(mq, stored)
        if offset < 0:
            raise AnswerError(f"{mq} begins at {offset}")
        return offset

    async def _begin_of(self, mq: MessageQueue, stored: int) -> int:
        match compute_pull_from_where(self._common.consume_from_where, mq.topic, stored):
            case PullFrom.STORED:
                return stored
            case PullFrom.ZERO:
                return 0
            case PullFrom.MAX_OFFSET:
                return await ask_offset(self.instance, RequestCode.GET_MAX_OFFSET, mq, {})
            case PullFrom.TIMESTAMP:
                time_ms = self._common.consume_timestamp_ms
                if time_ms is None:
                    time_ms = self.started_ms - CONSUME_TIMESTAMP_AGO_MS
                fields = {"timestamp": str(time_ms)}
                code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
                return await ask_offset(self.instance, code, mq, fields)

    # Progress

    async def persist(self) -> None:
        """Report the progress of all queues held."""
        await self.carry_out(persist_all(self.state, self.group))

    async def carry_out(self, step: Step) -> None:
        """Apply what changes, and report what is to be reported."""
        self.note(step)
        apply(self.state, step.changes)
        for update in step.sends:
            self.record(
                EventKind.COMMIT, Outcome.UNKNOWN, value=update.commit_offset, **self.at(update.mq)
            )
        if step.sends:
            await self.offset_store.persist(step.sends)

    def note(self, step: Step, module: str = "OffsetCommit") -> None:
        """Write what is about to be done to the trace."""
        if self._common.trace:
            self._common.trace.step(self._process, module, step)

    def _note_told(self, variable: str, key: Hashable | None, value: object) -> None:
        """Write to the trace what the member rebalances by, and what others told it of that."""
        if self._common.trace:
            self._common.trace.read(self._process, "Rebalance", variable, key, value)

    @property
    def _process(self) -> str:
        return f"{self.group}/{self.client_id}"

    def _note_end(self) -> None:
        self.note(Step((Change("crashed", None, True),)))

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
