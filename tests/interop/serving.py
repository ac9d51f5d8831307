"""`mqspec serve`, a process of its own, alone and beside Apache RocketMQ 5.3.3."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from mqconform.apache import Apache
from mqconform.reference import serve
from mqconform.target import Address, parse_address

T = TypeVar("T")

STOP_S = 20


@contextmanager
def serving(store: Path, *more: str) -> Iterator[str]:
    """A nameserver with two brokers, with more options than these; its address."""
    options = ["--brokers", "2", "--nameserver-port", "0", "--broker-port", "0"]
    log = store.with_name(f"{store.name}.log")
    process, listening = serve(log, "--store", str(store), *options, *more)
    with process:
        try:
            yield str(listening["nameserver"])
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()


def of_both(home: Path, asking: Callable[[Address], T]) -> tuple[T, T]:
    """What Apache's nameserver and broker say to some requests, and what ours say, asked at the
    same time."""
    (home / "apache").mkdir()
    with (
        Apache(home / "apache", brokers=1) as apache,
        serving(home / "store", "--brokers", "1", "--log-level", "error") as nameserver,
        ThreadPoolExecutor() as pool,
    ):
        ours = pool.submit(asking, parse_address(nameserver))
        return asking(apache.nameserver), ours.result()
