"""Which wrong clients are caught by the rule that they break?

    judge_clients.py [NAME...]

One line each: by which scenario it was caught, and what was said to be wrong. The exit code is 1
where one survives.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from wrong_clients import CLIENTS

AT_ONCE = 3
PROGRAM = Path(__file__).with_name("client.py")
CLIENT = f"{sys.executable} {PROGRAM} {{nameserver}} {{topic}} {{group}} {{mode}} {{id}}"


def judged(name: str) -> str | None:
    """What was said of a wrong client by the rule that it breaks; None where nothing was."""
    rule = CLIENTS[name].area
    with tempfile.TemporaryDirectory() as home:
        report = Path(home) / "report.json"
        words = ["conform", "--client", f"{CLIENT} {name}", "--rule", rule, "--json", str(report)]
        subprocess.run(
            [sys.executable, "-m", "mqspec.cli", *words], stdout=subprocess.DEVNULL, check=False
        )
        cases = json.loads(report.read_text(encoding="utf-8"))["cases"]
    for case in cases:
        if case["status"] == "failed" and case["rules"] == [rule]:
            return f"{case['name']}: {case['why']}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    names = parser.parse_args().names or list(CLIENTS)
    survived = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, why in zip(names, pool.map(judged, names), strict=True):
            survived += why is None
            print(f"{name} ({CLIENTS[name].area}): {why or 'SURVIVED'}", flush=True)
    print(f"{len(names) - survived} of {len(names)} are caught by the rule that they break")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
