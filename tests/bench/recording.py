"""`mqspec record` as a process."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

STOP_S: Final = 600  # by when it has written what it saw, beside much else


@contextmanager
def recording(nameserver: str, out: Path) -> Iterator[tuple[int, str]]:
    """A recorder: its process id, and the address that clients are given. It has written all when
    the block has ended."""
    words = ("record", nameserver, "--listen", "127.0.0.1:0", "--out", str(out))
    command = [sys.executable, "-m", "mqspec.cli", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            address = process.stderr.readline().split()[-1]
            # It would stand still, and all clients with it, if nobody read what it says.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield process.pid, address
            process.send_signal(signal.SIGINT)
            assert process.wait(STOP_S) == 0
        finally:
            process.kill()
