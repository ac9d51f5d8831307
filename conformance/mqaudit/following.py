"""`mqspec audit --follow`: from arguments to a follower, and its end."""

from __future__ import annotations

import argparse
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

from rich.console import Console

from mqaudit.follow import LIMITS, Follower, Settings
from mqaudit.gauges import Gauges
from mqaudit.report import AuditReport
from mqaudit.session import session
from mqaudit.versions import Version
from mqrules import UserError, check_writable

_OF_THE_BATCH = ("out", "html", "show")


def configure(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("following")
    group.add_argument(
        "--follow", action="store_true", help="go on with what is added to histories, until Ctrl-C"
    )
    group.add_argument("--once", action="store_true", help="follow up to what is there, and end")
    group.add_argument(
        "--lines",
        action="store_true",
        help="read *.jsonl too: files that are whole when they appear, as a recorder's are not",
    )
    group.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIR",
        help="what is known, to go on from when started again; else it is forgotten",
    )
    group.add_argument(
        "--alerts", type=Path, metavar="FILE", help="append what is found, as lines of JSON; "
        "default: to the terminal",
    )  # fmt: skip
    group.add_argument(
        "--metrics",
        metavar="WHERE",
        help="for Prometheus: a port on 127.0.0.1, HOST:PORT, or a file",
    )
    group.add_argument(
        "--recent",
        type=float,
        default=600.0,
        metavar="S",
        help="how far apart, in seconds of a recorder's clock, two events may be that are judged "
        "together, and how late one may come; default %(default)s",
    )
    group.add_argument(
        "--every", type=float, default=10.0, metavar="S", help="look for more; default %(default)s"
    )


def follow(args: argparse.Namespace) -> AuditReport:
    """Follow until a signal, or to the end of what is there. Raises UserError."""
    for name in _OF_THE_BATCH:
        if getattr(args, name):
            raise UserError(f"--{name}", "of a whole history only", "leave --follow out for it")
    if args.json and args.alerts is None:
        raise UserError("--json", "alerts go to the terminal as well", "give --alerts FILE")
    if args.alerts is not None:
        check_writable(args.alerts)
    with ExitStack() as stack:
        checkpoint = args.checkpoint or stack.enter_context(tempfile.TemporaryDirectory())
        settings = Settings(
            paths=args.paths,
            checkpoint=Path(checkpoint),
            alerts=args.alerts,
            recent_s=args.recent,
            every_s=args.every,
            once=args.once,
            lines=args.lines,
            target=args.target,
        )
        stopped = stack.enter_context(_signals())
        gauges = Gauges(args.metrics) if args.metrics else None
        spark = session(args.master)
        stack.callback(spark.stop)

        def judged(follower: Follower) -> None:
            if gauges is not None:
                gauges.show(follower.version, follower.report())

        follower = Follower(spark, settings, judged)
        report = follower.run(stopped)
        _say(follower.version, args.recent)
        return report


def _say(version: Version, recent_s: float) -> None:
    """What was left out, and what cannot be told, in words."""
    console = Console(stderr=True, highlight=False)
    console.print(
        f"{version.rows} events stay; left out: {version.again} that were read before, "
        f"{version.late} that came too late",
        soft_wrap=True,
    )
    console.print(f"not seen where it lies more than {recent_s:g} s back:", soft_wrap=True)
    for checks, what in LIMITS.items():
        console.print(f"  {checks}: {what}", soft_wrap=True)


@contextmanager
def _signals() -> Iterator[Event]:
    """An event that Ctrl-C and SIGTERM set."""
    stopped = Event()
    before = {
        one: signal.signal(one, lambda *_: stopped.set()) for one in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
