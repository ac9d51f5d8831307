"""What the audit does with a history of 10^8 events: time, memory, and what it finds in it.

Three sizes are judged in one session, the larger ones after the smaller ones, so that what is left
of these counts as well. Spark's executor is a process of its own: see `driver`. Run as a script
it judges some, and tells what that took, held and found, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import histories
from audits import done
from figures import Figure, Part

if TYPE_CHECKING:
    from mqaudit import AuditReport

MESSAGES: Final = 25_000_000  # four events each
EVENTS: Final = 4 * MESSAGES
_SMALLER: Final = (100, 10)  # times
# Each of the smaller ones once before it counts, as a first one compiles what others find.
_ORDER: Final = (0, 0, 1, 1, 2)

# While members join, their queues have no owner, and that is found: in a clean history too.
_JOINING: Final = ("no owner", "no owner while the group rebalanced")


class Judged(NamedTuple):
    """What the audit of one history took, held and found."""

    seconds: float
    driver_bytes: int  # the most that Spark's driver held
    found: int
    handled: int  # messages


def large(home: Path, messages: int = MESSAGES) -> Part:
    """Histories of a hundredth, a tenth and all of so many messages."""
    paths = []
    for part in (*_SMALLER, 1):
        paths.append(home / f"{messages // part}.parquet")
        histories.write(paths[-1], histories.Shape(messages // part))
    said, memory_gb = done(__file__, home / "worker", *(paths[n] for n in _ORDER))
    measured = [Judged(*one) for one in said]

    _, hundredth, _, tenth, whole = measured
    figures = [
        Figure(f"audit of {4 * messages} events, of a tenth", whole.seconds / tenth.seconds,
               most=12),
        Figure("what it finds in them, all of which are clean", whole.found, most=0),
        Figure("messages that it sees handled in them, of all", whole.handled / messages, least=1),
        Figure("driver's memory with them, of that with a hundredth",
               whole.driver_bytes / hundredth.driver_bytes, most=1.1),
    ]  # fmt: skip
    if memory_gb:
        figures.append(Figure("memory of all processes with them, GB", memory_gb, most=6))
    return Part(
        tuple(figures), {"judged": [one._asdict() for one in measured], "memory, GB": memory_gb}
    )


def judged(worker: str, *paths: str) -> Iterator[Judged]:
    """Each history, one after the other in one session."""
    from driver import CLUSTER, watched

    from mqaudit import audit
    from mqaudit.session import session

    os.environ["SPARK_WORKER_DIR"] = worker  # else its folder is among Spark's own files
    spark = session(CLUSTER)
    for path in paths:
        begin = time.perf_counter()
        with watched(spark) as held:
            report = audit(spark, path).report
        seconds = time.perf_counter() - begin
        yield Judged(seconds, held.most, found(report), handled(report))
    spark.stop()


def found(report: AuditReport) -> int:
    """How many instances did not hold, but for queues without an owner while members join."""
    return sum(
        finding.count
        for check in report.checks
        for finding in check.findings
        if (check.name, finding.why) != _JOINING
    )


def handled(report: AuditReport) -> int:
    """How many messages were not lost."""
    return sum(check.held for check in report.checks if check.name == "lost")


if __name__ == "__main__":
    print(json.dumps([*judged(*sys.argv[1:])]), flush=True)
    os._exit(0)
