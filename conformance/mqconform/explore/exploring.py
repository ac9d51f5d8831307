"""`mqspec conform TARGET --explore DURATION`: what it says on the way and in the end."""

from __future__ import annotations

import argparse
import random
import re
import time
from pathlib import Path
from typing import Final

from rich.console import Console

from mqconform.cluster import Cluster
from mqconform.explore import found as cases
from mqconform.explore.areas import ALONE, NAMED, NAMES
from mqconform.explore.engine import Explored, Explorer
from mqconform.explore.vigil import Vigil
from mqconform.target import Target
from mqrules import UserError

FOUND: Final = Path(".mqspec") / "found"
_EVERY_S: Final = 10.0
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600}


def duration(text: str) -> float:
    """Seconds: `90`, `90s`, `10m`, `1h`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not match or not float(match[1]):
        raise argparse.ArgumentTypeError("a time, as 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2]]


def explore(
    target: Target,
    cluster: Cluster,
    console: Console,
    duration_s: float,
    seed: int | None,
    names: list[str],
    prefix: str,
) -> int:
    """Explore; 1 where something departs from the core. Raises UserError."""
    every = (*NAMES, *NAMED, *ALONE)
    if unknown := [name for name in names if name not in every]:
        raise UserError(unknown[0], "no such area", f"one of {', '.join(every)}")
    if alone := [name for name in names if name in ALONE]:
        if len(names) > 1:
            raise UserError(alone[0], "touches what else is explored", "name it alone")
        if not target.lifecycle or not target.exclusive:
            what = "the target cannot be restarted, or others may use it"
            raise UserError(alone[0], what, "say in its file how it is started, and --exclusive")
    areas = [cases.area_of(name) for name in names or NAMES]
    seed = random.getrandbits(32) if seed is None else seed
    console.print(f"exploring {target}, seed {seed}", highlight=False)
    explorer = Explorer(target, cluster, seed, prefix)
    said = [time.monotonic()]

    def tell(so_far: Explored) -> None:
        if time.monotonic() > said[0] + _EVERY_S:
            said[0] = time.monotonic()
            console.print(_line(so_far), highlight=False)

    try:
        # Who is a member would be gone with a restart.
        with Vigil(explorer.scene, 0 if alone else duration_s) as vigil:
            explored = explorer.run(areas, duration_s, tell)
            wrong = vigil.end()
    finally:
        left = explorer.tidy.finish()
    for each in explored.found:
        console.rule(f"[red]{each.area} departs from the core[/red]")
        console.print(each.why, markup=False, highlight=False)
        if not each.repeats:
            console.print("  not each time: it depends on what happens at once", highlight=False)
        console.print(cases.case_text(each), markup=False, highlight=False)
        console.print(f"kept as {cases.keep(each, FOUND)}", highlight=False)
    for line in (*wrong, *left):
        console.print(line, style="bold red", markup=False, highlight=False)
    console.print(_line(explored), highlight=False)
    for name in explored.programs:
        told = f"  {name}: {explored.programs[name]} programs, {explored.requests[name]} requests"
        console.print(told, highlight=False)
    console.print(f"to repeat it: --seed {seed}", highlight=False)
    return int(bool(explored.found or wrong))


def _line(explored: Explored) -> str:
    departures = len(explored.found)
    return (
        f"{explored.seconds:.0f} s: {explored.programs.total()} programs, "
        f"{explored.requests.total()} requests checked ({explored.per_second:.0f} a second), "
        f"{departures} {'departure' if departures == 1 else 'departures'}"
    )
