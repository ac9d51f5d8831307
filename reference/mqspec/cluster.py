"""A nameserver and its brokers in one process, for `mqspec serve` and for tests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_lowercase
from types import TracebackType
from typing import Final, Self

from mqspec.broker import BrokerController
from mqspec.core.metadata import BrokerConfig
from mqspec.nameserver import NamesrvController
from mqspec.nameserver.config import NamesrvConfig
from mqspec.store.message_store import StoreConfig
from mqspec.tls import Tls
from mqspec.trace import Trace

BROKER_PORT_STEP: Final = 10  # a real broker also takes the ports 2 below and 1 above its own
BROKERS_MAX: Final = len(ascii_lowercase)


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What to start. Ports may be 0: any free one.

    The first broker is broker-a, at `broker_port`, the next one broker-b, 10 ports further.
    One broker has its store in `store` itself, several have theirs in store/broker-a and so on.
    """

    store: Path
    host: str = "127.0.0.1"
    nameserver_port: int = 0
    broker_port: int = 0
    brokers: int = 1
    nameserver_config: NamesrvConfig = field(default_factory=NamesrvConfig)
    broker_config: BrokerConfig = field(default_factory=BrokerConfig)  # but for name and host
    store_config: StoreConfig = field(default_factory=StoreConfig)
    tls: Tls = field(default_factory=Tls)  # of the nameserver and the brokers
    trace: Trace | None = None  # where all of them write what they do
    fast_path: bool = True  # of the brokers: see docs/design/fast-path.md


class Cluster:
    """`async with Cluster(ClusterConfig(store=path)) as cluster: cluster.nameserver.address`."""

    def __init__(self, config: ClusterConfig) -> None:
        self.nameserver = NamesrvController(
            config.host,
            config.nameserver_port,
            config.nameserver_config,
            kv_config_path=config.store / "namesrv" / "kvConfig.json",
            tls=config.tls,
            trace=config.trace,
        )
        self.brokers: Sequence[BrokerController] = ()
        self._config = config
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start all. Raises UserError where one cannot; then none is left running."""
        async with AsyncExitStack() as starting:
            await self.nameserver.start()
            starting.push_async_callback(self.nameserver.stop)
            brokers = []
            for i in range(self._config.brokers):
                broker = self._broker(i)
                await broker.start()
                starting.push_async_callback(broker.stop)
                brokers.append(broker)
            self.brokers = tuple(brokers)
            self._running = starting.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._running.aclose()

    def _broker(self, i: int) -> BrokerController:
        config = self._config
        name = f"broker-{ascii_lowercase[i]}"
        return BrokerController(
            config.store if config.brokers == 1 else config.store / name,
            self.nameserver.address,
            replace(config.broker_config, host=config.host, broker_name=name),
            config.broker_port and config.broker_port + i * BROKER_PORT_STEP,
            config.store_config,
            config.tls,
            config.trace,
            config.fast_path,
        )
