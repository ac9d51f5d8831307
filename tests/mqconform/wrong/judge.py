"""Which wrong brokers does exploration notice, or the standard cases?

    judge.py [NAME...] [--seconds N] [--seed N]
    judge.py [NAME...] --cases [-k EXPRESSION]
    judge.py [NAME...] --keep docs/killed/brokers.json

One line each: after how many requests it was noticed, and what was said to be wrong; or the cases
that fail. With --keep both, of the cases those of the area. The exit code is 1 where one survives.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))
from serve_wrong import RIGHT
from served_apart import serving
from wrong_brokers import BROKERS, CASES

from mqconform.cluster import Cluster
from mqconform.explore.areas import ALONE
from mqconform.explore.engine import Explored, Explorer
from mqconform.explore.found import area_of
from mqconform.explore.vigil import SILENT_S, Vigil
from mqconform.reference import Reference
from mqconform.target import Target

VIGIL = "vigil"  # is no area, and takes its time


# The cases that could notice what is wrong in an area: these files alone are run for --keep.
CASES_OF = {
    "delays": "test_delay or test_timer",
    "holds": "test_pull",
    "keys": "test_query",
    "kv": "test_nameserver",
    "locks": "test_lock",
    "members": "test_membership or test_admin or test_subscription",
    "messages": "test_send or test_pull or test_subscription or test_sql92 or test_wire",
    "offsets": "test_offset or test_reset or test_wire",
    "orders": "test_pop",
    "pops": "test_pop",
    "restarts": "test_restart",
    "retries": "test_retry",
    "revivals": "test_pop",
    "routes": "test_nameserver",
    "tools": "test_admin or test_reset or test_pull",
    "transactions": "test_transaction",
    VIGIL: "test_membership",
    CASES: "test_wire or test_admin or test_membership or test_nameserver or test_offset"
    " or test_query or test_reply or test_retry",
}
AT_ONCE = 3  # brokers that --keep judges: most of a case is waiting


@contextmanager
def served(name: str) -> Iterator[Target]:
    """A wrong broker, or the right one under RIGHT; one that is to be restarted can be."""
    program = Path(__file__).with_name("serve_wrong.py")
    if name != RIGHT and BROKERS[name].area in ALONE:
        words = str(program), name
        with tempfile.TemporaryDirectory() as home, Reference(Path(home), program=words) as broker:
            yield broker.target
        return
    with serving(program, name) as address:
        assert address, f"{name} does not start"
        yield Target("wrong", name, address)


def judge(
    name: str, seconds: float, seed: int, *, areas: Sequence[str] = (), shrinks: bool = True
) -> tuple[Explored, list[str]]:
    """Explore a wrong broker, by default what it is wrong in; what was found, and what was said of
    members."""
    is_vigil = BROKERS[name].area == VIGIL
    with served(name) as target:
        cluster = Cluster(target.nameserver)
        cluster.wait(2)
        explorer = Explorer(target, cluster, seed, "mq", shrinks=shrinks)
        watched = SILENT_S + 40 if is_vigil else seconds
        with Vigil(explorer.scene, watched if is_vigil else 0) as vigil:
            played = ["kv"] if is_vigil else areas or [BROKERS[name].area]
            return explorer.run(list(map(area_of, played)), watched), vigil.end()


def explored_of(area: str) -> list[str]:
    """What is explored of a broker that is wrong in an area: that, and everything beside the
    reference."""
    if area == CASES:
        return ["beside"]
    return [area] if area in ALONE else [area, "beside"]


def failing(name: str, expression: str) -> dict[str, list[str]]:
    """The standard cases that fail on a wrong broker, and the rules of each."""
    with served(name) as target, tempfile.TemporaryDirectory() as home:
        report = Path(home) / "report.json"
        words = ["conform", str(target.nameserver), "--exclusive", "-k", expression]
        words += ["--json", str(report), "--history", f"{home}/history"]
        command = [sys.executable, "-m", "mqspec.cli", *words]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cases = json.loads(report.read_text(encoding="utf-8"))["cases"]
        return {case["name"]: case["rules"] for case in cases if case["status"] == "failed"}


def noticed(name: str, args: argparse.Namespace) -> str:
    """How a wrong broker is noticed; empty of one that survives."""
    if args.cases:
        return ", ".join(list(failing(name, args.k))[:4])
    found = explored(name, args.seconds, args.seed)
    return f"after {found['requests']} requests: {found['why']}" if found else ""


def explored(name: str, seconds: float, seed: int) -> dict[str, Any] | None:
    """What exploration said of a wrong broker, and after how many requests; None if nothing."""
    areas = explored_of(BROKERS[name].area)
    done, said = judge(name, seconds, seed, areas=areas, shrinks=False)
    why = [" ".join(found.why.split()) for found in done.found] + said
    return {"requests": done.requests.total(), "why": why[0][:300]} if why else None


def kept(name: str, args: argparse.Namespace, blind: Set[str]) -> dict[str, Any]:
    """All that notices a wrong broker, for the book; without cases that fail on the right one."""
    broker = BROKERS[name]
    by_cases = failing(name, CASES_OF[broker.area])
    return {
        "name": name,
        "about": " ".join(broker.about.split()),
        "kind": broker.area,
        "seconds": args.seconds,
        "cases": {case: of for case, of in by_cases.items() if case not in blind},
        "explored": explored(name, args.seconds, args.seed),
    }


def keep(names: Sequence[str], args: argparse.Namespace) -> int:
    """Judge by cases and by exploration, and write down who noticed what."""
    asked = dict.fromkeys(CASES_OF[BROKERS[name].area] for name in names)
    blind = failing(RIGHT, " or ".join(asked)).keys()
    print(f"failing on the right broker: {', '.join(blind) or 'none'}", flush=True)
    found = {one["name"]: one for one in before(args.keep) if one["name"] in BROKERS}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for one in pool.map(lambda name: kept(name, args, blind), names):
            found[one["name"]] = one
            told = f"{len(one['cases'])} cases, exploration: {one['explored']}"
            print(f"{one['name']:26} {told}", flush=True)
            listed = [found[name] for name in BROKERS if name in found]
            text = json.dumps({"brokers": listed}, ensure_ascii=False, indent=1)
            args.keep.write_text(text + "\n", encoding="utf-8")
    return int(not all(found[name]["cases"] or found[name]["explored"] for name in names))


def before(file: Path) -> list[dict[str, Any]]:
    """What was written down of brokers before: those that are judged again replace it."""
    if not file.exists():
        return []
    brokers: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["brokers"]
    return brokers


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=60, help="of exploration, for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", action="store_true", help="judge by the standard cases")
    parser.add_argument("-k", default="test_", metavar="EXPRESSION", help="of these alone")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="judge by both, for the book")
    args = parser.parse_args()
    names = args.names or list(BROKERS)
    if args.keep:
        return keep(names, args)
    killed = 0
    for name in names:
        how = noticed(name, args)
        killed += bool(how)
        print(f"{name:26} {f'noticed {how}' if how else 'survives'}", flush=True)
    print(f"{killed} of {len(names)} wrong brokers noticed")
    return int(killed < len(names))


if __name__ == "__main__":
    sys.exit(main())
