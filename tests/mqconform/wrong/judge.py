"""Which wrong brokers does exploration notice? `judge.py [NAME...] [--seconds N] [--seed N]`

Each runs in this process, patched from outside. One line each: what noticed it, after how many
requests, and the first line that says what is wrong. The exit code is 1 where one survives.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import pytest

from mqconform.cluster import Cluster
from mqconform.explore.engine import Explored, Explorer
from mqconform.explore.found import area_of
from mqconform.explore.vigil import SILENT_S, Vigil
from mqconform.target import Target

sys.path.append(str(Path(__file__).parents[1]))
from patched import reference
from wrong_brokers import BROKERS, Wrong

VIGIL = "vigil"  # is no area, and takes its time


def judge(broker: Wrong, seconds: float, seed: int) -> tuple[Explored, list[str]]:
    """Explore a broker that is wrong; what was found, and what was said of members."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as store,
        pytest.MonkeyPatch.context() as monkey,
    ):
        broker.apply(monkey)
        with reference(Path(store)) as address:
            cluster = Cluster(address)
            cluster.wait(2)
            explorer = Explorer(Target("wrong", "0", address), cluster, seed, "mq")
            if broker.area == VIGIL:
                seconds = SILENT_S + 40
            with Vigil(explorer.scene, seconds if broker.area == VIGIL else 0) as vigil:
                areas = [area_of("offsets" if broker.area == VIGIL else broker.area)]
                explored = explorer.run(areas, seconds)
                return explored, vigil.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*BROKERS, []])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    killed = 0
    names = args.names or list(BROKERS)
    for name in names:
        explored, said = judge(BROKERS[name], args.seconds, args.seed)
        why = [found.why.replace("\n", " ") for found in explored.found] + said
        killed += bool(why)
        verdict = f"noticed: {why[0][:300]}" if why else "survives"
        print(f"{name:24} {explored.requests.total():6} requests  {verdict}", flush=True)
    print(f"{killed} of {len(names)} wrong brokers noticed")
    return int(killed < len(names))


if __name__ == "__main__":
    sys.exit(main())
