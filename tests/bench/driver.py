"""What Spark's driver holds in memory, apart from its executors.

With the master CLUSTER the one executor is a process of its own, so that the Java of the driver
holds what jobs bring to it, and what it knows of its jobs and tasks, and nothing else that grows
with the data. What it holds is what is alive in its heap after a collection, which is asked of it
again and again; and the pages of this process, Spark's driver in Python.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from audits import CORES, proportional_bytes
from pyspark.sql import SparkSession

CLUSTER: Final = f"local-cluster[1,{CORES},1024]"  # MB, of the one executor
_EVERY_S: Final = 1.0


class Held:
    """The most that was held at once, in bytes; none where nobody has looked yet."""

    most = 0


@contextmanager
def watched(spark: SparkSession, every_s: float = _EVERY_S) -> Iterator[Held]:
    """Look every so many seconds, and at the end of the block."""
    held, ended = Held(), threading.Event()

    def look() -> None:
        held.most = max(held.most, held_bytes(spark))

    def watch() -> None:
        while not ended.wait(every_s):
            look()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield held
    finally:
        ended.set()
        watching.join()
        look()


def held_bytes(spark: SparkSession) -> int:
    """What the driver's Java and Python hold now."""
    assert spark._jvm is not None
    lang = spark._jvm.java.lang
    lang.System.gc()
    runtime = lang.Runtime.getRuntime()
    alive = runtime.totalMemory() - runtime.freeMemory()
    return int(alive) + proportional_bytes(Path("/proc/self"))
