"""Plays scenarios, and says what became of each of their rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from mqconform.case import Case, Result, Status
from mqconform.clients.door import Call, Doors
from mqconform.clients.play import EndedError, Play, Problem, ViolatedError
from mqconform.clients.program import Command
from mqconform.clients.scenarios import Scenario
from mqconform.cluster import Cluster
from mqconform.transcript import Exchange, render
from mqrules import UserError, rules

AT_ONCE: Final = 3  # scenarios: each has some processes, which may be JVMs


def look(command: Command, cluster: Cluster, doors: Doors, home: Path, prefix: str) -> None:
    """Whether the program starts and finds its brokers. Raises UserError."""
    with Play(f"{prefix}-look", command, cluster, doors, home) as play:
        try:
            play.member()
        except EndedError as error:
            remedy = "run it by hand against mqspec serve"
            raise UserError(command.text, str(error), remedy) from None


def run(
    scenarios: Sequence[Scenario],
    command: Command,
    cluster: Cluster,
    home: Path,
    prefix: str,
    on_done: Callable[[Result], None],
) -> list[Result]:
    """A result for each rule of each scenario. Raises UserError for a program that is none."""
    with Doors() as doors, ThreadPoolExecutor(AT_ONCE) as pool:
        look(command, cluster, doors, home, prefix)

        def played(numbered: tuple[int, Scenario]) -> list[Result]:
            number, scenario = numbered
            play = Play(f"{prefix}-{number}", command, cluster, doors, home)
            found = list(_results(scenario, play, cluster))
            for result in found:
                on_done(result)
            return found

        return [result for some in pool.map(played, enumerate(scenarios)) for result in some]


def _results(scenario: Scenario, play: Play, cluster: Cluster) -> Iterator[Result]:
    began = time.monotonic()
    status, why = Status.FAILED, "was not judged"
    missing = [f"{{{name}}}" for name in scenario.needs if not play.command.has(name)]
    if missing:
        status, why = Status.NOT_CLAIMED, f"the command has no {' and no '.join(missing)}"
    else:
        try:
            with play:
                scenario.play(play)
        except ViolatedError as error:
            play.judge(error.rule, error.problem)
            status, why = Status.BLOCKED, f"by {error.rule}"
        except (EndedError, UserError) as error:
            status, why = Status.BLOCKED, str(error)

    seconds = time.monotonic() - began
    for rule in scenario.rules:
        case = Case((rule,), rules()[rule].party)
        result = partial(Result, scenario.name, case, seconds=seconds)
        if rule not in play.verdicts:
            yield result(status=status, why=why)
        elif problem := play.verdicts[rule]:
            exchanges = _exchanges(problem, cluster)
            frames = render(exchanges)
            yield result(status=Status.FAILED, why=problem.why, frames=frames, exchanges=exchanges)
        else:
            yield result(status=Status.PASSED)


def _exchanges(problem: Problem, cluster: Cluster) -> tuple[Exchange, ...]:
    places = {"": cluster.nameserver, **cluster.brokers}

    def of(call: Call) -> Iterator[Exchange]:
        yield Exchange(places[call.broker], call.by_client, call.request.raw)
        if call.answer:
            yield Exchange(places[call.broker], not call.by_client, call.answer.raw)

    return tuple(exchange for call in problem.calls for exchange in of(call))
