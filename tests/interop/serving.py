"""`mqspec serve`, a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STOP_S = 20


@contextmanager
def serving(store: Path, *more: str) -> Iterator[str]:
    """A nameserver with two brokers, with more options than these; its address."""
    options = ["--brokers", "2", "--nameserver-port", "0", "--broker-port", "0"]
    command = [sys.executable, "-m", "mqspec.cli", "serve", "--store", str(store), *options, *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said: dict[str, str] = {}
            for line in process.stdout:
                words = line.split()
                said[words[0]] = words[-1]
                if words == ["ready"]:
                    break
            assert "ready" in said, f"mqspec serve ended: {said}"
            yield said["nameserver"]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
