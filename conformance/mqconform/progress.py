"""How far a run is: a bar on a terminal, elsewhere a plain line now and then.

A line comes with time, not with a case that ends: of a broker that hangs, none does.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mqconform.case import Result

EVERY_S: Final = 30.0  # between two lines


@contextmanager
def progress(target: str, cases: int, console: Console) -> Iterator[Callable[[Result], None]]:
    """Shows how far a run of so many cases is; what it gives is to be told of each that ended."""
    with _bar(target, cases, console) if console.is_terminal else lines(cases, sys.stderr) as done:
        yield done


@contextmanager
def lines(
    cases: int, stream: TextIO, every_s: float = EVERY_S
) -> Iterator[Callable[[Result], None]]:
    """A line each `every_s`."""
    ended: list[Result] = []
    over, began = threading.Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(every_s):
            seconds = time.monotonic() - began
            print(f"{len(ended)} of {cases} cases, {seconds:.0f} s", file=stream, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield ended.append
    finally:
        over.set()
        teller.join()


@contextmanager
def _bar(target: str, cases: int, console: Console) -> Iterator[Callable[[Result], None]]:
    columns = (
        BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}")
    )  # fmt: skip
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(f"waiting for {target}", total=cases)
        yield lambda result: bar.update(task, advance=1, description=result.name)
