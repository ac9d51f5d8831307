"""The broker on asyncio: sockets, files and clocks around the states of the core."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import AsyncExitStack
from copy import deepcopy
from functools import partial
from pathlib import Path

from mqrules import UserError
from mqspec.broker import events
from mqspec.broker.config_files import ConfigFiles
from mqspec.broker.fast.sends import TOGETHER_MAX, Sends
from mqspec.broker.fast.usual_sends import UsualSends
from mqspec.broker.group_commit import GroupCommit
from mqspec.broker.pop_polling import PopLongPolling
from mqspec.broker.processor import pop, pop_revive, sending, timers, transactions
from mqspec.broker.processor.delay import deliver_delayed
from mqspec.broker.processor.pulling import HeldPull, wake
from mqspec.broker.processor.table import MAIN_PORT_ONLY, PROCESSORS, pool_of
from mqspec.broker.registrar import REGISTER_INTERVAL_MS, Registrar
from mqspec.broker.stats import BrokerStats
from mqspec.core import authentication, consumer_filter, delay, group, long_polling, timer
from mqspec.core.assignment import AssignmentState
from mqspec.core.consumer_filter import ConsumerFilterState
from mqspec.core.delay import DelayState
from mqspec.core.flow_control import SEND, Pool
from mqspec.core.group import GroupState
from mqspec.core.lock import LockState
from mqspec.core.log import Dispatch, PutStatus, TopicQueue, arrivals
from mqspec.core.long_polling import LongPollingState
from mqspec.core.metadata import (
    SYSTEM_GROUPS,
    BrokerConfig,
    MetadataState,
    SubscriptionGroupConfig,
    is_system_topic,
    system_topics,
)
from mqspec.core.offset_commit import PERSIST_INTERVAL_MS, OffsetState
from mqspec.core.pop import PopState
from mqspec.core.pop_order import PopOrderState
from mqspec.core.publish import PUT_CODES
from mqspec.core.record import Host, Record, decode_properties
from mqspec.core.response import Refusal
from mqspec.core.retention import CLEAN_RESOURCE_INTERVAL_MS
from mqspec.core.revive_log import ReviveMessage
from mqspec.core.route import TopicRouteData
from mqspec.core.stats import SAMPLE_INTERVAL_MS
from mqspec.core.step import REMOVED, Change, Step, apply, whole
from mqspec.core.subscription import BroughtSubscriptions
from mqspec.core.timer import TimerState
from mqspec.core.transaction import TransactionState
from mqspec.core.types import Topic
from mqspec.service import Dispatcher, Served, clock_ms, every, listen, process
from mqspec.store.message_store import (
    MessageStore,
    PutResult,
    RecoveryReport,
    StoreConfig,
    Visible,
)
from mqspec.tls import Tls
from mqspec.trace import Trace
from mqspec.transport import Answer, Connection, Handler, Server, refuse
from mqspec.wire.codec import RemotingCommand
from mqspec.wire.codes import RequestCode

FAST_PORT_BELOW = 2  # how far below the port is the one for requests that never wait
FREE_PORT_ATTEMPTS = 20
COMMIT_COMMIT_LOG_INTERVAL_MS = 200
FLUSH_COMMIT_LOG_INTERVAL_MS = 500
FLUSH_INTERVAL_MS = 60_000  # of everything, with the checkpoint
CATCH_UP_INTERVAL_MS = 500
INDEX_INTERVAL_MS, INDEX_COUNT = 100, 500  # records indexed again after an abnormal start
REPUT_BYTES = 4 * 1024 * 1024  # of the log, dispatched at once: each queue in it costs a write


class Broker:
    """One broker, a master, with its store in a directory of its own.

    `nameserver` is where it registers, as host:port.
    """

    def __init__(
        self,
        root: Path,
        nameserver: str,
        config: BrokerConfig | None = None,
        port: int = 0,
        store_config: StoreConfig | None = None,
        tls: Tls | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.config = config or BrokerConfig()
        self.trace = trace
        self.metadata = MetadataState()
        self.groups = GroupState()
        self.brought = BroughtSubscriptions()
        self.filters = ConsumerFilterState()
        self.offsets = OffsetState()
        self.long_polling = LongPollingState()
        self.delay = DelayState()
        self.transactions = TransactionState()
        self.timer = TimerState()
        self.locks = LockState()
        self.assignment = AssignmentState()
        self.pop = PopState()
        self.pop_order = PopOrderState()
        self.pops = PopLongPolling(partial(pop.pop_again, self), self._pop_polling_size)
        self.notifications = PopLongPolling(partial(pop.notify_again, self), self._pop_polling_size)
        self._check_points = itertools.count()
        self.stats = BrokerStats(self.config.cluster_name, partial(is_system_topic, self.config))
        self.store_config = store_config or StoreConfig()  # as it is shown
        self.store = MessageStore(root, self.store_config, clock_ms)
        self.store.limits = self.config.limits
        self.store.on_arrival = self._arrived
        self.store.settle = self._settle_soon
        if trace:
            self.store.on_step = self._note_log
        # A trace has a step for each message: modules do not know batches.
        self.sends = Sends(
            self.store,
            partial(sending.answer, self),
            partial(process, sending.send_one, self),
            self.stats.put,
            together=1 if trace else TOGETHER_MAX,
        )
        self.usual_sends = UsualSends()
        self._group_commit = GroupCommit(self.store)
        self._reputs = False  # whether a reput is about to be done
        self._loop: asyncio.AbstractEventLoop
        self.store_host: Host
        self._users = {user.username: user for user in self.config.users}
        self._nameserver = nameserver
        self._port = port
        self._tls = tls or Tls()
        self._files = ConfigFiles(root)
        self._dispatcher: Dispatcher[Broker]
        self._server: Server
        self._fast_server: Server
        self._registrar: Registrar
        self._clocks: list[asyncio.Task[None]] = []
        self._key_prefix = os.urandom(10).hex().upper()  # no other process has it
        self._keys = itertools.count()

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return f"{self.config.host}:{self._server.port}"

    async def start(self) -> RecoveryReport:
        """Recover the store, listen, and be in the nameserver's routes.

        Raises UserError where the store or the port cannot be used, or the nameserver does
        not answer; nothing is left behind then.
        """
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as undo:
            self.note_told("Log", "segment_size", None, self.store.config.segment_size)
            self.note_told("Delay", "delay_levels", None, self.store.delay_levels)
            report = self.store.open()
            undo.callback(self.store.close)
            self._load()
            self._dispatcher = Dispatcher(
                self,
                PROCESSORS,
                pool_of,
                self._rejects if self.store.config.transient_store_pool_enable else None,
                self._authenticate,
            )
            self._server, self._fast_server = await self._listen(self._dispatcher.serve)
            undo.push_async_callback(self._server.close)
            undo.push_async_callback(self._fast_server.close)
            self.store_host = Host.parse(self.config.host, self._server.port)
            self._registrar = Registrar(
                self._nameserver, self.config, self.address, self._tls.to_others()
            )
            undo.callback(self._registrar.close)
            await self._registrar.register(self.metadata)
            undo.pop_all()
        self.stats.sampling()
        pooled = ((COMMIT_COMMIT_LOG_INTERVAL_MS, self.store.commit_commit_log),)
        self._clocks = [
            asyncio.create_task(every(interval_ms, action))
            for interval_ms, action in (
                *(pooled if self.store.config.transient_store_pool_enable else ()),
                (FLUSH_COMMIT_LOG_INTERVAL_MS, self._flush_commit_log),
                (FLUSH_INTERVAL_MS, self._flush),
                (CLEAN_RESOURCE_INTERVAL_MS, self.store.clean),
                (CATCH_UP_INTERVAL_MS, lambda: self.store.catch_up(0)),
                (INDEX_INTERVAL_MS, lambda: self.store.index_more(INDEX_COUNT)),
                (PERSIST_INTERVAL_MS, self._persist_offsets),
                (consumer_filter.PERSIST_INTERVAL_MS, self._persist_filters),
                (REGISTER_INTERVAL_MS, self._register),
                (SAMPLE_INTERVAL_MS, self.stats.sampling),
                (group.SCAN_INTERVAL_MS, self._scan_not_active_channel),
                (long_polling.CHECK_INTERVAL_MS, self._check_hold_request),
                (delay.DELIVER_INTERVAL_MS, lambda: deliver_delayed(self)),
                (timer.DELIVER_INTERVAL_MS, lambda: timers.deliver(self)),
                (timer.FLUSH_INTERVAL_MS, self._persist_timers),
                (self.config.revive_interval, lambda: pop_revive.revive(self)),
                (self.config.transaction_check_interval, lambda: transactions.check(self)),
                (
                    self.config.transaction_op_batch_interval,
                    lambda: transactions.write_ops(self),
                ),
                (self.config.flush_delay_offset_interval, self._persist_delay),
            )
        ]
        events.started(self, report)
        return report

    async def stop(self) -> None:
        """Leave the routes, answer nobody any more, and write everything to disk."""
        for clock in self._clocks:
            clock.cancel()
        await asyncio.wait(self._clocks)
        await self._registrar.unregister()
        await self._go_away()
        await self._fast_server.close()
        await self._server.close()
        self._persist_filters()
        await self._persist_offsets()
        await self._persist_delay()
        await timers.deliver_slot(self)  # or what of it is delivered would be so again
        await self._persist_timers()
        transactions.write_ops(self)
        await self._group_commit.close()
        self.store.close()
        events.stopped(self)

    # What processors use.

    def next_revive_qid(self) -> int:
        """The queue of the revive topic for the checkpoints of one more pop."""
        return next(self._check_points) % self.config.revive_queue_num

    def waiting(self, pool: Pool) -> tuple[int, int]:
        """How many requests wait in a pool, and for how long, ms, the first of them has."""
        return self._dispatcher.waiting(pool)

    def next_unique_key(self) -> str:
        """A key for a message whose producer gave it none."""
        return f"{self._key_prefix}{next(self._keys):012X}"

    def put_message(self, message: Record) -> PutResult:
        """Store a message; one that asks for a delay waits first. All messages that are not
        the broker's own come in here."""
        placed = self.schedule(message, clock_ms())
        return PutResult(placed) if isinstance(placed, PutStatus) else self.put(placed)

    def put(self, record: Record) -> PutResult:
        """Store a message where it belongs, and count it there (ADMIN-012)."""
        result = self.store.put(record)
        if result.status in PUT_CODES:
            self.stats.put[record.topic].add(1, result.wrote_bytes)
        return result

    def schedule(self, message: Record, now_ms: int) -> Record | PutStatus:
        """The message as it is stored: where it waits, if it asks for that; or why it is not."""
        timed = timer.schedule_timer(self.config, message, now_ms)
        if isinstance(timed, PutStatus):
            return timed
        return delay.schedule_message(self.store.delay_levels, timed)

    async def is_log_on_disk(self) -> bool:
        """Whether all that the log holds now is, once it was waited for."""
        self.store.commit_commit_log()
        end = self.store.unflushed.max
        return await self._group_commit.flushed(end) is PutStatus.PUT_OK

    def update_config(
        self, config: BrokerConfig, store_config: StoreConfig, permits: bool
    ) -> Sequence[Change]:
        """Take other options; of the store's those of retention count at once, others are only
        shown. Where they are told what the broker `permits`, all topics' routes are another
        version, also if it is what it permitted before."""
        changes = []
        self.config = self._registrar.config = config
        self.store_config = store_config
        self.store.update_config(config.limits, store_config)
        self.usual_sends.forget()
        if permits:
            version = self.metadata.topic_data_version.next(clock_ms())
            changes = [Change("topic_data_version", None, version)]
            apply(self.metadata, changes)
            self._registrar.register_soon(self.metadata, self.metadata.topic_config_table)
        return changes

    def carry_metadata(self, step: Step) -> Step:
        """Apply changes of topics and groups, write them to disk, and tell the nameserver."""
        if not step.changes:
            return step
        apply(self.metadata, step.changes)
        self.usual_sends.forget()
        topics = [change.key for change in step.changes if change.variable == "topic_config_table"]
        if topics:
            self._files.persist_topics(self.metadata)
            self._registrar.register_soon(self.metadata, map(str, topics))
        if any(change.variable == "group_data_version" for change in step.changes):
            self._files.persist_groups(self.metadata)
        return step

    def once_registered(
        self,
        changes: Sequence[Change],
        connection: Connection,
        request: RemotingCommand,
        answer: Served,
    ) -> Served:
        """An answer, once the nameserver was told of the topics that changed for it: who gets it
        finds them in its routes (ADMIN-028)."""
        if not (changes and self._registrar.is_behind):
            return answer
        self._registrar.when_caught_up(lambda: connection.answer(request, answer))
        return None

    def carry_groups(self, step: Step, is_asked: bool = True) -> Step:
        """Apply changes of the members, tell the members, and close whom the core closes. What a
        group says of notices counts where a member asked for the change (GROUP-062)."""
        events.membership(self, step)
        self._note("Group", step)
        apply(self.groups, step.changes)
        for send in step.sends:
            assert isinstance(send.channel, Connection)
            if isinstance(send, group.Close):
                send.channel.close()
            elif self._may_notify(send.group, is_asked):
                fields = {"consumerGroup": send.group}
                send.channel.oneway(
                    RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, fields)
                )
        return step

    def carry_departure(self, step: Step, is_asked: bool = True) -> None:
        """Apply changes of members of whom one has left, or, not asked, lost its connection."""
        self.carry_groups(step, is_asked)
        for change in step.changes:
            if change.variable == "consumer_table" and change.value is REMOVED:
                self.carry_filters(
                    consumer_filter.un_register(self.filters, str(change.key), clock_ms())
                )

    def carry_filters(self, step: Step) -> None:
        """Apply changes of the expressions that groups filter by; they reach the disk within
        10 s."""
        apply(self.filters, step.changes)

    def carry_offsets(self, step: Step) -> Step:
        """Apply changes of consumer offsets; they reach the disk within 5 s."""
        self._note("OffsetCommit", step)
        apply(self.offsets, step.changes)
        return step

    def carry_locks(self, step: Step) -> Step:
        """Apply changes of locks."""
        self._note("Lock", step)
        apply(self.locks, step.changes)
        return step

    def carry_delay(self, step: Step, event: delay.TimeUp) -> None:
        """Apply how far a delivery came; it reaches the disk within 10 s."""
        self._note("Delay", step, event)
        apply(self.delay, step.changes)

    def carry_transactions(self, step: Step) -> None:
        """Apply what is known of half messages, of which the puts are done."""
        self._note("Transaction", step)
        apply(self.transactions, step.changes)

    def carry_pop(self, step: Step) -> None:
        """Apply what is read of the revive log, and what of it is done."""
        self._note("Pop", step)
        apply(self.pop, step.changes)

    def carry_assignment(self, step: Step) -> Step:
        """Apply changes of how groups ask for messages, and write them to disk."""
        apply(self.assignment, step.changes)
        self._files.persist_assignment(self.assignment)
        return step

    async def topic_route(self, topic: Topic) -> TopicRouteData | None:
        """The brokers and queues of a topic, as the nameserver knows them; None: it does not."""
        return await self._registrar.topic_route(topic)

    def hold(self, queue: TopicQueue, request: long_polling.PullRequest) -> None:
        """Hold a pull."""
        step = long_polling.suspend_pull_request(self.long_polling, queue, request)
        apply(self.long_polling, step.changes)

    def when_stored(
        self,
        put: PutResult,
        answer: Callable[[PutStatus], RemotingCommand],
        *properties: bytes,
    ) -> RemotingCommand | Awaitable[RemotingCommand]:
        """The answer to a put: at once, or when it is on disk, where the store flushes
        synchronously and the message's properties do not say that its producer does not wait."""
        if self.store.config.sync_flush and put.status is PutStatus.PUT_OK:
            known = decode_properties(b"".join(properties))
            if known.get("WAIT", "true").lower() == "true":
                return self._answer_flushed(put.end, answer)
        return answer(put.status)

    def note_told(self, module: str, variable: str, key: Hashable | None, value: object) -> None:
        """Write to the trace what another process is about to be told of a variable."""
        if self.trace:
            self.trace.read(self.config.broker_name, module, variable, key, value)

    def note_revive_log(self, revive_qid: int, message: ReviveMessage, event: object) -> None:
        """Write to the trace what the revive log holds now, and what was done thereby."""
        if self.trace:
            self._note("Pop", Step((Change("log", revive_qid, message),)), event)

    # Inside

    def _pop_polling_size(self) -> int:
        return self.config.pop_polling_size

    def _note_log(self, step: Step, dispatches: Sequence[Dispatch] | None) -> None:
        event = None
        if dispatches:
            one = dispatches[0]
            event = {
                "queue": one.queue,
                "queue_offset": one.queue_offset,
                "tags_code": one.tags_codes[0],
                "store_timestamp": one.store_timestamp,
            }
        self._note("Log", step, event)

    def _note(self, module: str, step: Step, event: object = None) -> None:
        if self.trace:
            self.trace.step(self.config.broker_name, module, step, event)

    def _note_whole(self, module: str, variable: str, value: object) -> None:
        self._note(module, Step((Change(variable, None, value),)))

    async def _answer_flushed(
        self, position: int, answer: Callable[[PutStatus], RemotingCommand]
    ) -> RemotingCommand:
        return answer(await self._group_commit.flushed(position))

    def _settle_soon(self) -> PutStatus:
        if self.store.config.sync_flush:
            self._group_commit.begin()
        elif not self._reputs and self._is_reput_due():
            # Once the answer is out: who waits for it need not wait for this.
            self._reputs = True
            self._loop.call_soon(self._reput)
        return PutStatus.PUT_OK

    def _is_reput_due(self) -> bool:
        """Whether what was put is dispatched at once. Where nobody waits for a message it is
        when somebody looks, or much has come: together it costs less."""
        return bool(
            self.store.undispatched_bytes >= REPUT_BYTES or self._is_any_held() or self.trace
        )

    def _is_any_held(self) -> bool:
        """Whether anybody waits for a message."""
        return bool(
            self.long_polling.pull_request_table or self.pops.is_any or self.notifications.is_any
        )

    async def _flush(self) -> None:
        self.store.commit_commit_log()
        flush_the_rest = self.store.flushing()
        status = await self._group_commit.flushed(self.store.unflushed.max)
        if status is PutStatus.PUT_OK:
            await asyncio.to_thread(flush_the_rest)

    async def _flush_commit_log(self) -> None:
        await self._group_commit.flushed(self.store.unflushed.max)

    def _reput(self) -> None:
        self._reputs = False
        self.store.reput()

    async def _listen(self, handler: Handler) -> tuple[Server, Server]:
        # The fast port is 2 below. Where any port will do, both must be free.
        def on_fast_port(
            connection: Connection, request: RemotingCommand
        ) -> Answer | Awaitable[Answer]:
            serve = refuse if request.code in MAIN_PORT_ONLY else handler
            return serve(connection, request)

        host = self.config.host
        for attempt in itertools.count(1):
            server = await listen(host, self._port, handler, self._closed, self._tls)
            try:
                fast_port = server.port - FAST_PORT_BELOW
                fast = await listen(host, fast_port, on_fast_port, self._closed, self._tls)
                return server, fast
            except UserError:
                await server.close()
                if self._port or attempt == FREE_PORT_ATTEMPTS:
                    raise
        raise AssertionError("not reached")

    def _rejects(self, pool: Pool) -> bool:
        return pool is SEND and self.store.is_transient_store_pool_deficient

    def _authenticate(self, request: RemotingCommand) -> Refusal | None:
        config = self.config
        if not config.authentication_enabled or request.code in config.authentication_whitelist:
            return None
        return authentication.authenticate(
            self._users, request.ext_fields, request.body, request.version
        )

    async def _go_away(self) -> None:
        if self.config.enable_shutdown_gracefully:
            self._dispatcher.is_shutting_down = True
            await asyncio.sleep(self.config.shutdown_wait_time_seconds)

    def _load(self) -> None:
        self.metadata = self._files.load_metadata()
        self.offsets = self._files.load_offsets()
        self._note_whole("OffsetCommit", "offset_table", self.offsets.offset_table)
        max_live_time_ms = self.config.rebalance_lock_max_live_time_ms
        self.note_told("Lock", "max_live_time_ms", None, max_live_time_ms)
        self.filters = self._files.load_filters(clock_ms())
        self.assignment = self._files.load_assignment()
        self.delay = self._files.load_delay()
        self._note_whole("Delay", "offset_table", self.delay.offset_table)
        self.transactions = transactions.load(self)
        self.note_told(
            "Transaction", "transaction_check_max", None, self.config.transaction_check_max
        )
        self._note("Transaction", whole(self.transactions))
        self.timer = timers.load(self)
        self.pop = pop_revive.load(self)
        self._note_whole("Pop", "scan_offset", self.pop.scan_offset)
        self.pop_order = self._files.load_pop_order()
        pop.wake_all_when_free(self)
        for name in SYSTEM_GROUPS:
            self.metadata.subscription_group_table.setdefault(name, SubscriptionGroupConfig(name))
        table = self.metadata.topic_config_table
        missing = [topic for topic in system_topics(self.config) if topic.topic_name not in table]
        if missing:
            apply(
                self.metadata,
                [
                    Change(
                        "topic_data_version",
                        None,
                        self.metadata.topic_data_version.next(clock_ms()),
                    ),
                    *(Change("topic_config_table", topic.topic_name, topic) for topic in missing),
                ],
            )
            self._files.persist_topics(self.metadata)

    def _may_notify(self, name: str, is_asked: bool) -> bool:
        config = self.metadata.subscription_group_table.get(name)
        if is_asked and config and not config.notify_consumer_ids_changed_enable:
            return False
        return self.config.notify_consumer_ids_changed_enable

    def _arrived(self, visible: Callable[[], Visible]) -> None:
        if not self._is_any_held():
            return
        for queue, dispatches in visible().items():
            self.pops.arrived(queue, dispatches)
            self.notifications.arrived(queue, dispatches)
            if queue in self.long_polling.pull_request_table:
                for max_offset, tags_code, properties in arrivals(dispatches):
                    self._wake(
                        long_polling.notify_message_arriving(
                            self.long_polling, queue, max_offset, tags_code, clock_ms(), properties
                        )
                    )

    def _check_hold_request(self) -> None:
        self._wake(
            long_polling.check_hold_request(
                self.long_polling, lambda queue: self.store.max_offset(*queue), clock_ms()
            )
        )

    def _wake(self, step: Step) -> None:
        apply(self.long_polling, step.changes)
        for token in step.result:
            # Once the put that woke it is wholly done, so that it gets all of a batch.
            self._loop.call_soon(wake, self, token)

    def _closed(self, connection: Connection) -> None:
        def is_gone(token: Hashable) -> bool:
            return isinstance(token, HeldPull) and token.connection is connection

        self.carry_departure(group.close_channel(self.groups, connection), is_asked=False)
        self.pops.closed(connection)
        self.notifications.closed(connection)
        step = long_polling.forget_pull_requests(self.long_polling, is_gone)
        apply(self.long_polling, step.changes)

    def _scan_not_active_channel(self) -> None:
        now_ms = clock_ms()
        self.carry_groups(group.scan_not_active_channel(self.groups, now_ms))
        self.brought.forget(now_ms)

    async def _persist_offsets(self) -> None:
        offsets = OffsetState(dict(self.offsets.offset_table))  # all that the file holds
        self.note_told("OffsetCommit", "offset_table", None, offsets.offset_table)
        if await self.is_log_on_disk():  # no offset is, before its checkpoint (POP-002)
            # Also when nothing changed: what is written twice is in the .bak too.
            self._files.persist_offsets(offsets, clock_ms())
            self._note_whole("OffsetCommit", "offset_file", offsets.offset_table)
        apply(self.pop_order, pop.auto_clean(self).changes)
        self._files.persist_pop_order(self.pop_order)

    def _persist_filters(self) -> None:
        self.carry_filters(consumer_filter.clean(self.filters, clock_ms()))
        self._files.persist_filters(self.filters)

    async def _persist_delay(self) -> None:
        delivered = deepcopy(self.delay)
        self.note_told("Delay", "offset_table", None, delivered.offset_table)
        if await self.is_log_on_disk():  # what is delivered is, before it is said so
            self._files.persist_delay(delivered, clock_ms())
            self._note_whole("Delay", "disk", delivered.offset_table)

    async def _persist_timers(self) -> None:
        delivered = timers.progress(self)
        if delivered and await self.is_log_on_disk():
            timers.persist(self, delivered)

    async def _register(self) -> None:
        await self._registrar.register_again(self.metadata)
