"""A sweep as a Spark job: a task has some cases, and the driver gets a cost of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from mqaudit.sweep.costs import Cost, cost
from mqaudit.sweep.wanted import Case, Wanted, cases

_CASES_IN_TASK = 8
_BY = ("unowned_s", "repeats", "moved", "spike")


@dataclass(frozen=True)
class Ranked:
    """A strategy over all groups and releases: sums, and of `spike` the worst.

    `best_in` says of how many groups and releases it costs least, alone or beside others.
    """

    strategy: str
    total: Cost
    best_in: int


@dataclass(frozen=True)
class Swept:
    """All costs, and the strategies, the best first."""

    wanted: Wanted
    costs: Sequence[tuple[Case, Cost]]
    ranking: Sequence[Ranked]


def sweep(spark: SparkSession, wanted: Wanted) -> Swept:
    """Compute a plan. Raises UserError where a strategy refuses its input."""
    wanted_cases = [*cases(wanted)]
    tasks = max(1, len(wanted_cases) // _CASES_IN_TASK)
    computed = spark.sparkContext.parallelize(wanted_cases, tasks)
    costs = computed.map(lambda case: (case, cost(case, wanted))).collect()
    return Swept(wanted, costs, rank(costs, wanted))


def rank(costs: Sequence[tuple[Case, Cost]], wanted: Wanted) -> list[Ranked]:
    """The strategies, the best first: by `rank_by`, and where that is equal by the others."""
    order = _order(wanted)
    least: dict[tuple[object, ...], tuple[float, ...]] = {}
    for case, one in costs:
        least[_group(case)] = min(order(one), least.get(_group(case), order(one)))

    ranking = []
    for strategy in wanted.strategies:
        own = [(case, one) for case, one in costs if case.strategy == strategy]
        total = Cost(
            moved=sum(one.moved for _, one in own),
            between=sum(one.between for _, one in own),
            spike=max(one.spike for _, one in own),
            unowned_s=sum(one.unowned_s for _, one in own),
            repeats=sum(one.repeats for _, one in own),
        )
        best_in = sum(order(one) == least[_group(case)] for case, one in own)
        ranking.append(Ranked(strategy, total, best_in))
    return sorted(ranking, key=lambda one: order(one.total))


def _order(wanted: Wanted) -> Callable[[Cost], tuple[float, ...]]:
    names = (wanted.rank_by, *(name for name in _BY if name != wanted.rank_by))
    return lambda one: tuple(getattr(one, name) for name in names)


def _group(case: Case) -> tuple[object, ...]:
    """What all strategies are compared on."""
    return (case.members, case.queues, case.topics, case.release, case.at_once)
