"""Plays scenarios, and says what became of each of their rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Final

from mqconform.case import Case, Result, Status
from mqconform.clients.door import Call, Doors
from mqconform.clients.laws import LAWS, Law
from mqconform.clients.play import COME_S, CutOffError, NotComeError, Play, Problem
from mqconform.clients.program import Command
from mqconform.clients.scenario import Scenario
from mqconform.cluster import Cluster
from mqconform.scene import NotClaimedError
from mqconform.transcript import Exchange, render
from mqrules import UserError, rules

AT_ONCE: Final = 3  # scenarios: each has some processes, which may be JVMs


def look(command: Command, cluster: Cluster, doors: Doors, home: Path, prefix: str) -> None:
    """Whether the program starts, finds its brokers and consumes. Raises UserError."""
    with Play(f"{prefix}-look", command, cluster, doors, home) as play:
        try:
            member = play.member()
            play.shares()  # so that it is there before the message is
            sent = play.send(play.queues[0])
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
) -> tuple[list[Result], UserError | None]:
    """A result for each rule of each scenario, and for each law; and why not all were played.

    Raises UserError for a program that is none.
    """
    trouble = None
    with Doors() as doors:
        look(command, cluster, doors, home, prefix)
        plays = [
            Play(f"{prefix}-{number}", command, cluster, doors, home)
            for number, _ in enumerate(scenarios)
        ]

        def played(play: Play, scenario: Scenario) -> list[Result]:
            found = list(_results(scenario, play, cluster))
            for result in found:
                on_done(result)
            return found

        with ThreadPoolExecutor(AT_ONCE) as pool:
            ended = [pool.submit(played, *each) for each in zip(plays, scenarios, strict=True)]
            try:
                wait(ended)
            except KeyboardInterrupt:
                trouble = UserError("run", "it was interrupted", "what ran is reported")
                for play in plays:
                    play.is_cut_off = True
        results = [result for each in ended for result in each.result()]
    by_laws = [_by_law(law, plays, cluster) for law in LAWS.values()]
    return results + by_laws, trouble


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
    if play.is_cut_off:
        status, why = Status.NOT_RUN, ""
    elif missing:
        status, why = Status.NOT_CLAIMED, f"the command has no {' and no '.join(missing)}"
    else:
        try:
            with play:
                scenario.play(play)
        except NotClaimedError as error:
            status, why = Status.NOT_CLAIMED, str(error)
        except CutOffError:
            status, why = Status.NOT_RUN, ""
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
