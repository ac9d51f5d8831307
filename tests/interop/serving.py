"""`mqspec serve`, a process of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqconform.reference import serve

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
