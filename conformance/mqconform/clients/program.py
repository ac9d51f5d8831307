"""The program under test: the command that starts it, and its processes."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final

from mqrules import UserError

NEEDED: Final = ("nameserver", "topic", "group")
NO_SUCH_MODE: Final = 64  # what a program ends with that has no such mode: EX_USAGE
STOP_S: Final = 30.0  # for a program to end that is asked to
LINES_MAX: Final = 100_000
_NAME_MAX: Final = 60  # characters of a command that titles show
_TAIL: Final = 200  # characters of what it said last


OWN: Final = "reference"  # the name of the reference's own client
_OWN_WORDS: Final = (
    *(sys.executable, "-m", "mqspec.client.program"),
    *("{nameserver}", "{topic}", "{group}", "{mode}", "{id}"),
)


class Mode(StrEnum):
    """What a program is to do, as `{mode}` says."""

    CONSUME = "consume"
    ORDERLY = "orderly"
    EXPIRE = "expire"  # consume, with a consume timeout of a minute
    BROADCAST = "broadcast"
    POLL = "poll"  # of a lite-pull consumer
    POP = "pop"
    PRODUCE = "produce"
    ONEWAY = "oneway"
    SELECT = "select"  # the queue, by a selector
    AVOID = "avoid"  # brokers that failed: sendLatencyFaultEnable


class Command:
    """A command line with places for names: `{nameserver}`, `{topic}`, `{group}`, and perhaps
    `{mode}` and `{id}`; or the word `reference`. Raises UserError for one that cannot be used."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._words = list(_OWN_WORDS) if text == OWN else shlex.split(text)
        except ValueError as error:
            raise UserError(f"--client {text}", f"is no command: {error}") from None
        if missing := [name for name in NEEDED if not self.has(name)]:
            what = f"has no {' and no '.join(f'{{{name}}}' for name in missing)}"
            raise UserError(f"--client {text}", what, "say where the program takes them")

    @property
    def name(self) -> str:
        """The command, shortened, for titles."""
        return self.text if len(self.text) <= _NAME_MAX else f"{self.text[:_NAME_MAX]}..."

    def has(self, name: str) -> bool:
        """Whether it takes a name."""
        return any(f"{{{name}}}" in word for word in self._words)

    def words(self, names: Mapping[str, str]) -> list[str]:
        """The command with names in their places."""
        words = self._words
        for name, value in names.items():
            words = [word.replace(f"{{{name}}}", value) for word in words]
        return words


class Program:
    """A process that was started, and the lines that it prints. It ends with its process group.

    Raises UserError where it cannot be started.
    """

    def __init__(self, words: list[str], log: Path, changed: threading.Condition) -> None:
        self._log, self._changed, self._name = log, changed, words[0]
        self.lines: list[tuple[float, str]] = []  # with their times
        with log.open("wb") as said:
            try:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    start_new_session=True,
                )
            except OSError as error:
                raise UserError(words[0], f"cannot be started: {error.strerror}") from None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def ended(self) -> str | None:
        """How it ended, and what it said last; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        self._reader.join(1)
        said = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        last = said or [line for _, line in self.lines]
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        return f"{how}, {last[-1][:_TAIL]}" if last else how

    @property
    def lacks_mode(self) -> bool:
        """Whether it ended as one does that does not have the mode."""
        return self._process.poll() == NO_SUCH_MODE

    def stop(self) -> bool:
        """Ask it to end, as an operator would (SIGTERM); whether it did."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End it without a word (SIGKILL)."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, wanted: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, wanted)

    def _read(self) -> None:
        assert self._process.stdout
        for raw in self._process.stdout:
            if len(self.lines) < LINES_MAX:
                line = raw.decode(errors="replace").strip()
                with self._changed:
                    self.lines.append((time.monotonic(), line))
                    self._changed.notify_all()
