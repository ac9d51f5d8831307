"""A reference cluster in a thread, so that its functions can be patched from outside."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mqconform.cluster import Cluster
from mqconform.command import run_pytest
from mqconform.plugin import Suite
from mqconform.target import Address, Target, parse_address
from mqrules import Deviation
from mqspec.cluster import Cluster as ReferenceCluster
from mqspec.cluster import ClusterConfig
from mqspec.core.metadata import BrokerConfig


@contextmanager
def reference(store: Path) -> Iterator[Address]:
    """Two reference brokers and their nameserver in this process; the nameserver's address."""
    address: Future[Address] = Future()
    stopping: Future[Callable[[], object]] = Future()

    async def serve() -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        stopping.set_result(lambda: loop.call_soon_threadsafe(stopped.set))
        broker = BrokerConfig(transaction_check_interval=500)  # ms, instead of 30 s
        config = ClusterConfig(store=store, brokers=2, broker_config=broker)
        async with ReferenceCluster(config) as cluster:
            address.set_result(parse_address(cluster.nameserver.address))
            await stopped.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield address.result(30)
    finally:
        stopping.result(30)()
        thread.join()


def run_patched(
    store: Path, keyword: str, *deviations: Deviation, to_the_letter: bool = True
) -> Suite:
    """Run the cases that `keyword` chooses against the reference as it is patched now."""
    with reference(store) as address:
        cluster = Cluster(address)
        cluster.wait(2)
        target = Target(
            *("patched", "0", address),
            store=store / "broker-a",
            to_the_letter=to_the_letter,
            exclusive=True,
        )
        suite = Suite(target, cluster, deviations)
        run_pytest(["-k", keyword], suite)
    return suite


def patch(monkeypatch: pytest.MonkeyPatch, function: Any, replacement: Any) -> None:
    """Replace a function wherever mqspec has a name for it."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "mqspec":
            for attribute, value in list(vars(module).items()):
                if value is function:
                    monkeypatch.setattr(module, attribute, replacement)
