"""What a check is, and how Spark runs one: the driver sees aggregates, never data.

A check is a query that gives a row for each instance of what a rule speaks of (a message, a
commit, a stretch of ownership), with the place where it was recorded and one `outcome`. The
check's table says what each outcome means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit.report import CheckReport, Finding, Judgement, Place


@dataclass(frozen=True, slots=True)
class Outcome:
    """One way in which an instance can turn out."""

    judgement: Judgement
    why: str
    # The rule that permits it, where it is not the check's ideal; or, of what is undecidable, the
    # only rule that it leaves open: its promise was kept then, or its ideal was not.
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A query over views, and the meaning of its outcomes.

    `promise` is the rule that a violated outcome breaks, `ideal` the rule that any anomaly
    refutes. `places` are the columns that name a place, in the order of first and last.
    """

    name: str
    about: str
    promise: str
    query: str
    places: tuple[str, ...]
    outcomes: Mapping[str, Outcome]
    ideal: str | None = None

    def judged(self, views: Mapping[str, DataFrame]) -> DataFrame:
        """The query's rows, over the views that its text names in braces."""
        spark = next(iter(views.values())).sparkSession
        return spark.sql(self.query, args=None, **views)

    def run(self, views: Mapping[str, DataFrame], examples: int = 0) -> CheckReport:
        """Run it: one row an outcome comes back, and `examples` anomalies of each."""
        judged = self.judged(views)
        place = F.struct(*self.places)
        rows = (
            judged.groupBy("outcome")
            .agg(F.count("*").alias("n"), F.min(place).alias("first"), F.max(place).alias("last"))
            .collect()
        )
        shown = self._examples(judged, examples) if examples else {}
        findings = [
            self._finding(row, tuple(shown.get(row.outcome, ())))
            for row in sorted(rows, key=lambda row: list(self.outcomes).index(row.outcome))
        ]
        return CheckReport(
            name=self.name,
            about=self.about,
            promise=self.promise,
            ideal=self.ideal,
            examined=sum(finding.count for finding in findings),
            held=sum(f.count for f in findings if f.judgement == Judgement.HELD),
            findings=tuple(f for f in findings if f.judgement != Judgement.HELD),
        )

    def _finding(self, row: Any, examples: tuple[Place, ...]) -> Finding:
        outcome = self.outcomes[row.outcome]
        permits = self.ideal if outcome.judgement == Judgement.PERMITTED else None
        left = [outcome.rule] if outcome.rule else [self.promise, self.ideal]
        undecidable = outcome.judgement == Judgement.UNDECIDABLE
        return Finding(
            judgement=outcome.judgement,
            why=outcome.why,
            rule=outcome.rule or permits or self.promise,
            count=row.n,
            leaves_open=tuple(rule for rule in left if rule and undecidable),
            first=_place(row.first),
            last=_place(row.last),
            examples=examples,
        )

    def _examples(self, judged: DataFrame, number: int) -> dict[str, list[Place]]:
        """The first places of each outcome that is not simply `held`."""
        anomalies = [k for k, o in self.outcomes.items() if o.judgement != Judgement.HELD]
        nth = F.row_number().over(Window.partitionBy("outcome").orderBy(*self.places))
        rows = (
            judged.where(F.col("outcome").isin(anomalies))
            .select("outcome", F.struct(*self.places).alias("place"), nth.alias("nth"))
            .where(F.col("nth") <= number)
            .orderBy("outcome", "nth")
            .collect()
        )
        shown: dict[str, list[Place]] = {}
        for row in rows:
            shown.setdefault(row.outcome, []).append(_place(row.place))
        return shown


def _place(row: Any) -> Place:
    return {name: value for name, value in row.asDict().items() if value is not None}
