"""From instances to a report: the driver sees a row an outcome, never data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own spelling)

from mqaudit.check import Check
from mqaudit.report import CheckReport, Finding, Judgement, Place

_BY: Final = ("check", "outcome")


def queried(check: Check, views: Mapping[str, DataFrame]) -> DataFrame:
    """The instances that the query of a check gives, over the views that it names in braces."""
    spark = next(iter(views.values())).sparkSession
    return spark.sql(check.query, args=None, **views).withColumn("check", F.lit(check.name))


def reports(
    instances: DataFrame, checks: Iterable[Check], places: Sequence[str], examples: int = 0
) -> list[CheckReport]:
    """What all checks found among instances: `check`, `outcome`, how many (`n`), and the places.

    Of those that simply held the places may be missing. Of the others at most `examples` come
    back besides the first and the last.
    """
    if examples:
        instances = instances.persist()
    counts = counted(instances, places)
    shown = _examples(instances, [*checks], places, examples) if examples else {}
    found = of_counts(counts, checks, shown)
    if examples:
        instances.unpersist()
    return found


def of_counts(
    counts: DataFrame,
    checks: Iterable[Check],
    shown: Mapping[tuple[str, str], Sequence[Place]] = MappingProxyType({}),
) -> list[CheckReport]:
    """What all checks found, from a row an outcome: how many, the first and the last."""
    by_check: dict[str, list[Any]] = {}
    for row in counts.collect():
        by_check.setdefault(row.check, []).append(row)
    return [_report(check, by_check.get(check.name, []), shown) for check in checks]


def counted(instances: DataFrame, places: Sequence[str]) -> DataFrame:
    """A row an outcome: how many, the first and the last."""
    place = F.struct(*places)
    return instances.groupBy(*_BY).agg(
        F.sum("n").alias("n"), F.min(place).alias("first"), F.max(place).alias("last")
    )


def _report(
    check: Check, rows: Sequence[Any], shown: Mapping[tuple[str, str], Sequence[Place]]
) -> CheckReport:
    findings = [
        _finding(check, row, tuple(shown.get((check.name, row.outcome), ())))
        for row in sorted(rows, key=lambda row: list(check.outcomes).index(row.outcome))
    ]
    return CheckReport(
        name=check.name,
        about=check.about,
        promise=check.promise,
        ideal=check.ideal,
        examined=sum(finding.count for finding in findings),
        held=sum(f.count for f in findings if f.judgement == Judgement.HELD),
        findings=tuple(f for f in findings if f.judgement != Judgement.HELD),
        can_violate=check.can_violate,
    )


def _finding(check: Check, row: Any, examples: tuple[Place, ...]) -> Finding:
    outcome = check.outcomes[row.outcome]
    left = [outcome.rule] if outcome.rule else [check.promise, check.ideal]
    undecidable = outcome.judgement == Judgement.UNDECIDABLE
    return Finding(
        judgement=outcome.judgement,
        why=outcome.why,
        rule=check.rule_of(row.outcome),
        count=row.n,
        leaves_open=tuple(rule for rule in left if rule and undecidable),
        first=_place(row.first),
        last=_place(row.last),
        examples=examples,
        incidents=check.incidents_of(row.outcome),
    )


def _examples(
    instances: DataFrame, checks: Sequence[Check], places: Sequence[str], number: int
) -> dict[tuple[str, str], list[Place]]:
    """The first places of each outcome that is not simply `held`."""
    nth = F.row_number().over(Window.partitionBy(*_BY).orderBy(*places))
    rows = (
        instances.where(is_anomaly(checks))
        .select(*_BY, F.struct(*places).alias("place"), nth.alias("nth"))
        .where(F.col("nth") <= number)
        .orderBy(*_BY, "nth")
        .collect()
    )
    shown: dict[tuple[str, str], list[Place]] = {}
    for row in rows:
        shown.setdefault((row.check, row.outcome), []).append(_place(row.place))
    return shown


def is_anomaly(checks: Iterable[Check]) -> Any:
    """The condition that an instance did not simply hold."""
    held = [
        F.struct(F.lit(check.name), F.lit(name))
        for check in checks
        for name, outcome in check.outcomes.items()
        if outcome.judgement is Judgement.HELD
    ]
    return ~F.struct(*_BY).isin(held)


def _place(row: Any) -> Place:
    return {name: value for name, value in row.asDict().items() if value is not None}
