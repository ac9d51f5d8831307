"""`mqspec allocate --sweep`: from a plan to a table, JSON and a page."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from rich.console import Console
from rich.table import Table

from mqaudit.plots import Chart, Plot
from mqaudit.session import LOCAL, session, spark_errors
from mqaudit.sweep.costs import Cost
from mqaudit.sweep.ranked import Swept, sweep
from mqaudit.sweep.wanted import read
from mqrules import check_writable

TEMPLATE: Final = "sweep.html.jinja"
_ROWS: Final = 60  # of single cases on the page

# What of a cost is shown: how it is called, and written.
_SHOWN: Final = {
    "unowned_s": ("queue-seconds without an owner", "{:,.0f}"),
    "repeats": ("repeats to expect", "{:,.0f}"),
    "moved": ("queues moved", "{:,}"),
    "between": ("of these between members that stay", "{:,}"),
    "spike": ("most queues of a member, in shares", "{:.2f}"),
}


def run(args: argparse.Namespace) -> int:
    """Compute a plan, and show it. Raises UserError."""
    wanted = read(args.sweep)
    if args.html:
        check_writable(args.html)
    with Console(stderr=True, highlight=False).status("computing"):
        spark = session(args.master or LOCAL, little=True)
        try:
            with spark_errors(str(args.sweep)):
                swept = sweep(spark, wanted)
        finally:
            spark.stop()
    if args.html:
        args.html.write_text(page(swept, str(args.sweep)), encoding="utf-8")
    if args.json:
        print(json.dumps(as_json(swept), indent=2, ensure_ascii=False))
    else:
        show(swept, Console(highlight=False, markup=False))
    return 0


def as_json(swept: Swept) -> dict[str, object]:
    """A sweep for programs: the ranking, the best first, and each case with its cost."""
    return {
        "rank_by": swept.wanted.rank_by,
        "ranking": [
            {"strategy": one.strategy, "best_in": one.best_in, **asdict(one.total)}
            for one in swept.ranking
        ],
        "cases": [{**asdict(case), **asdict(cost)} for case, cost in swept.costs],
    }


def show(swept: Swept, console: Console) -> None:
    """A row a strategy, the best first."""
    table = Table("rank", "strategy", *_SHOWN, "best in")
    for column in (table.columns[0], *table.columns[2:]):
        column.justify = "right"
    for rank, one in enumerate(swept.ranking, start=1):
        table.add_row(str(rank), one.strategy, *_cells(one.total), str(one.best_in))
    console.print(table)
    for name, (words, _) in _SHOWN.items():
        console.print(f"{name}: {words}", soft_wrap=True)
    number = len(swept.costs) // len(swept.ranking)
    console.print(f"{number} groups and releases, ranked by {swept.wanted.rank_by}", soft_wrap=True)


def page(swept: Swept, subject: str) -> str:
    """The same as a page that asks for nothing outside itself, with plots."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = files("mqaudit").joinpath("data", TEMPLATE).read_text(encoding="utf-8")
    return environment.from_string(source).render(
        subject=subject,
        wanted=swept.wanted,
        heads=[words for words, _ in _SHOWN.values()],
        ranking=[(one.strategy, _cells(one.total), one.best_in) for one in swept.ranking],
        cases=[(case, _cells(cost)) for case, cost in swept.costs[:_ROWS]],
        left_out=max(0, len(swept.costs) - _ROWS),
        plots=[plot(swept, name) for name in _SHOWN],
        raw=Markup,
    )


def plot(swept: Swept, name: str) -> Plot:
    """A figure of all strategies, a bar each for every way to release."""
    words, form = _SHOWN[name]
    bars = _bars(swept, name)
    strategies = [one.strategy for one in swept.ranking]
    chart = Chart(name, 0.2 * (len(strategies) * (len(bars) + 1) + len(bars)))
    height = 1 / (len(bars) + 1)
    for number, (way, values) in enumerate(bars.items()):
        for row, strategy in enumerate(strategies):
            bottom = -(row + number * height)
            (drawn,) = chart.axes.barh(
                bottom, values[strategy], height, color=f"C{number % 10}", linewidth=0
            )
            chart.says(drawn, f"{strategy}, {way}: {form.format(values[strategy])}")
    middle = (len(bars) - 1) * height / 2
    chart.axes.set_yticks([-(row + middle) for row in range(len(strategies))], strategies)
    chart.axes.set_xlim(left=0)
    chart.axes.set_xlabel(words)
    chart.legend([(f"C{number % 10}", way) for number, way in enumerate(bars)], columns=1)
    return chart.plot(words[0].upper() + words[1:])


def _bars(swept: Swept, name: str) -> dict[str, dict[str, float]]:
    """By way to release and strategy a figure over all groups: a sum, and of `spike` the worst."""
    bars: dict[str, dict[str, float]] = {}
    for case, cost in swept.costs:
        so_far = bars.setdefault(f"{case.release}, {case.at_once} at once", {})
        before, value = so_far.get(case.strategy, 0), getattr(cost, name)
        so_far[case.strategy] = max(before, value) if name == "spike" else before + value
    return bars


def _cells(cost: Cost) -> list[str]:
    return [form.format(getattr(cost, name)) for name, (_, form) in _SHOWN.items()]
