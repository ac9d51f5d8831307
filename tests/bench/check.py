"""What `mqspec check` costs: the quick tier, and the runner beside TLC itself.

The largest model: the runner, which answers all that the manifest asks of it, against one run of
TLC on the properties that hold, with the collector that TLC asks for. Small models: the runner
against a process of TLC for each, started as quick as Java starts. What counts there is CPU time,
of Python and Java together: on a machine that others use, wall time says how many they are. The
quick tier is timed by the clock, since what users do is wait for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from figures import Figure, Part

from mqcheck.jvm import QUICK
from mqcheck.manifest import Model, Tier, library, models
from mqspec import toolchain

QUICK_TIER_S_MOST: Final = 60.0  # on two cores
LARGEST_MOST: Final = 1.1
SMALL_MOST: Final = 0.5
SMALL: Final = 20  # models
ASKED_FOR: Final = ("-XX:+UseParallelGC",)  # by TLC, where it is run without


class Cost(NamedTuple):
    """Seconds, of processes and all that they started."""

    cpu: float
    wall: float


def check(home: Path, rounds: int) -> Part:
    """Nothing is known to the runner from before."""
    known = sorted(models().values(), key=lambda model: model.counts.states)
    largest = known[-1:]
    # Where something must break, the runner asks TLC more than once.
    small = [m for m in known if m.tier is Tier.QUICK and m.holds and not m.breaks][:SMALL]
    tier = [_runner(home) for _ in range(rounds)]
    by_largest = [_beside(home, largest, ASKED_FOR, number) for number in range(rounds)]
    by_small = [_beside(home, small, QUICK, number) for number in range(rounds)]
    figures = (
        Figure("check, quick tier, s", median(cost.wall for cost in tier), most=QUICK_TIER_S_MOST),
        Figure("check, largest model, of TLC", median(map(_ratio, by_largest)), most=LARGEST_MOST),
        Figure("check, small models, of TLC", median(map(_ratio, by_small)), most=SMALL_MOST),
    )
    measured: dict[str, Any] = {"quick tier": [cost._asdict() for cost in tier]}
    for name, found in ((largest[0].name, by_largest), (f"{SMALL} small models", by_small)):
        measured[name] = [{who: cost._asdict() for who, cost in pair.items()} for pair in found]
    return Part(figures, measured)


def _ratio(pair: dict[str, Cost]) -> float:
    return pair["runner"].cpu / pair["TLC"].cpu


def _beside(
    home: Path, chosen: Sequence[Model], java: Sequence[str], number: int
) -> dict[str, Cost]:
    """One after the other, each first in turn: the machine may warm up or get busy."""
    contestants = {
        "runner": lambda: _runner(home, "--jobs", "1", *(model.name for model in chosen)),
        "TLC": lambda: _tlc(home, chosen, java),
    }
    order = ("runner", "TLC") if number % 2 else ("TLC", "runner")
    return {name: contestants[name]() for name in order}


def _runner(home: Path, *arguments: str) -> Cost:
    """`mqspec check`, of the quick tier where no model is named."""
    return _cost([[sys.executable, "-m", "mqspec.cli", "check", "--fresh", *arguments]], home)


def _tlc(home: Path, chosen: Sequence[Model], java: Sequence[str]) -> Cost:
    """TLC on each model's properties that hold, a process a model, one worker."""
    commands = []
    for model in chosen:
        # TLC looks for it in the working folder, and in the library: with a name of its own.
        config = home / f"bench-{model.name}.cfg"
        config.write_text(model.config.text(frozenset(model.holds)), encoding="utf-8")
        places = os.pathsep.join(map(str, (model.module.parent, *library())))
        commands.append(
            [
                *(str(toolchain.java()), *java, f"-DTLA-Library={places}"),
                *("-cp", str(toolchain.tlc_jar()), "tlc2.TLC", "-workers", "1"),
                *("-metadir", str(home / model.name), "-config", config.name),
                model.module.stem,
            ]
        )
    return _cost(commands, home)


def _cost(commands: Sequence[Sequence[str]], folder: Path) -> Cost:
    """Of processes one after another, each of which must succeed."""
    before, begin = os.times(), time.monotonic()
    for command in commands:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, (command, done.stdout[-500:], done.stderr[-500:])
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return Cost(cpu, time.monotonic() - begin)
