"""The benchmark: figures of the reference and of `mqspec check`, each with its bound.

    python3 run.py bench [--only PART ...] [--rounds 5] [--messages 100000] [--repeats 1]
                          [--own-sessions]

Parts: `speed` beside Apache RocketMQ 5.3.3; `flat`, the cost of a message in stores of all
sizes; `recover`, an abnormal recovery; `check`, the quick tier, and the runner beside TLC;
`audit`, the audit beside what Spark needs at least, and beside DuckDB. And those that are run only
where they are named: `large`, the audit of 10^8 events; `record`, what the recorder costs.
Writes build/bench.json. Exits with 1 where a figure is not within its bounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from audits import audits
from check import check
from figures import Figure, Part
from flat import flat
from large import large
from record import record
from recover import recover
from speed import speed

RESULT: Final = Path("build/bench.json")
PARTS: Final[dict[str, Callable[[Path, argparse.Namespace], Part]]] = {
    "speed": lambda home, args: speed(
        home, args.rounds, args.messages, args.repeats, args.own_sessions
    ),
    "flat": lambda home, args: flat(home, args.rounds),
    "recover": lambda home, args: recover(home, args.rounds),
    "check": lambda home, args: check(home, args.rounds),
    "audit": lambda home, args: audits(home, min(args.rounds, 3)),
    "large": lambda home, args: large(home),
    "record": lambda home, args: record(home, min(args.rounds, 3), args.messages),
}
USUAL: Final = [part for part in PARTS if part not in ("large", "record")]


def main() -> int:
    args = _arguments()
    print(f"Python {sys.version}")
    figures: list[Figure] = []
    measured = {}
    for name in args.only or USUAL:
        with tempfile.TemporaryDirectory() as home:
            part = PARTS[name](Path(home), args)
        for figure in part.figures:
            print(figure.line)
        figures += part.figures
        measured[name] = part.measured
    RESULT.parent.mkdir(exist_ok=True)
    result = {
        "python": sys.version,
        "figures": [figure.plain for figure in figures],
        "measured": measured,
    }
    RESULT.write_text(json.dumps(result, indent=1))
    print(f"written to {RESULT}")
    return int(not all(figure.holds for figure in figures))


def _arguments() -> argparse.Namespace:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=5, help="measured ones")
    parser.add_argument(
        "--messages", type=int, default=100_000, help="of a round's largest work, in speed"
    )
    parser.add_argument(
        "--repeats", type=int, default=1, help="how often a client of speed sends; the last counts"
    )
    parser.add_argument(
        "--own-sessions",
        action="store_true",
        help="each server of speed has a session, as a service has; else they are in the client's",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # it is a file
    sys.exit(main())
