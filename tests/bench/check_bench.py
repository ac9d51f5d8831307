"""What `mqspec check` costs beside TLC itself, both in turn on this machine.

A large model: the runner, which answers all that the manifest asks of it, against one run of
TLC on the properties that hold. Small models: the runner against a process of TLC for each,
started as quick as Java starts. What counts is CPU time, of Python and Java together: on a
machine that others use, wall time says how many they are.

    .venv/bin/python tests/bench/check_bench.py [--large MODEL] [--small N] [--rounds N]

Exits with 1 where a ratio is above its bound.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from mqcheck.jvm import QUICK, THOROUGH
from mqcheck.manifest import MODELS, TLA, Model, Tier, models
from mqspec import toolchain

LARGE_BOUND: Final = 1.1
SMALL_BOUND: Final = 0.5


class Cost(NamedTuple):
    """Seconds, of a process and all that it started."""

    cpu: float
    wall: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", metavar="MODEL", help="default: the largest")
    parser.add_argument("--small", type=int, default=30, metavar="N", help="how many small ones")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    known = sorted(models().values(), key=lambda model: model.counts.states)
    small = [model for model in known if model.tier is Tier.QUICK and model.holds][: args.small]
    large = models()[args.large] if args.large else known[-1]
    above = 0
    for title, chosen, java, bound in (
        (large.name, [large], THOROUGH, LARGE_BOUND),
        (f"{len(small)} small models", small, QUICK, SMALL_BOUND),
    ):
        ratio = compare(title, chosen, java, args.rounds)
        print(f"{title}: {ratio:.2f} of TLC's own CPU, at most {bound}", flush=True)
        above += ratio > bound
    return int(above > 0)


def compare(title: str, chosen: Sequence[Model], java: Sequence[str], rounds: int) -> float:
    """The runner's CPU time by TLC's own, the median of rounds."""
    ratios = []
    for number in range(rounds):
        # One after the other, and each first in turn: the machine may warm up or get busy.
        contestants: list[tuple[str, Callable[[], Cost]]] = [
            ("runner", lambda: runner(chosen)),
            ("TLC", lambda: tlc(chosen, java)),
        ]
        costs = {name: run() for name, run in contestants[:: -1 if number % 2 else 1]}
        told = ", ".join(
            f"{name} {cost.cpu:.1f} s ({cost.wall:.1f})" for name, cost in costs.items()
        )
        print(f"  {title}, round {number + 1}: CPU (wall) of {told}", flush=True)
        ratios.append(costs["runner"].cpu / costs["TLC"].cpu)
    return median(ratios)


def runner(chosen: Sequence[Model]) -> Cost:
    """`mqspec check` on the models, one job, nothing known from before."""
    names = [model.name for model in chosen]
    command = [sys.executable, "-m", "mqspec.cli", "check", "--fresh", "--jobs", "1", *names]
    return _cost([command], Path.cwd())


def tlc(chosen: Sequence[Model], java: Sequence[str]) -> Cost:
    """TLC on each model's properties that hold, a process a model, one worker."""
    with tempfile.TemporaryDirectory() as home:
        commands = []
        for model in chosen:
            # TLC looks for it in the working folder, and in the library: with a name of its own.
            config = Path(home, f"bench-{model.name}.cfg")
            config.write_text(model.config.text(frozenset(model.holds)), encoding="utf-8")
            library = os.pathsep.join(map(str, (model.module.parent, TLA, MODELS)))
            commands.append(
                [
                    *(str(toolchain.java()), *java, f"-DTLA-Library={library}"),
                    *("-cp", str(toolchain.tlc_jar()), "tlc2.TLC", "-workers", "1"),
                    *("-metadir", str(Path(home, model.name)), "-config", config.name),
                    model.module.stem,
                ]
            )
        return _cost(commands, Path(home))


def _cost(commands: Sequence[Sequence[str]], folder: Path) -> Cost:
    """Of processes one after another, each of which must succeed."""
    before, begin = os.times(), time.monotonic()
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.stdout[-500:]}{done.stderr[-500:]}")
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return Cost(cpu, time.monotonic() - begin)


if __name__ == "__main__":
    sys.exit(main())
