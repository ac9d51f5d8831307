"""The nameserver on asyncio: a socket, a clock, a file, and the states of the core."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from pathlib import Path

from mqrules import UserError
from mqspec.core import route
from mqspec.core.kv_config import KvState
from mqspec.core.step import Step, apply, whole
from mqspec.nameserver.config import NamesrvConfig
from mqspec.nameserver.processors import PROCESSORS, pool_of
from mqspec.service import Dispatcher, clock_ms, every, listen
from mqspec.store.config_file import ConfigFile
from mqspec.tls import Tls
from mqspec.trace import Trace
from mqspec.transport import Connection, Server


class NameServer:
    """One nameserver. Routes do not survive it: brokers tell it again.

    The KV config does, where `kv_config_path` says in which file.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        config: NamesrvConfig | None = None,
        kv_config_path: Path | None = None,
        tls: Tls | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.config = config or NamesrvConfig()
        self.trace = trace
        self.state = route.RouteState()
        self.kv = KvState()
        self.started_ms = clock_ms()
        self._kv_file = ConfigFile(kv_config_path) if kv_config_path else None
        self._host, self._port = host, port
        self._tls = tls
        self._server: Server
        self._scan: asyncio.Task[None]

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return f"{self._host}:{self._server.port}"

    async def start(self) -> None:
        """Listen. Raises UserError where that is not possible."""
        self._load()
        handler = Dispatcher(self, PROCESSORS, pool_of).serve
        self._server = await listen(self._host, self._port, handler, self._forget, self._tls)
        self._note(whole(self.state))
        self._scan = asyncio.create_task(
            every(self.config.scan_not_active_broker_interval, self._scan_not_active_broker)
        )

    async def stop(self) -> None:
        """Close every connection and listen no more."""
        self._scan.cancel()
        await self._server.close()

    def carry(self, step: Step, event: object = None) -> Step:
        """Apply what an action changes of the routes."""
        self._note(step, event)
        apply(self.state, step.changes)
        return step

    def note_told(self, variable: str, key: Hashable, value: object) -> None:
        """Write to the trace what another process is about to be told of a variable."""
        if self.trace:
            self.trace.read(self.address, "Route", variable, key, value)

    def carry_kv(self, step: Step) -> None:
        """Apply what an action changes of the KV config; it is on disk when this returns."""
        apply(self.kv, step.changes)
        if self._kv_file:
            self._kv_file.persist({"configTable": self.kv.config_table})

    def _note(self, step: Step, event: object = None) -> None:
        if self.trace:
            self.trace.step(self.address, "Route", step, event)

    def _load(self) -> None:
        if self._kv_file is None:
            return
        try:
            table = self._kv_file.load().get("configTable", {})
        except OSError as error:
            raise UserError(
                str(self._kv_file.path), f"{error.strerror}".lower(), "choose another store"
            ) from None
        if not isinstance(table, Mapping) or not all(
            isinstance(values, Mapping) for values in table.values()
        ):
            raise UserError(
                str(self._kv_file.path), "no KV config", "restore it from a copy, or remove it"
            )
        self.kv.config_table = dict(table)

    def _scan_not_active_broker(self) -> None:
        for address, name, channel in tuple(route.expired_brokers(self.state, clock_ms())):
            assert isinstance(channel, Connection)
            channel.close()
            self.carry(route.unregister_broker(self.state, address, name))

    def _forget(self, connection: Connection) -> None:
        for address, name in tuple(route.brokers_of_channel(self.state, connection)):
            self.carry(route.unregister_broker(self.state, address, name))
