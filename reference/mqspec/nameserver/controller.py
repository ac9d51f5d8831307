"""How a nameserver runs: what is loaded at its start, its socket, and its clock."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from mqrules import UserError
from mqspec.core import route
from mqspec.core.step import whole
from mqspec.nameserver.config import NamesrvConfig
from mqspec.nameserver.nameserver import NameServer
from mqspec.nameserver.processors import PROCESSORS, pool_of
from mqspec.service import Dispatcher, clock_ms, every, listen
from mqspec.tls import Tls
from mqspec.trace import Trace
from mqspec.transport import Connection, Server


class NamesrvController(NameServer):
    """A nameserver that runs."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        config: NamesrvConfig | None = None,
        kv_config_path: Path | None = None,
        tls: Tls | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(config, kv_config_path, trace)
        self._host, self._port = host, port
        self._tls = tls
        self._server: Server
        self._scan: asyncio.Task[None]

    async def start(self) -> None:
        """Listen. Raises UserError where that is not possible."""
        self._load()
        handler = Dispatcher(self, PROCESSORS, pool_of).serve
        self._server = await listen(self._host, self._port, handler, self._forget, self._tls)
        self.address = f"{self._host}:{self._server.port}"
        self.note(whole(self.state))
        self._scan = asyncio.create_task(
            every(self.config.scan_not_active_broker_interval, self._scan_not_active_broker)
        )

    async def stop(self) -> None:
        """Close every connection and listen no more."""
        self._scan.cancel()
        await self._server.close()

    def _load(self) -> None:
        if self.kv_file is None:
            return
        try:
            table = self.kv_file.load().get("configTable", {})
        except OSError as error:
            raise UserError(
                str(self.kv_file.path), f"{error.strerror}".lower(), "choose another store"
            ) from None
        if not isinstance(table, Mapping) or not all(
            isinstance(values, Mapping) for values in table.values()
        ):
            raise UserError(
                str(self.kv_file.path), "no KV config", "restore it from a copy, or remove it"
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
