"""Alerts: what a follower finds, and what it no longer holds true, as lines of JSON.

Each line is told once: a version of what is known holds its own lines, and says how long the file
was before them. What a kill left of them is completed when the follower starts again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit.history_checks import HISTORY_CHECKS, PLACE
from mqaudit.tables import described

FOUND: Final = "found"
WITHDRAWN: Final = "withdrawn"  # what came later explains it, or makes something else of it


def lines(changes: DataFrame) -> DataFrame:
    """A line for each change: `n` more, or fewer, that turned out so at a place."""
    said = described(changes, HISTORY_CHECKS)
    told = F.when(F.col("n") > 0, FOUND).otherwise(WITHDRAWN)
    what = ("n", "check", "judgement", "rule", "why", "outcome", *PLACE)
    columns = [told.alias("told"), F.abs("n").alias("n"), *map(F.col, what[1:])]
    order = [F.col(name) for name in ("run", "process", "seq", "check", "outcome", "n")]
    return (
        said.coalesce(1)
        .sortWithinPartitions(*order)
        .select(F.to_json(F.struct(*columns)).alias("value"))
    )


def size(file: Path | None) -> int:
    """How long a file of alerts is now."""
    return file.stat().st_size if file is not None and file.exists() else 0


def deliver(written: Path, file: Path | None, told_at: int) -> None:
    """Append the lines below a directory to a file that was so long before them, or print them.

    What is there of them already is not written again.
    """
    text = b"".join(part.read_bytes() for part in sorted(written.glob("part-*")))
    if file is None:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    with file.open("ab+") as out:
        out.seek(told_at)
        there = out.read()
        rest = text[len(there) :] if text.startswith(there) else text
        out.write(b"" if there.startswith(text) else rest)
