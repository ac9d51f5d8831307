"""How far the runs of TLC are: a bar on a terminal, elsewhere a plain line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task
from rich.text import Text

from mqcheck.runner import Batch

EVERY_S = 30.0  # at most one line in so long
_START = 5_000  # states: what it takes to start a run is worth so many


class Pace:
    """Which of the runs have ended, how fast states are found, how long the rest may take."""

    def __init__(self, asked: Sequence[Batch], clock: Callable[[], float]) -> None:
        self._clock, self._begin = clock, clock()
        self._all, self._total = len(asked), sum(map(_effort, asked))
        self._runs = self._states = self._done = 0

    def add(self, batch: Batch) -> None:
        """One more has ended."""
        self._runs += 1
        self._states += batch.states
        self._done += _effort(batch)

    @property
    def share(self) -> float:
        """How much of the work is done, of 1."""
        return self._done / self._total

    def __str__(self) -> str:
        told, elapsed = f"{self._runs} of {self._all} runs", self._clock() - self._begin
        if not (self._runs and elapsed):
            return told
        left = elapsed / self.share - elapsed
        return f"{told}, {self._states / elapsed:,.0f} states/s, some {left:.0f} s left"


@contextmanager
def progress(asked: Sequence[Batch], console: Console) -> Iterator[Callable[[Batch], None]]:
    """Shows how far these runs are; what it gives is to be told of each as it ends."""
    pace = Pace(asked, time.monotonic)
    if not console.is_terminal:
        yield lines(pace, sys.stderr, time.monotonic)
        return
    with Progress(BarColumn(), _Told(pace), console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)

        def done(batch: Batch) -> None:
            pace.add(batch)
            bar.update(task, completed=pace.share)

        yield done


def lines(pace: Pace, stream: TextIO, clock: Callable[[], float]) -> Callable[[Batch], None]:
    """Adds to the pace, and writes it as a line where the last is EVERY_S old."""
    last = clock()

    def done(batch: Batch) -> None:
        nonlocal last
        pace.add(batch)
        if clock() - last >= EVERY_S:
            last = clock()
            print(pace, file=stream, flush=True)

    return done


class _Told(ProgressColumn):
    """The pace, as it is at each refresh."""

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> Text:
        return Text(str(self._pace))


def _effort(batch: Batch) -> int:
    return batch.states + _START
