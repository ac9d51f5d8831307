"""What of the rows that have just been read is new, and what each recorder had written by then.

A recorder numbers its events from 0 on, so that what is missing shows, and what comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit.columns import NIL, Groups, combined, numbers, ordered, texts

# A row a recorder: the spans of positions that were read, in their order; before `cut` all is
# settled.
RECORDERS: Final = (
    "run string, process string, spans array<struct<first: long, behind: long>>, cut long"
)
KEY: Final = ("run", "process")
_SPAN: Final = "run string, process string, first long, behind long"
_SPANS: Final = 1000  # kept of a recorder; what is before them counts as late when it comes


@dataclass(frozen=True)
class Arrived:
    """Rows that are new, and how many were not: read before, or too late to be judged."""

    rows: DataFrame
    recorders: DataFrame  # as they are now
    new: int
    again: int
    late: int


def marked(rows: DataFrame, recorders: DataFrame) -> DataFrame:
    """Rows of a history as they were read, with what they are to the recorders: `came`."""
    seq = F.col("seq")
    is_read = F.exists("spans", lambda span: (span["first"] <= seq) & (seq < span["behind"]))
    came = F.when(is_read, "again").when(seq < F.col("cut"), "late").otherwise("new")
    known = rows.join(F.broadcast(recorders), [*KEY], "left")
    return known.withColumn("came", came).drop("spans", "cut")


def arrived(
    rows: DataFrame, recorders: DataFrame, keep: Callable[[DataFrame, str], DataFrame]
) -> Arrived:
    """What some marked rows are, each of which is new once; `keep` writes a table on disk."""
    counts = rows.groupBy("came").agg(F.count("*").alias("n")).collect()
    number = {row.came: row.n for row in counts}
    fresh = rows.where(F.col("came") == "new").drop("came")

    seq = F.col("seq")
    read = fresh.where(seq.isNotNull()).select(*KEY, seq.alias("first"), (seq + 1).alias("behind"))
    before = recorders.select(*KEY, F.explode("spans").alias("span")).select(*KEY, "span.*")
    spans = before.unionByName(read).repartition(*KEY).mapInArrow(_joined, _SPAN).localCheckpoint()
    new = number.get("new", 0)
    twice = new - (_size(spans) - _size(before))
    if twice:
        fresh = keep(fresh.dropDuplicates([*KEY, "seq"]), "once")
    of_recorder = F.array_sort(F.collect_list(F.struct("first", "behind")))
    first = F.greatest(F.lit(1), F.size(of_recorder) - _SPANS + 1)
    now = (
        spans.groupBy(*KEY)
        .agg(F.slice(of_recorder, first, _SPANS).alias("spans"))
        .join(recorders.select(*KEY, "cut"), [*KEY], "left")
    )
    again, late = number.get("again", 0) + twice, number.get("late", 0)
    return Arrived(fresh, now, new - twice, again, late)


def _size(spans: DataFrame) -> int:
    row = spans.select(F.sum(F.col("behind") - F.col("first")).alias("n")).first()
    assert row is not None  # an aggregate without groups always has its one row
    return row.n or 0


def _joined(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Spans that touch or overlap are one."""
    kept = [batch for batch in rows if batch.num_rows]
    if not kept:
        return
    table = pa.Table.from_batches(kept)
    recorder, one = combined(*(texts(table[name]).codes for name in KEY))
    first, behind = (numbers(table[name]) for name in ("first", "behind"))
    order = ordered(recorder, first)
    recorder, first, behind = recorder[order], first[order], behind[order]

    groups = Groups.of(recorder)
    so_far = groups.before(groups.highest(behind))
    begins = np.flatnonzero((so_far == NIL) | (first > so_far))
    names = table.select([*KEY]).take(pa.array(one[recorder[begins]]))
    spans = {"first": first[begins], "behind": np.maximum.reduceat(behind, begins)}
    for name, column in spans.items():
        names = names.append_column(name, pa.array(column, pa.int64()))
    yield from names.to_batches()
