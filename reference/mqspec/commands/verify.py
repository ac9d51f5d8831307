"""Check, prove, conform, audit and compare, and merge what they found into the evidence matrix.

  mqspec verify                          the embedded reference
  mqspec verify --target 10.0.0.5:9876   any cluster, by its nameserver
  mqspec verify --target apache:5.3.3    the real one, started for the occasion
  mqspec verify --all                    every rule in the terminal, not only the areas

Exit code 1 when a MUST rule has a gap, or any rule a failure, each named in a line; 2, before
anything is run, when the target cannot be tested.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from mqrules import UserError, read_evidence, rules
from mqrules.matrix import matrix
from mqspec.report import Report, kinds, summary, terminal

HELP = "run all of it, and show the evidence matrix"
FIRST = 4  # of what failed or lacks evidence, where not all is asked for
MQSPEC = (sys.executable, "-m", "mqspec.cli")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--target", default="reference", help="as for `mqspec conform`")
    parser.add_argument(
        "--output", type=Path, default=Path(".mqspec/verify"), metavar="DIR", help="for the reports"
    )
    parser.add_argument(
        "--all", action="store_true", help="show every rule, and every gap and failure"
    )


@dataclass(frozen=True, slots=True)
class Stage:
    """One command of ours, run as a process of its own. Its reports have another name where a
    command has two stages."""

    command: str
    arguments: tuple[str, ...]
    alias: str = ""

    @property
    def name(self) -> str:
        return self.alias or self.command


@dataclass(frozen=True, slots=True)
class Ended:
    """How a stage ended: its evidence, and why it failed where it did."""

    stage: Stage
    evidence: Path
    problem: str


def run(args: argparse.Namespace) -> int:
    # No highlighting: what a stage prints is shown as it is.
    console = Console(highlight=False)
    _look(args.target)
    output: Path = args.output
    output.mkdir(parents=True, exist_ok=True)
    histories = _fresh(output / "histories")
    conform = Stage("conform", (args.target, "--history", str(histories)))
    clients = Stage("conform", ("--client", "reference"), "clients")
    paths = Stage("paths", ())
    # Side by side: conform mostly waits. The audit judges what conform recorded.
    lanes = (
        (Stage("check", ()),),
        (clients, paths),
        (Stage("prove", ()), conform, Stage("audit", (str(histories), "--target", args.target))),
    )
    started = time.monotonic()
    with ThreadPoolExecutor(len(lanes)) as pool:
        ended = list(chain(*pool.map(lambda lane: _run_lane(lane, output, console), lanes)))
    records = chain(*(read_evidence(e.evidence) for e in ended if e.evidence.exists()))
    report = Report(
        args.target,
        time.monotonic() - started,
        matrix(rules(), records),
        tuple(e.problem for e in ended if e.problem),
    )
    report.write(output)
    _show(report, console, everything=args.all)
    page = output / "report.html"
    console.print(f"{len(rules())} rules in {report.seconds:.0f} s; {page}", soft_wrap=True)
    return 1 if report.failures() else 0


def _show(report: Report, console: Console, *, everything: bool) -> None:
    """All rules, or how their areas stand; then what failed, and what lacks evidence."""
    console.print(terminal(report, console.width) if everything else summary(report))
    if not everything:
        console.print(f"rules by kind of evidence: {kinds(report)}")
    failed = [*report.stage_failures, *report.matrix.violations()]
    lines = [f"[bold red]FAILED[/] {escape(line)}" for line in failed]
    lines += [f"[red]GAP[/] {escape(line)}" for line in report.matrix.gaps()]
    shown = lines if everything else lines[:FIRST]
    for line in shown:
        console.print(line, soft_wrap=True)
    if rest := len(lines) - len(shown):
        console.print(f"and {rest} more, by --all")
    if lines:
        console.print("what a rule is, and what it rests on: mqspec explain RULE")


def _look(target: str) -> None:
    """See that there is something to test. Raises UserError with what conform says."""
    command = [*MQSPEC, "conform", target, "--list"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise UserError("--target", said.removeprefix("mqspec: "))


def _run_lane(stages: Iterable[Stage], output: Path, console: Console) -> Sequence[Ended]:
    return [_run_stage(stage, output, console) for stage in stages]


def _run_stage(stage: Stage, output: Path, console: Console) -> Ended:
    evidence, log = output / f"{stage.name}.jsonl", output / f"{stage.name}.log"
    evidence.unlink(missing_ok=True)
    started = time.monotonic()
    console.print(f"{stage.name} …")
    command = [*MQSPEC, stage.command, *stage.arguments, "--evidence", str(evidence)]
    with log.open("wb") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT)
    seconds = time.monotonic() - started
    problem = ""
    if done.returncode or not evidence.exists():
        said = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
        problem = f"{stage.name} ended with {done.returncode}: {said}, see {log}"
    how = f"[red]{escape(problem)}[/]" if problem else f"{stage.name} ended [green]well[/]"
    console.print(f"{how}, in {seconds:.0f} s", soft_wrap=True)
    return Ended(stage, evidence, problem)


def _fresh(histories: Path) -> Path:
    """An empty folder for histories: those of an earlier run would be judged again."""
    if histories.is_file():
        raise UserError(str(histories), "a file stands where histories go", "choose --output")
    for old in histories.glob("**/*.parquet"):
        old.unlink()
    histories.mkdir(exist_ok=True)
    return histories
