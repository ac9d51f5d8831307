"""Look into the store of a broker: the reference's, or one that Apache RocketMQ wrote.

  mqspec store check DIR          what is inconsistent, where, and what a start would do
  mqspec store check DIR --json   the same for programs

A broker whose messageDelayLevel is its own: --message-delay-level '1s 5s 10m'

It only reads: a broker may be running on the store. Exit code 1 where something is found.
"""

from __future__ import annotations

import argparse
import json
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from mqspec.core.log import DELAY_LEVELS, TopicQueue
from mqspec.store.check import CheckReport, Finding, Recovery, check
from mqspec.store.message_store import delay_levels_of

HELP = "check the store of a broker"

SHOWN = 5  # of the findings of one kind in one file


def configure(parser: argparse.ArgumentParser) -> None:
    """What to do, and with which store."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    checking = actions.add_parser("check", help="what is inconsistent, where, and what to expect")
    checking.add_argument("directory", type=Path, metavar="DIR", help="the store, on this machine")
    checking.add_argument("--json", action="store_true", help="all of it, for programs")
    checking.add_argument(
        "--message-delay-level",
        default=DELAY_LEVELS,
        metavar="LEVELS",
        help="messageDelayLevel of the broker, which no file of the store tells",
    )


def run(args: argparse.Namespace) -> int:
    """Check."""
    levels = delay_levels_of(args.message_delay_level)
    console = Console(stderr=True)
    progress = Progress(console=console, transient=True, disable=not console.is_terminal)
    with progress:
        task = progress.add_task("commitlog", total=None)
        report = check(
            args.directory,
            lambda done, total: progress.update(task, completed=done, total=total),
            levels,
        )
    if args.json:
        print(json.dumps(_plain(report), indent=2, ensure_ascii=False))
    else:
        _show(report)
    return 1 if report.findings else 0


def _show(report: CheckReport) -> None:
    console = Console(highlight=False, soft_wrap=True)
    state = "a broker is running on it" if report.running else "no broker is running on it"
    console.print(f"{report.store}: {state}", markup=False)
    counts = f"{report.records} records, {report.units} units, {report.index_entries} index entries"
    console.print(counts)
    for (check_, file), group in groupby(report.findings, lambda each: (each.check, each.file)):
        findings = list(group)
        console.print(f"[bold red]{check_}[/] in {file}: {len(findings)}")
        for finding in findings[:SHOWN]:
            console.print(f"  {_line(finding)}", markup=False)
        if len(findings) > SHOWN:
            console.print(f"  and {len(findings) - SHOWN} more")
    console.print(_recovery(report.recovery), markup=False)
    if not report.findings:
        console.print("[bold green]nothing found[/]")


def _line(finding: Finding) -> str:
    where = [f"at {finding.position}"] if finding.position is not None else []
    if finding.queue:
        where.append(f"{_queue(finding.queue)} offset {finding.queue_offset}")
    return f"{', '.join(where)}{': ' if where else ''}{finding.why} ({finding.rule})"


def _recovery(recovery: Recovery) -> str:
    if recovery.refused:
        return f"A start would be refused: {recovery.refused}"
    kind = "abnormally" if recovery.abnormal else "normally"
    first, end = recovery.commit_log
    lines = [
        f"A start would recover {kind}: it walks the log from {recovery.scan_from}, "
        f"which then goes from {first} to {end}"
    ]
    for what, units in (("write", recovery.written), ("drop", recovery.dropped)):
        lines += [f"  {what} {count} units of {_queue(queue)}" for queue, count in units.items()]
    return "\n".join(lines)


def _queue(queue: TopicQueue) -> str:
    topic, queue_id = queue
    return f"{topic}/{queue_id}"


def _plain(report: CheckReport) -> dict[str, Any]:
    recovery = report.recovery
    return {
        "store": report.store,
        "running": report.running,
        "records": report.records,
        "units": report.units,
        "index_entries": report.index_entries,
        "findings": [
            {
                "check": finding.check,
                "rule": finding.rule,
                "why": finding.why,
                "file": finding.file,
                "position": finding.position,
                "queue": _queue(finding.queue) if finding.queue else None,
                "queue_offset": finding.queue_offset,
            }
            for finding in report.findings
        ],
        "recovery": {
            "refused": recovery.refused or None,
            "abnormal": recovery.abnormal,
            "scan_from": recovery.scan_from,
            "commit_log": list(recovery.commit_log),
            "written": {_queue(queue): count for queue, count in recovery.written.items()},
            "dropped": {_queue(queue): count for queue, count in recovery.dropped.items()},
        },
    }
