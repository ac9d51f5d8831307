"""Which wrong brokers does exploration notice, or the standard cases?

    judge.py [NAME...] [--seconds N] [--seed N]
    judge.py [NAME...] --cases [-k EXPRESSION]

One line each: after how many requests it was noticed, and what was said to be wrong; or the cases
that fail. The exit code is 1 where one survives.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from wrong_brokers import BROKERS, CASES

from mqconform.cluster import Cluster
from mqconform.explore.engine import Explored, Explorer
from mqconform.explore.found import area_of
from mqconform.explore.vigil import SILENT_S, Vigil
from mqconform.target import Address, Target, parse_address

VIGIL = "vigil"  # is no area, and takes its time


@contextmanager
def serving(name: str) -> Iterator[Address]:
    """A wrong broker; its nameserver's address."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as store:
        words = [sys.executable, str(Path(__file__).with_name("serve_wrong.py")), name, store]
        process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdin
        assert process.stdout
        try:
            yield parse_address(process.stdout.readline().strip())
        finally:
            process.stdin.close()
            process.wait(30)


def judge(
    name: str, seconds: float, seed: int, *, shrinks: bool = True
) -> tuple[Explored, list[str]]:
    """Explore a wrong broker; what was found, and what was said of members."""
    is_vigil = BROKERS[name].area == VIGIL
    with serving(name) as address:
        cluster = Cluster(address)
        cluster.wait(2)
        explorer = Explorer(Target("wrong", name, address), cluster, seed, "mq", shrinks=shrinks)
        watched = SILENT_S + 40 if is_vigil else seconds
        with Vigil(explorer.scene, watched if is_vigil else 0) as vigil:
            areas = [area_of("kv" if is_vigil else BROKERS[name].area)]
            explored = explorer.run(areas, watched)
            return explored, vigil.end()


def failing(name: str, expression: str) -> list[str]:
    """The standard cases that fail on a wrong broker."""
    with serving(name) as address, tempfile.TemporaryDirectory() as home:
        results = Path(home) / "results.xml"
        words = ["conform", str(address), "-k", expression, "--junit", str(results)]
        command = [sys.executable, "-m", "mqspec.cli", *words, "--history", f"{home}/history"]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = ElementTree.parse(results).iter("testcase")
        return [case.get("name", "") for case in found if case.find("failure") is not None]


def noticed(name: str, args: argparse.Namespace) -> str:
    """How a wrong broker is noticed; empty of one that survives."""
    if args.cases or BROKERS[name].area == CASES:
        return ", ".join(failing(name, args.k)[:4])
    explored, said = judge(name, args.seconds, args.seed, shrinks=False)
    why = [" ".join(found.why.split()) for found in explored.found] + said
    return f"after {explored.requests.total()} requests: {why[0][:300]}" if why else ""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=60, help="of exploration, for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", action="store_true", help="judge by the standard cases")
    parser.add_argument("-k", default="test_", metavar="EXPRESSION", help="of these alone")
    args = parser.parse_args()
    killed = 0
    names = args.names or list(BROKERS)
    for name in names:
        how = noticed(name, args)
        killed += bool(how)
        print(f"{name:26} {f'noticed {how}' if how else 'survives'}", flush=True)
    print(f"{killed} of {len(names)} wrong brokers noticed")
    return int(killed < len(names))


if __name__ == "__main__":
    sys.exit(main())
