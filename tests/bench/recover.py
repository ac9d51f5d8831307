"""How fast a store opens after a kill: every record of the log is read and its CRC checked.

The index, which is built again behind the start, is not part of it. Run as a script with a
store, it opens it, prints the megabytes a second, by the clock and by the processor time that
it took, and ends without a stop.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Final

from figures import Figure, Part
from fill import fill

from mqspec.service import clock_ms
from mqspec.store.message_store import MessageStore, StoreConfig

LEAST_MB_S: Final = 200.0
BODY_BYTES: Final = 1024
MESSAGES: Final = 300_000
_MB: Final = 1e6


def recover(home: Path, rounds: int) -> Part:
    """The store is opened in a process of its own each time, and never closed."""
    store = home / "recovered"
    fill(store, 1, MESSAGES, BODY_BYTES)
    (store / "abort").touch()
    rates, cpu_rates = [], []
    for _ in range(rounds):
        command = [sys.executable, __file__, str(store)]
        told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        rate, cpu_rate = map(float, told.split())
        rates.append(rate)
        cpu_rates.append(cpu_rate)
    figure = Figure("abnormal recovery, MB/s", median(rates), least=LEAST_MB_S)
    return Part((figure,), {"mb_per_s": rates, "mb_per_cpu_s": cpu_rates})


def _open(root: Path) -> tuple[float, float]:
    store = MessageStore(root, StoreConfig(), clock_ms)
    begin, cpu_begin = time.perf_counter(), time.process_time()
    report = store.open()
    took, cpu_took = time.perf_counter() - begin, time.process_time() - cpu_begin
    assert report.abnormal, report
    assert report.scan_from == report.commit_log.min, report
    size = (report.commit_log.max - report.commit_log.min) / _MB
    return size / took, size / cpu_took


if __name__ == "__main__":
    print(*_open(Path(sys.argv[1])), flush=True)
    os._exit(0)
