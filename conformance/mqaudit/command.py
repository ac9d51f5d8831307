"""Audit what was recorded or kept: histories, stores, traces and logs, on Spark.

  mqspec audit .mqspec/verify/histories        every history below a directory
  mqspec audit 'runs/2024-*/*.parquet'         a glob
  mqspec audit ~/store                         its log, queues and traces
  mqspec audit ~/store ~/logs --one-clock      with logs of broker and clients
  mqspec audit rocketmq://10.0.0.1:9876/Orders,RMQ_SYS_TRACE_TOPIC   live topics
  mqspec audit s3a://runs --master spark://host:7077
  mqspec audit --follow recorded --alerts found.jsonl --checkpoint known   while it is recorded

Exit code 1 when a MUST rule is violated.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.markup import escape

from mqaudit import following
from mqaudit.audit import audit
from mqaudit.page import page
from mqaudit.pictures import pictures
from mqaudit.report import AuditReport, Finding, Judgement, Place
from mqaudit.session import LOCAL, session
from mqrules import Level, check_writable, rules, write_evidence
from mqrules.schema import encode

HELP = "find what went wrong in recorded histories, stores, traces and logs"

# Below these Spark spends more on compiling queries than on their data. A line of JSON is about
# so long; Parquet says how many rows it has.
_LITTLE_EVENTS = 300_000
_LINE_BYTES = 200

_COLOURS = {
    Judgement.VIOLATED: "bold red",
    Judgement.PERMITTED: "yellow",
    Judgement.UNDECIDABLE: "cyan",
    Judgement.OPEN: "dim",
}
_WORST = (Judgement.VIOLATED, Judgement.PERMITTED, Judgement.UNDECIDABLE, Judgement.OPEN)
_SUMMARY_FINDINGS = 23  # so that all of it is at most 30 lines


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="a file, a directory, a glob, or rocketmq://NAMESERVER/TOPIC,TOPIC",
    )
    parser.add_argument("--master", default=LOCAL, help=f"any Spark master; default {LOCAL}")
    parser.add_argument(
        "--target", default="mqspec", help="the system that was recorded, for the evidence"
    )
    parser.add_argument(
        "--details",
        action="store_true",
        help="each check and finding, with its first and last place",
    )
    parser.add_argument("--show", type=int, default=0, metavar="N", help="N places of each finding")
    parser.add_argument(
        "--out", metavar="DIR", help="write the tables on the way as Parquet: events, owners, ..."
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="a page of it: what was found, drawn"
    )
    parser.add_argument(
        "--book", metavar="URL", default="", help="where the book is, for the page's links to it"
    )
    parser.add_argument(
        "--one-clock",
        action="store_true",
        help="the clocks of all clients agree: order what they traced and logged by it",
    )
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--evidence", type=Path, metavar="FILE", help="write evidence records")
    following.configure(parser)


def run(args: argparse.Namespace) -> int:
    for file in filter(None, (args.evidence, args.html)):
        check_writable(file)
    if args.follow:
        # What is found may be read from the standard output by a program.
        return _end(args, following.follow(args), Console(stderr=not args.alerts, highlight=False))
    with Console(stderr=True, highlight=False).status("starting Spark") as status:
        spark = session(args.master, little=is_little(args.paths))
        try:
            audited = audit(
                spark,
                args.paths,
                target=args.target,
                examples=args.show,
                progress=lambda step: status.update(step),
                keep=bool(args.out or args.html),
                one_clock=args.one_clock,
            )
            report = audited.report
            if args.out and audited.tables is not None:
                status.update(f"writing {args.out}")
                audited.tables.write(args.out)
            if args.html:
                status.update(f"drawing {args.html}")
                drawn = pictures(audited.tables, report) if audited.tables else None
                args.html.write_text(page(report, drawn, args.book), encoding="utf-8")
        finally:
            spark.stop()
    return _end(args, report, Console(highlight=False))


def _end(args: argparse.Namespace, report: AuditReport, console: Console) -> int:
    """Say what was found, as it was asked for."""
    if args.evidence:
        write_evidence(args.evidence, report.evidence())
    if args.json:
        print(json.dumps(encode(report), indent=2, ensure_ascii=False))
    elif args.details or args.show:
        _show(report, console)
    else:
        _summarise(report, console)
    return 1 if any(rules()[f.rule].level is Level.MUST for f in report.violated) else 0


def is_little(paths: Sequence[str]) -> bool:
    """Whether all of it lies on this machine, and is too little to compile queries for."""
    roots = [Path(path) for path in paths]
    if not all(root.exists() for root in roots):
        return False  # a glob, or a file system of Spark's
    files = chain(*([root] if root.is_file() else root.rglob("*") for root in roots))
    return sum(_events(file) for file in files if file.is_file()) < _LITTLE_EVENTS


def _events(file: Path) -> int:
    """About how many events a file holds; or, of a store, how many events would be as long."""
    if file.suffix == ".parquet":
        with suppress(pa.ArrowException, OSError):  # who reads it will say what is wrong
            return int(pq.read_metadata(file).num_rows)
    return file.stat().st_size // _LINE_BYTES


def _summarise(report: AuditReport, console: Console) -> None:
    """What matters, on one screen: what was judged, and what did not simply hold, worst first."""
    held = [f"{check.name} {check.held}" for check in report.checks if check.held]
    unseen = [check.name for check in report.checks if not check.examined]
    _counts(report, console)
    _unread(report, console)
    if held:
        console.print(f"[bold]held[/]: {', '.join(held)}", soft_wrap=True)
    if unseen:
        console.print(f"[bold]nothing to examine[/]: {', '.join(unseen)}", soft_wrap=True)
    found = [(check, finding) for check in report.checks for finding in check.findings]
    found.sort(key=lambda one: _WORST.index(one[1].judgement))
    for check, finding in found[:_SUMMARY_FINDINGS]:
        console.print(f"[bold]{check.name}[/]{_finding(finding)}", soft_wrap=True)
        if finding.judgement is Judgement.VIOLATED and len(found) <= _SUMMARY_FINDINGS // 2:
            console.print(f"    first {_place(finding.first)}", soft_wrap=True, markup=False)
    if len(found) > _SUMMARY_FINDINGS:
        console.print(f"and {len(found) - _SUMMARY_FINDINGS} kinds of findings more")
    if found:
        console.print("places and all kinds: --details; N places of each: --show N")
        console.print(f"what a rule means, and what to do: mqspec explain {found[0][1].rule}")


def _show(report: AuditReport, console: Console) -> None:
    for check in report.checks:
        console.print(f"[bold]{check.name}[/]: {check.about}", soft_wrap=True)
        by = f", by {' and '.join(check.sources)}" if check.sources else ""
        console.print(f"  {check.examined} examined, {check.held} held{by}")
        for finding in check.findings:
            console.print(_finding(finding), soft_wrap=True)
            places = {"first": finding.first, "last": finding.last}
            if finding.count == 1:
                del places["last"]
            for which, place in places.items():
                console.print(f"    {which:5} {_place(place)}", soft_wrap=True, markup=False)
            for example in finding.examples:
                console.print(f"          {_place(example)}", soft_wrap=True, markup=False)
            console.print(f"    more: mqspec explain {finding.rule}", style="dim")
    _counts(report, console)
    _unread(report, console)
    for finding in report.violated:
        console.print(f"[bold red]VIOLATED[/] {finding.rule}: {finding.why}", soft_wrap=True)


def _counts(report: AuditReport, console: Console) -> None:
    counts = ", ".join(f"{number} {name}" for name, number in report.coverage.items())
    console.print(counts, soft_wrap=True)


def _unread(report: AuditReport, console: Console) -> None:
    for one in report.unread:
        said = f"[bold]left out[/] of {one.source}: {one.count} {one.why}; first"
        console.print(f"{said} {escape(_place(one.first))}", soft_wrap=True)


def _finding(finding: Finding) -> str:
    judgement = f"[{_COLOURS[finding.judgement]}]{finding.judgement}[/]"
    return f"  {finding.count} {judgement} {finding.rule}: {finding.why}"


def _place(place: Place) -> str:
    return " ".join(f"{name}={value}" for name, value in place.items())
