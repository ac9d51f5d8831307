"""`mqspec conform --client`: a run of scenarios, from its arguments to its report."""

from __future__ import annotations

import contextlib
import signal
import tempfile
import time
import uuid
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console

from mqconform import report
from mqconform.case import Case, Result, Status
from mqconform.clients.laws import LAWS
from mqconform.clients.program import Command
from mqconform.clients.running import run
from mqconform.clients.scenarios import SCENARIOS, Scenario
from mqconform.cluster import Cluster
from mqconform.progress import progress
from mqconform.reference import Reference
from mqconform.started import BROKERS
from mqrules import UserError, check_writable, rules, write_evidence

_OF_BROKERS: Final = (
    *("target", "target_file", "explore", "probe", "junit", "history"),
    *("identical", "exclusive", "map"),
)
KEEPS: Final = "5.3.3"  # the version whose rules clients are held to


def try_client(args: Namespace, console: Console) -> int:
    """Play the scenarios that were chosen with a program; the exit code. Raises UserError."""
    _check(args)
    command = Command(args.client)
    chosen = _chosen(args)
    if not chosen:
        raise UserError(
            "scenarios", "none is selected", "see: mqspec conform --client COMMAND --list"
        )
    if args.list:
        report.list_cases(console, list(map(_not_run, chosen)))
        return 0

    for file in filter(None, (args.json, args.page, args.evidence)):
        check_writable(file)
    began, time_began = time.monotonic(), datetime.now(UTC)
    count = sum(len(one.rules) for one in chosen) + len(LAWS)
    run_id = f"{args.prefix}{uuid.uuid4().hex[:6]}"
    with (
        _interrupted_by_sigterm(),
        _cluster() as cluster,
        _home() as home,
        progress(command.name, count, console) as done,
    ):
        results, trouble = run(chosen, command, cluster, home, run_id, done)
    seconds = time.monotonic() - began

    report.show_table(console, command.name, results)
    report.show_failures(console, results, args.frames)
    told = report.as_data(
        results,
        target=command.name,
        keeps=KEEPS,
        run=run_id,
        began=time_began.isoformat(timespec="seconds"),
        seconds=seconds,
        stale=(),
        left=(),
    )
    report.write(told, args.json, args.page)
    if args.evidence:
        records = [record for result in results for record in result.evidence(command.name)]
        write_evidence(args.evidence, records)
    report.show_summary(console, results, [], seconds)
    if trouble:
        raise trouble
    return int(report.is_failure(results, []))


def _check(args: Namespace) -> None:
    """Raises UserError for an argument that is of tests of brokers."""
    for name in _OF_BROKERS:
        if getattr(args, name):
            option = name if name == "target" else f"--{name.removesuffix('_file')}"
            remedy = "leave it out: clients are tested with brokers of the reference"
            raise UserError(option, "is not for --client", remedy)


def _chosen(args: Namespace) -> list[Scenario]:
    """The scenarios that were asked for, by their names and rules; those that take long begin."""
    shown = {law.shown_by for law in LAWS.values() if law.rule in args.rule}
    found = [
        one
        for one in SCENARIOS.values()
        if args.keyword in one.name
        and (not args.rule or one.name in shown or not set(args.rule).isdisjoint(one.rules))
        and not (args.quick and one.is_slow)
    ]
    return sorted(found, key=lambda one: not one.is_slow)


def _not_run(scenario: Scenario) -> Result:
    party = rules()[scenario.rules[0]].party
    return Result(scenario.name, Case(scenario.rules, party), Status.NOT_RUN)


@contextlib.contextmanager
def _interrupted_by_sigterm() -> Iterator[None]:
    """Members are sessions of their own, which end with the run however that ends."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _cluster() -> Iterator[Cluster]:
    """Two brokers of the reference, with their clocks as they are delivered."""
    with _home() as home, Reference(home, ()) as reference:
        cluster = Cluster(reference.nameserver)
        cluster.wait(BROKERS)
        yield cluster


@contextlib.contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="mqspec-", ignore_cleanup_errors=True) as home:
        yield Path(home)
