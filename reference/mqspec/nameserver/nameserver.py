"""The nameserver on asyncio: a socket, a clock, and the state of core.route."""

from __future__ import annotations

import asyncio

from mqspec.core import route
from mqspec.core.step import Step, apply
from mqspec.nameserver.processors import PROCESSORS
from mqspec.service import clock_ms, dispatcher, every, listen
from mqspec.transport import Connection, Server


class NameServer:
    """One nameserver. Nothing of what it knows survives it: brokers tell it again."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.state = route.RouteState()
        self._host, self._port = host, port
        self._server: Server
        self._scan: asyncio.Task[None]

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return f"{self._host}:{self._server.port}"

    async def start(self) -> None:
        """Listen. Raises UserError where that is not possible."""
        handler = dispatcher(self, PROCESSORS)
        self._server = await listen(self._host, self._port, handler, self._forget)
        self._scan = asyncio.create_task(
            every(route.SCAN_NOT_ACTIVE_BROKER_MS, self._scan_not_active_broker)
        )

    async def stop(self) -> None:
        """Close every connection and listen no more."""
        self._scan.cancel()
        await self._server.close()

    def carry(self, step: Step) -> Step:
        """Apply what an action of the core changes."""
        apply(self.state, step.changes)
        return step

    def _scan_not_active_broker(self) -> None:
        expired = route.expired_channels(self.state, clock_ms())
        for connection in self._server.connections & expired:
            connection.close()

    def _forget(self, connection: Connection) -> None:
        for at, name, broker_id in tuple(route.brokers_of_channel(self.state, connection)):
            self.carry(route.unregister_broker(self.state, at, name, broker_id))
