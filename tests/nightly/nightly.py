"""What takes too long for every change, run by night: each stage to its end, and what fell.

  run.py nightly
  run.py nightly --seed 20000 --only mutants siege

The seed is the number of the day, so that each night samples something else; the report names it,
and with it any night can be repeated. A stage that takes longer than its minutes has fallen. All
together have three hours on two cores.

Exit code 1 where a stage fell; the report and what each stage said are in .mqspec/nightly.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".mqspec" / "nightly"
SEED = "SEED"  # among a stage's words: the seed of the night
DAY_S = 24 * 60 * 60
LAST_LINES = 5  # of what a stage said that fell

MQSPEC = ("-m", "mqspec.cli")
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Stage:
    """One command of ours, and for how long it may run."""

    name: str
    words: Sequence[str]  # arguments of Python
    minutes: float


@dataclass(frozen=True, slots=True)
class Ended:
    """How a stage ended: its exit code, None where it ran out of time."""

    stage: Stage
    code: int | None
    seconds: float
    log: Path

    @property
    def fell(self) -> bool:
        return self.code != 0

    def __str__(self) -> str:
        how = "out of time" if self.code is None else f"exit code {self.code}"
        return f"{self.stage.name}: {how if self.fell else 'ok'}, {self.seconds / 60:.1f} min"


STAGES = (
    Stage("tests", (*PYTEST, "tests/", "-m", "by_night", "-n", "2"), 8),
    Stage("apache", (*MQSPEC, "conform", "apache:5.3.3"), 5),
    Stage("paths", (*MQSPEC, "paths", "--rounds", "30", "--seed", SEED), 3),
    Stage("crashes", (*PYTEST, "tests/store/crash", "--kills", "30"), 12),
    Stage("siege", ("tests/fuzz/siege.py", "--frames", "200000", "--seed", SEED), 10),
    Stage("decoder", ("tests/fuzz/siege.py", "--decode", "--frames", "500000", "--seed", SEED), 5),
    Stage("explore", (*MQSPEC, "conform", "reference", "--explore", "5m", "--seed", SEED), 6),
    Stage(
        "restarts",
        (*MQSPEC, "conform", "reference", "--explore", "2m", "--area", "restarts", "--seed", SEED),
        3,
    ),
    Stage(
        "walks",
        (*PYTEST, "tests/mqprove/test_walks.py", "-k", "keeps", "--walks", "150", "-n", "2"),
        5,
    ),
    Stage(
        "programs",
        (*PYTEST, "tests/mqprove/test_lifting.py", "--programs", "10000", "-n", "2"),
        10,
    ),
    Stage("bench", ("tests/bench/bench.py",), 43),
    Stage("follow", ("tests/mqaudit/follow_load.py", "--seed", SEED), 15),
    Stage("real", ("tests/interop/real_run.py", "clean", "--messages", "20000"), 6),
    Stage("full", (*MQSPEC, "check", "--tier", "full"), 35),
    Stage("mutants", ("tests/mutants/mutants.py", "--number", "14", "--seed", SEED), 14),
)


def main(arguments: Sequence[str] | None = None, stages: Sequence[Stage] = STAGES) -> int:
    parser = argparse.ArgumentParser(
        "run.py nightly", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [stage.name for stage in stages]
    parser.add_argument(
        "--seed", type=int, default=int(time.time() // DAY_S), metavar="N", help="default: the day"
    )
    parser.add_argument(
        "--only", nargs="+", choices=names, default=names, metavar="STAGE", help=", ".join(names)
    )
    args = parser.parse_args(arguments)

    FOLDER.mkdir(parents=True, exist_ok=True)
    ended = []
    for stage in stages:
        if stage.name in args.only:
            ended.append(run(stage, args.seed, FOLDER / f"{stage.name}.log"))
            print(ended[-1], flush=True)
    text = report(ended, args.seed)
    (FOLDER / "report.md").write_text(text, encoding="utf-8")
    print(text)
    return int(any(each.fell for each in ended))


def run(stage: Stage, seed: int, log: Path) -> Ended:
    """Run a stage; where its time is over, nothing of it runs on."""
    command = [sys.executable, *(str(seed) if word == SEED else word for word in stage.words)]
    began = time.monotonic()
    with log.open("wb") as stream:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code: int | None = process.wait(stage.minutes * 60)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Ended(stage, code, time.monotonic() - began, log)


def report(ended: Sequence[Ended], seed: int) -> str:
    """The night as a page: each stage in a line, then the last words of each that fell."""
    fallen = [each for each in ended if each.fell]
    lines = [f"# Nightly, seed {seed}: {len(fallen)} of {len(ended)} stages fell", ""]
    lines += [f"- {each}" for each in ended]
    for each in fallen:
        said = each.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        again = f"python3 run.py nightly --seed {seed} --only {each.stage.name}"
        lines += ["", f"## {each.stage.name}", "", f"Again: `{again}`; all it said: {each.log}", ""]
        lines += [f"    {line}" for line in said[-LAST_LINES:]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
