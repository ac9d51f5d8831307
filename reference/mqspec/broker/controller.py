"""How a broker runs: what is loaded and listened on at its start, its clocks, and its end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from mqrules import UserError
from mqspec.broker import events, held
from mqspec.broker.blocked import wake_all_when_free
from mqspec.broker.broker import Broker
from mqspec.broker.carrying import carry, carry_departure, note, note_told, note_whole
from mqspec.broker.conversing import converse, in_time
from mqspec.broker.fast.sends import TOGETHER_MAX, Sends
from mqspec.broker.log_trace import LogTrace
from mqspec.broker.pop_polling import PopLongPolling
from mqspec.broker.processor import pop, sending, timers, transactions
from mqspec.broker.processor.table import MAIN_PORT_ONLY, PROCESSORS, pool_of
from mqspec.broker.registrar import REGISTER_INTERVAL_MS, Registrar
from mqspec.core import (
    authentication,
    check_transaction,
    consumer_filter,
    delay,
    due_messages,
    group,
    long_polling,
    offset_commit,
    pop_order,
    pop_revive,
    timer,
)
from mqspec.core.conversation import Conversation
from mqspec.core.flow_control import SEND, Pool
from mqspec.core.log import PutStatus
from mqspec.core.metadata import BrokerConfig, with_system_topics
from mqspec.core.offset_commit import PERSIST_INTERVAL_MS
from mqspec.core.record import Host
from mqspec.core.response import Refusal
from mqspec.core.retention import CLEAN_RESOURCE_INTERVAL_MS
from mqspec.core.stats import SAMPLE_INTERVAL_MS
from mqspec.core.step import apply, whole
from mqspec.service import Dispatcher, clock_ms, every, listen, process
from mqspec.store.message_store import RecoveryReport, StoreConfig
from mqspec.tls import Tls
from mqspec.trace import Trace
from mqspec.transport import Answer, Connection, Handler, Server, refuse
from mqspec.wire.codec import RemotingCommand

FAST_PORT_BELOW: Final = 2  # how far below the port is the one for requests that never wait
FREE_PORT_ATTEMPTS: Final = 20
COMMIT_COMMIT_LOG_INTERVAL_MS: Final = 200
FLUSH_COMMIT_LOG_INTERVAL_MS: Final = 500
FLUSH_INTERVAL_MS: Final = 60_000  # of everything, with the checkpoint
CATCH_UP_INTERVAL_MS: Final = 500
INDEX_INTERVAL_MS: Final = 100
INDEX_COUNT: Final = 500  # records indexed again after an abnormal start, at once

Clock: TypeAlias = tuple[int, Callable[[], Awaitable[None] | None]]  # every so many ms, and what


class BrokerController(Broker):
    """A broker that runs, with its store in a directory of its own.

    `nameserver` is where it registers, as host:port. Without `fast_path` every send goes the plain
    way, by itself.
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
        fast_path: bool = True,
    ) -> None:
        super().__init__(root, config, store_config, trace, fast_path)
        self.store.on_arrival = partial(held.arrived, self)
        self.store.settle = partial(held.settle_soon, self)
        if trace:
            self.store.watcher = LogTrace(self)
        self.pops = PopLongPolling(partial(pop.pop_again, self), self._pop_polling_size)
        self.notifications = PopLongPolling(partial(pop.notify_again, self), self._pop_polling_size)
        self.sends = Sends(
            self.store,
            partial(sending.answer, self),
            partial(process, sending.send_one, self),
            self.stats.put,
            together=TOGETHER_MAX if self.is_fast else 1,
        )
        self._users = {user.username: user for user in self.config.users}
        self._nameserver = nameserver
        self._port = port
        self._tls = tls or Tls()
        self._server: Server
        self._fast_server: Server
        self._clocks: list[asyncio.Task[None]] = []

    async def start(self) -> RecoveryReport:
        """Recover the store, listen, and be in the nameserver's routes.

        Raises UserError where the store or the port cannot be used, or the nameserver does
        not answer; nothing is left behind then.
        """
        async with AsyncExitStack() as undo:
            note_told(self, "Log", "segment_size", None, self.store.config.segment_size)
            note_told(self, "Delay", "delay_levels", None, self.store.delay_levels)
            report = self.store.open()
            undo.callback(self.store.close)
            self._load()

            self.dispatcher = Dispatcher(
                self,
                PROCESSORS,
                pool_of,
                self._rejects if self.store.config.transient_store_pool_enable else None,
                self._authenticate,
            )
            self._server, self._fast_server = await self._listen(self.dispatcher.serve)
            undo.push_async_callback(self._server.close)
            undo.push_async_callback(self._fast_server.close)
            self.address = f"{self.config.host}:{self._server.port}"
            self.store_host = Host.parse(self.config.host, self._server.port)

            tls = self._tls.to_others()
            self.registrar = Registrar(self._nameserver, self.config, self.address, tls)
            undo.callback(self.registrar.close)
            await self.registrar.register(self.metadata)
            undo.pop_all()

        self.stats.sampling()
        self._clocks = [
            asyncio.create_task(every(interval_ms, action))
            for interval_ms, action in self._clock_table()
        ]
        events.started(self, report)
        return report

    async def stop(self) -> None:
        """Leave the routes, answer nobody any more, and write everything to disk."""
        for clock in self._clocks:
            clock.cancel()
        await asyncio.wait(self._clocks)

        await self.registrar.unregister()
        await self._go_away()
        await self._fast_server.close()
        await self._server.close()

        self._persist_filters()
        await self._persist_offsets()
        await self._persist_delay()
        # Or what is delivered of a slot would be so again.
        await self._talk(due_messages.deliver_slot(self.timer))
        await self._persist_timers()
        transactions.write_ops(self)
        await self.group_commit.close()
        self.store.close()
        events.stopped(self)

    def _clock_table(self) -> Iterable[Clock]:
        """What is done again and again."""
        config = self.config
        if self.store.config.transient_store_pool_enable:
            yield COMMIT_COMMIT_LOG_INTERVAL_MS, self.store.commit_commit_log
        yield from (
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
            (long_polling.CHECK_INTERVAL_MS, lambda: held.check_hold_request(self)),
            (delay.DELIVER_INTERVAL_MS, self._deliver_delayed),
            (timer.DELIVER_INTERVAL_MS, self._deliver_timers),
            (timer.FLUSH_INTERVAL_MS, self._persist_timers),
            (config.revive_interval, lambda: self._talk(pop_revive.revive(self))),
            (config.transaction_check_interval, self._check_transactions),
            (config.transaction_op_batch_interval, lambda: transactions.write_ops(self)),
            (config.flush_delay_offset_interval, self._persist_delay),
        )

    # At the start

    def _load(self) -> None:
        """Take the states from their files."""
        self.metadata = self.files.load_metadata()
        self.offsets = self.files.load_offsets()
        note_whole(self, "OffsetCommit", "offset_table", self.offsets.offset_table)
        max_live_time_ms = self.config.rebalance_lock_max_live_time_ms
        note_told(self, "Lock", "max_live_time_ms", None, max_live_time_ms)
        self.filters = self.files.load_filters(clock_ms())
        self.assignment = self.files.load_assignment()

        self.delay = self.files.load_delay()
        note_whole(self, "Delay", "offset_table", self.delay.offset_table)
        self.transactions = transactions.load(self)
        check_max = self.config.transaction_check_max
        note_told(self, "Transaction", "transaction_check_max", None, check_max)
        note(self, "Transaction", whole(self.transactions))
        self.timer = timers.load(self)

        self.pop = pop.load(self)
        note_whole(self, "Pop", "scan_offset", self.pop.scan_offset)
        self.pop_order = self.files.load_pop_order()
        wake_all_when_free(self)

        step = with_system_topics(self.metadata, self.config, clock_ms())
        apply(self.metadata, step.changes)  # nobody is registered yet
        if step.result:
            self.files.persist_topics(self.metadata)

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

    # Who is served

    def _rejects(self, pool: Pool) -> bool:
        return pool is SEND and self.store.is_transient_store_pool_deficient

    def _authenticate(self, request: RemotingCommand) -> Refusal | None:
        config = self.config
        if not config.authentication_enabled or request.code in config.authentication_whitelist:
            return None
        return authentication.authenticate(
            self._users, request.ext_fields, request.body, request.version
        )

    def _pop_polling_size(self) -> int:
        return self.config.pop_polling_size

    def _closed(self, connection: Connection) -> None:
        carry_departure(self, group.close_channel(self.groups, connection), is_asked=False)
        held.closed(self, connection)

    async def _go_away(self) -> None:
        if self.config.enable_shutdown_gracefully:
            self.dispatcher.is_shutting_down = True
            await asyncio.sleep(self.config.shutdown_wait_time_seconds)

    # What clocks do

    async def _flush(self) -> None:
        self.store.commit_commit_log()
        flush_the_rest = self.store.flushing()
        status = await self.group_commit.flushed(self.store.unflushed.max)
        if status is PutStatus.PUT_OK:
            await asyncio.to_thread(flush_the_rest)

    async def _flush_commit_log(self) -> None:
        await self.group_commit.flushed(self.store.unflushed.max)

    def _scan_not_active_channel(self) -> None:
        now_ms = clock_ms()
        carry(self, "groups", group.scan_not_active_channel(self.groups, now_ms))
        carry(self, "brought", self.brought.forget(now_ms))

    async def _talk(self, talk: Conversation[object]) -> None:
        await in_time(converse(self, talk))

    async def _deliver_delayed(self) -> None:
        await self._talk(due_messages.deliver_delayed(self.delay, self.store.delay_levels))

    async def _deliver_timers(self) -> None:
        await self._talk(due_messages.deliver_timers(self.timer))

    async def _check_transactions(self) -> None:
        reserved_ms = self.store.config.file_reserved_ms
        await self._talk(check_transaction.check(self, reserved_ms))

    async def _persist_offsets(self) -> None:
        await self._talk(offset_commit.persist_offsets(self.offsets))
        orders = pop_order.persist_orders(self.pop_order, self.metadata, clock_ms())
        await self._talk(orders)

    def _persist_filters(self) -> None:
        carry(self, "filters", consumer_filter.clean(self.filters, clock_ms()))
        self.files.persist_filters(self.filters)

    async def _persist_delay(self) -> None:
        await self._talk(delay.persist_progress(self.delay))

    async def _persist_timers(self) -> None:
        await self._talk(due_messages.persist_timers(self.timer, self.files.load_timers()))

    async def _register(self) -> None:
        await self.registrar.register_again(self.metadata)
