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
from mqconform.clients.laws import LAWS, Law
from mqconform.clients.play import COME_S, NotComeError, Play, Problem
from mqconform.clients.program import Command
from mqconform.clients.scenario import Scenario
from mqconform.cluster import Cluster
from mqconform.transcript import Exchange, render
from mqrules import UserError, rules

AT_ONCE: Final = 3  # scenarios: each has some processes, which may be JVMs


def look(command: Command, cluster: Cluster, doors: Doors, home: Path, prefix: str) -> None:
    """Whether the program starts, finds its brokers and consumes. Raises UserError."""
    with Play(f"{prefix}-look", command, cluster, doors, home) as play:
        try:
            member, sent = play.member(), play.send(play.queues[0])
            play.expect(lambda: sent.key in member.keys, COME_S, "prints no key of a message")
        except NotComeError as error:
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
    """A result for each rule of each scenario, and for each law. Raises UserError for a program
    that is none."""
    with Doors() as doors, ThreadPoolExecutor(AT_ONCE) as pool:
        look(command, cluster, doors, home, prefix)

        def played(numbered: tuple[int, Scenario]) -> tuple[list[Result], Play]:
            number, scenario = numbered
            play = Play(f"{prefix}-{number}", command, cluster, doors, home)
            found = list(_results(scenario, play, cluster))
            for result in found:
                on_done(result)
            return found, play

        ended = list(pool.map(played, enumerate(scenarios)))
    by_laws = [_by_law(law, [play for _, play in ended], cluster) for law in LAWS.values()]
    return [result for some, _ in ended for result in some] + by_laws


def _by_law(law: Law, plays: Sequence[Play], cluster: Cluster) -> Result:
    """What became of a law, by all that was played."""
    looked_at = [
        problem for play in plays for member in play.members for problem in law.judge(play, member)
    ]
    found = partial(_result, law.name, law.rule, cluster)
    if not looked_at:
        return found(Status.NOT_RUN, why="nothing was done that it speaks of")
    return found(problem=next(filter(None, looked_at), None))


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
        except (NotComeError, UserError) as error:
            status, why = Status.BLOCKED, str(error)
        except (KeyError, ValueError, TypeError) as error:
            what = f"{type(error).__name__}: {error}"
            status, why = Status.BLOCKED, f"what the program sends cannot be read: {what}"

    seconds = time.monotonic() - began
    for rule in scenario.rules:
        result = partial(_result, scenario.name, rule, cluster, seconds=seconds)
        if rule in play.verdicts:
            yield result(problem=play.verdicts[rule])
        else:
            yield result(status, why)


def _result(
    name: str,
    rule: str,
    cluster: Cluster,
    status: Status = Status.PASSED,
    why: str = "",
    problem: Problem | None = None,
    seconds: float = 0.0,
) -> Result:
    case = Case((rule,), rules()[rule].party)
    if problem is None:
        return Result(name, case, status, seconds, why)
    exchanges = _exchanges(problem, cluster)
    return Result(name, case, Status.FAILED, seconds, problem.why, render(exchanges), exchanges)


def _exchanges(problem: Problem, cluster: Cluster) -> tuple[Exchange, ...]:
    places = {"": cluster.nameserver, **cluster.brokers}

    def of(call: Call) -> Iterator[Exchange]:
        yield Exchange(places[call.broker], call.by_client, call.request.raw)
        if call.answer:
            yield Exchange(places[call.broker], not call.by_client, call.answer.raw)

    return tuple(exchange for call in problem.calls for exchange in of(call))
