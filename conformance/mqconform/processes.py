"""The processes of a target that was started for the occasion."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mqrules import UserError

Popen: TypeAlias = Callable[..., subprocess.Popen[Any]]  # `subprocess.Popen`, or what stands for it


class Processes:
    """They end with `close`, and from then on none begins: a case that is cut off, in a thread of
    its own, may be about to start one. Each gets the `options` of `subprocess.Popen`."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._begun: list[subprocess.Popen[Any]] = []
        self._is_closed = False

    def popen(self, command: Sequence[str], /, **options: Any) -> subprocess.Popen[Any]:
        """Begin one. Raises UserError once they are closed."""
        with self._lock:
            if self._is_closed:
                raise UserError(command[0], "is not started", "the run is over")
            process = subprocess.Popen(command, **self._options, **options)
            self._begun.append(process)
            return process

    def close(self) -> None:
        """Kill all, and wait for their ends."""
        with self._lock:
            self._is_closed = True
            for process in self._begun:
                process.kill()
            for process in self._begun:
                process.wait()
