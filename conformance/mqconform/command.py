"""Tests a broker and its nameserver for conformance, black box, over TCP.

TARGET is the address of any nameserver (host:port), `apache:5.3.3` (started and stopped for
the run) or `reference` (the same for `mqspec serve`). The exit code is 1 when a case of a
MUST rule fails or a listed deviation no longer shows, 2 when not all could be run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from mqconform import report
from mqconform.case import Result, Status
from mqconform.clients.testing import try_client
from mqconform.cluster import Cluster
from mqconform.explore.areas import NAMES as AREAS
from mqconform.explore.exploring import duration, explore
from mqconform.plugin import PREFIX, Selection, Suite
from mqconform.probe import draft
from mqconform.progress import progress
from mqconform.started import BROKERS, EXAMPLES, is_started, started
from mqconform.target import Address, Target, deviations_of, parse_address, read_target
from mqconform.transcript import SHOWN
from mqrules import UserError, check_writable, rules, write_evidence

HELP = "test any broker and nameserver for conformance"
_ALL_FRAMES = 10_000
_PIPED_COLUMNS = 200


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help=f"host:port of a nameserver, {EXAMPLES}",
    )
    parser.add_argument("--target", dest="target_file", type=Path, metavar="FILE",
        help="a target file (TOML): how to stop, kill, start it; its store")  # fmt: skip
    parser.add_argument("--list", action="store_true",
        help="list the cases and end; a TARGET that is given must answer")  # fmt: skip
    parser.add_argument("--rule", action="append", default=[], metavar="ID",
        help="only cases for this rule; may be repeated")  # fmt: skip
    parser.add_argument("-k", dest="keyword", default="", metavar="EXPRESSION",
        help="only cases whose name matches, as in pytest")  # fmt: skip
    parser.add_argument("--evidence", type=Path, metavar="FILE", help="write evidence records")
    parser.add_argument("--json", type=Path, metavar="FILE",
        help="write the report as JSON, by mqconform/data/report.schema.json")  # fmt: skip
    parser.add_argument("--page", type=Path, metavar="FILE",
        help="write the report as one HTML page, without outside resources")  # fmt: skip
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    parser.add_argument("--history", type=Path, metavar="DIR",
        help="write the history there (default: a new directory below .mqspec/)")  # fmt: skip
    parser.add_argument("--prefix", default=PREFIX, metavar="NAME",
        help=f"what names of topics, groups and keys begin with (default: {PREFIX})")  # fmt: skip
    parser.add_argument("--identical", action="store_true",
        help="judge wording, nulls and orders of keys, as of Apache and the reference")  # fmt: skip
    parser.add_argument("--exclusive", action="store_true",
        help="nobody else uses the target: options may be set and brokers restarted")  # fmt: skip
    parser.add_argument("--map", action="append", default=[],
        metavar="ADVERTISED=REACHABLE",
        help="where a broker is, both host:port, that registers another address")  # fmt: skip
    parser.add_argument("--quick", action="store_true",
        help="leave out what takes long (mqconform/data/slow.json), and every restart")  # fmt: skip
    parser.add_argument("--probe", action="store_true",
        help="find out what TARGET can do, print a target file for it and end")  # fmt: skip
    parser.add_argument("--frames", action="store_true",
        help="show all frames of a failure, and those of deviations")  # fmt: skip
    parser.add_argument("--explore", type=duration, metavar="DURATION",
        help="instead of the cases: exchanges drawn at random, each answer held against the core; "
        "for so long (90s, 10m, 1h)")  # fmt: skip
    parser.add_argument("--client", metavar="COMMAND",
        help="instead of a broker: test the consumer or producer that this starts, "
        "with places for {nameserver}, {topic}, {group}, and {mode} and {id}")  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="of the exploration")
    parser.add_argument("--area", action="append", default=[], metavar="NAME",
        help=f"explore only this area, one of {', '.join(AREAS)}; may be repeated")  # fmt: skip


def _place(text: str) -> tuple[Address, Address]:
    told, equals, place = text.partition("=")
    try:
        if equals:
            return parse_address(told), parse_address(place)
    except UserError:
        pass
    raise UserError(f"--map {text}", "is not HOST:PORT=HOST:PORT", "say what is where")


def _check(args: argparse.Namespace) -> None:
    """What can be seen of the arguments alone. Raises UserError."""
    if unknown := [rule for rule in args.rule if rule not in rules()]:
        raise UserError(unknown[0], "no such rule", "see: mqspec conform --list")
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,32}", args.prefix):
        what = "is no prefix of names"
        raise UserError(f"--prefix {args.prefix}", what, "letters, digits, _ and -, at most 32")
    if not args.explore and (args.area or args.seed is not None):
        raise UserError("--area" if args.area else "--seed", "is for --explore", "say how long")
    args.map = dict(map(_place, args.map))


def run(args: argparse.Namespace) -> int:
    """Run the suite. Raises UserError for a target that is none or does not answer."""
    _check(args)
    if args.client is not None:
        return try_client(args, _console())
    if args.explore:
        return _explore(args)
    if args.probe:
        with _target(args) as target:
            print(draft(target), end="")
        return 0
    console = _console()
    cases = _collected(args)
    if not cases:
        raise UserError("cases", "none is selected", "see: mqspec conform --list")
    if args.list:
        _look(args)
        report.list_cases(console, cases)
        return 0
    directory = args.history or Path(".mqspec") / "history"
    _make_outputs(directory, args.evidence, args.junit, args.json, args.page)
    began, time_began = time.monotonic(), datetime.now(UTC)
    with _target(args) as target:
        suite = _run_suite(target, args, console, len(cases))
        # Before the target ends: after an interrupt some cases still run, and would fail.
        results = list(suite.results.values())
        left = [] if _is_ours(args) else suite.finish()
    ran = [result for result in results if result.status is not Status.NOT_RUN]
    report.show_table(console, str(target), ran)
    report.show_failures(console, ran, args.frames)
    report.show_causes(console, report.causes_of(results))
    console.print(f"history: {suite.recorder.write(directory)}", highlight=False)
    if args.evidence:
        records = [record for r in results for record in r.evidence(str(target))]
        write_evidence(args.evidence, records)
    told = report.as_data(
        results,
        target=str(target),
        keeps=target.keeps,
        run=suite.recorder.run,
        began=time_began.isoformat(timespec="seconds"),
        seconds=time.monotonic() - began,
        stale=suite.stale,
        left=left,
    )
    report.write(told, args.json, args.page)
    report.show_summary(console, results, suite.stale, time.monotonic() - began)
    for line in left:
        console.print(line, style="bold red", markup=False, highlight=False)
    if suite.trouble:
        raise suite.trouble
    return int(report.is_failure(results, suite.stale))


def _console() -> Console:
    """Tables are as wide as the terminal; piped, wide enough to be searched line by line."""
    return Console() if sys.stdout.isatty() else Console(width=_PIPED_COLUMNS)


def _explore(args: argparse.Namespace) -> int:
    console = _console()
    with _target(args) as target:
        cluster = Cluster(target.nameserver, target.places)
        cluster.wait(BROKERS) if _is_ours(args) else cluster.find()
        return explore(target, cluster, console, args.explore, args.seed, args.area, args.prefix)


def _make_outputs(directory: Path, *files: Path | None) -> None:
    """Make what the run will write to: not to learn at its end that it cannot be written.

    Raises UserError, or an OSError that names the file.
    """
    if directory.is_file():
        raise UserError(str(directory), "a file stands where histories go", "choose --history")
    directory.mkdir(parents=True, exist_ok=True)
    if not os.access(directory, os.W_OK):
        raise UserError(str(directory), "cannot be written to", "choose --history")
    for file in filter(None, files):
        check_writable(file)


def _is_ours(args: argparse.Namespace) -> bool:
    return bool(args.target) and is_started(args.target)


def _look(args: argparse.Namespace) -> None:
    """Whether the target, if one is given, can be tested; ours can. Raises UserError."""
    if (args.target or args.target_file) and not _is_ours(args):
        with _target(args) as target:
            Cluster(target.nameserver, target.places).find()


@contextlib.contextmanager
def _target(args: argparse.Namespace) -> Iterator[Target]:
    """The target that the arguments name, started where that is ours to do."""
    if bool(args.target) == bool(args.target_file):
        raise UserError("target", "one is needed", f"give host:port, {EXAMPLES}")
    if args.target_file:
        found = read_target(args.target_file)
    elif is_started(args.target):
        with started(args.target) as found:
            yield _as_told(found, args)
        return
    else:
        found = Target("address", args.target, parse_address(args.target))
    yield _as_told(found, args)


def _as_told(target: Target, args: argparse.Namespace) -> Target:
    """The target, with what the arguments say of it."""
    return replace(
        target,
        to_the_letter=target.to_the_letter or args.identical,
        exclusive=target.exclusive or args.exclusive,
        places={**target.places, **args.map},
    )


def _run_suite(target: Target, args: argparse.Namespace, console: Console, chosen: int) -> Suite:
    words = ["--junitxml", str(args.junit.absolute())] if args.junit else []
    with progress(str(target), chosen, console) as done:
        cluster = Cluster(target.nameserver, target.places)
        cluster.wait(BROKERS) if _is_ours(args) else cluster.find()
        suite = Suite(
            target,
            cluster,
            deviations_of(target.name, target.version),
            rule_ids=args.rule,
            prefix=args.prefix,
            quick=args.quick,
            frames_shown=_ALL_FRAMES if args.frames else SHOWN,
            on_done=done,
        )
        run_pytest([*words, "-k", args.keyword], suite)
    return suite


def _collected(args: argparse.Namespace) -> list[Result]:
    """The cases that would be run."""
    selection = Selection(args.rule, quick=args.quick)
    run_pytest(["--collect-only", "-k", args.keyword], selection)
    if selection.trouble:
        raise selection.trouble
    return selection.chosen


def run_pytest(words: list[str], plugin: object) -> None:
    """Run pytest on the cases with a Selection or Suite, whose results stand for its report."""
    here = Path(__file__).parent
    where = ["-c", str(here / "pytest.ini"), "--rootdir", str(here), str(here / "cases")]
    # -s: what pytest captures is lost, and so would be what tells how far the run is.
    code = pytest.main(["-s", "-p", "no:terminal", *where, *words], plugins=[plugin])
    if code is pytest.ExitCode.USAGE_ERROR:
        raise UserError("-k", "not an expression that pytest understands")
    if code is pytest.ExitCode.INTERNAL_ERROR:
        raise UserError("pytest", "broke down, as it says above")
